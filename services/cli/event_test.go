package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/cli/render"
)

// playing returns a script that sends packets, then a text or an error.
func playing(text proto.Text, err error, packets ...string) func(context.Context, proto.Chat, *rpc.Out) (proto.Text, error) {
	return func(_ context.Context, _ proto.Chat, out *rpc.Out) (proto.Text, error) {
		for _, p := range packets {
			if err := out.Frame([]byte(p)); err != nil {
				return proto.Text{}, err
			}
		}
		return text, err
	}
}

// Packets of the tests below.
const (
	say1      = `{"type":"assistant_delta","text":"one "}`
	say2      = `{"type":"assistant_delta","text":"two\n"}`
	final     = `{"type":"assistant_final","text":"one two\n"}`
	wantsBash = `{"type":"tool_requested","id":"a","name":"bash","input":{"command":"ls \"x\"\n\u001b[31m","timeout":5}}`
	starts    = `{"type":"tool_started","id":"a","name":"bash"}`
	prints    = `{"type":"tool_output","id":"a","text":"line\n"}`
	ends      = `{"type":"tool_finished","id":"a","name":"bash","result":{"ok":true,"data":{"stdout":"","exit_code":3}},"duration_ms":120}`
	used      = `{"type":"usage","input_tokens":5,"output_tokens":7,"cost_usd":0.5}`
)

func finished(tool, result string) string {
	return `{"type":"tool_finished","id":"a","name":"` + tool + `","duration_ms":3,"result":` + result + `}`
}

func wants(tool, input string) string {
	return `{"type":"tool_requested","id":"a","name":"` + tool + `","input":` + input + `}`
}

func notice(kind, text string) string {
	return `{"type":"notice","kind":"` + kind + `","text":"` + text + `"}`
}

// TestEvents checks the output of a turn on each stream.
func TestEvents(t *testing.T) {
	long := strings.Repeat("é", 300)
	for _, test := range []struct {
		name        string
		packets     []string
		text        proto.Text
		out, stderr string
	}{
		{"nothing", nil, proto.Text{}, "", ""},
		{"a daemon that knows no events", nil, proto.Text{Content: "whole\n\n"}, "whole\n", ""},
		{"deltas", []string{say1, say2, final}, proto.Text{Content: "one two\n"}, "one two\n", ""},
		{"deltas without an end", []string{say1}, proto.Text{Content: "one "}, "one \n", ""},
		{"a final text alone", []string{final}, proto.Text{Content: "one two"}, "one two\n", ""},
		{"two inferences", []string{say1, say2, final, wantsBash, starts, ends, say1, final}, proto.Text{}, "one two\none \n", "Tool requested: bash command=\"ls \\\"x\\\"\\n\\x1b[31m\"\nDone. (0.12s)\nTool finished: bash exit=3\n"},
		{"an inference without text", []string{wantsBash, used, starts, prints, ends, say1, final, used}, proto.Text{}, "one \n", "Tool requested: bash command=\"ls \\\"x\\\"\\n\\x1b[31m\"\nDone. (0.12s)\nTool finished: bash exit=3\n"},
		{"a job", []string{finished("bash", `{"ok":true,"data":{"exit_code":-1,"timed_out":true,"job":"j-k3v9q2mx","running":true}}`)}, proto.Text{}, "", "Done. (0.00s)\nTool finished: bash job=j-k3v9q2mx running\n"},
		{"a time-out", []string{finished("bash", `{"ok":true,"data":{"exit_code":-1,"timed_out":true}}`)}, proto.Text{}, "", "Done. (0.00s)\nTool finished: bash timed_out=true\n"},
		{"a guarded place", []string{`{"type":"tool_finished","id":"a","name":"bash","duration_ms":3,"result":{"ok":true,"data":{"exit_code":0}},"confinement":{"sandbox":"workspace-write","network":false,"means":[],"refused":[".git.refused-a\u001b"]}}`}, proto.Text{}, "", "Done. (0.00s)\nTool finished: bash exit=0\nWarning: .git.refused-a^[ stood in a place that the sandbox protects: look at it, and move it back if you want it there.\n"},
		{"a failure", []string{finished("edit", `{"ok":false,"error":{"code":"old_not_found","message":"not\nfound"}}`)}, proto.Text{}, "", "Done. (0.00s)\nTool failed: edit old_not_found: not found\n"},
		{"a failure without a message", []string{finished("e\\u001bdit", `{"ok":false}`)}, proto.Text{}, "", "Done. (0.00s)\nTool failed: e^[dit failed: \n"},
		{"a result of another form", []string{finished("x", `"text"`)}, proto.Text{}, "", "Done. (0.00s)\n"},
		{"a tool without an exit code", []string{finished("read", `{"ok":true,"data":{"path":"/a","content":"…"}}`)}, proto.Text{}, "", "Done. (0.00s)\n"},
		{"paths", []string{wants("read", `{"path":"a b"}`), wants("write", `{"content":"long","path":"/x\u202e"}`), wants("edit", `{"old":"a","path":"p","new":"b"}`)}, proto.Text{}, "", "Tool requested: read path=\"a b\"\nTool requested: write path=\"/x\\u202e\"\nTool requested: edit path=\"p\"\n"},
		{"other tools", []string{wants("recall", `{"query":"a","n":3,"deep":{"x":[1]}}`), wants("none", `{}`), wants("odd", `{"a\nb":null}`)}, proto.Text{}, "", "Tool requested: recall query=\"a\" n=3 deep={\"x\":[1]}\nTool requested: none\nTool requested: odd a b=null\n"},
		{"malformed arguments", []string{wants("bash", `{"_malformed":"{\"comm"}`)}, proto.Text{}, "", "Tool requested: bash _malformed=\"{\\\"comm\"\n"},
		{"a long command", []string{wants("bash", `{"command":"`+long+`"}`)}, proto.Text{}, "", "Tool requested: bash command=\"" + long[:2*199] + "…\"\n"},
		{"a diff", []string{strings.Replace(finished("edit", `{"ok":true,"data":{}}`), `"id"`, `"diff":"--- a\n+++ b\n@@ -1 +1 @@\n-\u001bx\n+y\n","id"`, 1)}, proto.Text{}, "", "Done. (0.00s)\n--- a\n+++ b\n@@ -1 +1 @@\n-^[x\n+y\n"},
		{"notices", []string{notice("retry", "HTTP 529: again in 1 s"), notice("warning", "x is cut"), notice("wait", "a\\nb"), notice("agents", "Loaded AGENTS.md from: /a"), notice("agents", "Loaded AGENTS.md from: /a"), notice("agents", "Loaded AGENTS.md from: /b")}, proto.Text{}, "", "HTTP 529: again in 1 s\nWarning: x is cut\na b\nLoaded AGENTS.md from: /a\nLoaded AGENTS.md from: /b\n"},
		{"reasoning without --reasoning", []string{`{"type":"reasoning","text":"hm"}`, say1}, proto.Text{}, "one \n", ""},
		{"unknown events", []string{`{"type":"future","x":1}`, `{"type":"interrupted"}`, say1}, proto.Text{}, "one \n", ""},
		{"cut", []string{say1}, proto.Text{StopReason: "length"}, "one \n", "Warning: the answer was cut: it reached the limit of tokens for one answer; see --max-tokens\n"},
		{"refused", nil, proto.Text{StopReason: "refusal"}, "", "Warning: the model broke off: refusal\n"},
		{"control characters", []string{`{"type":"assistant_delta","text":"a\u001b[31mb\r\n\u202e"}`}, proto.Text{}, "a\x1b[31mb\r\n\u202e\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "")
			f.plays(playing(test.text, nil, test.packets...))
			if test.out == "" { // a turn without text has one warning
				if test.out = "\n"; test.text.StopReason == "" {
					test.stderr += render.EmptyAnswer + "\n"
				}
			}
			expect(t, newWorld(t).command("--socket", f.socket, "exec", "-p", "play"), "", 0, test.out, test.stderr)
		})
	}
}

// TestEventErrors checks that the error of a turn is printed after its text.
func TestEventErrors(t *testing.T) {
	for _, test := range []struct {
		name   string
		err    proto.Error
		stderr string
	}{
		{"an HTTP status", proto.Error{Kind: "http_status", Status: 401, Message: "Agentic runtime error: rtr error: HTTP 401: bad key", Details: "{\n  \"x\": \"\x1b\"\n}\n"}, "Error [http_status]: HTTP 401: bad key\n  Details: {\n             \"x\": \"^[\"\n           }\n"},
		{"a session", proto.Error{Kind: "session", Code: proto.CodeInternal, Message: "mem append_session: no space"}, "Error [session]: mem append_session: no space\n"},
		{"no kind", proto.Error{Code: proto.CodeInternal, Message: "a\nb"}, "Error [internal]: a b\n"},
		{"an invalid request", proto.Error{Code: proto.CodeInvalid, Message: "no such file"}, "Error [usage]: no such file\n"},
		{"an unknown kind", proto.Error{Kind: "x\x1b", Code: proto.CodeTimeout, Message: "late"}, "Error [timeout]: late\n"},
		{"canceled by the service", proto.Error{Code: proto.CodeCanceled, Message: "the service stops"}, "Error [internal]: the service stops\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "")
			f.plays(playing(proto.Text{}, &test.err, say1))
			expect(t, newWorld(t).command("--socket", f.socket, "exec", "-p", "play"), "", 1, "one \n", test.stderr)
			status, out, stderr := run(t, newWorld(t).command("--socket", f.socket, "--format", "json", "exec", "-p", "play"), "")
			lines := strings.Split(strings.TrimSpace(out), "\n")
			var last struct{ Type, Message, Kind string }
			zinotest.Must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
			if status != 1 || stderr != "" || len(lines) != 3 || last.Type != "error" || !strings.HasSuffix(test.err.Message, last.Message) || !strings.Contains(test.stderr, last.Kind) {
				t.Errorf("as JSON: status %d, stdout %s, stderr %q", status, out, stderr)
			}
		})
	}
}

// TestEventsJSON checks that packets are printed unchanged between header and end.
func TestEventsJSON(t *testing.T) {
	f := newFake(t, "")
	iterations := 2
	f.plays(playing(proto.Text{Content: "one", Iterations: &iterations, StopReason: "stop"}, nil,
		say1, `{"type": "future","x":[1,  2],`+"\n"+`"text":"<b>"}`, wantsBash, used))
	status, out, stderr := run(t, newWorld(t).command("exec", "-p", "play", "--format=json", "--session=notes", "--socket", f.socket), "")
	want := `{"type":"header","schema":"zino.events","version":1,"session_id":"notes"}` + "\n" + say1 + "\n" +
		`{"type":"future","x":[1,2],"text":"<b>"}` + "\n" + wantsBash + "\n" + used + "\n" +
		`{"type":"done","full_text":"one","iterations":2,"stop_reason":"stop"}` + "\n"
	if status != 0 || out != want || stderr != "" {
		t.Errorf("status %d, stderr %q, printed\n%swant\n%s", status, stderr, out, want)
	}
	status, out, stderr = run(t, newWorld(t).command("--no-save", "--format=json", "--socket", f.socket), "one\nfail\n\none\n")
	want = `{"type":"header","schema":"zino.events","version":1}` + "\n" +
		`{"type":"assistant_delta","text":"echo: one"}` + "\n" + `{"type":"done","full_text":"echo: one"}` + "\n" +
		`{"type":"error","message":"this\nfails \u001b[31m","code":"internal","service":"daemon","kind":"internal"}` + "\n" +
		`{"type":"assistant_delta","text":"echo: one"}` + "\n" + `{"type":"done","full_text":"echo: one"}` + "\n"
	if status != 0 || out != want || stderr != "" {
		t.Errorf("a chat: status %d, stderr %q, printed\n%swant\n%s", status, stderr, out, want)
	}
}

// TestEventsBroken checks that an invalid packet ends a turn.
func TestEventsBroken(t *testing.T) {
	for _, packet := range []string{`{"type":"assistant_delta","text":5}`, `{"type":"notice","text":[}`, `{"type":""`} {
		f := newFake(t, "")
		f.plays(playing(proto.Text{Content: "late"}, nil, packet))
		status, out, stderr := run(t, newWorld(t).command("--socket", f.socket, "exec", "-p", "play"), "")
		if status != 1 || out != "" || !strings.HasPrefix(stderr, "Error [internal]: ") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, stdout %q, stderr %q", packet, status, out, stderr)
		}
	}
}
