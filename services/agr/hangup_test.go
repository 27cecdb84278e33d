package agr

import (
	"context"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

// blocked is a neighbour's handler that works until its caller hangs up.
type blocked struct {
	begun, cancelled chan struct{}
}

func newBlocked() *blocked { return &blocked{make(chan struct{}), make(chan struct{})} }

func (b *blocked) wait(ctx context.Context) error {
	close(b.begun)
	<-ctx.Done()
	close(b.cancelled)
	return ctx.Err()
}

// inference is a reply of some text that never ends.
func (b *blocked) inference(text string) reply {
	return func(ctx context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		if err := emit(out, text); err != nil {
			return proto.Text{}, err
		}
		return proto.Text{}, b.wait(ctx)
	}
}

// run is a run of code that never ends.
func (b *blocked) run(ctx context.Context, _ proto.Execute) (proto.Result, error) {
	return proto.Result{}, b.wait(ctx)
}

// leave has a caller ask, wait until the neighbour works, and hang up; the
// neighbour must see it.
func (b *bench) leave(payload string, n *blocked) {
	b.t.Helper()
	c := b.dial()
	c.send(payload)
	wait(b.t, n.begun, "the work to begin")
	c.nc.Close()
	wait(b.t, n.cancelled, "the work to be cancelled")
	b.idle()
}

func TestHangUpDuringInference(t *testing.T) {
	modes(t, func(t *testing.T, _ bool, more string) {
		n := newBlocked()
		b := newBench(t, n.inference("text <to"), says("never"))
		b.leave(request(question, more), n)
		if n := len(b.rtr.asked()); n != 1 {
			t.Errorf("%d inferences", n)
		}
	})
}

// TestHangUpDuringTool: the tool is cancelled, and so is the inference that is
// still writing; nothing is started thereafter.
func TestHangUpDuringTool(t *testing.T) {
	modes(t, func(t *testing.T, stream bool, more string) {
		n := newBlocked()
		writing := make(chan struct{})
		b := newBench(t, func(ctx context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
			defer close(writing)
			if req.Stream {
				if err := emit(out, bash("x")); err != nil {
					return proto.Text{}, err
				}
				<-ctx.Done()
			}
			return proto.Text{Content: bash("x") + bash("y")}, nil
		}, says("never"))
		b.exc.does(n.run)
		b.leave(request(question, more), n)
		wait(t, writing, "the inference to end")
		if n, ran := len(b.rtr.asked()), b.exc.code(); n != 1 || len(ran) != 1 {
			t.Errorf("%d inferences, executed %q", n, ran)
		}
	})
}

func TestHangUpDuringSkill(t *testing.T) {
	for i, name := range []string{"interpreter", "fabricator", "execution"} {
		t.Run(name, func(t *testing.T) {
			n := newBlocked()
			script := []reply{says(delegate("disk", "x") + bash("y")), says("i"), says("code"), says("never")}
			if i < 2 {
				script[i+1] = n.inference("")
			}
			b := newBench(t, script...)
			if i == 2 {
				b.exc.does(n.run)
			}
			b.leave(request(question, ""), n)
			if asked, ran := len(b.rtr.asked()), len(b.exc.code()); asked != min(i+2, 3) || ran != i/2 {
				t.Errorf("%d inferences, %d executed", asked, ran)
			}
		})
	}
}

// TestHangUpInLaterInference: the loop's second round is cancelled as well.
func TestHangUpInLaterInference(t *testing.T) {
	n := newBlocked()
	b := newBench(t, says(bash("x")), n.inference("more"), says("never"))
	b.leave(request(question, `,"stream":true`), n)
	if n := len(b.rtr.asked()); n != 2 {
		t.Errorf("%d inferences", n)
	}
}

// TestHalfClose: a caller that only ended its sending side has its answer, and
// then the end.
func TestHalfClose(t *testing.T) {
	modes(t, func(t *testing.T, stream bool, more string) {
		b := newBench(t, says("a", bash("x")), says("b"))
		c := b.dial()
		c.send(request(question, more))
		if err := c.nc.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		var streamed strings.Builder
		p := c.next()
		for ; p.Type == "chunk"; p = c.next() {
			streamed.WriteString(p.Delta)
		}
		if p.text() != "b" || p.iterations() != 2 || stream && streamed.String() != "a"+response("(no output)")+"b" {
			t.Errorf("streamed %q, then %s", streamed.String(), p.raw)
		}
		if end := c.next(); end.Type != "" {
			t.Errorf("after the terminal packet: %s", end.raw)
		}
	})
}

// TestDeadline: a deadline that passes cancels the work, and ends it with one
// error after the text so far.
func TestDeadline(t *testing.T) {
	modes(t, func(t *testing.T, _ bool, more string) {
		b := newBench(t, newBlocked().inference("text"))
		streamed, last := b.ask(request(question, more+`,"meta":{"deadline_ms":200}`))
		if last.Type != "error" || last.Code != "timeout" || !strings.HasPrefix("text", streamed) {
			t.Errorf("streamed %q, then %s", streamed, last.raw)
		}
		b.idle()
	})
}

// TestShutdown: a turn that is cancelled because the service ends has its text,
// what was held back included, and one terminal packet.
func TestShutdown(t *testing.T) {
	n := newBlocked()
	b := newBench(t, n.inference("text <task>{"))
	c := b.dial()
	c.send(request(question, `,"stream":true`))
	c.read("text ")
	wait(t, n.begun, "the inference")
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- b.server.Shutdown(expired) }()
	if rest := c.read("{"); rest != "<task>{" {
		t.Errorf("the rest is %q", rest)
	}
	if p := c.next(); p.Type != "error" || p.Code != "canceled" {
		t.Errorf("the turn ends with %s", p.raw)
	}
	if p := c.next(); p.Type != "" {
		t.Errorf("then came %s", p.raw)
	}
	wait(t, stopped, "the shutdown")
	wait(t, n.cancelled, "the inference to be cancelled")
}

// TestSideBySide: turns do not wait for each other.
func TestSideBySide(t *testing.T) {
	const turns = 8
	arrived, goOn := make(chan struct{}), make(chan struct{})
	script := make([]reply, turns)
	for i := range script {
		script[i] = func(ctx context.Context, _ proto.Infer, _ *rpc.Out) (proto.Text, error) {
			arrived <- struct{}{}
			return proto.Text{Content: "done"}, until(ctx, goOn)
		}
	}
	b := newBench(t, script...)
	callers := make([]*caller, turns)
	for i := range callers {
		callers[i] = b.dial()
		callers[i].send(request(question, ""))
	}
	for range turns {
		wait(t, arrived, "all inferences to be under way")
	}
	close(goOn)
	for _, c := range callers {
		if _, last := c.finish(); last.text() != "done" {
			t.Errorf("last packet %s", last.raw)
		}
	}
}
