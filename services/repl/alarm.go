package repl

import (
	"sync"
	"time"
)

// restlessMax bounds how long a file that changes all the time is waited for, in
// debounce times.
const restlessMax = 10

// breath is the least time between two rings, whatever a page asks for.
const breath = time.Millisecond

// alarm calls a function when a transcript has something to do: when the time
// comes that its page asked for, or when its file has changed and was left alone
// for the debounce time since.
type alarm struct {
	ring     func()
	debounce time.Duration

	mu          sync.Mutex
	timer       *time.Timer
	set         time.Time // when it goes off; zero: never
	wake        time.Time // the page's time
	first, last time.Time // the first and the last change not looked at yet
	stopped     bool
}

func newAlarm(ring func(), debounce time.Duration) *alarm {
	return &alarm{ring: ring, debounce: debounce}
}

// touch notes a change.
func (a *alarm) touch() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last = time.Now(); a.first.IsZero() {
		a.first = a.last
	}
	a.arrange()
}

// changed reports whether there was a change that is to be looked at now, and
// forgets it then.
func (a *alarm) changed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first.IsZero() || time.Now().Before(a.rest()) {
		return false
	}
	a.first, a.last = time.Time{}, time.Time{}
	return true
}

// rest is when a change counts as complete.
func (a *alarm) rest() time.Time {
	rest, bound := a.last.Add(a.debounce), a.first.Add(restlessMax*a.debounce)
	if bound.Before(rest) {
		return bound
	}
	return rest
}

// wakeAt sets the page's time; zero: none.
func (a *alarm) wakeAt(t time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wake = t
	a.arrange()
}

// arrange sets the timer. One that goes off too early does no harm: the function
// that it calls asks again.
func (a *alarm) arrange() {
	next := a.wake
	if !a.first.IsZero() && (next.IsZero() || a.rest().Before(next)) {
		next = a.rest()
	}
	if next.IsZero() || a.stopped || !a.set.IsZero() && !next.Before(a.set) {
		return
	}
	a.set = next
	wait := max(time.Until(next), breath)
	if a.timer == nil {
		a.timer = time.AfterFunc(wait, a.goOff)
		return
	}
	a.timer.Reset(wait)
}

func (a *alarm) goOff() {
	a.mu.Lock()
	a.set = time.Time{}
	a.mu.Unlock()
	a.ring()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.arrange()
}

// stop has the alarm ring no more.
func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	if a.timer != nil {
		a.timer.Stop()
	}
}
