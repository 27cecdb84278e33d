package mem

import (
	"cmp"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"zino/pkg/durable"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	// frameRoom limits the bytes of a list in a frame; the rest is for the envelope.
	frameRoom = wire.MaxPayload - 64
	// openMax limits the history files that stay open.
	openMax = 128
)

// histories are the files of the channels. The least recently used files are
// closed.
type histories struct {
	root     *os.Root
	problems *problems
	opt      durable.Options
	replyMax int64 // maximum bytes of a list in a reply

	mu     sync.Mutex
	byName map[string]*history // by file name
	order  *list.List          // of *history, the most recently used first
}

// history is one open file.
type history struct {
	*durable.File
	name  string
	users int
	place *list.Element
}

func newHistories(root *os.Root, p *problems, noSync bool) *histories {
	return &histories{
		root:     root,
		problems: p,
		opt:      durable.Options{Framing: durable.Array, NoSync: noSync, KeepOpen: true, Report: p.reporter(root, "channels/"), IsElement: isMessage},
		replyMax: frameRoom,
		byName:   map[string]*history{},
		order:    list.New(),
	}
}

func (s *Service) getHistory(ctx context.Context, req proto.GetHistory) (proto.History, error) {
	if req.ChannelID == "" {
		return proto.History{}, errNoChannel
	}
	elems, err := s.histories.last(req.ChannelID, req.Limit)
	if err != nil {
		return proto.History{}, err
	}
	messages := listOf(elems)
	rpc.Recycle(ctx, messages)
	return proto.History{Messages: messages}, nil
}

func (s *Service) appendHistory(_ context.Context, req proto.AppendHistory) (proto.Empty, error) {
	if req.ChannelID == "" {
		return proto.Empty{}, errNoChannel
	}
	texts, _, err := parseMessages(req.Messages)
	if err != nil {
		return proto.Empty{}, invalid(err)
	}
	return proto.Empty{}, s.histories.append(req.ChannelID, texts)
}

func (s *Service) clearHistory(_ context.Context, req proto.ClearHistory) (proto.Empty, error) {
	if req.ChannelID == "" {
		return proto.Empty{}, errNoChannel
	}
	return proto.Empty{}, s.histories.remove(req.ChannelID)
}

var errNoChannel = &proto.Error{Code: proto.CodeInvalid, Message: "channel_id required"}

func invalid(err error) error {
	return &proto.Error{Code: proto.CodeInvalid, Message: err.Error()}
}

// last returns the last n messages of a channel, or all. Elements that are not
// messages are skipped and do not count.
func (h *histories) last(id string, n int) (elems [][]byte, err error) {
	err = h.with(id, func(f channelFile, a *history) error {
		if elems, err = a.Last(n, h.replyMax-2); err != nil {
			return err
		}
		good := messagesIn(elems)
		if n > 0 && len(good) < len(elems) {
			// Some elements are not messages: read the whole file to find n.
			if all, err := a.Last(0, h.replyMax-2); err == nil {
				elems, good = all, messagesIn(all)
			}
		}
		h.noteSkipped(a.name, len(elems)-len(good))
		if elems = good; n > 0 && len(elems) > n {
			elems = elems[len(elems)-n:]
		}
		return nil
	})
	if errors.Is(err, durable.ErrTooLarge) {
		return nil, &proto.Error{Code: proto.CodeTooLarge, Message: fmt.Sprintf("the history of channel %s is larger than one reply can be (16 MiB): ask for its last messages only, with limit", text.Quote(id))}
	}
	return elems, err
}

// messagesIn returns the messages among elements of a file, which are valid JSON in one
// line. It may write to them.
func messagesIn(elems [][]byte) [][]byte {
	good := make([][]byte, 0, len(elems))
	for _, e := range elems {
		if wire.ReplaceSurrogates(e); hasMessage(e) {
			good = append(good, e)
		}
	}
	return good
}

func (h *histories) noteSkipped(name string, n int) {
	text := ""
	if n > 0 {
		text = fmt.Sprintf("channels/%s: %d entries are skipped, because they have no string role and content: repair or delete them", name, n)
	}
	h.problems.set("skipped "+name, text, nil)
}

func (h *histories) append(id string, texts [][]byte) error {
	if len(texts) == 0 {
		return nil
	}
	return h.with(id, func(f channelFile, a *history) error {
		if err := f.claim(h.root, id); err != nil {
			return err
		}
		return a.Append(texts)
	})
}

// remove deletes a channel's history, in the present and the earlier layout.
func (h *histories) remove(id string) error {
	return h.with(id, func(f channelFile, a *history) error {
		err := removeFile(a.File)
		if err == nil && f.legacy != "" && f.legacy != a.name {
			err = removeFile(durable.New(h.root, f.legacy, h.opt))
		}
		if err == nil {
			h.noteSkipped(a.name, 0)
			err = f.unclaim(h.root)
		}
		return err
	})
}

func removeFile(f *durable.File) error {
	if err := f.Remove(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// with calls fn with the file of a channel, and adds the file to its error.
func (h *histories) with(id string, fn func(channelFile, *history) error) error {
	f, err := fileOf(h.root, id)
	name := f.name
	if err == nil {
		name, err = f.current(h.root)
	}
	if err == nil {
		a := h.acquire(name)
		defer h.release(a)
		err = fn(f, a)
	}
	if err != nil && !errors.Is(err, durable.ErrTooLarge) {
		return fileError("channel "+text.Quote(id), filepath.Join(h.root.Name(), name), err)
	}
	return err
}

func (h *histories) acquire(name string) *history {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.byName[name]
	if a == nil {
		a = &history{File: durable.New(h.root, name, h.opt), name: name}
		a.place = h.order.PushFront(a)
		h.byName[name] = a
	}
	a.users++
	h.order.MoveToFront(a.place)
	return a
}

// release ends a use of a, and closes the least recently used files above openMax.
func (h *histories) release(a *history) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a.users--
	for e := h.order.Back(); e != nil && h.order.Len() > openMax; {
		old := e.Value.(*history)
		e = e.Prev()
		if old.users == 0 {
			old.Close()
			h.order.Remove(old.place)
			delete(h.byName, old.name)
		}
	}
}

func (h *histories) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.byName {
		a.Close()
	}
}

func (s *Service) listChannels(context.Context, proto.ListChannels) (proto.Channels, error) {
	list, err := s.histories.list()
	if err != nil {
		return proto.Channels{}, fileError("channels", s.channels.Name(), err)
	}
	return proto.Channels{Channels: list}, nil
}

// list returns the channels that have a history, the most recently written first.
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

// sortable is RFC 3339 with a fixed number of digits, so that strings sort by time.
const sortable = "2006-01-02T15:04:05.000000000Z"

// channel describes the channel whose history is in the named file. ok is false if
// the file is not a history in use.
func (h *histories) channel(name string) (c proto.Channel, ok bool, err error) {
	id, ok := h.channelOf(name)
	if !ok {
		return c, false, nil
	}
	f, err := fileOf(h.root, id)
	if err != nil {
		return c, false, err
	}
	// A channel may have files in both layouts; only one is in use.
	current, err := f.current(h.root)
	if err != nil || current != name {
		return c, false, err
	}
	fi, err := h.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil // cleared since Readdirnames
	}
	if err != nil || !fi.Mode().IsRegular() || fi.Size() <= int64(len("[\n]\n")) {
		return c, false, err
	}
	return proto.Channel{ChannelID: id, Bytes: fi.Size(), Updated: fi.ModTime().UTC().Format(sortable)}, true, nil
}

// channelOf returns the channel of a file name. It is the inverse of fileOf.
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

const (
	plainMax = 200 // bytes of a name before .json
	nameMax  = 255 // bytes of a file name on Linux
	headMax  = 100 // bytes of a long id that are part of the file name
)

// escapedID matches what escape returns for ids that are not plain.
var escapedID = regexp.MustCompile(`^(?:[A-Za-z0-9_-]|%[0-9A-F]{2})*(?:%~.*)?$`)

// channelFile names the file of a channel.
type channelFile struct {
	name   string // the file in the present layout
	legacy string // the file in the earlier layout, named by the unescaped id; "" if that is not a file name
	idFile string // the file with the whole id, if the id is too long for a file name
}

// fileOf returns the file of an id. A plain id is the name. In other ids every byte
// that is not plain is written as %XX, so that distinct ids have distinct names. An
// id that is too long is truncated and followed by a hash; a second file contains
// the whole id, which decides if two hashes are equal.
func fileOf(root *os.Root, id string) (channelFile, error) {
	if isPlainID(id) {
		return channelFile{name: id + ".json"}, nil
	}
	f := channelFile{legacy: legacyName(id)}
	if name := escape(id); len(name) <= plainMax {
		f.name = name + ".json"
		return f, nil
	}
	sum := sha256.Sum256([]byte(id))
	base := escape(id[:min(len(id), headMax)])
	base = base[:min(len(base), headMax)] + "%~" + hex.EncodeToString(sum[:])
	for n := 1; ; n++ {
		name := base
		if n > 1 {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		f.name, f.idFile = name+".json", name+".id"
		owner, err := root.ReadFile(f.idFile)
		if errors.Is(err, fs.ErrNotExist) || err == nil && string(owner) == id {
			return f, nil
		}
		if err != nil {
			return f, err
		}
	}
}

// current returns the name of the file in use: the one in the earlier layout if
// only that exists.
func (f channelFile) current(root *os.Root) (string, error) {
	if f.legacy == "" {
		return f.name, nil
	}
	for _, name := range []string{f.name, f.legacy} {
		_, err := root.Lstat(name)
		if err == nil {
			return name, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return f.name, err
		}
	}
	return f.name, nil
}

// claim creates the file with the whole id, if the channel needs one.
func (f channelFile) claim(root *os.Root, id string) error {
	if f.idFile == "" {
		return nil
	}
	if _, err := root.Lstat(f.idFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.Replace(root, f.idFile, []byte(id))
}

// unclaim removes the file with the whole id.
func (f channelFile) unclaim(root *os.Root) error {
	if f.idFile == "" {
		return nil
	}
	if err := root.Remove(f.idFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func escape(id string) string {
	var b strings.Builder
	for i := range len(id) {
		if c := id[i]; isPlain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func isPlainID(id string) bool {
	for i := range len(id) {
		if !isPlain(id[i]) {
			return false
		}
	}
	return len(id) > 0 && len(id) <= plainMax
}

func isPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// legacyName returns the file that the earlier layout, which did not escape, used
// for id; "" if that is not a file name or may belong to another id.
func legacyName(id string) string {
	name := id + ".json"
	if len(name) > nameMax || strings.ContainsAny(id, "/\x00") || strings.Contains(id, "%") && escapedID.MatchString(id) {
		return ""
	}
	return name
}
