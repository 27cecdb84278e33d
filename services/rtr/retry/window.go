package retry

import (
	"slices"
	"time"
)

// window is what a minute is.
const window = time.Minute

// forget drops the starts that are a minute old.
func (l *Limiter) forget(now time.Time) {
	old := 0
	for old < len(l.starts) && now.Sub(l.starts[old]) >= window {
		old++
	}
	l.starts = l.starts[old:] // append moves the rest when it needs the room
}

// mark counts a start.
func (l *Limiter) mark(now time.Time) {
	if l.perMinute > 0 {
		l.starts = append(l.starts, now)
	}
}

// unmark takes back a start that did not happen.
func (l *Limiter) unmark(at time.Time) {
	for i := len(l.starts) - 1; i >= 0; i-- {
		if l.starts[i].Equal(at) {
			l.starts = slices.Delete(l.starts, i, i+1)
			return
		}
	}
}

// next is when the request may start that stands at place in the queue, 0
// being the first, if none before it leaves and all end in time: not before
// the pause is over, nor before the request perMinute places ahead of it, be
// it still in the queue, is a minute old.
func (l *Limiter) next(place int, now time.Time) time.Time {
	at := now
	if l.paused.After(at) {
		at = l.paused
	}
	if l.perMinute <= 0 || len(l.starts)+place < l.perMinute {
		return at
	}
	var before time.Time
	if i := len(l.starts) + place - l.perMinute; i < len(l.starts) {
		before = l.starts[i]
	} else {
		before = l.next(place-l.perMinute, now)
	}
	if free := before.Add(window); free.After(at) {
		at = free
	}
	return at
}

// estimate is how long w has to wait yet, as far as that is known.
func (l *Limiter) estimate(w *waiter) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	place := slices.Index(l.queue, w)
	if place < 0 {
		return 0
	}
	now := l.now()
	l.forget(now)
	return l.next(place, now).Sub(now)
}
