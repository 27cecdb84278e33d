package mem

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"zino/pkg/durable"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	// frameRoom is what a list may take of a frame; the rest is for the packet
	// around it.
	frameRoom = wire.MaxPayload - 64
	// openMax is the number of histories whose files stay open.
	openMax = 128
)

// histories holds the files of the channels. Those used last stay open.
type histories struct {
	root     *os.Root
	problems *problems
	opt      durable.Options
	replyMax int64 // bytes of a list in a reply

	mu     sync.Mutex
	byName map[string]*history // by file name
	order  *list.List          // of *history, the last used in front
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

func (s *Service) getHistory(_ context.Context, req proto.GetHistory) (proto.History, error) {
	if req.ChannelID == "" {
		return proto.History{}, errNoChannel
	}
	elems, err := s.histories.last(req.ChannelID, req.Limit)
	if err != nil {
		return proto.History{}, err
	}
	return proto.History{Messages: listOf(elems)}, nil
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

// last returns the last n messages of a channel, or all. What is no message is
// left out and does not count.
func (h *histories) last(id string, n int) (elems [][]byte, err error) {
	err = h.with(id, func(f channelFile, a *history) error {
		if elems, err = a.Last(n, h.replyMax-2); err != nil {
			return err
		}
		good := messagesIn(elems)
		if n > 0 && len(good) < len(elems) {
			// Something else lies among them: look further back for n messages.
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
		return nil, &proto.Error{Code: proto.CodeTooLarge, Message: fmt.Sprintf("the history of channel %s is larger than one reply can be (16 MiB): ask for its last messages only, with limit", quote(id))}
	}
	return elems, err
}

// messagesIn returns the messages among elements of a file, which are valid
// JSON, and which it may write to.
func messagesIn(elems [][]byte) [][]byte {
	good := make([][]byte, 0, len(elems))
	for _, e := range elems {
		if e = tidy(e); hasMessage(e) {
			good = append(good, e)
		}
	}
	return good
}

func (h *histories) noteSkipped(name string, n int) {
	text := ""
	if n > 0 {
		text = fmt.Sprintf("channels/%s: %d entries are left out, since they have no string role and content: repair or delete them", name, n)
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

// remove deletes a channel's history under every name that it may have.
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

// with calls fn with the file of a channel, and words its error.
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
		return fileError("channel "+quote(id), filepath.Join(h.root.Name(), name), err)
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

// release closes the files that have not been used for longest.
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
