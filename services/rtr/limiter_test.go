package rtr

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/proto"
)

// limited serves a router with a limit on how OpenAI is asked.
func limited(t *testing.T, l config.Limit, script ...fakellm.Turn) (*router, *fakellm.Server) {
	t.Helper()
	l.Provider = "openai"
	return toolRouter(t, func(c *config.Config) { c.Rtr.Limit = []config.Limit{l} }, script...)
}

// begin asks in the background.
func (r *router) begin(ctx context.Context, in proto.Infer, got *chunks) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := r.infer(ctx, in, got)
		ended <- err
	}()
	return ended
}

// queued returns when n requests wait for a provider.
func (r *router) queued(t *testing.T, n int) {
	t.Helper()
	for r.limiters["openai"].Queued() != n {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOneAtATime holds that callers of one provider follow each other, and that
// another provider's do not wait.
func TestOneAtATime(t *testing.T) {
	r, llm := limited(t, config.Limit{Concurrent: 1}, fakellm.Turn{Match: "first", Text: "1", Pause: "go"}, fakellm.Turn{Match: "second", Text: "2"}, fakellm.Turn{Match: "other", Text: "3"})
	first := r.begin(t.Context(), ask("first", true), &chunks{})
	if _, err := llm.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	second := r.begin(t.Context(), ask("second", false), &chunks{})
	r.queued(t, 1)
	in := ask("other", true)
	in.Provider = "openrouter"
	if text, err := r.infer(t.Context(), in, &chunks{}); err != nil || text != "3" {
		t.Errorf("another provider: got %q, %v", text, err)
	}
	if n := len(llm.Requests()); n != 2 {
		t.Errorf("%d requests while the first is under way", n)
	}
	llm.Open("go")
	if err := errors.Join(<-first, <-second); err != nil {
		t.Error(err)
	}
	r.queued(t, 0)
}

// TestFailuresMakeRoom holds that a request which ended badly is not taken for
// one that runs.
func TestFailuresMakeRoom(t *testing.T) {
	r, _ := limited(t, config.Limit{Concurrent: 1}, refused(400), times(2, refused(500)), fakellm.Reply("x"))
	if _, err := r.infer(t.Context(), ask("hi", true), &chunks{}); failure(t, err).Status != 400 {
		t.Error(err)
	}
	if text, err := r.infer(t.Context(), ask("hi", true), &chunks{}); err != nil || text != "x" {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestHangUpInQueue holds that a caller who goes leaves the queue at once.
func TestHangUpInQueue(t *testing.T) {
	r, llm := limited(t, config.Limit{Concurrent: 1}, fakellm.Turn{Text: "1", Pause: "go"})
	first := r.begin(t.Context(), ask("hi", true), &chunks{})
	if _, err := llm.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	second := r.begin(ctx, ask("hi", true), &chunks{})
	r.queued(t, 1)
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r.queued(t, 0)
	llm.Open("go")
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// TestWaits holds that a wait for a limit is told at once to who asked for
// events, and that a long one for the provider's sake is an error at once.
func TestWaits(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit config.Limit
		first fakellm.Turn
		long  bool
	}{
		{"requests a minute", config.Limit{RequestsPerMinute: 1}, fakellm.Reply("x"), false},
		{"the provider's pause", config.Limit{}, refused(429, "Retry-After: 20"), false},
		{"nothing remains", config.Limit{}, fakellm.Turn{Text: "x", Header: []string{"X-RateLimit-Remaining-Requests: 0", "X-RateLimit-Reset-Requests: 20s"}}, false},
		{"a long pause", config.Limit{}, refused(429, "Retry-After: 50"), true},
		{"a long pause beside our own limit", config.Limit{RequestsPerMinute: 9}, refused(429, "Retry-After: 200"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, llm := limited(t, tt.limit, tt.first)
			failed := errors.New("no pause")
			r.pause = func(context.Context, time.Duration) error { return failed }
			_, err := r.infer(t.Context(), ask("hi", true), &chunks{})
			if (err != nil) != (tt.first.Status != 0) {
				t.Fatalf("the first got %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			in := ask("hi", true)
			in.Events = true
			got := chunks{onEvent: cancel}
			_, err = r.infer(ctx, in, &got)
			if tt.long {
				if e := failure(t, err); e.Code != proto.CodeBusy || !regexp.MustCompile(`^openai asks not to be asked before \d\d:\d\d:\d\d: try again then$`).MatchString(e.Message) || len(got.events) != 0 {
					t.Errorf("the second got %+v, told %q", *e, got.events)
				}
			} else if !errors.Is(err, context.Canceled) || len(got.events) != 1 || !strings.Contains(got.events[0], `"kind":"wait","text":"waiting until openai may be asked, in about `) {
				t.Errorf("the second got %v, told %q", err, got.events)
			}
			if n := len(llm.Requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}
