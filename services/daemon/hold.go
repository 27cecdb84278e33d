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

// lock is a session that mem keeps for one turn. It is there for as long as the
// connection to mem is; a mem that is started anew is asked for it again.
type lock struct {
	mem      *rpc.Client
	patience time.Duration // with a mem that went away
	id       string
	ctx      context.Context         // the turn's: it ends with the caller, and with the lock
	lose     context.CancelCauseFunc // ends it
	hangUp   context.CancelFunc
	said     chan string   // the types of mem's packets up to held
	ended    chan struct{} // closed when the lock is gone for good

	mu    sync.Mutex    // held while events are stored, and while mem is asked again
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
		mem: s.mem, patience: s.patience, id: id, ctx: turn, lose: lose, hangUp: hangUp,
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
