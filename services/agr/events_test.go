package agr

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// remarks replies with text between notices and other packets.
func remarks(text proto.Text) reply {
	return func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		err := errors.Join(
			out.Event(proto.TypeNotice, proto.Notice{Kind: "retry", Text: "again", WaitMS: 5}),
			out.Event(proto.TypeReasoning, proto.Reasoning{Text: "hm"}),
			out.Frame([]byte(`{"type":"keepalive"}`)), out.Frame([]byte(`{"type":"novelty"}`)), emit(out, text.Content))
		return text, err
	}
}

const (
	retrying  = `{"type":"notice","kind":"retry","text":"again","wait_ms":5}`
	reasoning = `{"type":"reasoning","text":"hm"}`
)

// TestEvents checks every packet of a turn with several tools.
func TestEvents(t *testing.T) {
	t.Parallel()
	cost := 0.5
	first := proto.Text{
		Content: "Look. ", State: proto.Raw(`{"s":1}`), StopReason: "tool_calls", Provider: "anthropic", Model: "m",
		Usage:     &proto.Usage{InputTokens: 10, OutputTokens: 2, CacheReadTokens: 3, CacheWriteTokens: 4, ReasoningTokens: 1, CostUSD: &cost},
		ToolCalls: callList(native("a", "bash", `{"command":"ls"}`), native("b", "edit", `{"path":"p"}`), nativeBash("c", "x")),
	}
	b := newEnv(t, remarks(first), says("Do", "ne."))
	b.exc.returns(proto.Result{Stdout: "out"})
	b.exc.onCall(func(_ context.Context, req proto.Call, out *rpc.Out) (proto.CallResult, error) {
		if req.Tool == "edit" {
			return proto.CallResult{Result: proto.Raw(failedWith(proto.ToolOldNotFound, "no")), Diff: "-a\n+b\n"}, nil
		}
		return proto.CallResult{Result: proto.Raw(ran("f"))}, errors.Join(
			out.Event(proto.TypeToolOutput, proto.ToolOutput{Text: "f", LeftOut: 7}), out.Event("novelty", proto.Empty{}), out.Event(proto.TypeToolOutput, proto.ToolOutput{Text: "g"}))
	})
	got := b.watch(request(question, withEvents+inSession))
	compare(t, got,
		retrying, reasoning, delta("Look. "),
		`{"type":"assistant_final","text":"Look. ","reasoning_state":{"s":1}}`,
		requested("a", "bash", `{"command":"ls"}`), requested("b", "edit", `{"path":"p"}`), requested("c", "execute_bash", `{"code":"x"}`),
		`{"type":"usage","input_tokens":10,"output_tokens":2,"cache_read_tokens":3,"cache_write_tokens":4,"reasoning_tokens":1,"cost_usd":0.5,"provider":"anthropic","model":"m"}`,
		begun("a", "bash"), `{"type":"tool_output","id":"a","text":"f","left_out":7}`, `{"type":"tool_output","id":"a","text":"g"}`, finished("a", "bash", ran("f")),
		begun("b", "edit"), `{"type":"tool_finished","id":"b","name":"edit","ok":false,"result":{"ok":false,"error":{"code":"old_not_found","message":"no"}},"duration_ms":0,"diff":"-a\n+b\n"}`,
		begun("c", "execute_bash"), finished("c", "execute_bash", ran("out")),
		delta("Do"), delta("ne."), final("Done."),
		`{"type":"done","full_text":"Done.","iterations":2,"usage":{"input_tokens":10,"output_tokens":2,"cache_read_tokens":3,"cache_write_tokens":4,"reasoning_tokens":1,"cost_usd":0.5}}`,
	)
	for i, req := range b.rtr.asked() {
		if !req.Events || req.Stream {
			t.Errorf("inference %d is asked with events %v, stream %v", i+1, req.Events, req.Stream)
		}
	}
	want := []string{ran("f"), `{"ok":false,"error":{"code":"old_not_found","message":"no"}}`, ran("out")}
	if results := toolResults(t, b.rtr.asked()[1]); !slices.Equal(results, want) {
		t.Errorf("the model sees %q", results)
	}
}

// TestStateWithoutText checks that the first call has the state if there is no
// text. White space around blocks does not count as text.
func TestStateWithoutText(t *testing.T) {
	t.Parallel()
	b := newEnv(t,
		replies(proto.Text{ToolCalls: callList(native("a", "read", `{}`), native("b", "read", `{}`)), State: proto.Raw(`[1]`)}),
		replies(proto.Text{Content: "\n" + bash("x") + "\n", State: proto.Raw(`[2]`)}),
		replies(proto.Text{Content: "Done.", State: proto.Raw(`[3]`)}))
	var got []string
	for _, packet := range b.watch(request(question, withEvents+inSession)) {
		if strings.Contains(packet, "requested") || strings.Contains(packet, "final") {
			got = append(got, packet)
		}
	}
	compare(t, got,
		`{"type":"tool_requested","id":"a","name":"read","input":{},"reasoning_state":[1]}`, requested("b", "read", "{}"),
		`{"type":"tool_requested","id":"","name":"execute_bash","input":{"code":"x"},"reasoning_state":[2]}`,
		`{"type":"assistant_final","text":"Done.","reasoning_state":[3]}`)
}

// TestPlainEvents checks that a plain run with events sends the same requests,
// and its calls are reported like those of a session.
func TestPlainEvents(t *testing.T) {
	t.Parallel()
	answer := "a " + bash("1") + " b " + block("nope", "x") + "<task>{}</task><tool_call>["
	script := []reply{says("a ", bash("1"), " b "+block("nope", "x")+"<task>{}</task><tool_", "call>["), costing(proto.Text{Content: "Done.", Provider: "p"}, 1, 2)}
	b, quiet := newEnv(t, script...), newEnv(t, script...)
	b.exc.returns(proto.Result{Stdout: "out"})
	quiet.exc.returns(proto.Result{Stdout: "out"})
	got := b.watch(request(question, withEvents))
	_, last := quiet.ask(request(question, `,"stream":true`))
	compare(t, got,
		delta("a "), requested("", "execute_bash", `{"code":"1"}`), begun("", "execute_bash"), finished("", "execute_bash", ran("out")),
		delta(" b "), requested("", "nope", `{"code":"x"}`), begun("", "nope"), finished("", "nope", failedWith("unknown_tool", "Unknown tool function 'nope'")),
		requested("", "task", `{}`), begun("", "task"), finished("", "task", failedWith("invalid_input", "Unknown skill ''")),
		delta("<tool_call>["), final("a  b <tool_call>["),
		delta("Done."), final("Done."), `{"type":"usage","input_tokens":1,"output_tokens":2,"cache_read_tokens":1,"cache_write_tokens":2,"reasoning_tokens":3,"provider":"p"}`,
		last.Raw)
	for i, want := range quiet.rtr.asked() {
		if req := b.rtr.asked()[i]; string(req.Messages) != string(want.Messages) || req.Tools != nil {
			t.Errorf("inference %d of %s\n got %s\nwant %s", i+1, answer, req.Messages, want.Messages)
		}
	}
}

// TestPacedEvents checks that the caller gets each piece before the model sends the
// next one. A bracket that may begin a tag is sent with the next piece.
func TestPacedEvents(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	b := newEnv(t, func(ctx context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		for _, piece := range []string{"one ", "two <", "b>"} {
			if err := errors.Join(emit(out, piece), rpctest.Until(ctx, release)); err != nil {
				return proto.Text{}, err
			}
		}
		return proto.Text{Content: "one two <b>"}, nil
	})
	c := rpctest.Dial(t, b.path)
	c.Send(request(question, withEvents+inSession))
	for _, visible := range [][]string{{"one "}, {"two "}, {"<", "b>"}} {
		for _, text := range visible {
			if p := c.Next(); p.Raw != delta(text) {
				t.Fatalf("got %s, want %q", p.Raw, text)
			}
		}
		release <- struct{}{}
	}
	compare(t, rest(c), final("one two <b>"), `{"type":"done","full_text":"one two <b>","iterations":1}`)
}

// TestEventsOfSkills checks that the usage of a skill's inferences is reported
// and their notices are forwarded, but not their text.
func TestEventsOfSkills(t *testing.T) {
	t.Parallel()
	b := newEnv(t, asks("", native("a", "task", `{"skill":"disk","request":"x"}`)), remarks(proto.Text{Content: "understood"}),
		costing(proto.Text{Content: "code", Model: "m"}, 5, 6), says("Done."))
	b.exc.returns(proto.Result{Stdout: "90%"})
	compare(t, b.watch(request(question, withEvents+inSession)),
		requested("a", "task", `{"skill":"disk","request":"x"}`), begun("a", "task"), retrying,
		`{"type":"usage","input_tokens":5,"output_tokens":6,"cache_read_tokens":1,"cache_write_tokens":2,"reasoning_tokens":3,"model":"m"}`,
		finished("a", "task", ran("90%")), delta("Done."), final("Done."),
		`{"type":"done","full_text":"Done.","iterations":2,"usage":{"input_tokens":5,"output_tokens":6,"cache_read_tokens":1,"cache_write_tokens":2,"reasoning_tokens":3}}`)
}

// TestEventsAtTheLimit checks that the text of the last answer and the limit are
// reported, but not its calls, which are not carried out.
func TestEventsAtTheLimit(t *testing.T) {
	t.Parallel()
	b := startEnv(t, func(cfg *config.Config) { cfg.Agr.SessionIterations = 2 },
		asks("one", nativeBash("a", "x")), replies(proto.Text{Content: "two" + bash("y"), ToolCalls: callList(nativeBash("b", "z")), State: proto.Raw(`[1]`)}))
	got := b.watch(request(question, withEvents+inSession))
	compare(t, got[:len(got)-1],
		delta("one"), final("one"), requested("a", "execute_bash", `{"code":"x"}`), begun("a", "execute_bash"), finished("a", "execute_bash", ran("")),
		delta("two"), final("two"),
		`{"type":"notice","kind":"limit","text":"The limit of 2 inferences is reached; what the last answer asked for was not carried out."}`)
	if last := got[len(got)-1]; !strings.HasPrefix(last, `{"type":"error","message":"The turn has reached its limit of 2 inferences`) || !strings.Contains(last, `"too_large"`) {
		t.Errorf("last packet %s", last)
	}
	if got := b.exc.code(); !slices.Equal(got, []string{"bash:x"}) {
		t.Errorf("executed %q", got)
	}
}

// TestErrorAfterEvents checks that text that was held back is sent before the
// error.
func TestErrorAfterEvents(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{inSession, ""} {
		b := newEnv(t, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			if err := errors.Join(emit(out, "par"), emit(out, "tial <task>{")); err != nil {
				return proto.Text{}, err
			}
			return proto.Text{}, &proto.Error{Code: proto.CodeBusy, Message: "cut", Kind: "http_status", Status: 529}
		})
		compare(t, b.watch(request(question, withEvents+mode)), delta("par"), delta("tial "), delta("<task>{"),
			`{"type":"error","message":"Agentic runtime error: rtr error: cut","code":"busy","service":"rtr","kind":"http_status","status":529}`)
	}
}

// TestNoticesOfExc checks that notices of a call and of code reach the caller, in their
// order.
func TestNoticesOfExc(t *testing.T) {
	t.Parallel()
	e := newEnv(t, asks("", native("a", "bash", `{"command":"x"}`)), says("Done."))
	e.exc.onCall(func(_ context.Context, _ proto.Call, out *rpc.Out) (proto.CallResult, error) {
		return proto.CallResult{Result: said("")}, out.Event(proto.TypeNotice, proto.Notice{Kind: proto.NoticeWarning, Text: "undo does not cover this"})
	})
	compare(t, e.watch(request(question, inSession+withEvents))[1:4], begun("a", "bash"), `{"type":"notice","kind":"warning","text":"undo does not cover this"}`, finished("a", "bash", string(said(""))))

	e = newEnv(t, asks("", native("a", "execute_bash", `{"code":"x"}`)), says("Done."))
	e.exc.returns(proto.Result{Undo: "undo does not cover shell commands here", UndoNotice: true})
	compare(t, e.watch(request(question, inSession+withEvents))[1:4], begun("a", "execute_bash"), `{"type":"notice","kind":"undo","text":"undo does not cover shell commands here"}`, finished("a", "execute_bash", ran("")))
}
