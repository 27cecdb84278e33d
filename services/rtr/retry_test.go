package rtr

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/proto"
	"zino/services/rtr/retry"
)

// patient is a router that asks a scripted provider, whose limiter goes by the
// router's own clock: what was paused for need not be waited for.
func patient(t *testing.T, script ...fakellm.Turn) (*router, *fakellm.Server) {
	t.Helper()
	r, llm := openaiRouter(t, script...)
	r.limiters["openai"] = retry.New(0, 0, r.now)
	return r, llm
}

func refused(status int, header ...string) fakellm.Turn {
	return fakellm.Turn{Status: status, Text: `{"error":{"message":"not now"}}`, Header: header}
}

func times(n int, turn fakellm.Turn) fakellm.Turn {
	turn.Times = n
	return turn
}

// TestRetried holds what is asked again, and after which pauses: those that the
// provider asks for, else ones that double, a quarter less at most.
func TestRetried(t *testing.T) {
	own := func(n int) (waits []time.Duration) {
		for i := range n {
			waits = append(waits, -500*time.Millisecond<<i)
		}
		return waits
	}
	for _, tt := range []struct {
		name   string
		first  fakellm.Turn
		pauses []time.Duration // a negative one is a pause of our own, at most that long
		stream bool            // else collected
	}{
		{"429 with Retry-After", refused(429, "Retry-After: 2"), []time.Duration{2 * time.Second}, true},
		{"429 with Retry-After, collected", refused(429, "Retry-After: 2"), []time.Duration{2 * time.Second}, false},
		{"three times", times(3, refused(429, "Retry-After-Ms: 700")), slices.Repeat([]time.Duration{700 * time.Millisecond}, 3), true},
		{"500", refused(500), own(1), true},
		{"500, collected", refused(500), own(1), false},
		{"four times", times(4, refused(503)), own(4), true},
		{"408", refused(408), own(1), true},
		{"409", refused(409), own(1), true},
		{"529", refused(529), own(1), true},
		{"if it says so", refused(418, "X-Should-Retry: true"), own(1), true},
		{"hangs up", fakellm.Turn{Silent: true, End: fakellm.Hangup}, own(1), true},
		{"an error before the text", stream(`data: {"error":{"message":"busy","code":503}}` + "\n\n"), own(1), true},
		{"cut before the text", fakellm.Turn{Reasoning: "hm", Calls: []fakellm.Call{{Name: "f", Args: "{}"}}, End: fakellm.Cut}, own(1), true},
		{"cut in a text that nobody has seen", stream(hello), own(1), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.first.Times == fakellm.Forever {
				tt.first.Times = 1
			}
			r, llm := patient(t, tt.first, fakellm.Reply("answer"))
			var got chunks
			text, err := r.infer(t.Context(), ask("hi", tt.stream), &got)
			if err != nil || text != "answer" || tt.stream && got.text() != text || len(got.events) != 0 {
				t.Errorf("got %q, streamed %q, %q, %v", text, got.text(), got.events, err)
			}
			pauses := r.paused()
			for i, want := range tt.pauses {
				if want < 0 && i < len(pauses) && pauses[i] <= -want && pauses[i] >= -want*3/4 {
					tt.pauses[i] = pauses[i]
				}
			}
			if !slices.Equal(pauses, tt.pauses) {
				t.Errorf("paused %v, want %v", pauses, tt.pauses)
			}
			if n := len(llm.Requests()); n != len(pauses)+1 || llm.Unused() != 0 {
				t.Errorf("asked %d times, %d answers left", n, llm.Unused())
			}
		})
	}
}

// TestNotRetried holds what is asked once.
func TestNotRetried(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		turn       fakellm.Turn
		text       string
	}{
		{"400", "HTTP 400: not now", refused(400), ""},
		{"401", "HTTP 401: not now", refused(401), ""},
		{"401 that wants to be asked again", "HTTP 401: not now", refused(401, "X-Should-Retry: true", "Retry-After: 1"), ""},
		{"403", "HTTP 403: not now", refused(403), ""},
		{"404", "HTTP 404: not now", refused(404), ""},
		{"413", "HTTP 413: not now", refused(413), ""},
		{"422", "HTTP 422: not now", refused(422), ""},
		{"500 that does not want it", "HTTP 500: not now", refused(500, "X-Should-Retry: false"), ""},
		{"no credit", "HTTP 402: not now", refused(402, "Retry-After: 1"), ""},
		{"a spending limit", "HTTP 429: spent", fakellm.Failure(429, `{"error":{"type":"insufficient_quota","code":"project_spend_limit_exceeded","message":"spent"}}`), ""},
		{"Anthropic's", "HTTP 429: spent", fakellm.Failure(429, `{"type":"error","error":{"type":"rate_limit_error","message":"spent","details":{"error_code":"enforced_spend_limit_reached"}}}`), ""},
		{"too long a wait", "HTTP 429: not now (come back in 10m0s)", refused(429, "Retry-After: 600"), ""},
		{"cut in the text", "no end mark", stream(hello), "hello"},
		{"an error in the text", "busy", stream(hello + `data: {"error":{"message":"busy","code":503}}` + "\n\n"), "hello"},
		{"the connection breaks in the text", "broke", fakellm.Turn{Text: "hello", End: fakellm.Hangup}, "hello"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, llm := patient(t, times(fakellm.Forever, tt.turn))
			var got chunks
			_, err := r.infer(t.Context(), ask("hi", true), &got)
			if e := failure(t, err); !strings.Contains(e.Message, tt.want) || got.text() != tt.text {
				t.Errorf("got %+v, streamed %q", *e, got.text())
			}
			n := 0
			for _, req := range llm.Requests() {
				if req.Method == "POST" { // a 404 has the list of models asked for
					n++
				}
			}
			if n != 1 || len(r.paused()) != 0 {
				t.Errorf("asked %d times, paused %v", n, r.paused())
			}
		})
	}
}

// TestReasoningCountsAsPassed holds that nothing is asked again once a piece of
// the reasoning has gone out.
func TestReasoningCountsAsPassed(t *testing.T) {
	r, llm := patient(t, fakellm.Turn{Reasoning: "hm", End: fakellm.Cut, Times: fakellm.Forever})
	in := ask("hi", true)
	in.Events = true
	var got chunks
	_, err := r.infer(t.Context(), in, &got)
	if !errors.Is(err, proto.ErrUnavailable) || len(llm.Requests()) != 1 || !slices.Equal(got.events, []string{`{"type":"reasoning","text":"hm"}`}) {
		t.Errorf("got %v, %q after %d requests", err, got.events, len(llm.Requests()))
	}
}

// TestNotices holds that a retry is told to who asked for events, at once.
func TestNotices(t *testing.T) {
	for _, events := range []bool{true, false} {
		r, _ := patient(t, times(2, refused(429, "Retry-After: 2")), fakellm.Reply("answer"))
		in := ask("hi", true)
		in.Events = events
		var got chunks
		text, err := r.infer(t.Context(), in, &got)
		var want []string
		if events {
			want = []string{
				`{"type":"notice","kind":"retry","text":"HTTP 429: not now; asking again in 2s (1 of 4)","wait_ms":2000}`,
				`{"type":"notice","kind":"retry","text":"HTTP 429: not now; asking again in 2s (2 of 4)","wait_ms":2000}`,
			}
		}
		if err != nil || text != "answer" || !slices.Equal(got.events, want) {
			t.Errorf("events %v: got %q, %v, %q", events, text, err, got.events)
		}
		if !strings.Contains(r.log.String(), "asking again in 2s") {
			t.Error("the log says nothing")
		}
	}
}

// TestRefusedThenThere holds that a server which does not listen yet is asked
// again.
func TestRefusedThenThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := start(t, func(c *config.Config) { c.API.BaseURL = "http://" + at + "/v1" })
	r.pause = func(context.Context, time.Duration) error {
		llm, err := fakellm.Listen(at, fakellm.Reply("there now"))
		if err == nil {
			t.Cleanup(llm.Close)
		}
		return err
	}
	if text, err := r.infer(t.Context(), ask("hi", true), &chunks{}); err != nil || text != "there now" {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestHangUpInPause holds that a caller who goes does not keep anybody waiting.
func TestHangUpInPause(t *testing.T) {
	r, llm := patient(t, times(fakellm.Forever, refused(500)))
	began, ended := make(chan struct{}), make(chan error, 1)
	r.pause = func(ctx context.Context, _ time.Duration) error {
		close(began)
		err := pause(ctx, time.Hour)
		ended <- err
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := r.infer(ctx, ask("hi", true), &chunks{})
		failed <- err
	}()
	<-began
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the pause ended with %v", err)
	}
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller got %v", err)
	}
	if n := len(llm.Requests()); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if err := pause(t.Context(), time.Nanosecond); err != nil {
		t.Errorf("a pause ends with %v", err)
	}
}
