package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
)

// session is a session of mem that is locked for a turn. The lock serializes turns, but
// another process may get it when mem is restarted. Correctness depends on the offset
// of each append: mem refuses an append if the session ends at another offset, and
// recognizes a repeated append after a lost reply.
type session struct {
	mem      *rpc.Client
	id       string
	ctx      context.Context // of the turn
	timeout  time.Duration   // limits the repetitions of an append: storeTimeout, shorter in tests
	unlock   context.CancelFunc
	unlocked chan struct{} // closed when the lock is released

	mu   sync.Mutex // locked while events are stored
	next int64      // offset behind the last event
	err  error      // if set, all further appends fail with it
}

// open locks a session. It calls waiting if another turn has the lock.
func (s *Service) open(ctx context.Context, id string, waiting func() error) (*session, error) {
	// Keep the lock after a disconnect of the caller, until the end of the turn is
	// stored.
	lockCtx, unlock := context.WithCancel(context.WithoutCancel(ctx))
	w := &session{mem: s.mem, id: id, ctx: ctx, timeout: s.storeTimeout, unlock: unlock, unlocked: make(chan struct{})}
	states, failed := make(chan string), make(chan error, 1)
	go func() {
		defer close(w.unlocked)
		failed <- w.lock(lockCtx, states)
	}()
	for {
		var err error
		select {
		case state := <-states:
			if state == proto.TypeHeld {
				return w, nil
			}
			err = waiting()
		case err = <-failed:
			err = sessionError(err)
		case <-ctx.Done():
			err = ctx.Err()
			if errors.Is(err, context.DeadlineExceeded) {
				err = fmt.Errorf("timed out waiting for the lock on session %q: %w", id, err)
			}
		}
		if err != nil {
			w.close()
			return nil, err
		}
	}
}

// lock keeps the session locked until ctx ends. It sends the types of mem's packets up
// to held to states. It returns an error if the lock was never granted; after that it
// locks the session again when the connection breaks, at most once per relockEvery.
func (w *session) lock(ctx context.Context, states chan<- string) error {
	held := false
	for {
		asked := time.Now()
		req := proto.HoldSession{SessionID: w.id}
		if held { // with Next mem does not add results for the open calls of this turn
			req.Next = new(w.offset())
		}
		_, err := rpc.CallEvents(ctx, w.mem, proto.MemHoldSession, req, func(typ string, payload []byte) error {
			if held {
				return nil
			}
			if typ == proto.TypeHeld {
				var state proto.SessionHeld
				if err := wire.DecodeReply(payload, &state); err != nil {
					return err
				}
				held, w.next = true, state.Next
			}
			select {
			case states <- typ:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
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
func (w *session) close() {
	w.unlock()
	<-w.unlocked
}

func (w *session) offset() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next
}

// failed reports whether appends fail permanently.
func (w *session) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil
}

// append stores a list of events and returns when they are on disk. header is for a
// session that does not exist yet. append continues after a disconnect of the caller;
// otherwise the daemon would not know whether the events are stored. It repeats the
// request while mem cannot be reached.
func (w *session) append(events, header proto.Raw) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), storeTimeout)
	defer cancel()
	defer context.AfterFunc(w.ctx, func() { time.AfterFunc(stopTimeout, cancel) })()
	req := proto.AppendSession{SessionID: w.id, Events: events, At: &w.next}
	if w.next == 0 {
		req.Create, req.Header = true, header
	}
	var last *proto.Error // of the previous attempt
	for pause := repeatPause; ; pause = min(2*pause, relockEvery) {
		place, err := rpc.Call(ctx, w.mem, proto.MemAppendSession, req)
		if err == nil {
			w.next = place.Next
			return nil
		}
		e := sessionError(err)
		if refusal, ok := errors.AsType[*proto.Error](err); ok && e.Code == proto.CodeBusy && refusal.Kind == proto.ErrorKindSession {
			w.err = proto.SessionErrorf(proto.CodeBusy, "session %q was changed by another process during the turn", w.id)
			return w.err
		}
		switch e.Code {
		case proto.CodeUnavailable, proto.CodeTimeout, proto.CodeCanceled, proto.CodeBusy: // mem is not running, stopping or overloaded
		default:
			return e
		}
		if last == nil {
			defer time.AfterFunc(w.timeout, cancel).Stop()
		} else if ctx.Err() != nil { // the previous error is the reason, this one only the timeout
			e = last
		}
		last = e
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			w.err = e
			return e
		}
	}
}
