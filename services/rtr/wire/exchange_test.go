package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"zino/pkg/fakellm"
	"zino/proto"
	"zino/services/rtr/retry"
)

// watching is a sink that looks at the exchange's clock whenever an event or a
// flush comes to it.
type watching struct {
	x       *exchange
	running bool // the clock ran while the caller had the turn
	fail    error
	n       int // bytes of text
}

// Event looks at the clock.
func (w *watching) Event(e Event) error { w.n += len(e.Delta); return w.Flush() }

// Flush looks at the clock.
func (w *watching) Flush() error {
	if w.x.timer.Stop() {
		w.running = true
	}
	return w.fail
}

// watch asks with a sink that watches the exchange's clock.
func watch(t *testing.T, base string, fail error) (*watching, error) {
	t.Helper()
	ep := realEndpoint(t, base)
	req := ask(t, nil)
	body, err := completionBody(req, "openai")
	if err != nil {
		t.Fatal(err)
	}
	sink := &watching{fail: fail}
	sink.x = ep.begin(t.Context(), req, body, true, sink)
	defer sink.x.end()
	if err := sink.x.post("/chat/completions", ep.bearer); err != nil {
		return sink, err
	}
	ev, err := sink.x.open()
	if err != nil {
		return sink, err
	}
	answer := completion{x: sink.x, events: ev, name: "openai"}
	return sink, answer.read()
}

// TestClockStands holds that the provider's clock stands still while the caller
// is written to.
func TestClockStands(t *testing.T) {
	llm := fakellm.New(fakellm.Turn{Text: strings.Repeat("x", 2000), Size: 10})
	defer llm.Close()
	sink, err := watch(t, llm.URL, nil)
	if err != nil || sink.n != 2000 || sink.running {
		t.Errorf("got %d bytes, %v; the clock ran while the caller was written to: %v", sink.n, err, sink.running)
	}
}

// TestCallerGone holds that a caller that cannot be written to ends the
// exchange with the error of writing.
func TestCallerGone(t *testing.T) {
	llm := fakellm.New(fakellm.Turn{Text: "x", End: fakellm.Stall})
	defer llm.Close()
	broken := errors.New("broken pipe")
	if _, err := watch(t, llm.URL, broken); err != broken {
		t.Errorf("got %v", err)
	}
	<-llm.Requests()[0].Gone
}

// paced is a transport whose answers come piece by piece, each after a pause.
type paced struct {
	pause  time.Duration
	pieces []string
	more   string // follows for ever, if it is not empty
}

// RoundTrip answers with status 200.
func (p *paced) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(&pacedBody{*p, req.Context()}), Request: req}, nil
}

type pacedBody struct {
	paced
	ctx context.Context
}

// Read waits, and gives the next piece.
func (b *pacedBody) Read(p []byte) (int, error) {
	select {
	case <-time.After(b.pause):
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
	if len(b.pieces) == 0 {
		if b.more == "" {
			return 0, io.EOF
		}
		return copy(p, b.more), nil
	}
	n := copy(p, b.pieces[0])
	b.pieces = b.pieces[1:]
	return n, nil
}

// slow is a sink that takes its time.
type slow struct {
	gathered
	event, flush time.Duration
}

// Event takes long.
func (s *slow) Event(e Event) error { <-time.After(s.event); return s.gathered.Event(e) }

// Flush takes long.
func (s *slow) Flush() error { <-time.After(s.flush); return nil }

// TestTime holds what is waited for and for how long: in a bubble, whose time
// passes only while everybody waits.
func TestTime(t *testing.T) {
	const event = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	done := strings.Split(strings.Repeat(event, 20)+"data: [DONE]\n\n", "\n\n")
	for i := range done {
		done[i] += "\n\n"
	}
	for _, tt := range []struct {
		name   string
		body   paced
		sink   slow
		stall  time.Duration
		whole  bool
		text   int
		err    string
		passed time.Duration // until the end
	}{
		{"as slow as allowed", paced{59 * time.Second, done, ""}, slow{}, time.Minute, false, 20, "", 21 * 59 * time.Second},
		{"no limit", paced{time.Hour, done, ""}, slow{}, 0, false, 20, "", 21 * time.Hour},
		{"silence", paced{time.Hour, []string{event}, ""}, slow{}, time.Minute, false, 0, "sent nothing for 60s", time.Minute},
		{"a slow caller", paced{time.Second, done, ""}, slow{event: 10 * time.Minute}, time.Minute, false, 20, "", 21*time.Second + 21*10*time.Minute},
		{"a caller slow to be flushed", paced{time.Second, done, ""}, slow{flush: 10 * time.Minute}, time.Minute, false, 20, "", 0},
		{"comments only", paced{10 * time.Millisecond, []string{event}, ": ping\n\n"}, slow{}, 50 * time.Millisecond, false, 1, "sent no part of an answer for 0.25s, only comments", 0},
		{"comments before anything", paced{10 * time.Millisecond, nil, ": ping\n\n"}, slow{}, 50 * time.Millisecond, false, 0, "sent no part of an answer for 0.25s, only comments", 250 * time.Millisecond},
		{"a whole answer", paced{599 * time.Second, []string{`{"choices":[{"message":{"content":"a"}}]}`}, ""}, slow{}, time.Minute, true, 1, "", 2 * 599 * time.Second},
		{"no whole answer", paced{601 * time.Second, []string{`{"choices":[{"message":{"content":"a"}}]}`}, ""}, slow{}, time.Minute, true, 0, "sent nothing for 600s", 600 * time.Second},
		{"no mark after the reason", paced{time.Second, []string{"data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n"}, ": ping\n\n"}, slow{}, time.Minute, false, 1, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ep, _ := endpointFor(t)
				ep.Client.Transport, ep.Stall = &tt.body, tt.stall
				before := time.Now()
				err := OpenAI(t.Context(), ep, ask(t, func(r *Request) { r.Stream = !tt.whole }), &tt.sink)
				if took := time.Since(before); tt.passed != 0 && took != tt.passed {
					t.Errorf("took %v, want %v", took, tt.passed)
				}
				<-time.After(2 * drainTime) // until the rest of the body is given up
				if n := len(tt.sink.Text()); n != tt.text || (err == nil) != (tt.err == "") {
					t.Errorf("got %d deltas, %v", n, err)
				}
				if tt.err == "" {
					return
				}
				f, ok := errors.AsType[*Fault](err)
				if !ok || !strings.Contains(f.Message, tt.err) || f.Kind != kindTimeout || f.Code != proto.CodeTimeout || f.Verdict.Class != retry.Stop {
					t.Errorf("got %#v", err)
				}
			})
		})
	}
}
