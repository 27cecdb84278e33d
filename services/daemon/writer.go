package daemon

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	// storeTimeout limits an append, and its repetitions while mem cannot be reached.
	storeTimeout = 60 * time.Second
	// stopTimeout is the limit after the end of the turn, when the daemon may be
	// stopping.
	stopTimeout = 10 * time.Second
	// repeatPause is the first pause before an append is repeated. It doubles up
	// to relockEvery.
	repeatPause = 10 * time.Millisecond
	// relockEvery is the interval of attempts to lock the session again after the
	// connection broke.
	relockEvery = time.Second
	// waitGrace is how long a lock may be delayed until it counts as that of another
	// process: mem may not have noticed yet that this one has released it.
	waitGrace = 100 * time.Millisecond
)

// writer appends to a session of mem that is locked. The lock serializes turns, but
// another process may get it when mem is restarted. Correctness depends on the offset
// of each append: mem refuses an append if the session ends at another offset, and
// recognizes a repeated append after a lost reply.
type writer struct {
	mem     *rpc.Client
	id      string
	timeout time.Duration // limits the repetitions of an append: storeTimeout, shorter in tests
	unlock  context.CancelFunc
	waits   chan struct{} // closed when another process turns out to have the lock
	granted chan struct{} // closed when the session is locked and settled
	ended   chan struct{} // closed when the session is not locked any more
	refused error         // why the session could not be locked; set before ended is closed

	mu     sync.Mutex                  // locked while events are stored
	next   int64                       // offset behind the last event
	failed atomic.Pointer[proto.Error] // if set, all further appends fail with it
	edited atomic.Bool                 // another process has changed the log
}

// lock locks a session. settle is called with the lock, before granted is closed; an
// error of it releases the lock. done is called when granted or ended is closed.
func (s *Service) lock(ctx context.Context, id string, settle func(*writer, proto.SessionHeld) error, done func(*writer, error)) *writer {
	ctx, unlock := context.WithCancel(ctx)
	w := &writer{
		mem: s.mem, id: id, timeout: s.storeTimeout, unlock: unlock,
		waits: make(chan struct{}), granted: make(chan struct{}), ended: make(chan struct{}),
	}
	go func() {
		defer unlock()
		err := w.hold(ctx, func(held proto.SessionHeld) error {
			if err := settle(w, held); err != nil {
				return err
			}
			done(w, nil)
			close(w.granted)
			return nil
		})
		w.refused = err
		close(w.ended)
		if err != nil {
			done(w, err)
		}
	}()
	return w
}

// hold keeps the session locked until ctx ends. It returns an error if the lock was
// never granted; after that it locks the session again when the connection breaks, at
// most once per relockEvery.
func (w *writer) hold(ctx context.Context, granted func(proto.SessionHeld) error) error {
	held, refused := false, error(nil)
	waits := sync.OnceFunc(func() { close(w.waits) })
	for {
		asked := time.Now()
		_, err := rpc.CallEvents(ctx, w.mem, proto.MemHoldSession, proto.HoldSession{SessionID: w.id, Mend: new(false)}, func(typ string, payload []byte) error {
			switch {
			case held:
			case typ == proto.TypeWaiting:
				time.AfterFunc(waitGrace, waits)
			case typ == proto.TypeHeld:
				var state proto.SessionHeld
				if err := wire.DecodeReply(payload, &state); err != nil {
					return err
				}
				w.mu.Lock()
				w.next = state.Next
				w.mu.Unlock()
				if refused = granted(state); refused != nil {
					return refused
				}
				held = true
			}
			return nil
		})
		if refused != nil {
			return refused
		}
		if !held {
			if err == nil {
				err = &proto.Error{Code: proto.CodeUnavailable, Service: "mem", Message: "mem is stopping"}
			}
			return err
		}
		select {
		case <-time.After(time.Until(asked.Add(relockEvery))):
		case <-ctx.Done():
			return nil
		}
	}
}

// close releases the lock.
func (w *writer) close() {
	w.unlock()
	<-w.ended
}

// failure returns the error of all further appends; nil: they may succeed.
func (w *writer) failure() error {
	if e := w.failed.Load(); e != nil {
		return e
	}
	return nil
}

// isAppending reports whether an append is in progress.
func (w *writer) isAppending() bool {
	if w.mu.TryLock() {
		w.mu.Unlock()
		return false
	}
	return true
}

// wait waits for the end of an append in progress.
func (w *writer) wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
}

// fullTexts are the errors of mem of a disk without room, as in its messages.
var fullTexts = []string{syscall.ENOSPC.Error(), syscall.EDQUOT.Error()}

// diskFull returns the error of a full disk for people; nil: e is another one.
func (w *writer) diskFull(e *proto.Error) *proto.Error {
	for _, text := range fullTexts {
		if strings.Contains(e.Message, text) {
			return proto.SessionErrorf(e.Code, "session %q: %s", w.id, text)
		}
	}
	return nil
}

// stalling is what an append does that a turn waits for, when mem cannot be reached for
// the writer's timeout or its disk is full: it tries again every so often.
type stalling struct {
	report       func(*proto.Error) // called with the reason when that begins, and with nil when it ends
	every, limit time.Duration
}

type stallKey struct{}

// stallOf returns the stalling of an append; nil: it fails instead.
func stallOf(ctx context.Context) *stalling {
	s, _ := ctx.Value(stallKey{}).(*stalling)
	return s
}

// append stores a list of events and returns when they are on disk. header is for a
// session that does not exist yet. append continues after the end of ctx; otherwise the
// daemon would not know whether the events are stored. It repeats the request while mem
// cannot be reached. stored is called with the offset behind each event before the next
// append.
func (w *writer) append(ctx context.Context, events, header proto.Raw, stored func(offsets []int64)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.failure(); err != nil {
		return err
	}
	turn := ctx
	stall, limit := stallOf(ctx), storeTimeout
	if stall != nil {
		limit += stall.limit
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	defer context.AfterFunc(turn, func() { time.AfterFunc(stopTimeout, cancel) })()
	req := proto.AppendSession{SessionID: w.id, Events: events, At: &w.next}
	if w.next == 0 {
		req.Create, req.Header = true, header
	}
	var last *proto.Error // of the previous attempt
	var first time.Time   // of the first failure
	reported := ""
	report := func(e *proto.Error) {
		if e.Message != reported {
			reported = e.Message
			stall.report(e)
		}
	}
	for pause := repeatPause; ; pause = min(2*pause, relockEvery) {
		place, err := rpc.Call(ctx, w.mem, proto.MemAppendSession, req)
		if err == nil {
			w.next = place.Next
			if reported != "" {
				stall.report(nil)
			}
			stored(place.Offsets)
			return nil
		}
		e := sessionError(err)
		if refusal, ok := errors.AsType[*proto.Error](err); ok && e.Code == proto.CodeBusy && refusal.Kind == proto.ErrorKindSession {
			w.edited.Store(true)
			w.failed.Store(proto.SessionErrorf(proto.CodeBusy, "session %q was changed by another process during the turn", w.id))
			return w.failure()
		}
		full := w.diskFull(e)
		switch e.Code {
		case proto.CodeUnavailable, proto.CodeTimeout, proto.CodeCanceled, proto.CodeBusy: // mem is not running, stopping or overloaded
		default:
			if stall == nil || full == nil {
				return e
			}
			e = full
		}
		switch {
		case stall != nil:
			if last == nil {
				first = time.Now()
			}
			long := time.Since(first) >= w.timeout
			if full != nil || long {
				report(e)
			}
			if long {
				pause = stall.every
			}
			if time.Since(first) >= w.timeout+stall.limit {
				w.failed.Store(e)
				return e
			}
		case last == nil:
			defer time.AfterFunc(w.timeout, cancel).Stop()
		}
		if last != nil && ctx.Err() != nil { // the previous error is the reason, this one only the timeout
			e = last
		}
		last = e
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			w.failed.Store(e)
			return e
		}
	}
}
