package agr

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/proto"
)

// TestSessionLimits: where the limit comes from; and that a turn which needs
// more ends with an error, the last calls not carried out.
func TestSessionLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, max  string
		configured int
		inferences int
	}{
		{"of the request", `,"max_iterations":2`, 7, 2},
		{"more than the configured one", `,"max_iterations":9`, 7, 9},
		{"the configured one", ``, 7, 7},
		{"null", `,"max_iterations":null`, 3, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			modes(t, func(t *testing.T, stream bool, more string) {
				b := startBench(t, func(cfg *config.Config) { cfg.Agr.SessionIterations = c.configured },
					slices.Repeat([]reply{asks("more ", nativeBash("a", "x"))}, 10)...)
				streamed, last := b.ask(request(question, c.max+more+inSession))
				if last.Type != "error" || last.Code != "too_large" || !strings.Contains(last.Message, fmt.Sprintf("limit of %d inferences", c.inferences)) || !strings.Contains(last.Message, "session_iterations") {
					t.Errorf("last packet %s", last.raw)
				}
				if n, m := len(b.rtr.asked()), len(b.exc.code()); n != c.inferences || m != c.inferences-1 {
					t.Errorf("%d inferences, %d runs", n, m)
				}
				if want := strings.Repeat("more ", c.inferences); stream && streamed != want {
					t.Errorf("streamed %q", streamed)
				}
			})
		})
	}
}

// TestAtTheLimit: an answer that asks for nothing is an answer, even the last
// that was allowed. Blocks in the text count like calls.
func TestAtTheLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		script []reply
		code   string
	}{
		{"an answer", []reply{asks("", nativeBash("a", "x")), says("Done.")}, ""},
		{"a block", []reply{asks("", nativeBash("a", "x")), says(bash("y"))}, "too_large"},
		{"a cut call", []reply{asks("", nativeBash("a", "x")), replies(proto.Text{ToolCalls: callList(native("a", "f", "{")), StopReason: "length"})}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, c.script...)
			if _, last := b.ask(request(question, inSession+`,"max_iterations":2`)); last.Code != c.code {
				t.Errorf("last packet %s", last.raw)
			}
		})
	}
	b := newBench(t)
	if _, last := b.ask(request(question, inSession+`,"max_iterations":0`)); last.raw != `{"type":"result","content":"","iterations":0}` {
		t.Errorf("no inference: %s", last.raw)
	}
}

// TestHangUpDuringCalls: the call that runs is cancelled, the calls behind it
// are not carried out, and nobody is asked again.
func TestHangUpDuringCalls(t *testing.T) {
	modes(t, func(t *testing.T, _ bool, more string) {
		n := newBlocked()
		b := newBench(t, asks("", nativeBash("a", "1"), nativeBash("b", "2"), nativeBash("c", "3")), says("never"))
		b.exc.does(func(ctx context.Context, req proto.Execute) (proto.Result, error) {
			if req.Code == "2" {
				return n.run(ctx, req)
			}
			return proto.Result{}, nil
		})
		b.leave(request(question, more+inSession), n)
		if n, ran := len(b.rtr.asked()), b.exc.code(); n != 1 || !slices.Equal(ran, []string{"bash:1", "bash:2"}) {
			t.Errorf("%d inferences, executed %q", n, ran)
		}
	})
}

// TestDeadlineDuringCalls: a deadline that passes ends the turn with one error.
// It passes for exc first, by less than a millisecond.
func TestDeadlineDuringCalls(t *testing.T) {
	b := newBench(t, asks("text", nativeBash("a", "1")), newBlocked().inference(""))
	b.exc.does(newBlocked().run)
	streamed, last := b.ask(request(question, `,"stream":true,"meta":{"deadline_ms":200}`+inSession))
	if streamed != "text" || last.Type != "error" || last.Code != "timeout" {
		t.Errorf("streamed %q, last packet %s", streamed, last.raw)
	}
	b.idle()
}
