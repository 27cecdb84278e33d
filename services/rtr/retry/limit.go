// Package retry keeps the router from asking a provider too often, and says
// how long to wait after a refusal.
//
// A Limiter is what all callers of one provider share: so many requests at
// once, so many a minute, and what the provider's rate limit headers say. A
// Verdict is what one refusal means for the request that met with it; a
// Backoff is the pauses between that request's attempts.
package retry

import (
	"context"
	"slices"
	"sync"
	"time"
)

// patience is how long a caller waits without being told.
const patience = time.Second

// Limiter lets the requests to one provider start, in the order in which they
// came. It is safe for concurrent use, and runs a timer only while somebody
// waits for a time to come.
type Limiter struct {
	concurrent int
	perMinute  int
	now        func() time.Time

	mu      sync.Mutex
	running int
	starts  []time.Time // of the last minute, at most perMinute, in order
	paused  time.Time   // nobody starts before
	queue   []*waiter
	timer   *time.Timer // calls wake when the first of the queue may start
}

// waiter is a request that wants to start.
type waiter struct {
	ready   chan struct{} // closed when it may
	started time.Time     // when it might
}

// New returns a Limiter that lets at most concurrent requests run at once, and
// at most perMinute start in any 60 s. 0 and less: no such limit. now is the
// clock that timers run by; nil stands for time.Now.
func New(concurrent, perMinute int, now func() time.Time) *Limiter {
	if now == nil {
		now = time.Now
	}
	return &Limiter{concurrent: concurrent, perMinute: perMinute, now: now}
}

// Acquire waits until a request may start. The request is then running until
// release is called; a second call of release does nothing.
//
// waiting, if not nil, is called once, in the caller's goroutine, when the
// wait is longer than 1 s: at once if that is known, else after 1 s. It is
// told the least that is left to wait as far as it is known: 0 where only the
// end of a running request is waited for. It should not block, as the request
// holds its place meanwhile.
//
// When ctx ends before the request may start, Acquire returns its error, and
// the request's place is free again.
func (l *Limiter) Acquire(ctx context.Context, waiting func(time.Duration)) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := l.join()
	if err := l.await(ctx, w, waiting); err != nil {
		l.leave(w)
		return nil, err
	}
	return sync.OnceFunc(l.release), nil
}

// Waiting returns how many requests run and how many wait, and when the next
// one may start as far as time alone decides: the zero time means at once.
func (l *Limiter) Waiting() (running, queued int, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.forget(now)
	if next := l.next(0, now); next.After(now) {
		until = next
	}
	return l.running, len(l.queue), until
}

// await returns when w may start or ctx ends.
func (l *Limiter) await(ctx context.Context, w *waiter, waiting func(time.Duration)) error {
	select {
	case <-w.ready:
		return nil
	default:
	}
	tell := time.NewTimer(patience)
	defer tell.Stop()
	if left := l.estimate(w); left > patience {
		tell.Reset(0)
	}
	for {
		select {
		case <-w.ready:
			return ctx.Err() // a caller that is gone must not start
		case <-ctx.Done():
			return ctx.Err()
		case <-tell.C:
			if waiting != nil {
				waiting(l.estimate(w))
			}
		}
	}
}

// join puts a new waiter at the end of the queue.
func (l *Limiter) join() *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &waiter{ready: make(chan struct{})}
	l.queue = append(l.queue, w)
	l.admit()
	return w
}

// leave takes a waiter away that will not start, be it queued or admitted.
func (l *Limiter) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.queue, w); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	} else {
		l.running--
		l.unmark(w.started)
	}
	l.admit()
}

func (l *Limiter) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	l.admit()
}

// wake is called by the timer.
func (l *Limiter) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.admit()
}

// admit lets start who may, and sets the timer for the next who waits for
// nothing but time.
func (l *Limiter) admit() {
	now := l.now()
	l.forget(now)
	for len(l.queue) > 0 && (l.concurrent <= 0 || l.running < l.concurrent) {
		if next := l.next(0, now); next.After(now) {
			l.alarm(next.Sub(now))
			return
		}
		w := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		l.running++
		l.mark(now)
		w.started = now
		close(w.ready)
	}
	if l.timer != nil {
		l.timer.Stop()
	}
}

func (l *Limiter) alarm(d time.Duration) {
	if l.timer == nil {
		l.timer = time.AfterFunc(d, l.wake)
		return
	}
	l.timer.Reset(d)
}
