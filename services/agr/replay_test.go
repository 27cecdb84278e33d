package agr

import (
	"context"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

// TestEarlierMessages: earlier messages are copied, never decoded. These could
// not be: their text is delimited like JSON and is none.
func TestEarlierMessages(t *testing.T) {
	strange := `[{"role":"user","content":"\q` + strings.Repeat("0123456789", 10<<10) + "\xff" + `"}, {"role" :x}]`
	b := newBench(t, asks("one", nativeBash("a", "x")), says("two "+bash("y")), asks("three", nativeBash("b", "z")), says("Done."))
	if _, last := b.ask(request(strange, inSession)); last.text() != "Done." {
		t.Fatalf("last packet %s", last.raw)
	}
	want := strings.TrimSuffix(strange, "]") + "," + calling("one", "", nativeBash("a", "x")) + "," + result("a", ran("")) +
		"," + calling("two ", "", nativeBash("", "y")) + "," + result("", ran("")) + "," + calling("three", "", nativeBash("b", "z")) + "," + result("b", ran("")) + "]"
	if got := nameless(b.rtr.asked()[3].Messages); got != want {
		t.Errorf("got %d bytes, ending\n%s, want\n%s", len(got), got[max(0, len(got)-600):], want[len(want)-600:])
	}
}

// TestReasoningState: it goes back with the calls that it came with, and with
// nothing else.
func TestReasoningState(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, state, want string }{
		{"none", "", ""},
		{"null", "null", ""},
		{"odd", "{ \"a\":1.0,\t\"b\" : \"\\u003c\\/\"}", "{ \"a\":1.0,\t\"b\" : \"\\u003c\\/\"}"},
		{"a list", `[1, 2]`, `[1, 2]`},
		{"large", `{"s":"` + strings.Repeat("x", 100<<10) + `"}`, `{"s":"` + strings.Repeat("x", 100<<10) + `"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			modes(t, func(t *testing.T, _ bool, more string) {
				var state proto.Raw // nil for none: an empty one goes out as an empty list
				if c.state != "" {
					state = proto.Raw(c.state)
				}
				b := newBench(t, replies(proto.Text{ToolCalls: callList(nativeBash("a", "x")), State: state}),
					replies(proto.Text{Content: bash("y"), State: proto.Raw(`{"of":"text"}`)}), says("Done."))
				b.ask(request(question, more+inSession))
				want := strings.TrimSuffix(question, "]") + "," + calling("", c.want, nativeBash("a", "x")) + "," + result("a", ran("")) + "," + calling("", `{"of":"text"}`, nativeBash("", "y")) + "," + result("", ran("")) + "]"
				if got := nameless(b.rtr.asked()[2].Messages); got != want {
					t.Errorf("got  %.500s\nwant %.500s", got, want)
				}
			})
		})
	}
}

// TestBrokenRouter: calls or a state that cannot be read are rtr's fault and end
// the turn, before anything is carried out.
func TestBrokenRouter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ calls, state, says string }{
		{`{}`, ``, "tool_calls"},
		{`"x"`, ``, "tool_calls"},
		{`[1]`, ``, "tool_calls"},
		{`[null]`, ``, "tool_calls"},
		{`[` + nativeBash("a", "x") + `,{"id":7}]`, ``, "tool_calls"},
		{`[` + nativeBash("a", "x") + `,x]`, ``, "tool_calls"},
		{`[` + nativeBash("a", "x") + `]`, `{x}`, "reasoning_state"},
		{`[` + nativeBash("a", "x") + `]`, "{\"a\":\"\xff\"}", "reasoning_state"},
	} {
		b := newBench(t, replies(proto.Text{Content: "text", ToolCalls: proto.Raw(c.calls), State: proto.Raw(c.state)}))
		_, last := b.ask(request(question, inSession))
		if last.Type != "error" || last.Code != "internal" || !strings.Contains(last.Message, c.says) || !strings.Contains(last.Message, "rtr") || len(b.exc.code()) > 0 {
			t.Errorf("%s %s: executed %q, last packet %s", c.calls, c.state, b.exc.code(), last.raw)
		}
	}
}

// TestSessionErrors: the provider's error ends the turn as ever, after a call
// was carried out.
func TestSessionErrors(t *testing.T) {
	b := newBench(t, asks("", nativeBash("a", "x")), func(context.Context, proto.Infer, *rpc.Out) (proto.Text, error) {
		return proto.Text{}, &proto.Error{Code: proto.CodeBudget, Message: "usd_per_day is reached", Service: "rtr", Kind: "api_error"}
	})
	_, last := b.ask(request(question, inSession))
	if want := `{"type":"error","message":"Agentic runtime error: rtr error: usd_per_day is reached","code":"budget","service":"rtr","kind":"api_error"}`; last.raw != want {
		t.Errorf("got  %s\nwant %s", last.raw, want)
	}
}
