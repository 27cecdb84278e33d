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
	// storeTimeout is how long an append may take, and how long it is repeated while
	// mem cannot be reached.
	storeTimeout = 60 * time.Second
	// stopTimeout is the same for a turn that has ended: the daemon may be
	// stopping.
	stopTimeout = 10 * time.Second
	// repeatPause is the first pause before an append is repeated. It doubles up
	// to relockEvery.
	repeatPause = 10 * time.Millisecond
	// relockEvery is how often mem is asked for a lock that broke.
	relockEvery = time.Second
)

// session is a session of mem that is open for a turn: its lock and its only
// writer. The lock makes turns follow each other, and another process may get it
// when mem is restarted. What keeps the log correct is the offset of each append:
// mem refuses an append whose session ends anywhere else, and recognizes one that
// is repeated after a lost answer.
type session struct {
	mem      *rpc.Client
	id       string
	ctx      context.Context // of the turn
	timeout  time.Duration   // of the repeats of an append: storeTimeout, shorter in tests
	unlock   context.CancelFunc
	unlocked chan struct{} // closed when the lock is released

	mu   sync.Mutex // locked while events are stored
	next int64      // offset behind the last event
	err  error      // nothing more is written after it
}

// open locks a session and waits for the lock. waiting is called if another turn
// has it.
func (s *Service) open(ctx context.Context, id string, waiting func() error) (*session, error) {
	// A caller who hangs up ends the turn. The lock stays until the rest is stored.
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

// lock holds the lock until ctx ends. It sends the types of mem's packets up to
// held to states, and returns the error of a lock that was never granted. When the
// connection breaks it asks again: at once, then every second.
func (w *session) lock(ctx context.Context, states chan<- string) error {
	held := false
	for {
		asked := time.Now()
		req := proto.HoldSession{SessionID: w.id}
		if held { // mem must not settle the calls of this turn
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

// failed reports whether nothing more can be written.
func (w *session) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil
}

// append stores a list of events and returns when they are on disk. The header is
// that of a session which does not exist yet. A caller who hangs up does not stop
// it: the daemon would not know whether the events are stored. While mem cannot
// be reached the append is repeated.
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
	var last *proto.Error // of the attempt before
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
		case proto.CodeUnavailable, proto.CodeTimeout, proto.CodeCanceled, proto.CodeBusy: // mem is away, stopping or overloaded
		default:
			return e
		}
		if last == nil {
			defer time.AfterFunc(w.timeout, cancel).Stop()
		} else if ctx.Err() != nil { // the earlier error says why mem cannot be reached
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
