package retry

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// inBubble runs a test in which time passes only while everybody waits.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// acquire acquires what must be free at once.
func acquire(t *testing.T, l *Limiter) (release func()) {
	t.Helper()
	before := time.Now()
	release, err := l.Acquire(t.Context(), func(d time.Duration) { t.Errorf("must wait for %v", d) })
	if err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(before); waited > 0 {
		t.Fatalf("waited for %v", waited)
	}
	return release
}

// expect compares what the limiter says of itself.
func expect(t *testing.T, l *Limiter, running, queued int, until time.Duration) {
	t.Helper()
	r, q, at := l.Waiting()
	var left time.Duration
	if !at.IsZero() {
		left = time.Until(at)
	}
	if r != running || q != queued || left != until {
		t.Errorf("%d running, %d queued, next in %v; want %d, %d, %v", r, q, left, running, queued, until)
	}
}

// idle fails if a timer runs.
func idle(t *testing.T, l *Limiter) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil && l.timer.Stop() {
		t.Error("a timer runs for nobody")
	}
}

func TestNoLimits(t *testing.T) {
	for _, n := range []int{0, -1} {
		l := New(n, n, nil)
		for range 1000 {
			release, err := l.Acquire(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			release()
		}
		expect(t, l, 0, 0, 0)
		if len(l.starts) != 0 {
			t.Errorf("%d starts are kept for nothing", len(l.starts))
		}
	}
}

// TestConcurrent has 200 callers at once, with real goroutines and the real
// clock; a third of them give up while they wait.
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
			l.Waiting()
			running.Add(-1)
			release()
			release() // does nothing
		})
	}
	all.Wait()
	if started.Load()+left.Load() != 200 || started.Load() < 133 {
		t.Errorf("%d started, %d left", started.Load(), left.Load())
	}
	expect(t, l, 0, 0, 0)
	idle(t, l)
}

// TestOrder holds that requests start in the order in which they came, and
// that one which leaves does not disturb the others.
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
			synctest.Wait() // it stands in the queue
		}
		expect(t, l, 1, 20, 0)
		cancels[0]()
		cancels[7]()
		cancels[19]()
		synctest.Wait()
		expect(t, l, 1, 17, 0)
		release()
		all.Wait()
		want := []int{1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}
		if !slices.Equal(order, want) {
			t.Errorf("started in the order %v", order)
		}
		expect(t, l, 0, 0, 0)
	})
}

func TestLeave(t *testing.T) {
	inBubble(t, "before", func(t *testing.T) {
		l := New(1, 1, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Acquire(ctx, nil); err != context.Canceled {
			t.Errorf("got %v", err)
		}
		expect(t, l, 0, 0, 0)
	})
	inBubble(t, "while it waits", func(t *testing.T) {
		l := New(0, 1, nil)
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
		expect(t, l, 0, 0, 50*time.Second)
		idle(t, l)
	})
	inBubble(t, "when it was just admitted", func(t *testing.T) {
		for range 20 { // either of the two ends may be seen first
			leaveAdmitted(t)
		}
	})
}

// leaveAdmitted has a caller leave when its place is already kept for it.
func leaveAdmitted(t *testing.T) {
	t.Helper()
	l := New(1, 5, nil)
	release := acquire(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := l.Acquire(ctx, func(time.Duration) {
		release() // admits the waiter, which is busy here
		cancel()
	})
	if err != context.Canceled {
		t.Errorf("got %v", err)
	}
	expect(t, l, 0, 0, 0)
	if len(l.starts) != 1 {
		t.Errorf("%d starts are counted, want the one that happened", len(l.starts))
	}
	acquire(t, l)()
}

// TestWaiting holds when a caller is told that it must wait, and of how long.
func TestWaiting(t *testing.T) {
	for _, tt := range []struct {
		name    string
		limiter func() *Limiter // with nothing free
		told    []time.Duration
		after   time.Duration // when it is told
		waited  time.Duration
	}{
		{"pause", func() *Limiter {
			l := New(0, 0, nil)
			l.Pause(7 * time.Second)
			return l
		}, []time.Duration{7 * time.Second}, 0, 7 * time.Second},
		{"short pause", func() *Limiter {
			l := New(0, 0, nil)
			l.Pause(900 * time.Millisecond)
			return l
		}, nil, 0, 900 * time.Millisecond},
		{"requests a minute", func() *Limiter {
			l := New(0, 1, nil)
			l.mark(time.Now())
			return l
		}, []time.Duration{time.Minute}, 0, time.Minute},
		{"requests at once", func() *Limiter {
			l := New(1, 0, nil)
			l.running = 1
			time.AfterFunc(9*time.Second, l.release)
			return l
		}, []time.Duration{0}, time.Second, 9 * time.Second},
		{"requests at once, not for long", func() *Limiter {
			l := New(1, 0, nil)
			l.running = 1
			time.AfterFunc(900*time.Millisecond, l.release)
			return l
		}, nil, 0, 900 * time.Millisecond},
		{"a pause that comes later", func() *Limiter {
			l := New(1, 0, nil)
			l.running = 1
			time.AfterFunc(500*time.Millisecond, func() { l.Pause(4 * time.Second) })
			time.AfterFunc(600*time.Millisecond, l.release)
			return l
		}, []time.Duration{3500 * time.Millisecond}, time.Second, 4500 * time.Millisecond},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			l := tt.limiter()
			before := time.Now()
			var told []time.Duration
			release, err := l.Acquire(t.Context(), func(d time.Duration) {
				told = append(told, d)
				if after := time.Since(before); after != tt.after {
					t.Errorf("told after %v, want %v", after, tt.after)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(before); waited != tt.waited || !slices.Equal(told, tt.told) {
				t.Errorf("waited for %v, told %v; want %v, %v", waited, told, tt.waited, tt.told)
			}
			release()
			expect(t, l, 0, 0, map[bool]time.Duration{true: time.Minute}[l.perMinute > 0])
			idle(t, l)
		})
	}
	inBubble(t, "nobody to tell", func(t *testing.T) {
		l := New(0, 0, nil)
		l.Pause(time.Minute)
		if _, err := l.Acquire(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
}
