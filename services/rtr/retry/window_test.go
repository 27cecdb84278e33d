package retry

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// arrive lets requests come at the given times after now, in order, and
// returns when they started.
func arrive(t *testing.T, l *Limiter, arrivals []time.Duration) (starts []time.Duration) {
	t.Helper()
	begin := time.Now()
	starts = make([]time.Duration, len(arrivals))
	var all sync.WaitGroup
	for i, at := range arrivals {
		<-time.After(at - time.Since(begin))
		all.Go(func() {
			release, err := l.Acquire(t.Context(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			starts[i] = time.Since(begin)
			release()
		})
		synctest.Wait()
	}
	all.Wait()
	return starts
}

// fastest is when requests can start at best that keep their order and the
// limit.
func fastest(arrivals []time.Duration, perMinute int) []time.Duration {
	starts := slices.Clone(arrivals)
	for i := range starts {
		if i > 0 {
			starts[i] = max(starts[i], starts[i-1])
		}
		if i >= perMinute {
			starts[i] = max(starts[i], starts[i-perMinute]+time.Minute)
		}
	}
	return starts
}

// busiest is the most starts in any 60 s.
func busiest(starts []time.Duration) (most int) {
	for i, from := range starts {
		n := 0
		for _, at := range starts[i:] {
			if at < from+time.Minute {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestPerMinute holds that never more than the limit start in any 60 s, and
// that nobody waits longer than that takes.
func TestPerMinute(t *testing.T) {
	for _, limit := range []int{1, 2, 7, 60} {
		for _, pattern := range []struct {
			name string
			gap  func(i int) time.Duration
		}{
			{"all at once", func(int) time.Duration { return 0 }},
			{"evenly", func(int) time.Duration { return time.Minute / time.Duration(limit) }},
			{"at the end of a minute and after it", func(i int) time.Duration {
				return map[bool]time.Duration{true: 59 * time.Second}[i%limit == 0]
			}},
			{"by chance", func(int) time.Duration { return rand.N(2 * time.Minute / time.Duration(limit)) }},
			{"in bursts", func(int) time.Duration { return max(0, rand.N(4*time.Minute)-3*time.Minute) }},
		} {
			inBubble(t, fmt.Sprintf("%d, %s", limit, pattern.name), func(t *testing.T) {
				arrivals := make([]time.Duration, 150)
				for i := 1; i < len(arrivals); i++ {
					arrivals[i] = arrivals[i-1] + pattern.gap(i)
				}
				l := New(0, limit, time.Now)
				starts := arrive(t, l, arrivals)
				if n := busiest(starts); n > limit {
					t.Errorf("%d start in 60 s", n)
				}
				if want := fastest(arrivals, limit); !slices.Equal(starts, want) {
					t.Errorf("arrivals\n%v\nstarts\n%v\nwant\n%v", arrivals, starts, want)
				}
				if room := cap(l.starts); room > 4*limit+8 {
					t.Errorf("room for %d starts", room)
				}
				idle(t, l)
			})
		}
	}
}

// TestEstimate holds that what a caller is told comes true, where nothing but
// time is waited for.
func TestEstimate(t *testing.T) {
	for _, limit := range []int{1, 3, 10} {
		inBubble(t, fmt.Sprint(limit), func(t *testing.T) {
			l := New(0, limit, nil)
			l.Pause(100 * time.Second)
			begin := time.Now()
			var all sync.WaitGroup
			for range 25 {
				all.Go(func() {
					var told time.Duration
					release, err := l.Acquire(t.Context(), func(d time.Duration) { told = d })
					if err != nil {
						t.Error(err)
						return
					}
					if waited := time.Since(begin); waited != told {
						t.Errorf("waited for %v, was told %v", waited, told)
					}
					release()
				})
				synctest.Wait()
			}
			expect(t, l, 0, 25, 100*time.Second)
			all.Wait()
		})
	}
}

// TestBothLimits holds that a request which may run must still wait for its
// minute, and the other way round.
func TestBothLimits(t *testing.T) {
	inBubble(t, "both", func(t *testing.T) {
		l := New(2, 3, nil)
		begin := time.Now()
		var mu sync.Mutex
		var starts []time.Duration
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				release, err := l.Acquire(t.Context(), nil)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				starts = append(starts, time.Since(begin))
				mu.Unlock()
				<-time.After(40 * time.Second) // what the request takes
				release()
			})
		}
		all.Wait()
		s := time.Second
		if want := []time.Duration{0, 0, 40 * s, 60 * s, 80 * s, 100 * s, 120 * s, 140 * s}; !slices.Equal(starts, want) {
			t.Errorf("started at %v, want %v", starts, want)
		}
		expect(t, l, 0, 0, 0)
	})
}
