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

// storeTimeout is how long mem may take for events of a session.
const storeTimeout = 10 * time.Second

// lock is a session that mem keeps for one turn. It is there for as long as the
// connection to mem is; a mem that is started anew is asked for it again.
type lock struct {
	mem     *rpc.Client
	timeout time.Duration // with a mem that went away
	id      string
	ctx     context.Context         // the turn's: it ends with the caller, and with the lock
	lose    context.CancelCauseFunc // ends it
	hangUp  context.CancelFunc
	said    chan string   // the types of mem's packets up to held
	ended   chan struct{} // closed when the lock is gone for good

	mu    sync.Mutex    // held while events are stored, and while mem is asked again
	mute  bool          // mem did not answer: nothing more is asked of it
	next  int64         // the place behind the last event that this turn knows of
	again chan struct{} // closed when the lock is there again; then another one
}

// hold has mem lock a session and waits for it. waiting is called if somebody
// else has the lock.
func (s *Service) hold(ctx context.Context, id string, waiting func() error) (*lock, error) {
	turn, lose := context.WithCancelCause(ctx)
	// A caller who leaves ends the turn. The lock goes when the rest is stored.
	holding, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	l := &lock{
		mem: s.mem, timeout: s.storeTimeout, id: id, ctx: turn, lose: lose, hangUp: hangUp,
		said: make(chan string), ended: make(chan struct{}), again: make(chan struct{}),
	}
	go l.keep(holding)
	err := l.await(waiting)
	if err == nil {
		return l, nil
	}
	l.release()
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("the lock on session %q did not come in time: %w", id, err)
	}
	return nil, err
}

// keep keeps the lock until ctx ends, or somebody else may have it.
func (l *lock) keep(ctx context.Context) {
	defer close(l.ended)
	held := false
	err := l.ask(ctx, nil, func(typ string, next int64) {
		held, l.next = typ == "held", next
		select {
		case l.said <- typ:
		case <-l.ctx.Done():
		}
	})
	if !held {
		l.lose(sessionError(err))
		return
	}
	for ctx.Err() == nil && errors.Is(err, proto.ErrUnavailable) && lockLost(l.ctx) == nil {
		err = l.regain(ctx, err)
	}
	l.lose(l.lost(err))
}

// ask has mem lock the session for as long as ctx and mem last, and returns why
// that ended. heard is called for each packet up to held, with the place behind
// the session's last event. last is that place where this turn had the lock
// before, nil if it had not.
func (l *lock) ask(ctx context.Context, last *int64, heard func(typ string, next int64)) error {
	req := proto.HoldSession{SessionID: l.id, Next: last}
	held := false
	_, err := rpc.CallEvents(ctx, l.mem, proto.MemHoldSession, req, func(typ string, payload []byte) error {
		if held {
			return nil // nobody listens any more
		}
		var state proto.SessionHeld
		if held = typ == "held"; held {
			if err := wire.DecodeReply(payload, &state); err != nil {
				return err
			}
		}
		heard(typ, state.Next)
		return nil
	})
	if err == nil {
		err = &proto.Error{Code: proto.CodeUnavailable, Service: "mem", Message: "mem is stopping"}
	}
	return err
}

// await returns when the lock is there.
func (l *lock) await(waiting func() error) error {
	for {
		select {
		case typ := <-l.said:
			if typ == "held" {
				return nil
			}
			if typ == "waiting" {
				if err := waiting(); err != nil {
					return err
				}
			}
		case <-l.ctx.Done():
			return context.Cause(l.ctx)
		}
	}
}

// release ends the lock, and with it the turn's context.
func (l *lock) release() {
	l.hangUp()
	<-l.ended
}

// lost is the error of a turn that goes on after its lock, because of err.
func (l *lock) lost(err error) *proto.Error {
	e := sessionError(err)
	e.Message = fmt.Sprintf("The lock on session %q was lost in the middle of the turn: %v", l.id, err)
	return e
}

// lockLost is the error of a turn whose lock has ended before it did, nil while
// it is there: somebody else may be writing to the session now.
func lockLost(turn context.Context) *proto.Error {
	lost, _ := errors.AsType[*proto.Error](context.Cause(turn))
	return lost
}

// regainPause is the time before each attempt to have a lock again: the socket
// of a mem that is started anew may not be there yet.
const regainPause = 10 * time.Millisecond

// regain has a mem that was started anew lock the session once more, if nobody
// has used it since, and returns why that lock ended in its turn. Nothing is
// stored before it is there. If it does not come back the turn has lost it, for
// the reason why it went.
func (l *lock) regain(ctx context.Context, why error) error {
	l.mu.Lock()
	unlock := sync.OnceFunc(l.mu.Unlock)
	defer unlock()
	asking, giveUp := context.WithCancel(ctx)
	defer giveUp()
	timer := time.AfterFunc(l.timeout, giveUp)
	defer timer.Stop()
	back := func() { // and from now on nothing but ctx ends it
		close(l.again)
		l.again = make(chan struct{})
		unlock()
	}
	for pause(asking, regainPause) {
		err, held := l.askAgain(asking, timer, back)
		if held {
			return err
		}
		if asking.Err() == nil && !errors.Is(err, proto.ErrUnavailable) {
			l.lose(l.lost(err))
			return err
		}
	}
	if ctx.Err() == nil {
		l.lose(l.lost(fmt.Errorf("%w, and was not back within %v", why, l.timeout)))
	}
	return why
}

// askAgain is one attempt. held is called when the lock is there in time.
func (l *lock) askAgain(ctx context.Context, timer *time.Timer, held func()) (err error, ok bool) {
	next := l.next
	err = l.ask(ctx, &next, func(typ string, _ int64) {
		if ok = typ == "held" && timer.Stop(); ok {
			held()
		}
	})
	return err, ok
}

// pause waits, and reports whether ctx let it.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// append has mem store events of the turn. Where mem went away meanwhile, or is
// a new one, they are stored as soon as the lock is there again: it would not
// come back if the session had them already.
func (l *lock) append(ctx context.Context, req proto.AppendSession) error {
	for {
		again, err := l.try(ctx, req)
		if !errors.Is(err, proto.ErrUnavailable) {
			return err
		}
		select {
		case <-again:
		case <-l.ended:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// try stores events while the lock is there. again is closed when it is there
// once more.
func (l *lock) try(ctx context.Context, req proto.AppendSession) (again <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lost := lockLost(l.ctx); lost != nil {
		return nil, lost
	}
	place, err := rpc.Call(ctx, l.mem, proto.MemAppendSession, req)
	if err == nil {
		l.next = place.Next
	}
	return l.again, err
}

// store has mem append the events of a request, and returns when they are on
// disk. A caller that hangs up does not stop that. With the lock lost nothing is
// stored: another turn may be writing.
func (l *lock) store(req proto.AppendSession) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), l.timeout)
	defer cancel()
	if l.mute {
		return sessionError(proto.ErrUnavailable)
	}
	req.SessionID, req.Held = l.id, true
	err := l.append(ctx, req)
	if err == nil {
		return nil
	}
	if lost := lockLost(l.ctx); lost != nil {
		return lost
	}
	l.mute = errors.Is(err, proto.ErrUnavailable) || errors.Is(err, proto.ErrTimeout) || errors.Is(err, context.DeadlineExceeded)
	return sessionError(err)
}
