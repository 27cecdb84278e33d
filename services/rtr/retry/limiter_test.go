package retry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"zino/pkg/zinotest"
)

// inBubble runs a test in which time passes only while all goroutines wait.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// acquire fails if a request may not start at once.
func acquire(t *testing.T, l *Limiter) (release func()) {
	t.Helper()
	before := time.Now()
	release, err := l.Acquire(t.Context(), func(d time.Duration) { t.Errorf("must wait for %v", d) })
	zinotest.Must(t, err)
	if waited := time.Since(before); waited > 0 {
		t.Fatalf("waited for %v", waited)
	}
	return release
}

func TestNoLimits(t *testing.T) {
	for _, n := range []int{0, -1} {
		l := New(n, n, nil)
		for range 1000 {
			release, err := l.Acquire(t.Context(), nil)
			zinotest.Must(t, err)
			release()
		}
	}
}

// TestConcurrent has 200 callers at once, with real goroutines and the real clock;
// a third of them give up while they wait.
func TestConcurrent(t *testing.T) {
	const limit = 8
	l := New(limit, 0, nil)
	var running, started, left atomic.Int64
	var all sync.WaitGroup
	for i := range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		if i%3 == 0 {
			all.Go(cancel)
		}
		all.Go(func() {
			defer cancel()
			release, err := l.Acquire(ctx, nil)
			if err != nil {
				left.Add(1)
				return
			}
			if n := running.Add(1); n > limit {
				t.Errorf("%d run at once", n)
			}
			started.Add(1)
			l.Observe(200, headers("x-ratelimit-remaining-tokens: 9"))
			running.Add(-1)
			release()
			release() // does nothing
		})
	}
	all.Wait()
	if started.Load()+left.Load() != 200 || started.Load() < 133 || l.Queued() != 0 || len(l.slots) != 0 {
		t.Errorf("%d started, %d left, %d queued, %d run", started.Load(), left.Load(), l.Queued(), len(l.slots))
	}
}

// TestOrder checks that requests start in the order of their calls, and that one
// that gives up does not disturb the others.
func TestOrder(t *testing.T) {
	inBubble(t, "queue", func(t *testing.T) {
		l := New(1, 0, nil)
		release := acquire(t, l)
		var order []int
		var all sync.WaitGroup
		cancels := make([]context.CancelFunc, 20)
		for i := range cancels {
			var ctx context.Context
			ctx, cancels[i] = context.WithCancel(t.Context())
			defer cancels[i]()
			all.Go(func() {
				if done, err := l.Acquire(ctx, nil); err == nil {
					order = append(order, i) // one runs at a time
					done()
				}
			})
			synctest.Wait()
		}
		for _, i := range []int{0, 7, 19} {
			cancels[i]()
		}
		synctest.Wait()
		if n := l.Queued(); n != 17 {
			t.Errorf("%d queued", n)
		}
		release()
		all.Wait()
		if want := []int{1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}; !slices.Equal(order, want) {
			t.Errorf("started in the order %v", order)
		}
	})
}

// TestLeave checks that a caller whose context ends uses nothing up.
func TestLeave(t *testing.T) {
	inBubble(t, "before", func(t *testing.T) {
		l := New(1, 1, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Acquire(ctx, nil); err != context.Canceled {
			t.Errorf("got %v", err)
		}
		acquire(t, l)
	})
	inBubble(t, "while it waits", func(t *testing.T) {
		l := New(1, 1, nil)
		acquire(t, l)()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		before := time.Now()
		if _, err := l.Acquire(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(before); waited != 10*time.Second {
			t.Errorf("left after %v", waited)
		}
		<-time.After(50 * time.Second)
		acquire(t, l)
	})
	inBubble(t, "when its slot has just become free", func(t *testing.T) {
		for range 20 { // either of the two may be seen first
			l := New(1, 5, nil)
			release := acquire(t, l)
			ctx, cancel := context.WithCancel(t.Context())
			done, err := l.Acquire(ctx, func(time.Duration) {
				release()
				cancel()
			})
			if err == nil {
				done()
			} else if err != context.Canceled {
				t.Errorf("got %v", err)
			}
			acquire(t, l)()
		}
	})
}

// TestReports checks when a wait is reported to the caller, and for how long.
func TestReports(t *testing.T) {
	busy := func(l *Limiter, free time.Duration) {
		release := func() { <-l.slots }
		l.slots <- struct{}{}
		time.AfterFunc(free, release)
	}
	for _, tt := range []struct {
		name     string
		limits   [2]int
		prepare  func(*Limiter)
		reported []time.Duration
		after    time.Duration // when it is reported
		waited   time.Duration
	}{
		{"pause", [2]int{0, 0}, func(l *Limiter) { l.Pause(7 * time.Second) }, []time.Duration{7 * time.Second}, 0, 7 * time.Second},
		{"short pause", [2]int{0, 0}, func(l *Limiter) { l.Pause(900 * time.Millisecond) }, nil, 0, 900 * time.Millisecond},
		{"requests a minute", [2]int{0, 1}, func(l *Limiter) { l.rate.AllowN(time.Now(), 1) }, []time.Duration{time.Minute}, 0, time.Minute},
		{"requests at once", [2]int{1, 0}, func(l *Limiter) { busy(l, 9*time.Second) }, []time.Duration{0}, time.Second, 9 * time.Second},
		{"requests at once, for less than a second", [2]int{1, 0}, func(l *Limiter) { busy(l, 900*time.Millisecond) }, nil, 0, 900 * time.Millisecond},
		{"a pause that begins later", [2]int{1, 0}, func(l *Limiter) {
			time.AfterFunc(500*time.Millisecond, func() { l.Pause(4 * time.Second) })
			busy(l, 600*time.Millisecond)
		}, []time.Duration{3900 * time.Millisecond}, 600 * time.Millisecond, 4500 * time.Millisecond},
		{"a pause that is extended", [2]int{0, 0}, func(l *Limiter) {
			l.Pause(5 * time.Second)
			time.AfterFunc(3*time.Second, func() { l.Pause(5 * time.Second) })
		}, []time.Duration{5 * time.Second}, 0, 8 * time.Second},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			l := New(tt.limits[0], tt.limits[1], nil)
			tt.prepare(l)
			before := time.Now()
			var reported []time.Duration
			release, err := l.Acquire(t.Context(), func(d time.Duration) {
				reported = append(reported, d)
				if after := time.Since(before); after != tt.after {
					t.Errorf("reported after %v, want %v", after, tt.after)
				}
			})
			zinotest.Must(t, err)
			release()
			if waited := time.Since(before); waited != tt.waited || !slices.Equal(reported, tt.reported) {
				t.Errorf("waited for %v, reported %v; want %v, %v", waited, reported, tt.waited, tt.reported)
			}
		})
	}
	inBubble(t, "without a function", func(t *testing.T) {
		l := New(0, 0, nil)
		l.Pause(time.Minute)
		if _, err := l.Acquire(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
}

// TestPerMinute checks for arrivals of several patterns that no request waits
// longer than the rate demands, that their order is kept, and that in no 60 s more
// start than the burst and the rate allow.
func TestPerMinute(t *testing.T) {
	for _, limit := range []int{1, 2, 7, 60} {
		every := time.Minute / time.Duration(limit)
		for _, pattern := range []struct {
			name string
			gap  func(i int) time.Duration
		}{
			{"all at once", func(int) time.Duration { return 0 }},
			{"evenly", func(int) time.Duration { return every }},
			{"at random", func(int) time.Duration { return rand.N(2 * every) }},
			{"in bursts", func(int) time.Duration { return max(0, rand.N(4*time.Minute)-3*time.Minute) }},
		} {
			inBubble(t, fmt.Sprintf("%d, %s", limit, pattern.name), func(t *testing.T) {
				l, begin := New(0, limit, nil), time.Now()
				starts := make([]time.Duration, 150)
				var all sync.WaitGroup
				tokens, last := float64(limit), time.Duration(0) // of the model: a bucket that fills
				for i := range starts {
					if i > 0 {
						<-time.After(pattern.gap(i))
					}
					at := time.Since(begin)
					tokens = min(float64(limit), tokens+float64(at-last)/float64(every)) - 1
					last = at
					want := at + time.Duration(max(-tokens, 0)*float64(every))
					all.Go(func() {
						release, err := l.Acquire(t.Context(), nil)
						if err != nil {
							t.Error(err)
							return
						}
						starts[i] = time.Since(begin)
						release()
						if off := (starts[i] - want).Abs(); off > time.Millisecond {
							t.Errorf("request %d started after %v, want %v", i, starts[i], want)
						}
					})
					synctest.Wait()
				}
				all.Wait()
				for i, from := range starts {
					if i > 0 && from < starts[i-1] {
						t.Errorf("request %d started before the one before it", i)
					}
					if n := 2 * limit; i+n < len(starts) && starts[i+n] < from+time.Minute-time.Millisecond {
						t.Errorf("more than %d started within a minute of %v", n, from)
					}
				}
			})
		}
	}
}

// TestBothLimits checks that a request with a slot still waits for the rate, and
// the other way round.
func TestBothLimits(t *testing.T) {
	inBubble(t, "both", func(t *testing.T) {
		l, begin := New(2, 3, nil), time.Now()
		var mu sync.Mutex
		var starts []time.Duration
		var all sync.WaitGroup
		for range 7 {
			all.Go(func() {
				release, err := l.Acquire(t.Context(), nil)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				starts = append(starts, time.Since(begin).Round(time.Millisecond))
				mu.Unlock()
				<-time.After(10 * time.Second) // how long the request takes
				release()
			})
		}
		all.Wait()
		s := time.Second
		if want := []time.Duration{0, 0, 10 * s, 20 * s, 40 * s, 60 * s, 80 * s}; !slices.Equal(starts, want) {
			t.Errorf("started at %v, want %v", starts, want)
		}
	})
}

func TestObserve(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		lines  string
		want   time.Duration
	}{
		{"nothing", 200, "", 0},
		{"429 without a wait", 429, "", 0},
		{"429", 429, "Retry-After: 20", 20 * time.Second},
		{"503", 503, "Retry-After-Ms: 1500", 1500 * time.Millisecond},
		{"529", 529, "Retry-After: 3", 3 * time.Second},
		{"500 is about its request only", 500, "Retry-After: 20", 0},
		{"success", 200, "Retry-After: 20", 0},
		{"success with the last request", 200, "x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 12s", 12 * time.Second},
		{"the longer of both", 429, "Retry-After: 20\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 12s", 20 * time.Second},
		{"the longer of both, again", 429, "Retry-After: 2\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 12s", 12 * time.Second},
		{"an hour", 429, "Retry-After: 3600", MaxAsked},
		{"reset in an hour", 200, "x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 1h0m0s", MaxAsked},
		{"too many", 429, "Retry-After: 99999999999999", 0},
		{"malformed", 429, "Retry-After: later\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: -5s", 0},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			l := New(1, 0, nil)
			l.Observe(tt.status, headers(tt.lines))
			if got := l.Paused(); got != tt.want {
				t.Errorf("paused for %v, want %v", got, tt.want)
			}
			before := time.Now()
			release, err := l.Acquire(t.Context(), nil)
			zinotest.Must(t, err)
			release()
			if waited := time.Since(before); waited != tt.want || l.Paused() != 0 {
				t.Errorf("waited for %v, want %v; paused for another %v", waited, tt.want, l.Paused())
			}
		})
	}
}

// TestPauseHoldsAll checks that a pause delays all requests, also those that wait
// already, and is never shortened.
func TestPauseHoldsAll(t *testing.T) {
	inBubble(t, "all", func(t *testing.T) {
		l, begin := New(0, 0, nil), time.Now()
		var all sync.WaitGroup
		for i, lines := range []string{"Retry-After: 10", "Retry-After: 30", "Retry-After: 5", ""} {
			l.Observe([]int{429, 429, 429, 200}[i], headers(lines))
			all.Go(func() {
				release, err := l.Acquire(t.Context(), nil)
				if err != nil {
					t.Error(err)
					return
				}
				release()
				if waited := time.Since(begin); waited != 30*time.Second {
					t.Errorf("request %d started after %v", i, waited)
				}
			})
			synctest.Wait()
		}
		all.Wait()
	})
	inBubble(t, "length", func(t *testing.T) {
		for d, want := range map[time.Duration]time.Duration{-time.Hour: 0, 0: 0, 1: 1, 36 * time.Second: 36 * time.Second, 24 * time.Hour: MaxAsked} {
			l := New(0, 10, nil)
			if l.Pause(d); l.Paused() != want {
				t.Errorf("Pause(%v) pauses for %v", d, l.Paused())
			}
		}
	})
}
