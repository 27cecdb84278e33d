package agr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// inSession makes a request that of a session's turn.
const inSession = `,"session_id":"s-1"`

// replies answers with all that a text has.
func replies(text proto.Text) reply {
	return func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		return text, errors.Join(out.Text([]byte(text.Content)), out.Flush())
	}
}

// asks answers with text and native calls.
func asks(text string, calls ...string) reply {
	return replies(proto.Text{Content: text, ToolCalls: callList(calls...), StopReason: "tool_calls"})
}

func callList(calls ...string) proto.Raw { return proto.Raw("[" + strings.Join(calls, ",") + "]") }

// native is a call as rtr gives it; arguments are the text that the model wrote.
func native(id, function, arguments string) string {
	return `{"id":` + quote(id) + `,"type":"function","function":{"name":` + quote(function) + `,"arguments":` + quote(arguments) + `}}`
}

// nativeBash is a native call that runs code.
func nativeBash(id, code string) string {
	return native(id, "execute_bash", `{"code":`+quote(code)+`}`)
}

func quote(s string) string { return string(wire.AppendString(nil, s)) }

// result is a message that answers a call.
func result(id, content string) string {
	return `{"role":"tool","content":` + quote(content) + `,"tool_call_id":` + quote(id) + `}`
}

// calling is the message of an answer with calls.
func calling(text, state string, calls ...string) string {
	if state != "" {
		state = `,"reasoning_state":` + state
	}
	return `{"role":"assistant","content":` + quote(text) + `,"tool_calls":` + string(callList(calls...)) + state + `}`
}

// TestNativeCalls: several calls in one answer are carried out in their order,
// and each has its result in the next request. Calls and reasoning state go
// back as they came, and earlier messages stay as they are.
func TestNativeCalls(t *testing.T) {
	t.Parallel()
	const messages = `[ {"role":"system","content":"a\u003cb", "x":[1, 2]},` + "\n" + `{"content":"é","role":"user"} ]`
	const state = `{ "signature" : ["\u003c", 1.0, 1e2] }`
	odd := `{ "type":"function", "extra_content":{"n": 1.50, "s":"\u003c"}, "function":{"arguments":"{\"code\":\"<b>\"}","name":"execute_python3"}, "id":"b" }`
	delegated := native("c", "task", `{"skill":"disk","request":"how full?"}`)
	modes(t, func(t *testing.T, stream bool, more string) {
		b := newBench(t,
			replies(proto.Text{Content: "Look. ", ToolCalls: callList(nativeBash("a", "date"), odd, delegated), State: proto.Raw(state), StopReason: "tool_calls"}),
			says("understood"), says("df"), asks("", nativeBash("a", "id")), says("Done."))
		b.exc.does(func(_ context.Context, req proto.Execute) (proto.Result, error) {
			return proto.Result{Stdout: "<" + req.Code + ">\n"}, nil
		})
		streamed, last := b.ask(request(messages, more+inSession))
		if last.text() != "Done." || last.iterations() != 3 || stream && streamed != "Look. Done." || !stream && streamed != "" {
			t.Errorf("streamed %q, last packet %s", streamed, last.raw)
		}
		if got := b.exc.code(); !slices.Equal(got, []string{"bash:date", "python3:<b>", "bash:df", "bash:id"}) {
			t.Errorf("executed %q", got)
		}
		base := strings.TrimSuffix(messages, "]")
		one := base + "," + calling("Look. ", state, nativeBash("a", "date"), odd, delegated) +
			"," + result("a", ran("<date>\n")) + "," + result("b", ran("<<b>>\n")) + "," + result("c", ran("<df>\n"))
		two := one + "," + calling("", "", nativeBash("a", "id")) + "," + result("a", ran("<id>\n"))
		for i, want := range map[int]string{0: messages, 3: one + "]", 4: two + "]"} {
			if got := string(b.rtr.asked()[i].Messages); got != want {
				t.Errorf("inference %d\n got %s\nwant %s", i+1, got, want)
			}
		}
	})
}

// TestTextBeforeCalls: the reader has the text while the calls are carried out.
func TestTextBeforeCalls(t *testing.T) {
	running, goOn := make(chan struct{}), make(chan struct{})
	b := newBench(t, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		return proto.Text{Content: "Look: <", ToolCalls: callList(nativeBash("a", "x"))}, out.Text([]byte("Look: <")) // chunk and done in one write
	}, says("end"))
	b.exc.does(func(ctx context.Context, _ proto.Execute) (proto.Result, error) {
		close(running)
		return proto.Result{Stdout: "result"}, until(ctx, goOn)
	})
	c := b.dial()
	c.send(request(question, `,"stream":true`+inSession))
	wait(t, running, "the tool")
	if got := c.read("<"); got != "Look: <" {
		t.Errorf("before the tool: %q", got)
	}
	close(goOn)
	if streamed, last := c.finish(); streamed != "end" || last.text() != "end" {
		t.Errorf("then %q, %s", streamed, last.raw)
	}
}

// TestIdentifiers: whatever identifiers the calls come with, in the next request
// each has one of its own and exactly one result.
func TestIdentifiers(t *testing.T) {
	t.Parallel()
	made := regexp.MustCompile(`^[A-Z0-9]{9}$`)
	without := func(id string) string {
		return `{` + id + `"type":"function","x":"\u003c","function":{"name":"execute_bash","arguments":"{\"code\":\"1\"}"}}`
	}
	for _, c := range []struct{ ids, want []string }{ // "": one that is made up
		{[]string{`"id":"a",`, `"id":"b",`, `"id":"c",`}, []string{"a", "b", "c"}},
		{[]string{``, ``, ``}, []string{"", "", ""}},
		{[]string{`"id":"",`, `"id":null,`, ``}, []string{"", "", ""}},
		{[]string{`"id":"a",`, `"id":"a",`, `"id":"a",`}, []string{"a", "", ""}},
		{[]string{`"id":"a",`, `"id":"b",`, `"id":"\u0061",`}, []string{"a", "b", ""}},
		{[]string{`"id":"a","id":"b",`, `"id":"b","id":"c",`, `"id":"c",`}, []string{"b", "c", ""}},
		{[]string{`"id":"a",`, ``, `"id":"a",`, `"id":"b",`, ``}, []string{"a", "", "", "b", ""}},
	} {
		var calls []string
		for _, id := range c.ids {
			calls = append(calls, without(id))
		}
		b := newBench(t, asks("", calls...), says("Done."))
		n := 0
		b.exc.does(func(context.Context, proto.Execute) (proto.Result, error) {
			n++
			return proto.Result{Stdout: fmt.Sprint("result ", n)}, nil
		})
		if _, last := b.ask(request(question, inSession)); last.text() != "Done." {
			t.Fatalf("%q: last packet %s", c.ids, last.raw)
		}
		for i, id := range paired(t, b.rtr.asked()[1], len(c.ids)) {
			if c.want[i] != "" && id != c.want[i] || c.want[i] == "" && !made.MatchString(id) {
				t.Errorf("%q: call %d has the id %q, want %q", c.ids, i, id, c.want[i])
			}
		}
	}
}

// paired checks that the last messages are one with n calls and their results
// in order, and returns the identifiers.
func paired(t *testing.T, req proto.Infer, n int) (ids []string) {
	t.Helper()
	var messages []struct {
		Role, Content string
		ToolCalls     []struct {
			ID, X    string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
		ToolCallID string `json:"tool_call_id"`
	}
	if err := json.Unmarshal(req.Messages, &messages); err != nil || len(messages) < n+1 {
		t.Fatalf("%s: %v", req.Messages, err)
	}
	messages = messages[len(messages)-n-1:]
	if len(messages[0].ToolCalls) != n || messages[0].Role != "assistant" {
		t.Fatalf("%s: want %d calls", req.Messages, n)
	}
	for i, c := range messages[0].ToolCalls {
		r := messages[i+1]
		if r.Role != "tool" || r.ToolCallID != c.ID || c.ID == "" || slices.Contains(ids, c.ID) || r.Content != ran(fmt.Sprint("result ", i+1)) {
			t.Errorf("call %d has the id %q, its result is %+v", i, c.ID, r)
		}
		if c.X != "<" || c.Function.Name != "execute_bash" || c.Function.Arguments != `{"code":"1"}` {
			t.Errorf("call %d has changed: %+v", i, c)
		}
		ids = append(ids, c.ID)
	}
	return ids
}
