package agr

import (
	"context"
	"errors"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/agr/toolbox"
)

// TestCallsOfExc: what exc is asked for, for its own tools and for code.
func TestCallsOfExc(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"", `,"stream":true`, told} {
		b := startBench(t, func(cfg *config.Config) { cfg.Agr.ToolOutputBytes = 4096 }, asks("",
			native("a", "read", " {\"path\" : \"<a>\"}\n"), native("b", "write", `"{\"path\":\"b\",\"content\":\"\\n\"}"`), native("c", "edit", ``), native("d", "bash", `null`),
			nativeBash("e", "x"), native("f", "task", `{"skill":"disk","request":"x"}`)), says("i"), says("code"), says("Done."))
		b.exc.answers(func(req proto.Call) proto.Raw { return toolbox.Said(req.Tool) })
		b.watch(request(question, `,"root":"/the/root"`+inSession+more))
		for i, got := range b.exc.calls() {
			want := []string{`{"path":"<a>"}`, `{"path":"b","content":"\n"}`, `{}`, `{}`}[i]
			if string(got.Input) != want || got.Tool != []string{"read", "write", "edit", "bash"}[i] || got.Root != "/the/root" || got.OutputBytes != 4096 || got.Events != (more == told) {
				t.Errorf("call %d: %+v with %s", i, got, got.Input)
			}
		}
		for _, got := range b.exc.runs() {
			if got.Root != "/the/root" {
				t.Errorf("%q is run in %q", got.Code, got.Root)
			}
		}
		if n, m := len(b.exc.calls()), len(b.exc.code()); n != 4 || m != 2 {
			t.Errorf("%d calls, %d runs", n, m)
		}
	}
}

// TestFaultsOfExc: whatever is wrong with exc is a result, and the loop goes on.
func TestFaultsOfExc(t *testing.T) {
	t.Parallel()
	answers := func(result string) func(context.Context, proto.Call, *rpc.Out) (proto.CallResult, error) {
		return func(context.Context, proto.Call, *rpc.Out) (proto.CallResult, error) {
			return proto.CallResult{Result: proto.Raw(result)}, nil
		}
	}
	const noResult = "tool_error: exc answered with something that is not a result"
	for _, c := range []struct {
		name string
		call func(context.Context, proto.Call, *rpc.Out) (proto.CallResult, error)
		want string
	}{
		{"busy", func(context.Context, proto.Call, *rpc.Out) (proto.CallResult, error) {
			return proto.CallResult{}, &proto.Error{Code: proto.CodeBusy, Message: "no process"}
		}, "tool_error: no process"},
		{"stopping", func(context.Context, proto.Call, *rpc.Out) (proto.CallResult, error) {
			return proto.CallResult{}, &proto.Error{Code: proto.CodeUnavailable, Message: "exc is stopping: try again"}
		}, "unavailable: exc is stopping: try again"},
		{"late", func(context.Context, proto.Call, *rpc.Out) (proto.CallResult, error) {
			return proto.CallResult{}, context.DeadlineExceeded
		}, "timeout: exc call: context deadline exceeded"},
		{"no object", answers(`["ok"]`), noResult},
		{"no ok", answers(`{"data":{}}`), noResult},
		{"bad UTF-8", answers("{\"ok\":true,\"data\":\"\xff\"}"), noResult},
		{"no output", func(_ context.Context, _ proto.Call, out *rpc.Out) (proto.CallResult, error) {
			return proto.CallResult{Result: toolbox.Said("")}, errors.Join(out.Frame([]byte(`{"type":"tool_output","text":[]}`)), out.Flush())
		}, "tool_error: exc answered with something that is not a packet: …"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, asks("", native("a", "bash", `{"command":"x"}`)), says("Done."))
			b.exc.carries(c.call)
			packets := b.watch(request(question, inSession+told))
			results := toolResults(t, b.rtr.asked()[1])
			beginning, _ := strings.CutSuffix(c.want, "…")
			if len(results) != 1 || !strings.HasPrefix(brief(t, results[0]), beginning) {
				t.Fatalf("the model sees %q", results)
			}
			compare(t, packets[1:3], begun("a", "bash"), finished("a", "bash", results[0]))
		})
	}
}

// TestServicesDown: exc and mem being out of reach are results, and so is an exc
// that hangs up.
func TestServicesDown(t *testing.T) {
	t.Parallel()
	b := newBench(t, asks("", native("a", "read", `{"path":"x"}`), nativeBash("b", "x"), native("c", "recall", `{"query":"x"}`), native("d", "remember", `{"text":"x"}`),
		native("e", "task", `{"skill":"disk","request":"x"}`)), says("i"), says("code"), says("sorry"), asks("", native("a", "read", `{"path":"x"}`)), says("sorry"))
	b.remembering()
	unlink(t, b.cfg.Exc.Socket)
	unlink(t, b.cfg.Mem.Socket)
	if _, last := b.ask(request(question, inSession)); last.text() != "sorry" {
		t.Errorf("last packet %s", last.raw)
	}
	for i, got := range toolResults(t, b.rtr.asked()[3]) {
		want := []string{
			"unavailable: Could not connect to exc: ", "unavailable: Could not connect to exc: ", "unavailable: Could not connect to mem: ", "unavailable: Could not connect to mem: ",
			"unavailable: Skill pipeline error: Could not connect to exc: ",
		}[i]
		if !strings.HasPrefix(brief(t, got), want) {
			t.Errorf("the model sees %s, want %s", got, want)
		}
	}
	rude(t, b.cfg.Exc.Socket, "")
	b.ask(request(question, inSession))
	if got := toolResults(t, b.rtr.asked()[5]); len(got) != 1 || !strings.HasPrefix(brief(t, got[0]), "unavailable: ") {
		t.Errorf("the model sees %q", got)
	}
}

// TestHangUpInSession: a caller who goes away ends whatever is under way, and
// nothing is started thereafter.
func TestHangUpInSession(t *testing.T) {
	t.Parallel()
	blockedCall := func(n *blocked) func(context.Context, proto.Call, *rpc.Out) (proto.CallResult, error) {
		return func(ctx context.Context, _ proto.Call, _ *rpc.Out) (proto.CallResult, error) {
			return proto.CallResult{}, n.wait(ctx)
		}
	}
	for _, c := range []struct {
		name       string
		script     func(*blocked) []reply
		inferences int
	}{
		{"inference", func(n *blocked) []reply { return []reply{n.inference("text " + bash("x"))} }, 1},
		{"pause before a retry", func(n *blocked) []reply {
			return []reply{func(ctx context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
				return proto.Text{}, errors.Join(out.Event(proto.TypeNotice, proto.Notice{Kind: "retry", Text: "wait", WaitMS: 30_000}), n.wait(ctx))
			}}
		}, 1},
		{"tool", func(*blocked) []reply {
			return []reply{asks("", native("a", "bash", `{}`), native("b", "bash", `{}`)), says("never")}
		}, 1},
		{"skill", func(n *blocked) []reply {
			return []reply{asks("", native("a", "task", `{"skill":"disk","request":"x"}`), native("b", "bash", `{}`)), n.inference("")}
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newBlocked()
			b := newBench(t, c.script(n)...)
			b.exc.carries(blockedCall(n))
			b.leave(request(question, inSession+told), n)
			calls := 0
			if c.name == "tool" {
				calls = 1
			}
			if asked, called, ran := len(b.rtr.asked()), len(b.exc.calls()), len(b.exc.code()); asked != c.inferences || called != calls || ran != 0 {
				t.Errorf("%d inferences, %d calls, %d runs", asked, called, ran)
			}
		})
	}
}

// TestSilentCaller: a caller that asked for no events is sent none, although exc
// and rtr remark things.
func TestSilentCaller(t *testing.T) {
	t.Parallel()
	text := proto.Text{Content: "Look. ", ToolCalls: callList(native("a", "bash", `{}`))}
	b := newBench(t, remarks(text), costing(proto.Text{Content: "Done."}, 1, 1))
	b.exc.carries(func(_ context.Context, _ proto.Call, out *rpc.Out) (proto.CallResult, error) {
		return proto.CallResult{Result: toolbox.Said("")}, out.Event(proto.TypeToolOutput, proto.ToolOutput{Text: "f"})
	})
	compare(t, b.watch(request(question, inSession+`,"stream":true`)), `{"type":"chunk","delta":"Look. "}`, `{"type":"chunk","delta":"Done."}`,
		`{"type":"done","full_text":"Done.","iterations":2,"usage":{"input_tokens":1,"output_tokens":1,"cache_read_tokens":1,"cache_write_tokens":2,"reasoning_tokens":3}}`)
}
