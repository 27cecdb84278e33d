package agr

import (
	"context"
	"errors"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

// emit sends one piece at once.
func emit(out *rpc.Out, piece string) error {
	return errors.Join(out.Text([]byte(piece)), out.Flush())
}

// until waits for ch, or for the end of the request.
func until(ctx context.Context, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestForwardsAtOnce: the reader has each piece before the model writes on.
func TestForwardsAtOnce(t *testing.T) {
	goOn := make(chan struct{})
	b := newBench(t, func(ctx context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		for _, piece := range []string{"one ", "two <", "three", "<ta", "b>"} {
			if err := errors.Join(emit(out, piece), until(ctx, goOn)); err != nil {
				return proto.Text{}, err
			}
		}
		return proto.Text{Content: "one two <three<tab>"}, nil
	})
	c := b.dial()
	c.send(request(question, `,"stream":true`))
	for _, visible := range []string{"one ", "two ", "<three", "", "<tab>"} {
		if visible != "" {
			c.read(visible)
		}
		goOn <- struct{}{}
	}
	if streamed, last := c.finish(); streamed != "" || last.text() != "one two <three<tab>" {
		t.Errorf("then %q, %s", streamed, last.raw)
	}
}

// TestExecutesAtTheClosingTag: the tool runs, and the reader has its result,
// while the model is still writing. The reader has the text before the block
// while the tool runs.
func TestExecutesAtTheClosingTag(t *testing.T) {
	running, finish, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{})
	b := newBench(t, func(ctx context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		call := bash("x")
		err := errors.Join(emit(out, "Look: "+call[:20]), emit(out, call[20:len(call)-1]), emit(out, ">"), until(ctx, goOn), emit(out, "tail"))
		return proto.Text{Content: "Look: " + call + "tail"}, err
	}, says("end"))
	b.exc.does(func(ctx context.Context, _ proto.Execute) (proto.Result, error) {
		close(running)
		return proto.Result{Stdout: "result"}, until(ctx, finish)
	})
	c := b.dial()
	c.send(request(question, `,"stream":true`))
	wait(t, running, "the tool")
	if got := c.read("Look: "); got != "Look: " {
		t.Errorf("before the tool: %q", got)
	}
	close(finish)
	if got := c.read("</tool_response>\n"); got != response("result") {
		t.Errorf("its result: %q", got)
	}
	close(goOn)
	if streamed, last := c.finish(); streamed != "tailend" || last.text() != "end" {
		t.Errorf("then %q, %s", streamed, last.raw)
	}
}

// TestResultIsShownBeforeTheNextInference: block and end of the answer may
// arrive in one piece; the reader still has the result while the model thinks.
func TestResultIsShownBeforeTheNextInference(t *testing.T) {
	for _, c := range []struct{ name, answer, shown string }{
		{"block at the end", bash("x"), response("(no output)")},
		{"text behind it", bash("x") + "tail", response("(no output)") + "tail"},
		{"half a tag behind it", bash("x") + "<ta", response("(no output)") + "<ta"},
	} {
		t.Run(c.name, func(t *testing.T) {
			goOn := make(chan struct{})
			b := newBench(t, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
				return proto.Text{Content: c.answer}, out.Text([]byte(c.answer)) // chunk and done in one write
			}, func(ctx context.Context, _ proto.Infer, _ *rpc.Out) (proto.Text, error) {
				return proto.Text{Content: ""}, until(ctx, goOn)
			})
			caller := b.dial()
			caller.send(request(question, `,"stream":true`))
			if got := caller.read(c.shown); got != c.shown {
				t.Errorf("shown %q", got)
			}
			close(goOn)
			if _, last := caller.finish(); last.iterations() != 2 || last.Type != "done" {
				t.Errorf("last packet %s", last.raw)
			}
		})
	}
}

// TestFormsAgree: however the router cuts its answers, collected and streamed
// requests come to the same text, and the stream lacks nothing but the blocks.
func TestFormsAgree(t *testing.T) {
	answer := "a <b <ta> é " + bash("1") + "<" + bash("2") + "\n<task>{}</task><tool_" + block("nope", "3") + " <task> unclosed"
	whole := strings.NewReplacer(
		bash("1"), bash("1")+response("out"), bash("2"), bash("2")+response("out"), "<task>{}</task>", "<task>{}</task>"+taskResponse("Error: Unknown skill ''"),
		block("nope", "3"), block("nope", "3")+response("Error: Unknown tool function 'nope'")).Replace(answer)
	visible := strings.NewReplacer(bash("1"), "", bash("2"), "", "<task>{}</task>", "", block("nope", "3"), "").Replace(whole)
	for _, size := range []int{1, 2, 7, 30, len(answer)} {
		var pieces []string
		for rest := answer; rest != ""; rest = rest[min(size, len(rest)):] {
			pieces = append(pieces, rest[:min(size, len(rest))])
		}
		pieces = wholeRunes(pieces)
		modes(t, func(t *testing.T, stream bool, more string) {
			b := newBench(t, says(pieces...))
			b.exc.returns(proto.Result{Stdout: "out"})
			streamed, last := b.ask(request(question, more+`,"max_iterations":1`))
			if last.text() != whole {
				t.Errorf("pieces of %d: the text is\n%q, want\n%q", size, last.text(), whole)
			}
			if stream && streamed != visible {
				t.Errorf("pieces of %d: streamed\n%q, want\n%q", size, streamed, visible)
			}
		})
	}
}

func taskResponse(result string) string {
	return "\n<task_response>\n" + result + "\n</task_response>\n"
}

// wholeRunes moves the bytes of a cut character to the piece where it ends, as
// a packet holds whole characters only.
func wholeRunes(pieces []string) []string {
	var whole []string
	pending := ""
	for _, piece := range pieces {
		if pending += piece; strings.ToValidUTF8(pending, "") == pending {
			whole, pending = append(whole, pending), ""
		}
	}
	return append(whole, pending)
}

// TestCollectedRouter: a router that cannot stream answers whole; the caller
// that asked for a stream has its text all the same, with tools carried out.
func TestCollectedRouter(t *testing.T) {
	whole := func(text string) reply {
		return func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			out.Collect()
			return proto.Text{Content: text}, nil
		}
	}
	b := newBench(t, whole("first "+bash("x")+" then"), whole("last"))
	streamed, last := b.ask(request(question, `,"stream":true`))
	if streamed != "first "+response("(no output)")+" thenlast" || last.raw != `{"type":"done","full_text":"last","iterations":2}` {
		t.Errorf("streamed %q, then %s", streamed, last.raw)
	}
}

// TestKeepalives: agr asks its neighbours for keepalives and passes none on to
// a caller that did not ask.
func TestKeepalives(t *testing.T) {
	modes(t, func(t *testing.T, _ bool, more string) {
		b := newBench(t, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			alive := []byte(`{"type":"keepalive"}`)
			err := errors.Join(out.Frame(alive), out.Text([]byte("a")), out.Frame(alive), out.Text([]byte("b")), out.Frame(alive))
			return proto.Text{Content: "ab"}, err
		})
		streamed, last := b.ask(request(question, more))
		if last.text() != "ab" || !strings.HasPrefix("ab", streamed) {
			t.Errorf("streamed %q, then %s", streamed, last.raw)
		}
	})
}

// TestSpacedChunks: chunks in another program's spelling are chunks.
func TestSpacedChunks(t *testing.T) {
	b := newBench(t, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		for _, packet := range []string{`{"delta": "a<task>{}</ta", "type": "chunk"}`, ` {"type": "chunk", "delta": "sk>\u00e9", "x": 1}`, `{"type":"chunk","delta":""}`, `{"type":"chunk","delta":null}`} {
			if err := out.Frame([]byte(packet)); err != nil {
				return proto.Text{}, err
			}
		}
		return proto.Text{Content: "ignored"}, nil
	}, says("done"))
	streamed, last := b.ask(request(question, `,"stream":true`))
	if want := "a" + taskResponse("Error: Unknown skill ''") + "édone"; streamed != want || last.text() != "done" {
		t.Errorf("streamed %q, want %q; then %s", streamed, want, last.raw)
	}
}
