package daemon

import (
	"context"
	"errors"
	"fmt"

	"zino/pkg/rpc"
	"zino/proto"
)

// lock is a session that mem keeps for one turn. It is there for as long as the
// connection to mem is.
type lock struct {
	ctx    context.Context // the turn's: it ends with the caller, and with the lock
	hangUp context.CancelFunc
	said   chan string   // the types of mem's packets up to held
	ended  chan struct{} // closed when the connection is
}

// hold has mem lock a session and waits for it. waiting is called if somebody
// else has the lock.
func (s *Service) hold(ctx context.Context, id string, waiting func() error) (*lock, error) {
	turn, end := context.WithCancelCause(ctx)
	// A caller who leaves ends the turn. The lock goes when the rest is stored.
	holding, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	l := &lock{ctx: turn, hangUp: hangUp, said: make(chan string), ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		end(l.keep(holding, s.mem, id))
	}()
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

// keep holds the connection and returns why it ended.
func (l *lock) keep(ctx context.Context, mem *rpc.Client, id string) error {
	held := false
	_, err := rpc.CallEvents(ctx, mem, proto.MemHoldSession, proto.HoldSession{SessionID: id}, func(typ string, _ []byte) error {
		if held {
			return nil // nobody listens any more
		}
		held = typ == "held"
		select {
		case l.said <- typ:
		case <-l.ctx.Done():
		}
		return nil
	})
	if err == nil {
		err = &proto.Error{Code: proto.CodeUnavailable, Service: "mem", Message: "mem is stopping"}
	}
	e := sessionError(err)
	if held {
		e.Message = fmt.Sprintf("The lock on session %q was lost in the middle of the turn: %v", id, err)
	}
	return e
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

// lockLost is the error of a turn whose lock has ended before it did, nil while
// it is there: somebody else may be writing to the session now.
func lockLost(turn context.Context) *proto.Error {
	lost, _ := errors.AsType[*proto.Error](context.Cause(turn))
	return lost
}
