package rtr

import (
	linked "container/list"
	"context"
	"fmt"
	"strings"
	"sync"

	"zino/pkg/attach/kind"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/rtr/wire"
)

// heldMax limits the bytes of attachments in memory. The limits of all wires for one
// request are below.
const heldMax = 64 << 20

// attachments are the bytes of attachments, by id. The zero value is empty.
type attachments struct {
	mu    sync.Mutex
	bytes int
	used  linked.List // of attachment, the last used one first
	byID  map[string]*linked.Element
	lost  map[string]bool // those that a caller cannot give, until the next infer
}

type attachment struct {
	id   string
	data []byte
}

// get returns the bytes of an attachment, which must not be changed.
func (a *attachments) get(id string) (data []byte, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, ok := a.byID[id]
	if !ok {
		return nil, false
	}
	a.used.MoveToFront(e)
	return e.Value.(attachment).data, true
}

// put keeps an attachment, and forgets those that were not used for longest.
func (a *attachments) put(id string, data []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byID == nil {
		a.byID = map[string]*linked.Element{}
	}
	if a.byID[id] == nil {
		a.byID[id] = a.used.PushFront(attachment{id, data})
		a.bytes += len(data)
	}
	for a.bytes > heldMax {
		last := a.used.Remove(a.used.Back()).(attachment)
		delete(a.byID, last.id)
		a.bytes -= len(last.data)
	}
}

// lostMax limits the ids that are remembered as lost.
const lostMax = 10_000

// lose remembers that an attachment is lost.
func (a *attachments) lose(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lost == nil || len(a.lost) >= lostMax {
		a.lost = map[string]bool{}
	}
	a.lost[id] = true
}

// takeLost reports whether an attachment was remembered as lost, and forgets that: in
// another session there may be a good copy.
func (a *attachments) takeLost(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	lost := a.lost[id]
	delete(a.lost, id)
	return lost
}

// hold keeps an attachment in memory.
func (s *Service) hold(_ context.Context, req proto.Hold) (proto.Empty, error) {
	if _, ok := kind.Sum(req.ID); !ok {
		return proto.Empty{}, proto.Errorf(proto.CodeInvalid, "Invalid request: %.80q is not the id of an attachment", req.ID)
	}
	if len(req.Data) == 0 {
		s.held.lose(req.ID)
		return proto.Empty{}, nil
	}
	a, err := kind.Reference("", req.Data)
	if err != nil {
		return proto.Empty{}, err
	}
	if a.ID != req.ID {
		return proto.Empty{}, proto.Errorf(proto.CodeInvalid, "Invalid request: the content of the attachment %.80q is another one", req.ID)
	}
	s.held.put(req.ID, req.Data)
	return proto.Empty{}, nil
}

// attach prepares the attachments of the messages for a target. Unless all that are sent
// are known it returns the error with their ids.
func (r *request) attach(t *target) error {
	r.files = nil
	if !t.remote() || !wire.HasFiles(r.req.Messages) {
		return nil
	}
	fitted, left, err := wire.FitFiles(r.req.Messages, t.wire(), t.caps.Model, !t.traits.NoImages)
	if err != nil {
		return err
	}
	unknown := wire.Fill(fitted, func(id string) ([]byte, bool) {
		if data, ok := r.s.held.get(id); ok {
			return data, true
		}
		if r.lost[id] || r.s.held.takeLost(id) {
			if r.lost == nil {
				r.lost = map[string]bool{}
			}
			r.lost[id] = true
			return nil, true
		}
		return nil, false
	})
	if len(unknown) > 0 {
		return &proto.Error{
			Code: proto.CodeNotFound, Kind: proto.ErrorKindAttachment, Details: strings.Join(unknown, " "),
			Message: fmt.Sprintf("the bytes of %d attachments are not held: send them with hold, and ask again", len(unknown)),
		}
	}
	if left > 0 {
		r.warn(warning{t.caps.Endpoint, t.caps.Model, "attachments"}, fmt.Sprintf(
			"%s takes fewer or smaller images in a request than this session has: %s left out, the oldest first", t.caps.Provider, text.Count(left, "image")))
	}
	if len(r.lost) > 0 {
		r.notice(proto.Notice{Kind: "warning", Text: text.Count(len(r.lost), "attachment") + " of this session missing or damaged: the model gets the names only"})
	}
	r.files = fitted
	return nil
}
