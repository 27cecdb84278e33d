package retry

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// reportAfter is how long a caller waits before the wait is reported to it.
const reportAfter = time.Second

// Limiter delays the requests to one provider. It is safe for concurrent use.
type Limiter struct {
	now    func() time.Time
	slots  chan struct{} // a semaphore: holds one element per running request; nil: no limit
	rate   *rate.Limiter // nil: no limit
	queued atomic.Int32  // requests in Acquire

	mu     sync.Mutex
	paused time.Time // no request starts before
}

// New returns a Limiter that lets at most concurrent requests run at once and
// perMinute start per minute: as many may start together after a quiet minute, and
// from then on one every 60 s / perMinute. 0 or less is no limit. now is the clock;
// nil is time.Now.
func New(concurrent, perMinute int, now func() time.Time) *Limiter {
	if now == nil {
		now = time.Now
	}
	l := &Limiter{now: now}
	if concurrent > 0 {
		l.slots = make(chan struct{}, concurrent)
	}
	if perMinute > 0 {
		l.rate = rate.NewLimiter(rate.Every(time.Minute/time.Duration(perMinute)), perMinute)
	}
	return l
}

// Acquire waits until a request may start, in the order of the calls. The request
// runs until release is called; further calls of release do nothing.
//
// waiting, if not nil, is called at most once, in the caller's goroutine, when the
// wait is longer than 1 s: at once if that is known, else after 1 s. Its argument is
// the time left as far as it is known, 0 if it only waits for the end of another
// request.
//
// When ctx ends first, Acquire returns its error and nothing is used up.
func (l *Limiter) Acquire(ctx context.Context, waiting func(time.Duration)) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.queued.Add(1)
	defer l.queued.Add(-1)
	report := func(left time.Duration) {
		if waiting != nil {
			waiting(left)
			waiting = nil
		}
	}
	release = func() {}
	if l.slots != nil {
		late := time.NewTimer(reportAfter)
		defer late.Stop()
		for free := false; !free; {
			select {
			case l.slots <- struct{}{}:
				free = true
			case <-late.C:
				report(l.Paused())
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		release = sync.OnceFunc(func() { <-l.slots })
	}
	var turn *rate.Reservation
	if l.rate != nil {
		turn = l.rate.ReserveN(l.now(), 1)
	}
	for ctx.Err() == nil {
		wait := l.Paused()
		if turn != nil {
			wait = max(wait, turn.DelayFrom(l.now()))
		}
		if wait <= 0 {
			return release, nil
		}
		if wait > reportAfter {
			report(wait)
		}
		over := time.NewTimer(wait)
		select {
		case <-over.C: // the pause may have been extended meanwhile
		case <-ctx.Done():
		}
		over.Stop()
	}
	if turn != nil {
		turn.CancelAt(l.now())
	}
	release()
	return nil, ctx.Err()
}

// Queued returns how many requests wait.
func (l *Limiter) Queued() int { return int(l.queued.Load()) }

// Observe reads the status and the headers of an answer. If a limit of requests
// or tokens is used up, or a 429, 503 or 529 asks to wait, it pauses until then.
func (l *Limiter) Observe(status int, h http.Header) {
	now := l.now()
	wait := Exhausted(h, now)
	const overloaded = 529 // Anthropic's
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == overloaded {
		wait = max(wait, After(h, now))
	}
	l.Pause(wait)
}

// Pause lets no request start for d, at most for MaxAsked. A pause is never
// shortened, as answers may come out of order.
func (l *Limiter) Pause(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := l.now().Add(min(d, MaxAsked)); until.After(l.paused) {
		l.paused = until
	}
}

// Paused returns the rest of the current pause, 0 outside of one.
func (l *Limiter) Paused() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.paused.Sub(l.now()), 0)
}
