package retry

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

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
		{"500 concerns its request only", 500, "Retry-After: 20", 0},
		{"success", 200, "Retry-After: 20", 0},
		{"success with the last request", 200, "x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 12s", 12 * time.Second},
		{"the longer of both", 429, "Retry-After: 20\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 12s", 20 * time.Second},
		{"the longer of both, again", 429, "Retry-After: 2\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 12s", 12 * time.Second},
		{"an hour", 429, "Retry-After: 3600", MaxAsked},
		{"reset in an hour", 200, "x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 1h0m0s", MaxAsked},
		{"ever", 429, "Retry-After: 99999999999999", 0},
		{"nonsense", 429, "Retry-After: later\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: -5s", 0},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			l := New(1, 0, nil)
			l.Observe(tt.status, headers(tt.lines))
			expect(t, l, 0, 0, tt.want)
			idle(t, l)
			before := time.Now()
			release, err := l.Acquire(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(before); waited != tt.want {
				t.Errorf("waited for %v, want %v", waited, tt.want)
			}
			release()
			expect(t, l, 0, 0, 0)
		})
	}
}

// TestObserveAll holds that a refusal keeps everybody waiting, those too who
// wait already.
func TestObserveAll(t *testing.T) {
	inBubble(t, "all", func(t *testing.T) {
		l := New(0, 0, nil)
		begin := time.Now()
		var all sync.WaitGroup
		call := func() {
			all.Go(func() {
				release, err := l.Acquire(t.Context(), nil)
				if err != nil {
					t.Error(err)
					return
				}
				if waited := time.Since(begin); waited != 30*time.Second {
					t.Errorf("started after %v", waited)
				}
				release()
			})
			synctest.Wait()
		}
		l.Observe(429, headers("Retry-After: 10"))
		call()
		l.Observe(429, headers("Retry-After: 30"))
		call()
		l.Observe(429, headers("Retry-After: 5")) // an older answer; does not shorten
		l.Observe(200, headers(""))
		call()
		expect(t, l, 0, 3, 30*time.Second)
		all.Wait()
		idle(t, l)
	})
}

func TestPause(t *testing.T) {
	for _, tt := range []struct{ d, want time.Duration }{
		{-time.Hour, 0},
		{0, 0},
		{1, 1},
		{36 * time.Second, 36 * time.Second},
		{24 * time.Hour, MaxAsked},
	} {
		inBubble(t, tt.d.String(), func(t *testing.T) {
			l := New(0, 10, nil)
			l.Pause(tt.d)
			expect(t, l, 0, 0, tt.want)
		})
	}
}
