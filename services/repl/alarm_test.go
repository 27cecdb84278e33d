package repl

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAlarm: a change is reported when the file is at rest, or after a bound if it never
// is; the deadline of the state is kept beside it.
func TestAlarm(t *testing.T) {
	const debounce = 150 * time.Millisecond
	for name, c := range map[string]struct {
		touches, apart time.Duration // how long the file changes, and at what interval
		deadline       time.Duration
		looks          []time.Duration
		rings          int
	}{
		"once":           {0, time.Second, 0, []time.Duration{debounce}, 1},
		"a burst":        {300 * time.Millisecond, 50 * time.Millisecond, 0, []time.Duration{300*time.Millisecond + debounce}, 1},
		"apart":          {time.Second, time.Second, 0, []time.Duration{debounce, time.Second + debounce}, 2},
		"restless":       {2 * time.Second, 100 * time.Millisecond, 0, []time.Duration{restlessMax * debounce, 2*time.Second + debounce}, 2},
		"early deadline": {0, time.Second, 20 * time.Millisecond, []time.Duration{debounce}, 2},
		"late deadline":  {0, time.Second, time.Minute, []time.Duration{debounce}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, rings, looks := time.Now(), 0, []time.Duration{}
				var a *alarm
				a = newAlarm(func() {
					if a.changed() {
						looks = append(looks, time.Since(start))
						rings++
					}
					if !a.deadline.IsZero() && !time.Now().Before(a.deadline) {
						rings++
						a.setDeadline(time.Time{})
					}
				}, debounce)
				if c.deadline > 0 {
					a.setDeadline(start.Add(c.deadline))
				}
				for at := time.Duration(0); at <= c.touches; at += c.apart {
					a.touch()
					time.Sleep(c.apart) // of the bubble's clock
				}
				time.Sleep(time.Hour)
				a.stop()
				if rings != c.rings || len(looks) != len(c.looks) {
					t.Fatalf("it rang %d times, the looks were at %v, want %v", rings, looks, c.looks)
				}
				for i, at := range c.looks {
					if d := looks[i] - at; d < 0 || d > 2*time.Millisecond {
						t.Errorf("look %d was at %v, want %v", i, looks[i], at)
					}
				}
			})
		})
	}
}

// TestAlarmPending: a change that is found again and again is reported when the
// debounce of its notification is over.
func TestAlarmPending(t *testing.T) {
	const debounce = 150 * time.Millisecond
	for name, notify := range map[string]func(*alarm){"notified": (*alarm).touch, "only found": (*alarm).pending} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, looks := time.Now(), make(chan time.Duration, 1)
				var a *alarm
				a = newAlarm(func() {
					if a.changed() {
						looks <- time.Since(start)
					}
				}, debounce)
				notify(a)
				for range 8 {
					time.Sleep(16 * time.Millisecond) // of the bubble's clock
					a.pending()
				}
				look := <-looks
				a.stop()
				if look < debounce || look > debounce+2*time.Millisecond {
					t.Errorf("the look was at %v, want %v", look, debounce)
				}
			})
		})
	}
}

func TestAlarmStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAlarm(func() { t.Error("it rang") }, time.Millisecond)
		a.touch()
		a.stop()
		a.touch()
		a.setDeadline(time.Now())
		time.Sleep(time.Hour)
	})
}
