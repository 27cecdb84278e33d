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

// hold is take for the file of t, and keeps other processes out as well. What
// it has is the file with that id, which may no longer be the target.
func (l *locks) hold(ctx context.Context, t target) (id identity, release func(), err error) {
	leave, err := l.take(ctx, t.id)
	if err != nil {
		return id, nil, err
	}
	file, err := t.seize(ctx)
	switch {
	case err != nil:
		leave()
		return id, nil, err
	case file == nil:
		return t.id, leave, nil
	}
	return file.id, func() { file.Close(); leave() }, nil
}

// claim finds the file to change with find and keeps others from changing it
// until release is called. A change puts another file in the place of the one
// that was waited for: then the wait begins anew.
func (f *Files) claim(ctx context.Context, find func() (target, error)) (t target, release func(), err error) {
	if t, err = find(); err != nil {
		return t, nil, err
	}
	for {
		waited, unlock, err := f.locks.hold(ctx, t)
		t.close()
		if err != nil {
			return t, nil, fail(Timeout, "%s: other changes of this file were waited for in vain. It was not changed: try again", t.path)
		}
		if t, err = find(); err == nil && t.id == waited {
			return t, func() { unlock(); t.close() }, nil
		}
		unlock()
		if err != nil {
			return t, nil, err
		}
	}
}
