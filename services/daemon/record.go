package daemon

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// recordLimit is how long mem may take for events of a session.
const recordLimit = 10 * time.Second

// record stores what happens in a turn in the session's file. A nil one stores
// nothing.
type record struct {
	lock *lock
	log  *slog.Logger

	running []*printed // of the calls that have begun, in that order

	mute bool // mem did not answer: nothing more is asked of it
}

// begin stores the user's line, in a new session if it is the first one.
func (r *record) begin(root, message string) error {
	if r == nil {
		return nil
	}
	list, err := appendEvent(nil, "message", spoken{Role: "user", Text: message})
	if err != nil {
		return err
	}
	req := proto.AppendSession{Events: list, Create: true}
	if root != "" {
		req.Header = append(wire.AppendString([]byte(`{"root":`), root), '}')
	}
	return r.store(req)
}

// add stores events, an unfinished list, if there are any.
func (r *record) add(list proto.Raw, err error) error {
	if r == nil || list == nil || err != nil {
		return err
	}
	return r.store(proto.AppendSession{Events: list})
}

// end stores how a turn ended before its time, and the text up to there.
func (r *record) end(text []byte, e *proto.Error) {
	if r == nil || r.mute {
		return
	}
	list, err := r.results(nil)
	if err == nil {
		err = r.add(ended(list, text, e))
	}
	if err != nil {
		r.log.Error("the end of a turn could not be stored", "session", r.lock.id, "error", err, "trace", rpc.Trace(r.lock.ctx))
	}
}

// store has mem append the unfinished list in req, and returns when it is on
// disk. A caller who leaves does not stop that: nobody would know then whether
// it is stored. With the lock gone nothing is stored, as it could fall into
// another turn.
func (r *record) store(req proto.AppendSession) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.lock.ctx), recordLimit)
	defer cancel()
	req.SessionID, req.Events, req.Held = r.lock.id, closeList(req.Events), true
	err := r.lock.append(ctx, req)
	if err == nil {
		return nil
	}
	if lost := lockLost(r.lock.ctx); lost != nil {
		return lost
	}
	r.mute = errors.Is(err, proto.ErrUnavailable) || errors.Is(err, proto.ErrTimeout) || errors.Is(err, context.DeadlineExceeded)
	return sessionError(err)
}
