package retry

import (
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	type step struct {
		asked, wait time.Duration
		ok          bool
	}
	const s = time.Second
	for _, tt := range []struct {
		name   string
		random float64
		steps  []step
	}{
		{"no jitter", 0, []step{{0, s / 2, true}, {0, s, true}, {0, 2 * s, true}, {0, 4 * s, true}, {0, 0, false}, {0, 0, false}}},
		{"half of the jitter", 0.5, []step{{0, s * 7 / 16, true}, {0, s * 7 / 8, true}, {0, s * 7 / 4, true}, {0, s * 7 / 2, true}, {0, 0, false}}},
		{"all of the jitter", 1, []step{{0, s * 3 / 8, true}, {0, s * 3 / 4, true}, {0, s * 3 / 2, true}, {0, 3 * s, true}, {0, 0, false}}},
		{"asked for a short wait", 0, []step{{1, 1, true}}},
		{"asked for more than 30 s, then not", 0, []step{{60 * s, 60 * s, true}, {0, s, true}, {40 * s, 40 * s, true}, {0, 4 * s, true}, {0, 0, false}}},
		{"the longest wait", 0, []step{{MaxAsked, MaxAsked, true}}},
		{"too long a wait", 0, []step{{MaxAsked + 1, MaxAsked + 1, false}}},
		{"a negative wait", 0, []step{{-s, s / 2, true}, {0, s, true}}},
		{"after the last retry", 0, []step{{s, s, true}, {s, s, true}, {s, s, true}, {s, s, true}, {7 * s, 7 * s, false}}},
	} {
		b := NewBackoff(func() float64 { return tt.random })
		for i, step := range tt.steps {
			if wait, ok := b.Next(step.asked); wait != step.wait || ok != step.ok {
				t.Errorf("%s, step %d: got %v, %v; want %v, %v", tt.name, i+1, wait, ok, step.wait, step.ok)
			}
		}
	}
	for range 100 {
		if wait, ok := NewBackoff(nil).Next(0); !ok || wait < s*3/8 || wait > s/2 {
			t.Fatalf("the first pause is %v, %v", wait, ok)
		}
	}
}

// TestBackoffMaxOwn checks that the pauses of a request stay below MaxOwn in total
// even with more retries, and that waits which are asked for do not count.
func TestBackoffMaxOwn(t *testing.T) {
	b := NewBackoff(func() float64 { return 0 })
	b.retries = 1000
	var total time.Duration
	for wait, ok := b.Next(0); ok; wait, ok = b.Next(0) {
		total += wait
	}
	if want := 15500 * time.Millisecond; total != want || total > MaxOwn {
		t.Errorf("waited for %v in total, want %v", total, want)
	}
	if wait, ok := b.Next(time.Minute); !ok || wait != time.Minute {
		t.Errorf("asked for a minute: got %v, %v", wait, ok)
	}
}
