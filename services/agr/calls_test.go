package agr

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// TestNativeCalls checks that several calls in one answer are carried out in order,
// that each has its result in the next request, and that calls, reasoning state and
// earlier messages are sent back unchanged.
func TestNativeCalls(t *testing.T) {
	t.Parallel()
	const messages = `[ {"role":"system","content":"a\u003cb", "x":[1, 2]},` + "\n" + `{"content":"é","role":"user"} ]`
	const state = `{ "signature" : ["\u003c", 1.0, 1e2] }`
	odd := `{ "type":"function", "extra_content":{"n": 1.50, "s":"\u003c"}, "function":{"arguments":"{\"code\":\"<b>\"}","name":"execute_python3"}, "id":"b" }`
	delegated := native("c", "task", `{"skill":"disk","request":"how full?"}`)
	rpctest.Modes(t, func(t *testing.T, stream bool, more string) {
		b := newEnv(t,
			replies(proto.Text{Content: "Look. ", ToolCalls: callList(nativeBash("a", "date"), odd, delegated), State: proto.Raw(state), StopReason: "tool_calls"}),
			says("understood"), says("df"), asks("", nativeBash("a", "id")), says("Done."))
		b.exc.onRun(func(_ context.Context, req proto.Execute) (proto.Result, error) {
			return proto.Result{Stdout: "<" + req.Code + ">\n"}, nil
		})
		streamed, last := b.ask(request(messages, more+inSession))
		if last.Text() != "Done." || last.Iterations != 3 || stream && streamed != "Look. Done." || !stream && streamed != "" {
			t.Errorf("streamed %q, last packet %s", streamed, last.Raw)
		}
		if got := b.exc.code(); !slices.Equal(got, []string{"bash:date", "python3:<b>", "bash:df", "bash:id"}) {
			t.Errorf("executed %q", got)
		}
		base := "[" + strings.Trim(messages, "[ ]") // without the white space around the list
		one := base + "," + calling("Look. ", state, nativeBash("a", "date"), odd, delegated) +
			"," + answering("a", ran("<date>\n")) + "," + answering("b", ran("<<b>>\n")) + "," + answering("c", ran("<df>\n"))
		two := one + "," + calling("", "", nativeBash("a", "id")) + "," + answering("a", ran("<id>\n"))
		for i, want := range map[int]string{0: messages, 3: one + "]", 4: two + "]"} {
			if got := string(b.rtr.asked()[i].Messages); got != want {
				t.Errorf("inference %d\n got %s\nwant %s", i+1, got, want)
			}
		}
	})
}

// TestTextBeforeCalls checks that the caller gets the text before the calls are
// carried out.
func TestTextBeforeCalls(t *testing.T) {
	running, release := make(chan struct{}), make(chan struct{})
	b := newEnv(t, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		return proto.Text{Content: "Look: <", ToolCalls: callList(nativeBash("a", "x"))}, out.Text([]byte("Look: <")) // chunk and done in one write
	}, says("end"))
	b.exc.onRun(func(ctx context.Context, _ proto.Execute) (proto.Result, error) {
		close(running)
		return proto.Result{Stdout: "result"}, rpctest.Until(ctx, release)
	})
	c := rpctest.Dial(t, b.path)
	c.Send(request(question, `,"stream":true`+inSession))
	zinotest.Receive(t, "the tool", running)
	if got := c.Streamed("<"); got != "Look: <" {
		t.Errorf("before the tool: %q", got)
	}
	close(release)
	if streamed, last := c.Finish(); streamed != "end" || last.Text() != "end" {
		t.Errorf("then %q, %s", streamed, last.Raw)
	}
}

// TestIdentifiers checks that in the next request each call has a unique identifier
// and exactly one result, whatever identifiers the model sent.
func TestIdentifiers(t *testing.T) {
	t.Parallel()
	made := regexp.MustCompile(`^[A-Z0-9]{9}$`)
	without := func(id string) string {
		return `{` + id + `"type":"function","x":"\u003c","function":{"name":"execute_bash","arguments":"{\"code\":\"1\"}"}}`
	}
	for _, c := range []struct{ ids, want []string }{ // "": a generated one
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
		b := newEnv(t, asks("", calls...), says("Done."))
		n := 0
		b.exc.onRun(func(context.Context, proto.Execute) (proto.Result, error) {
			n++
			return proto.Result{Stdout: fmt.Sprint("result ", n)}, nil
		})
		if _, last := b.ask(request(question, inSession)); last.Text() != "Done." {
			t.Fatalf("%q: last packet %s", c.ids, last.Raw)
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

// TestBlocksAreCalls checks that blocks in a session's text are removed from it and
// carried out after the end of the answer, before the native calls, however the text
// is split into packets. The model sees them as calls.
func TestBlocksAreCalls(t *testing.T) {
	t.Parallel()
	answer := "One " + bash("1") + " two <ta" + "<tool_call>{\"name\":\"read\",\"arguments\":\n{\"path\":\"<p>\"}}</tool_call>" +
		`<task>{"skill":"nope","request":"x"}</task><tool_call>{</tool_call><task>`
	const text = "One  two <ta<task>"
	var script []reply
	for cut := range len(answer) {
		script = append(script, func(ctx context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
			whole, err := says(answer[:cut], answer[cut:])(ctx, req, out)
			whole.ToolCalls = callList(nativeBash("x", "2"))
			return whole, err
		}, says("Done."))
	}
	b := newEnv(t, script...)
	malformed := failedWith("invalid_input", "Malformed tool_call JSON: unexpected end of JSON input")
	want := strings.TrimSuffix(question, "]") + "," + calling(text, "",
		nativeBash("", "1"), native("", "read", `{"path":"<p>"}`), native("", "task", `{"skill":"nope","request":"x"}`), native("", "tool_call", `{"_malformed":"{"}`), nativeBash("x", "2")) +
		"," + answering("", ran("")) + "," + answering("", string(said(""))) + "," + answering("", failedWith("invalid_input", "Unknown skill 'nope'")) +
		"," + answering("", string(malformed)) + "," + answering("x", ran("")) + "]"
	for cut := range len(answer) {
		more := []string{"", `,"stream":true`, withEvents}[cut%3]
		packets := b.watch(request(question, inSession+more))
		if got := spoken(t, packets); more != "" && got != text+"Done." {
			t.Fatalf("cut at %d: streamed %q", cut, got)
		}
		if got := withoutIDs(b.rtr.asked()[2*cut+1].Messages); got != want {
			t.Fatalf("cut at %d:\n got %s\nwant %s", cut, got, want)
		}
		if got := b.exc.code()[2*cut:]; !slices.Equal(got, []string{"bash:1", "bash:2"}) {
			t.Fatalf("cut at %d: executed %q", cut, got)
		}
	}
}

// spoken returns the text in chunks or events.
func spoken(t *testing.T, packets []string) (text string) {
	t.Helper()
	for _, raw := range packets {
		var p struct{ Type, Delta, Text string }
		if err := json.Unmarshal([]byte(raw), &p); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		if p.Type == "chunk" || p.Type == "assistant_delta" {
			text += p.Delta + p.Text
		}
	}
	return text
}

// TestMalformedBlocks checks that a malformed block is a call with an error as its
// result.
func TestMalformedBlocks(t *testing.T) {
	t.Parallel()
	const call, task = "invalid_input: Malformed tool_call JSON: ", "invalid_input: Malformed task JSON: "
	cases := []struct{ block, name, input, result string }{
		{`<tool_call></tool_call>`, "tool_call", `{"_malformed":""}`, call + "the block is empty"},
		{"<tool_call> \n</tool_call>", "tool_call", `{"_malformed":" \n"}`, call + "the block is empty"},
		{`<tool_call>ls "x"</tool_call>`, "tool_call", `{"_malformed":"ls \"x\""}`, call + "invalid character 'l' looking for beginning of value"},
		{`<tool_call>[{"name":"read"}]</tool_call>`, "tool_call", `{"_malformed":"[{\"name\":\"read\"}]"}`, call + "expected an object"},
		{`<tool_call>{"name":"read"` + "\n" + `</tool_call>`, "tool_call", `{"_malformed":"{\"name\":\"read\"\n"}`, call + "unexpected end of JSON input"},
		{`<tool_call>{"name":1}</tool_call>`, "tool_call", `{"_malformed":"{\"name\":1}"}`, call + "name must be a string"},
		{`<tool_call>{}</tool_call>`, "tool_call", `{"_malformed":"{}"}`, call + `the field "name" is missing`},
		{`<tool_call>{"name":"","arguments":{"code":"x"}}</tool_call>`, "tool_call", `{"_malformed":"{\"name\":\"\",\"arguments\":{\"code\":\"x\"}}"}`, call + `the field "name" is missing`},
		{`<tool_call>{"name":"tool_call"}</tool_call>`, "tool_call", `{}`, "unknown_tool: There is no tool 'tool_call'. There are: " + ownNames + ", execute_python3, task."},
		{`<tool_call>{"name":"read","arguments":["x"]}</tool_call>`, "read", `{"_malformed":"[\"x\"]"}`, call + "arguments: expected an object"},
		{`<tool_call>{"name":"write","arguments":"x"}</tool_call>`, "write", `{"_malformed":"\"x\""}`, call + "arguments: invalid character 'x' looking for beginning of value"},
		{`<tool_call>{"name":"nope","arguments":7}</tool_call>`, "nope", `{"_malformed":"7"}`, "unknown_tool: There is no tool 'nope'. There are: " + ownNames + ", execute_python3, task."},
		{`<tool_call>{"name":"execute_bash","arguments":{"code":1}}</tool_call>`, "execute_bash", `{"code":1}`, call + "code must be a string"},
		{`<tool_call>{"name":"execute_bash"}</tool_call>`, "execute_bash", `{}`, `invalid_input: The field "code" is missing.`},
		{`<task></task>`, "task", `{"_malformed":""}`, task + "the block is empty"},
		{`<task>[]</task>`, "task", `{"_malformed":"[]"}`, task + "expected an object"},
		{`<task>{}</task>`, "task", `{}`, `invalid_input: The field "skill" is missing.`},
		{`<task>{"skill":"disk","request":null}</task>`, "task", `{"skill":"disk","request":null}`, `invalid_input: The field "request" is missing.`},
		{`<task>{"skill":["disk"],"request":"x"}</task>`, "task", `{"skill":["disk"],"request":"x"}`, task + "skill must be a string"},

		{`<tool_call>{"name":"execute_bash","arguments":"{\"code\":\"x\"}"}</tool_call>`, "execute_bash", `{"code":"x"}`, "ran"},
		{`<tool_call>{"name":"execute_bash","arguments":{"code":"x"},"id":"mine"}</tool_call>`, "execute_bash", `{"code":"x"}`, "ran"},
		{`<tool_call>{"name":"read","arguments":null}</tool_call>`, "read", `{}`, "read {}"},
		{"<tool_call>{\"name\":\"read\",\"arguments\":{\r\n \"path\" : \"a b\" }}</tool_call>", "read", `{"path":"a b"}`, `read {"path":"a b"}`},
	}
	var answer strings.Builder
	for _, c := range cases {
		answer.WriteString(c.block)
	}
	b := newEnv(t, says(answer.String()), says("Done."))
	b.exc.returns(proto.Result{Stdout: "ran"})
	b.exc.answers(func(req proto.Call) proto.Raw { return said(req.Tool + " " + string(req.Input)) })
	packets := b.watch(request(question, inSession+withEvents))
	var want []string
	for i, c := range cases {
		want = append(want, c.result)
		if want := requested("", c.name, c.input); packets[i] != want {
			t.Errorf("%s\n got %s\nwant %s", c.block, packets[i], want)
		}
	}
	b.checkResults(2, want...)
}

// TestCutBlocks checks that a closed block of a truncated answer is complete,
// and that an unclosed one is text.
func TestCutBlocks(t *testing.T) {
	t.Parallel()
	b := newEnv(t, replies(proto.Text{Content: bash("x") + "and <tool_call>{", ToolCalls: callList(native("a", "read", `{"pa`)), StopReason: "length"}), says("Done."))
	b.ask(request(question, inSession))
	want := strings.TrimSuffix(question, "]") + "," + calling("and <tool_call>{", "", nativeBash("", "x"), native("a", "read", `{"pa`)) + "," + answering("", ran("")) + "," +
		answering("a", failedWith("invalid_input", "Malformed tool_call JSON: arguments: unexpected end of JSON input")) + "]"
	if got := withoutIDs(b.rtr.asked()[1].Messages); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// FuzzBlock checks that every block is a call with a name and an object on one line
// as its input, in the next request, too, and that it fails only if it is malformed.
func FuzzBlock(f *testing.F) {
	for _, seed := range []string{
		`{"name":"execute_bash","arguments":{"code":"x"}}`, `{"name":"a","arguments":"{\"code\":\"x\"}"}`, `{"name":"a","arguments":"\"{}\""}`, `[]`, ``, `{"arguments":null}`,
		"\xff", "{\"name\":\"\xff\",\"arguments\":{\"\xff\":1}}", "\v{}\u00a0", `{"name":"\ud800","arguments":{"a":"\ud800"}}`, "{\"name\":\"a\",\n\"arguments\":\"\u00a0{\\n}\"}",
		`{"skill":"disk","request":"x"}`, `"{\"skill\":\"disk\"}"`, `null`,
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, task bool) {
		kind, before := ToolCall, string(body)
		if task {
			kind = Task
		}
		c := blockCall(Event{kind, body})
		if string(body) != before {
			t.Fatalf("%q has become %q", before, body)
		}
		if !wire.Valid(c.input) || c.input[0] != '{' || bytes.ContainsAny(c.input, "\n\r") || c.name == "" || task && c.name != "task" {
			t.Errorf("%q is a call of %q with %q", body, c.name, c.input)
		}
		malformed := strings.HasPrefix(string(c.input), `{"_malformed":`)
		if _, err := argumentsOf(c.arguments); c.failure != nil && !malformed || c.failure == nil && err != nil && !malformed {
			t.Errorf("%q has the fault %v, its input is %s", body, c.failure, c.input)
		}
		c.identify(map[string]bool{})
		again, err := nativeCall(c.raw)
		if err != nil || !wire.Valid(c.raw) || again.id != c.id || again.name != c.name || string(again.input) != string(c.input) {
			t.Errorf("%q is sent back as %s: %+v, %v", body, c.raw, again, err)
		}
	})
}

// TestNativeResults checks the code that is executed, and the errors of calls that
// are not, all in one answer.
func TestNativeResults(t *testing.T) {
	cases := []struct{ name, call, want, code string }{
		{"plain", native("a", "execute_python3", `{"code":" 1\n<é>"}`), "ran", "python3: 1\n<é>"},
		{"white space around it", native("a", "execute_bash", " {\"code\":\"x\"}\n"), "ran", "bash:x"},
		{"more keys", native("a", "execute_bash", `{"code":"x","timeout":3}`), "ran", "bash:x"},
		{"an object", `{"id":"a","function":{"name":"execute_bash","arguments":{"code":"x"}}}`, "ran", "bash:x"},
		{"quoted twice", native("a", "execute_bash", `"{\"code\":\"x\"}"`), "ran", "bash:x"},

		{"nothing", native("a", "execute_bash", ``), `invalid_input: The field "code" is missing.`, ""},
		{"blanks", native("a", "execute_bash", " \n"), `invalid_input: The field "code" is missing.`, ""},
		{"an empty object", native("a", "execute_bash", `{}`), `invalid_input: The field "code" is missing.`, ""},
		{"null in a string", native("a", "execute_bash", `null`), `invalid_input: The field "code" is missing.`, ""},
		{"null", `{"id":"a","function":{"name":"execute_bash","arguments":null}}`, `invalid_input: The field "code" is missing.`, ""},
		{"no arguments", `{"id":"a","function":{"name":"execute_bash"}}`, `invalid_input: The field "code" is missing.`, ""},
		{"blank code", native("a", "execute_bash", `{"code":" \n"}`), "invalid_input: Empty code block.", ""},
		{"code of another name", native("a", "execute_bash", `{"command":"x"}`), `invalid_input: The field "code" is missing.`, ""},

		{"unknown function", native("a", "read_file", `{"code":"x"}`), "unknown_tool: There is no tool 'read_file'. There are: " + ownNames + ", execute_python3, task.", ""},
		{"the name is checked first", native("a", "Bash", `{`), "unknown_tool: There is no tool 'Bash'. There are: " + ownNames + ", execute_python3, task.", ""},
		{"no name", `{"id":"a","function":{"arguments":"{}"}}`, `invalid_input: Malformed tool_call JSON: the field "name" is missing`, ""},
		{"no function", `{"id":"a"}`, `invalid_input: Malformed tool_call JSON: the field "name" is missing`, ""},
		{"null function", `{"id":"a","function":null}`, `invalid_input: Malformed tool_call JSON: the field "name" is missing`, ""},

		{"cut", native("a", "execute_bash", `{"code":"x`), "invalid_input: Malformed tool_call JSON: …", ""},
		{"plain text", native("a", "execute_bash", `ls -la`), "invalid_input: Malformed tool_call JSON: …", ""},
		{"a list", native("a", "execute_bash", `["x"]`), "invalid_input: Malformed tool_call JSON: …", ""},
		{"code that is a list", native("a", "execute_bash", `{"code":["x"]}`), "invalid_input: Malformed tool_call JSON: …", ""},

		{"an unknown skill", native("a", "task", `{"skill":"nope","request":"x"}`), "invalid_input: Unknown skill 'nope'", ""},
		{"a task without arguments", native("a", "task", ``), `invalid_input: The field "skill" is missing.`, ""},
		{"an empty task", native("a", "task", `{}`), `invalid_input: The field "skill" is missing.`, ""},
		{"no request", native("a", "task", `{"skill":"disk"}`), `invalid_input: The field "request" is missing.`, ""},
		{"a malformed task", native("a", "task", `{"skill":`), "invalid_input: Malformed task JSON: …", ""},
		{"a skill that is a number", native("a", "task", `{"skill":1,"request":"x"}`), "invalid_input: Malformed task JSON: …", ""},
	}
	var calls, codes, want []string
	for _, c := range cases {
		calls, want = append(calls, c.call), append(want, c.want)
		if c.code != "" {
			codes = append(codes, c.code)
		}
	}
	b := newEnv(t, asks("", calls...), says("Done."))
	b.exc.returns(proto.Result{Stdout: "ran"})
	if _, last := b.ask(request(question, inSession)); last.Text() != "Done." || last.Iterations != 2 {
		t.Fatalf("last packet %s", last.Raw)
	}
	b.checkRan(2, codes...)
	b.checkResults(2, want...)
}

// TestTooManyCalls checks that calls above the limit are not run, and that the
// result of each says so.
func TestTooManyCalls(t *testing.T) {
	var calls []string
	for i := range maxCalls + 2 {
		name := "nothing" // an unknown tool: cheap to answer
		if i >= maxCalls-1 {
			name = "execute_bash"
		}
		calls = append(calls, native(fmt.Sprint(i), name, `{"code":"x"}`))
	}
	b := startEnv(t, func(cfg *config.Config) { cfg.Agr.LoopWarn, cfg.Agr.LoopStop = 0, 0 }, asks("", calls...), says("Done."))
	b.exc.returns(proto.Result{Stdout: "ran"})
	if _, last := b.ask(request(question, inSession)); last.Text() != "Done." {
		t.Fatalf("last packet %s", last.Raw)
	}
	if got := b.exc.code(); len(got) != 1 {
		t.Errorf("executed %q", got)
	}
	all := toolResults(t, b.rtr.asked()[1])
	if len(all) != maxCalls+2 {
		t.Fatalf("%d results", len(all))
	}
	for i, want := range []string{
		"ran", "too_many_calls: Not run: at most 1024 tool calls of a reply are run, and this is number 1025. Call it again if it is still needed.",
		"too_many_calls: Not run: at most 1024 tool calls of a reply are run, and this is number 1026. Call it again if it is still needed.",
	} {
		if got := brief(t, all[maxCalls-1+i]); got != want {
			t.Errorf("the model sees %q, want %q", got, want)
		}
	}
}

// FuzzCalls checks that any list is accepted or rejected, that each accepted call has
// a unique identifier, and that the extended conversation is well-formed.
func FuzzCalls(f *testing.F) {
	for _, seed := range []string{
		"[" + nativeBash("a", "x") + "," + nativeBash("a", "y") + "]", `[{"id":"","function":{"name":"f","arguments":{}}}]`, `[{}]`, `[{"id":1}]`,
		`[ { "\u0069d" : "a" , "function" : null } , {"id":"a","id":"b"}]`, `[null]`, `[]`, `{}`, ``, `[{"id":"\ud800"},{"id":"\ufffd"}]`, "[{\"\xff\":1}]",
	} {
		f.Add([]byte(seed), []byte(`{"s":1}`))
	}
	f.Fuzz(func(t *testing.T, list, state []byte) {
		in := &inference{turn: &turn{session: true}}
		if in.readCalls(proto.Text{ToolCalls: list, State: state}) != nil {
			return
		}
		before := bytes.Clone(list)
		grown, err := in.appendTo(proto.Raw(question))
		if err != nil || !bytes.Equal(before, list) {
			t.Fatalf("%q: %v", list, err)
		}
		messages, err := wire.Elements(grown)
		if len(in.calls) == 0 && len(messages) == 1 { // an empty answer is not appended
			return
		}
		if err != nil || len(messages) != 2+len(in.calls) {
			t.Fatalf("%q becomes %q: %v", list, grown, err)
		}
		ids := map[string]bool{}
		for i, c := range in.calls {
			again, err := nativeCall(c.raw)
			var r struct {
				ID string `json:"tool_call_id"`
			}
			if err := errors.Join(err, json.Unmarshal(messages[2+i], &r)); err != nil || again.id != c.id || r.ID != c.id || c.id == "" || ids[c.id] {
				t.Errorf("%q: call %q has the id %q, its result %q, %v", list, c.raw, again.id, r.ID, err)
			}
			ids[c.id] = true
		}
	})
}

func TestResults(t *testing.T) {
	for _, c := range []struct {
		name string
		got  proto.Raw
		want string
	}{
		{"failed", proto.Raw(failedWith(proto.ToolUnknown, "There is no \"x\"\n<y>.")), `{"ok":false,"error":{"code":"unknown_tool","message":"There is no \"x\"\n<y>."}}`},
		{"said", said("a\n\"é\" </tool_response>"), `{"ok":true,"data":{"text":"a\n\"é\" </tool_response>"}}`},
		{"empty text", said(""), `{"ok":true,"data":{"text":""}}`},
		{"bad bytes", said("\xff"), `{"ok":true,"data":{"text":"\ufffd"}}`},
		{"ran", result{ran: &proto.Result{Stdout: "a\n", Stderr: "b"}}.envelope(), `{"ok":true,"data":{"stdout":"a\n","stderr":"b","exit_code":0,"timed_out":false}}`},
		{"timed out", result{ran: &proto.Result{ExitCode: -1, TimedOut: true, Truncated: true}}.envelope(), `{"ok":true,"data":{"stdout":"","stderr":"","exit_code":-1,"timed_out":true,"truncated":true}}`},
	} {
		if string(c.got) != c.want || !json.Valid(c.got) || !isEnvelope(c.got) {
			t.Errorf("%s: got %s, want %s", c.name, c.got, c.want)
		}
	}
}

// FuzzResults checks that the output of tools is kept, except for invalid UTF-8.
func FuzzResults(f *testing.F) {
	for _, seed := range []string{"", "a\n", `"}`, "\xff\x00\u2028", "</tool_response>"} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, text string, code int) {
		var got struct {
			OK    bool
			Error struct{ Code, Message string }
			Data  struct {
				Text, Stdout, Stderr string
				ExitCode             int `json:"exit_code"`
			}
		}
		want := string([]rune(text))
		if err := json.Unmarshal(result{ran: &proto.Result{Stdout: text, Stderr: text, ExitCode: code}}.envelope(), &got); err != nil || !got.OK || got.Data.Stdout != want || got.Data.Stderr != want || got.Data.ExitCode != code {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if !succeeded(said(text)) || succeeded(proto.Raw(failedWith(text, text))) {
			t.Errorf("%q: Succeeded", text)
		}
		if err := json.Unmarshal(said(text), &got); err != nil || got.Data.Text != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if err := json.Unmarshal([]byte(failedWith(text, text)), &got); err != nil || got.OK || got.Error.Code != want || got.Error.Message != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	})
}

func TestIsEnvelope(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"ok":true,"data":{}}`:             true,
		` { "x":1, "\u006fk" : false } `:    true,
		`{"ok":true`:                        false,
		`{"ok":1}`:                          false,
		`{"ok":"true"}`:                     false,
		`{"ok":null}`:                       false,
		`{"data":{"ok":true}}`:              false,
		`{}`:                                false,
		`[{"ok":true}]`:                     false,
		`true`:                              false,
		``:                                  false,
		"{\"ok\":true,\"data\":\"\xff\"}":   false,
		`{"ok":true,"data":{"content":[}}`:  false,
		`{"ok":true} {"ok":true}`:           false,
		`{"ok":false,"error":{"code":"x"}}`: true,
	} {
		if got := isEnvelope(proto.Raw(raw)); got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

func FuzzCall(f *testing.F) {
	for _, seed := range []string{`{"name":"execute_bash","arguments":{"code":"x"}}`, `{"name":"a","arguments":"{\"code\":\"x\"}"}`, `[]`, ``, `{"arguments":null}`, "\xff", "\v{}\u00a0", `{"arguments":"\ud800"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		name, arguments, err := parseCall(body)
		if (err == nil) != isObject(body, "name") {
			t.Fatalf("%q: name %q, error %v", body, name, err)
		}
		if err == nil {
			if fields, err := argumentsOf(arguments); err != nil && fields != nil {
				t.Errorf("%q: both fields %q and error %v", arguments, fields, err)
			}
		}
	})
}

// isObject reports whether body is an object whose field is a string, null or absent.
func isObject(body []byte, field string) bool {
	var fields map[string]any
	if json.Unmarshal(bytes.TrimSpace(body), &fields) != nil || fields == nil {
		return false
	}
	_, text := fields[field].(string)
	return text || fields[field] == nil
}

type journal struct {
	mu      sync.Mutex
	entries []string // "+name" and "-name"
	running int
	most    int // maximum of running
}

// note runs call and records its start and end.
func (l *journal) note(name string, call func() error) error {
	l.mu.Lock()
	l.entries = append(l.entries, "+"+name)
	l.running++
	l.most = max(l.most, l.running)
	l.mu.Unlock()
	err := call()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, "-"+name)
	l.running--
	return err
}

// before reports whether the entry one precedes other.
func (l *journal) before(one, other string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, j := slices.Index(l.entries, one), slices.Index(l.entries, other)
	return i >= 0 && j >= 0 && i < j
}

var numbered = regexp.MustCompile(`"(?:path|command|query)":"(\d+)"`)

// numberOf returns the number in the arguments of a numberedCall.
func numberOf(t *testing.T, input []byte) (n int) {
	m := numbered.FindSubmatch(input)
	if m == nil {
		t.Errorf("input %s", input)
		return 0
	}
	fmt.Sscan(string(m[1]), &n)
	return n
}

// numberedCall is a call of a tool with a number as its argument.
func numberedCall(n int, tool, argument string) string {
	return native(fmt.Sprint("id", n), tool, fmt.Sprintf(`{"%s":"%d"}`, argument, n))
}

// TestReadsSideBySide checks that up to eight calls that read run concurrently. The
// first eight end in reverse order after all of them have started; the results are
// in the order of the calls, and the events of each call are in order.
func TestReadsSideBySide(t *testing.T) {
	t.Parallel()
	const calls = 20
	var list, want []string
	all, ended := make(chan struct{}), make([]chan struct{}, calls)
	for i := range ended {
		ended[i] = make(chan struct{})
	}
	for i := range calls {
		list = append(list, numberedCall(i, "read", "path"))
		want = append(want, string(said(fmt.Sprint("text ", i))))
	}
	b := newEnv(t, asks("", list...), says("Done."))
	var l journal
	var missing atomic.Int32
	missing.Store(sideBySide)
	b.exc.onCall(func(ctx context.Context, req proto.Call, _ *rpc.Out) (proto.CallResult, error) {
		n := numberOf(t, req.Input)
		return proto.CallResult{Result: said(fmt.Sprint("text ", n))}, l.note(fmt.Sprint(n), func() error {
			defer close(ended[n])
			if n >= sideBySide {
				return nil
			}
			if missing.Add(-1) == 0 {
				close(all)
			}
			if n == sideBySide-1 {
				return rpctest.Until(ctx, all)
			}
			return rpctest.Until(ctx, ended[n+1])
		})
	})
	packets := b.watch(request(question, withEvents+inSession))
	l.mu.Lock()
	defer l.mu.Unlock()
	if results := toolResults(t, b.rtr.asked()[1]); !slices.Equal(results, want) {
		t.Errorf("the model sees %q", results)
	}
	if l.most != sideBySide {
		t.Errorf("%d concurrent calls", l.most)
	}
	for i := range calls {
		id := fmt.Sprintf(`"id":"id%d"`, i)
		var own []string
		for _, p := range packets {
			if strings.Contains(p, id) {
				own = append(own, p)
			}
		}
		name := fmt.Sprint("id", i)
		compare(t, own, requested(name, "read", fmt.Sprintf(`{"path":"%d"}`, i)), begun(name, "read"), finished(name, "read", want[i]))
	}
}

// TestOrderOfCalls checks that a call that changes something runs alone, after all
// earlier and before all later calls, and that reads and recalls run concurrently.
func TestOrderOfCalls(t *testing.T) {
	t.Parallel()
	kinds := strings.Repeat("rmwbrrewmr", 6) // read, recall (m), write, bash, edit
	tools := map[rune][2]string{'r': {"read", "path"}, 'm': {"recall", "query"}, 'w': {"write", "path"}, 'b': {"bash", "command"}, 'e': {"edit", "path"}}
	var list []string
	for i, kind := range kinds {
		list = append(list, numberedCall(i, tools[kind][0], tools[kind][1]))
	}
	b := newEnv(t, asks("", list...), says("Done."))
	b.withMemory()
	var l journal
	there := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
	meet := func(ctx context.Context, n int) error { // the first two end only after both have started
		if n > 1 {
			return nil
		}
		close(there[n])
		return rpctest.Until(ctx, there[1-n])
	}
	b.exc.onCall(func(ctx context.Context, req proto.Call, _ *rpc.Out) (proto.CallResult, error) {
		n := numberOf(t, req.Input)
		return proto.CallResult{Result: said("")}, l.note(fmt.Sprint(n), func() error { return meet(ctx, n) })
	})
	b.mem.onSearch(func(ctx context.Context, req proto.SearchHard) (proto.HardMemories, error) {
		n := numberOf(t, fmt.Appendf(nil, `"query":"%s"`, req.Query))
		return proto.HardMemories{}, l.note(fmt.Sprint(n), func() error { return meet(ctx, n) })
	})
	if _, last := b.ask(request(question, inSession)); last.Text() != "Done." {
		t.Fatalf("last packet %s", last.Raw)
	}
	for i, kind := range kinds {
		for j := range kinds {
			alone := !strings.ContainsRune("rm", kind)
			if alone && j < i && !l.before(fmt.Sprint("-", j), fmt.Sprint("+", i)) || alone && j > i && !l.before(fmt.Sprint("-", i), fmt.Sprint("+", j)) {
				t.Errorf("call %d overlaps call %d", i, j)
			}
		}
	}
	if !l.before("+1", "-0") || !l.before("+0", "-1") {
		t.Error("read and recall are not concurrent")
	}
}

// TestHangUpDuringReads checks that all running calls are canceled, and that no other
// is started.
func TestHangUpDuringReads(t *testing.T) {
	t.Parallel()
	var list []string
	for i := range 2 * sideBySide {
		list = append(list, numberedCall(i, "read", "path"))
	}
	e := newEnv(t, asks("", list...), says("never"))
	b := rpctest.NewBlock()
	e.exc.onCall(func(ctx context.Context, _ proto.Call, _ *rpc.Out) (proto.CallResult, error) {
		return proto.CallResult{}, b.Wait(ctx)
	})
	c := rpctest.Dial(t, e.path)
	c.Send(request(question, withEvents+inSession))
	for range sideBySide {
		b.Begun(t)
	}
	c.Close()
	for range sideBySide {
		b.Canceled(t)
	}
	rpctest.WaitIdle(t, e.path)
	zinotest.Equal(t, "calls", len(e.exc.called()), sideBySide)
	e.checkRan(1)
}
