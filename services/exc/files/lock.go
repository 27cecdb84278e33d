package files

import (
	"context"
	"sync"
)

// locks has one change of a file wait for the other.
type locks struct {
	mu   sync.Mutex
	held map[identity]*queue
}

// queue is who has a file and who waits for it.
type queue struct {
	turn  chan struct{} // full while somebody has the file
	users int
}

// take waits until the file is free, or ctx done, which is then the error.
func (l *locks) take(ctx context.Context, id identity) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err // also where the file is free: nobody waits for the change
	}
	l.mu.Lock()
	q := l.held[id]
	if q == nil {
		q = &queue{turn: make(chan struct{}, 1)}
		l.held[id] = q
	}
	q.users++
	l.mu.Unlock()
	select {
	case q.turn <- struct{}{}:
		return func() { <-q.turn; l.leave(id, q) }, nil
	case <-ctx.Done():
		l.leave(id, q)
		return nil, ctx.Err()
	}
}

// leave forgets a queue that nobody is in any more.
func (l *locks) leave(id identity, q *queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.users--; q.users == 0 {
		delete(l.held, id)
	}
}

// claim finds the file to change with find and keeps others from changing it
// until release is called. A change puts another file in the place of the one
// that was waited for: then the wait begins anew.
func (f *Files) claim(ctx context.Context, find func() (target, error)) (t target, release func(), err error) {
	if t, err = find(); err != nil {
		return t, nil, err
	}
	for {
		if release, err = f.locks.take(ctx, t.id); err != nil {
			t.close()
			return t, nil, fail(Timeout, "%s: other changes of this file were waited for in vain. It was not changed: try again", t.path)
		}
		waited := t.id
		t.close()
		if t, err = find(); err == nil && t.id == waited {
			unlock := release
			return t, func() { unlock(); t.close() }, nil
		}
		release()
		if err != nil {
			return t, nil, err
		}
	}
}
