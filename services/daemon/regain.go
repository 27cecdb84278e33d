package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

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
	patience := time.AfterFunc(l.patience, giveUp)
	defer patience.Stop()
	back := func() { // and from now on nothing but ctx ends it
		close(l.again)
		l.again = make(chan struct{})
		unlock()
	}
	for pause(asking, regainPause) {
		err, held := l.askAgain(asking, patience, back)
		if held {
			return err
		}
		if asking.Err() == nil && !errors.Is(err, proto.ErrUnavailable) {
			l.lose(l.lost(err))
			return err
		}
	}
	if ctx.Err() == nil {
		l.lose(l.lost(fmt.Errorf("%w, and was not back within %v", why, l.patience)))
	}
	return why
}

// askAgain is one attempt. held is called when the lock is there in time.
func (l *lock) askAgain(ctx context.Context, patience *time.Timer, held func()) (err error, ok bool) {
	next := l.next
	err = l.ask(ctx, &next, func(typ string, _ int64) {
		if ok = typ == "held" && patience.Stop(); ok {
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
