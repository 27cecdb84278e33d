package agr

import (
	"bytes"
	"encoding/json"
	"errors"
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

		{"nothing", native("a", "execute_bash", ``), "Error: Empty code block.", ""},
		{"blanks", native("a", "execute_bash", " \n"), "Error: Empty code block.", ""},
		{"an empty object", native("a", "execute_bash", `{}`), "Error: Empty code block.", ""},
		{"null in a string", native("a", "execute_bash", `null`), "Error: Empty code block.", ""},
		{"null", `{"id":"a","function":{"name":"execute_bash","arguments":null}}`, "Error: Empty code block.", ""},
		{"no arguments", `{"id":"a","function":{"name":"execute_bash"}}`, "Error: Empty code block.", ""},
		{"blank code", native("a", "execute_bash", `{"code":" \n"}`), "Error: Empty code block.", ""},
		{"code of another name", native("a", "execute_bash", `{"command":"x"}`), "Error: Empty code block.", ""},

		{"unknown function", native("a", "read_file", `{"code":"x"}`), "Error: Unknown tool function 'read_file'", ""},
		{"the name is checked first", native("a", "bash", `{`), "Error: Unknown tool function 'bash'", ""},
		{"no name", `{"id":"a","function":{"arguments":"{}"}}`, "Error: Unknown tool function ''", ""},
		{"no function", `{"id":"a"}`, "Error: Unknown tool function ''", ""},
		{"null function", `{"id":"a","function":null}`, "Error: Unknown tool function ''", ""},

		{"cut", native("a", "execute_bash", `{"code":"x`), "Malformed tool_call JSON: …", ""},
		{"plain text", native("a", "execute_bash", `ls -la`), "Malformed tool_call JSON: …", ""},
		{"a list", native("a", "execute_bash", `["x"]`), "Malformed tool_call JSON: …", ""},
		{"code that is a list", native("a", "execute_bash", `{"code":["x"]}`), "Malformed tool_call JSON: …", ""},

		{"an unknown skill", native("a", "task", `{"skill":"nope","request":"x"}`), "Error: Unknown skill 'nope'", ""},
		{"a task of nothing", native("a", "task", ``), "Error: Unknown skill ''", ""},
		{"an empty task", native("a", "task", `{}`), "Error: Unknown skill ''", ""},
		{"no request", native("a", "task", `{"skill":"disk"}`), "Error: Empty task request.", ""},
		{"a malformed task", native("a", "task", `{"skill":`), "Malformed task JSON: …", ""},
		{"a skill that is a number", native("a", "task", `{"skill":1}`), "Malformed task JSON: …", ""},
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
	var messages []struct{ Content string }
	if err := json.Unmarshal(b.rtr.asked()[1].Messages, &messages); err != nil || len(messages) != len(cases)+2 {
		t.Fatalf("%s: %v", b.rtr.asked()[1].Messages, err)
	}
	for i, c := range cases {
		got := messages[i+2].Content
		beginning, open := strings.CutSuffix(c.want, "…")
		if !open && got != c.want || open && !reads(got, beginning) {
			t.Errorf("%s: the model sees %q, want %q", c.name, got, c.want)
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
	if got, err := lastMessage(b.rtr.asked()[1]); err != nil || !strings.HasPrefix(got, "Error: Could not connect to exc: ") {
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
