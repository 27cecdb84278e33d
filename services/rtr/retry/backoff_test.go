package retry

import (
	"testing"
	"time"
)

// always is a source of chance without any.
func always(v float64) func() float64 { return func() float64 { return v } }

func TestOwnPauses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		random float64
		want   []time.Duration
	}{
		{"longest", 0, []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second}},
		{"in the middle", 0.5, []time.Duration{437500 * time.Microsecond, 875 * time.Millisecond, 1750 * time.Millisecond, 3500 * time.Millisecond}},
		{"shortest", 1, []time.Duration{375 * time.Millisecond, 750 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := NewBackoff(always(tt.random))
			for i, want := range tt.want {
				if wait, ok := b.Next(0, false); wait != want || !ok {
					t.Errorf("retry %d: %v, %v; want %v", i+1, wait, ok, want)
				}
			}
			for range 2 {
				if wait, ok := b.Next(0, false); ok || wait != 0 {
					t.Errorf("after the last: %v, %v", wait, ok)
				}
			}
		})
	}
}

func TestChance(t *testing.T) {
	for range 100 {
		wait, ok := NewBackoff(nil).Next(0, false)
		if !ok || wait < 375*time.Millisecond || wait > 500*time.Millisecond {
			t.Fatalf("the first pause is %v, %v", wait, ok)
		}
	}
}

// TestAsked holds that a wait which is asked for is kept to the letter, that it
// costs nothing of the request's own time, and that pauses grow meanwhile.
func TestAsked(t *testing.T) {
	type step struct {
		asked    time.Duration
		hasAsked bool
		wait     time.Duration
		ok       bool
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"short", []step{{time.Millisecond, true, time.Millisecond, true}}},
		{"beyond 30 s, then nothing", []step{
			{time.Minute, true, time.Minute, true},
			{0, false, time.Second, true},
			{40 * time.Second, true, 40 * time.Second, true},
			{0, false, 4 * time.Second, true},
			{0, false, 0, false},
		}},
		{"the longest", []step{{MaxAsked, true, MaxAsked, true}}},
		{"too long", []step{{MaxAsked + 1, true, MaxAsked + 1, false}}},
		{"too long, but not meant", []step{{time.Hour, false, 500 * time.Millisecond, true}}},
		{"zero and less", []step{{0, true, 500 * time.Millisecond, true}, {-time.Hour, true, time.Second, true}}},
		{"after the last retry", []step{
			{time.Second, true, time.Second, true},
			{time.Second, true, time.Second, true},
			{time.Second, true, time.Second, true},
			{time.Second, true, time.Second, true},
			{7 * time.Second, true, 7 * time.Second, false},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := NewBackoff(always(0))
			for i, s := range tt.steps {
				if wait, ok := b.Next(s.asked, s.hasAsked); wait != s.wait || ok != s.ok {
					t.Errorf("step %d: %v, %v; want %v, %v", i+1, wait, ok, s.wait, s.ok)
				}
			}
		})
	}
}

// TestOwnTime holds that own pauses stay below MaxOwn in all even if there
// were more retries than there are.
func TestOwnTime(t *testing.T) {
	b := NewBackoff(always(0))
	b.retries = 1000
	var total time.Duration
	for {
		wait, ok := b.Next(0, false)
		if !ok {
			break
		}
		total += wait
	}
	if want := 15500 * time.Millisecond; total != want || total > MaxOwn {
		t.Errorf("waited for %v in all, want %v", total, want)
	}
	if wait, ok := b.Next(time.Minute, true); !ok || wait != time.Minute {
		t.Errorf("what is asked for after that: %v, %v", wait, ok)
	}
}
