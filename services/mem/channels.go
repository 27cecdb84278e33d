package mem

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"zino/proto"
)

func (s *Service) listChannels(context.Context, proto.ListChannels) (proto.Channels, error) {
	list, err := s.histories.list()
	if err != nil {
		return proto.Channels{}, fileError("channels", s.channels.Name(), err)
	}
	return proto.Channels{Channels: list}, nil
}

// list returns the channels that have a history, the one that was written to
// last first.
func (h *histories) list() ([]proto.Channel, error) {
	dir, err := h.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	list := []proto.Channel{}
	for _, name := range names {
		c, ok, err := h.channel(name)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b proto.Channel) int {
		return cmp.Or(cmp.Compare(b.Updated, a.Updated), cmp.Compare(a.ChannelID, b.ChannelID))
	})
	for i := range list {
		list[i].Updated = list[i].Updated[:len(time.DateTime)] + "Z"
	}
	return list, nil
}

// finest is RFC 3339 in a form whose texts sort like the times.
const finest = "2006-01-02T15:04:05.000000000Z"

// channel tells of the channel whose history the named file holds, if any.
func (h *histories) channel(name string) (c proto.Channel, ok bool, err error) {
	id, ok := h.channelOf(name)
	if !ok {
		return c, false, nil
	}
	f, err := fileOf(h.root, id)
	if err != nil {
		return c, false, err
	}
	// Where two layouts have a file for one channel, only one of them is used.
	current, err := f.current(h.root)
	if err != nil || current != name {
		return c, false, err
	}
	fi, err := h.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil // it was cleared in this moment
	}
	if err != nil || !fi.Mode().IsRegular() || fi.Size() <= int64(len("[\n]\n")) {
		return c, false, err
	}
	return proto.Channel{ChannelID: id, Bytes: fi.Size(), Updated: fi.ModTime().UTC().Format(finest)}, true, nil
}

// channelOf is the channel that a file's name is for: the reverse of fileOf.
func (h *histories) channelOf(name string) (string, bool) {
	base, isJSON := strings.CutSuffix(name, ".json")
	if !isJSON || base == "" {
		return "", false
	}
	if strings.Contains(base, "%~") && escapedID.MatchString(base) {
		id, err := h.root.ReadFile(base + ".id")
		return string(id), err == nil && len(id) > 0
	}
	if id, err := url.PathUnescape(base); err == nil && escape(id) == base {
		return id, utf8.ValidString(id)
	}
	return base, legacyName(base) == name && utf8.ValidString(base)
}
