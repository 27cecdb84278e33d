package assemble

import (
	"context"
	"strings"
	"testing"
	"time"

	"zino/proto"
)

// hanging is a mem that takes a request and says nothing until the test ends, not
// even that the time is over.
func hanging[Rep any](t *testing.T) func(context.Context) (Rep, error) {
	t.Helper()
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	return func(context.Context) (rep Rep, err error) {
		<-ended
		return rep, err
	}
}

// TestSilentMem: a mem that says nothing costs its own parts and no others, and
// is not waited for twice.
func TestSilentMem(t *testing.T) {
	var silent func(context.Context) (proto.HardMemories, error)
	b := newBench(t)
	b.skill("a", pair("a", 99))
	b.mem.memories = func(ctx context.Context) (proto.HardMemories, error) { return silent(ctx) }
	b.startMem()
	b.start()
	silent = hanging[proto.HardMemories](t) // ends before the service does
	b.service.patience = time.Millisecond
	if got := names(t, b.build("c", "hi")); got != "a? a!" {
		t.Errorf("got %q", got)
	}
	if asked := b.mem.questions(); strings.Contains(asked, "history") {
		t.Errorf("asked %s", asked)
	}
	for _, part := range []string{"context without hard memories", "context without the history"} {
		if !strings.Contains(b.log.String(), part) {
			t.Errorf("%q is not in the log: %s", part, &b.log)
		}
	}
}

// TestSilentHistory: what mem gave before it fell silent is used.
func TestSilentHistory(t *testing.T) {
	b := newBench(t)
	var silent func(context.Context) (proto.History, error)
	b.mem.memories = memories(pair("m", 99))
	b.mem.history = func(ctx context.Context) (proto.History, error) { return silent(ctx) }
	b.startMem()
	b.start()
	silent = hanging[proto.History](t)
	b.service.patience = 300 * time.Millisecond
	if got := names(t, b.build("c", "hi")); got != "m? m!" {
		t.Errorf("got %q", got)
	}
}

// TestPatience holds how long mem is waited for, by what the caller's deadline
// leaves: there has to be time for the answer.
func TestPatience(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{
		time.Hour:              4 * time.Second,
		5 * time.Second:        4 * time.Second,
		3 * time.Second:        2 * time.Second,
		2 * time.Second:        time.Second,
		time.Second:            500 * time.Millisecond,
		100 * time.Millisecond: 50 * time.Millisecond,
	} {
		if got := share(memPatience, left); got != want {
			t.Errorf("%v left: %v, want %v", left, got, want)
		}
	}
}
