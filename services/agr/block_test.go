package agr

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/agr/toolbox"
)

// TestBlocksAreCalls: blocks in a session's text are cut out of it and carried
// out after the end of the answer, in front of the native calls, wherever the
// router cuts the text. The model sees them as calls.
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
	b := newBench(t, script...)
	malformed := toolbox.Failed("invalid_input", "Malformed tool_call JSON: unexpected end of JSON input")
	want := strings.TrimSuffix(question, "]") + "," + calling(text, "",
		nativeBash("", "1"), native("", "read", `{"path":"<p>"}`), native("", "task", `{"skill":"nope","request":"x"}`), native("", "tool_call", `{"_malformed":"{"}`), nativeBash("x", "2")) +
		"," + result("", ran("")) + "," + result("", string(toolbox.Said(""))) + "," + result("", string(toolbox.Failed("invalid_input", "Unknown skill 'nope'"))) +
		"," + result("", string(malformed)) + "," + result("x", ran("")) + "]"
	for cut := range len(answer) {
		more := []string{"", `,"stream":true`, told}[cut%3]
		packets := b.watch(request(question, inSession+more))
		if got := spoken(t, packets); more != "" && got != text+"Done." {
			t.Fatalf("cut at %d: streamed %q", cut, got)
		}
		if got := nameless(b.rtr.asked()[2*cut+1].Messages); got != want {
			t.Fatalf("cut at %d:\n got %s\nwant %s", cut, got, want)
		}
		if got := b.exc.code()[2*cut:]; !slices.Equal(got, []string{"bash:1", "bash:2"}) {
			t.Fatalf("cut at %d: executed %q", cut, got)
		}
	}
}

// spoken is the text in chunks or events.
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

// TestMalformedBlocks: what becomes of blocks that are not as they should be.
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
		{`<tool_call>{"name":"tool_call"}</tool_call>`, "tool_call", `{}`, "unknown_tool: There is no tool 'tool_call'. There are: read, write, edit, bash, execute_python3, task."},
		{`<tool_call>{"name":"read","arguments":["x"]}</tool_call>`, "read", `{"_malformed":"[\"x\"]"}`, call + "arguments: expected an object"},
		{`<tool_call>{"name":"write","arguments":"x"}</tool_call>`, "write", `{"_malformed":"\"x\""}`, call + "arguments: invalid character 'x' looking for beginning of value"},
		{`<tool_call>{"name":"nope","arguments":7}</tool_call>`, "nope", `{"_malformed":"7"}`, "unknown_tool: There is no tool 'nope'. There are: read, write, edit, bash, execute_python3, task."},
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
	b := newBench(t, says(answer.String()), says("Done."))
	b.exc.returns(proto.Result{Stdout: "ran"})
	b.exc.answers(func(req proto.Call) proto.Raw { return toolbox.Said(req.Tool + " " + string(req.Input)) })
	packets := b.watch(request(question, inSession+told))
	results := toolResults(t, b.rtr.asked()[1])
	if len(results) != len(cases) {
		t.Fatalf("%d results of %d blocks", len(results), len(cases))
	}
	for i, c := range cases {
		if want := requested("", c.name, c.input); packets[i] != want {
			t.Errorf("%s\n got %s\nwant %s", c.block, packets[i], want)
		}
		if got := brief(t, results[i]); got != c.result {
			t.Errorf("%s\n got %s\nwant %s", c.block, got, c.result)
		}
	}
}

// TestCutBlocks: a block that was closed is whole, whatever cut the answer; one
// that was not is text.
func TestCutBlocks(t *testing.T) {
	t.Parallel()
	b := newBench(t, replies(proto.Text{Content: bash("x") + "and <tool_call>{", ToolCalls: callList(native("a", "read", `{"pa`)), StopReason: "length"}), says("Done."))
	b.ask(request(question, inSession))
	want := strings.TrimSuffix(question, "]") + "," + calling("and <tool_call>{", "", nativeBash("", "x"), native("a", "read", `{"pa`)) + "," + result("", ran("")) + "," +
		result("a", string(toolbox.Failed("invalid_input", "Malformed tool_call JSON: arguments: unexpected end of JSON input"))) + "]"
	if got := nameless(b.rtr.asked()[1].Messages); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// FuzzBlock: whatever a block holds, it is a call with a name and an object in
// one line for its input, and it goes back as such. It has a fault just where it
// is malformed.
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
		if _, err := argumentsOf(c.arguments); c.fault != nil && !malformed || c.fault == nil && err != nil && !malformed {
			t.Errorf("%q has the fault %v, its input is %s", body, c.fault, c.input)
		}
		c.identify(map[string]bool{})
		again, err := readCall(c.raw)
		if err != nil || !wire.Valid(c.raw) || again.id != c.id || again.name != c.name || string(again.input) != string(c.input) {
			t.Errorf("%q goes back as %s: %+v, %v", body, c.raw, again, err)
		}
	})
}
