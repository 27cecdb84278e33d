package agr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"zino/pkg/wire"
	"zino/proto"
)

// TestNativeResults: what is executed, and the results of calls that are not.
// All of them stand in one answer.
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

		{"unknown function", native("a", "read_file", `{"code":"x"}`), "unknown_tool: There is no tool 'read_file'. There are: read, write, edit, bash, execute_python3, task.", ""},
		{"the name is checked first", native("a", "Bash", `{`), "unknown_tool: There is no tool 'Bash'. There are: read, write, edit, bash, execute_python3, task.", ""},
		{"no name", `{"id":"a","function":{"arguments":"{}"}}`, `invalid_input: Malformed tool_call JSON: the field "name" is missing`, ""},
		{"no function", `{"id":"a"}`, `invalid_input: Malformed tool_call JSON: the field "name" is missing`, ""},
		{"null function", `{"id":"a","function":null}`, `invalid_input: Malformed tool_call JSON: the field "name" is missing`, ""},

		{"cut", native("a", "execute_bash", `{"code":"x`), "invalid_input: Malformed tool_call JSON: …", ""},
		{"plain text", native("a", "execute_bash", `ls -la`), "invalid_input: Malformed tool_call JSON: …", ""},
		{"a list", native("a", "execute_bash", `["x"]`), "invalid_input: Malformed tool_call JSON: …", ""},
		{"code that is a list", native("a", "execute_bash", `{"code":["x"]}`), "invalid_input: Malformed tool_call JSON: …", ""},

		{"an unknown skill", native("a", "task", `{"skill":"nope","request":"x"}`), "invalid_input: Unknown skill 'nope'", ""},
		{"a task of nothing", native("a", "task", ``), `invalid_input: The field "skill" is missing.`, ""},
		{"an empty task", native("a", "task", `{}`), `invalid_input: The field "skill" is missing.`, ""},
		{"no request", native("a", "task", `{"skill":"disk"}`), `invalid_input: The field "request" is missing.`, ""},
		{"a malformed task", native("a", "task", `{"skill":`), "invalid_input: Malformed task JSON: …", ""},
		{"a skill that is a number", native("a", "task", `{"skill":1,"request":"x"}`), "invalid_input: Malformed task JSON: …", ""},
	}
	var calls, codes []string
	for _, c := range cases {
		calls = append(calls, c.call)
		if c.code != "" {
			codes = append(codes, c.code)
		}
	}
	b := newBench(t, asks("", calls...), says("Done."))
	b.exc.returns(proto.Result{Stdout: "ran"})
	if _, last := b.ask(request(question, inSession)); last.text() != "Done." || last.iterations() != 2 {
		t.Fatalf("last packet %s", last.raw)
	}
	if got := b.exc.code(); !slices.Equal(got, codes) {
		t.Errorf("executed %q, want %q", got, codes)
	}
	all := toolResults(t, b.rtr.asked()[1])
	if len(all) != len(cases) {
		t.Fatalf("%d results", len(all))
	}
	for i, c := range cases {
		got := brief(t, all[i])
		beginning, open := strings.CutSuffix(c.want, "…")
		if !open && got != c.want || open && !reads(got, beginning) {
			t.Errorf("%s: the model sees %q, want %q", c.name, got, c.want)
		}
	}
}

// TestTooManyCalls: calls above the limit are not run, and each gets a result that
// says so.
func TestTooManyCalls(t *testing.T) {
	var calls []string
	for i := range maxCalls + 2 {
		name := "nothing" // there is no such tool: cheap to answer
		if i >= maxCalls-1 {
			name = "execute_bash"
		}
		calls = append(calls, native(fmt.Sprint(i), name, `{"code":"x"}`))
	}
	b := newBench(t, asks("", calls...), says("Done."))
	b.exc.returns(proto.Result{Stdout: "ran"})
	if _, last := b.ask(request(question, inSession)); last.text() != "Done." {
		t.Fatalf("last packet %s", last.raw)
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

// TestNoExecutorForCalls: exc being down is a result, and the turn goes on.
func TestNoExecutorForCalls(t *testing.T) {
	b := newBench(t, asks("", nativeBash("a", "x")), says("sorry"))
	unlink(t, b.cfg.Exc.Socket)
	if _, last := b.ask(request(question, inSession)); last.text() != "sorry" || last.iterations() != 2 {
		t.Errorf("last packet %s", last.raw)
	}
	if got, err := lastMessage(b.rtr.asked()[1]); err != nil || !strings.HasPrefix(brief(t, got), "unavailable: Could not connect to exc: ") {
		t.Errorf("the model sees %q, %v", got, err)
	}
}

// FuzzCalls: any list is read or refused. What is read is as many calls, each
// with an identifier of its own, and makes a conversation that is well-formed.
func FuzzCalls(f *testing.F) {
	for _, seed := range []string{
		"[" + nativeBash("a", "x") + "," + nativeBash("a", "y") + "]", `[{"id":"","function":{"name":"f","arguments":{}}}]`, `[{}]`, `[{"id":1}]`,
		`[ { "\u0069d" : "a" , "function" : null } , {"id":"a","id":"b"}]`, `[null]`, `[]`, `{}`, ``, `[{"id":"\ud800"},{"id":"\ufffd"}]`, "[{\"\xff\":1}]",
	} {
		f.Add([]byte(seed), []byte(`{"s":1}`))
	}
	f.Fuzz(func(t *testing.T, list, state []byte) {
		tr := &turn{session: &session{}}
		if tr.takeCalls(proto.Text{ToolCalls: list, State: state}) != nil {
			return
		}
		before := bytes.Clone(list)
		grown, err := tr.appendCalls(proto.Raw(question))
		if err != nil || !bytes.Equal(before, list) {
			t.Fatalf("%q: %v", list, err)
		}
		messages, err := wire.Elements(grown)
		if err != nil || len(messages) != 2+len(tr.calls) {
			t.Fatalf("%q becomes %q: %v", list, grown, err)
		}
		ids := map[string]bool{}
		for i, c := range tr.calls {
			again, err := readCall(c.raw)
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
