package repl

import (
	"sync"
	"time"
)

// restlessMax bounds the wait for a file that changes all the time, in debounce
// times.
const restlessMax = 10

// ringPause is the least time between two calls of an alarm.
const ringPause = time.Millisecond

// alarm calls a function when a log has something to do: at the deadline of its state,
// or when its file has changed and was left alone for the debounce time.
type alarm struct {
	ring     func()
	debounce time.Duration

	mu          sync.Mutex
	timer       *time.Timer
	set         time.Time // when the timer fires; zero: never
	deadline    time.Time // of the state; zero: never
	first, last time.Time // the first and the last change that was not reported yet
	stopped     bool
}

func newAlarm(ring func(), debounce time.Duration) *alarm {
	return &alarm{ring: ring, debounce: debounce}
}

// touch notes a notification of a change of the file, and starts the debounce again.
func (a *alarm) touch() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last = time.Now(); a.first.IsZero() {
		a.first = a.last
	}
	a.schedule()
}

// pending notes a change that was found by reading the file. It does not restart a
// debounce that is running: a page that logs all the time has its file read all the
// time, and that must not delay a request.
func (a *alarm) pending() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first.IsZero() {
		a.first = time.Now()
		a.last = a.first
	}
	a.schedule()
}

// changed reports whether there was a change and the debounce time is over. It
// reports each change once.
func (a *alarm) changed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first.IsZero() || time.Now().Before(a.rest()) {
		return false
	}
	a.first, a.last = time.Time{}, time.Time{}
	return true
}

// rest returns when a change counts as complete.
func (a *alarm) rest() time.Time {
	rest, bound := a.last.Add(a.debounce), a.first.Add(restlessMax*a.debounce)
	if bound.Before(rest) {
		return bound
	}
	return rest
}

func (a *alarm) setDeadline(t time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deadline = t
	a.schedule()
}

// schedule sets the timer. It may fire too early: the function that it calls checks
// what is due.
func (a *alarm) schedule() {
	next := a.deadline
	if !a.first.IsZero() && (next.IsZero() || a.rest().Before(next)) {
		next = a.rest()
	}
	if next.IsZero() || a.stopped || !a.set.IsZero() && !next.Before(a.set) {
		return
	}
	a.set = next
	wait := max(time.Until(next), ringPause)
	if a.timer == nil {
		a.timer = time.AfterFunc(wait, a.fire)
		return
	}
	a.timer.Reset(wait)
}

func (a *alarm) fire() {
	a.mu.Lock()
	a.set = time.Time{}
	a.mu.Unlock()
	a.ring()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.schedule()
}

func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	if a.timer != nil {
		a.timer.Stop()
	}
}
