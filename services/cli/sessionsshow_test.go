package cli

import (
	"fmt"
	"strings"
	"testing"
)

// showing has a fake hold one session of these events.
func showing(t *testing.T, events ...string) *fakeSessions {
	t.Helper()
	f := newFakeSessions(t, "abc")
	f.with(func() { f.events["abc"] = events })
	return f
}

const shownSession = `Session abc
Begun 2026-11-21 14:03
In /home/x
A copy of 550e

User, 2026-11-21 14:03:
  Fix it.
  Assistant: ^[[2J

Assistant:
  I will

Tool requested: bash command="go test\n" n=3 list=[1, 2]
Tool finished: bash exit=1 (1.23s)
  out
  [stderr]
  warned

Tool requested: read path="a b"
Tool finished: read failed
  ENOENT: File not found
Tool finished: (a call that is not here)
  text

Tool requested: read path="b"
Tool finished: read
  line
    indented

Tool requested: edit

Tool requested: bash
Tool finished: edit (0.00s)
  {"path":"/b","replacements":1}
Tool finished: bash timed_out=true

Usage: 1200 tokens in (800 from the cache), 30 out, $0.0123, m

Usage: 1 tokens in, 2 out

Assistant (cut off):
  so

Interrupted.

Error [http_status]: HTTP 401: no

Error: something

bot :
  hm
`

func TestSessionsShow(t *testing.T) {
	t.Parallel()
	f := showing(t,
		`{"type":"meta","schema_version":1,"ts":"2026-11-21T14:03:07Z","root":"/home/x","forked_from":{"session_id":"550e","until":9}}`,
		`{"type":"message","role":"user","text":"Fix it.\nAssistant: \u001b[2J\n","ts":"2026-11-21T14:03:08Z"}`,
		`{"type":"message","role":"assistant","text":"I will"}`,
		`{"type":"tool_use","id":"1","name":"bash","input":{"command":"go test\n","n":3,"list":[1, 2]}}`,
		`{"type":"tool_result","tool_use_id":"1","output":{"ok":true,"data":{"stdout":"out\n","stderr":"warned\n","exit_code":1,"timed_out":false}},"duration_ms":1234}`,
		`{"type":"tool_use","id":"2","name":"read","input":{"path":"a b"}}`,
		`{"type":"tool_result","tool_use_id":"2","output":{"ok":false,"error":{"code":"ENOENT","message":"File not found"}}}`,
		`{"type":"tool_result","tool_use_id":"2","output":"text"}`,
		`{"type":"tool_use","id":"3","name":"read","input":{"path":"b"}}`,
		`{"type":"tool_result","tool_use_id":"3","output":{"ok":true,"data":{"content":"line\n  indented\n"}}}`,
		`{"type":"tool_use","id":"4","name":"edit","input":[]}`,
		`{"type":"tool_use","id":"5","name":"bash"}`,
		`{"type":"tool_result","tool_use_id":"4","output":{"ok":true,"data":{"path":"/b","replacements":1}},"duration_ms":0}`,
		`{"type":"tool_result","tool_use_id":"5","output":{"ok":true,"data":{"stdout":"","exit_code":-1,"timed_out":true}}}`,
		`{"type":"usage","input_tokens":1200,"cache_read_tokens":800,"output_tokens":30,"cost_usd":0.0123,"model":"m"}`,
		`{"type":"usage","input_tokens":1,"output_tokens":2}`,
		`{"type":"message","role":"assistant","text":"so","partial":true}`,
		`{"type":"interrupted","role":"system","text":"Interrupted"}`,
		`{"type":"error","message":"HTTP 401: no","kind":"http_status","code":"denied"}`,
		`{"type":"error","message":"something"}`,
		`{"type":"message","role":"bot\n","text":"hm"}`,
	)
	for _, piece := range []int{1000, 1, 7} {
		f.with(func() { f.piece = piece })
		f.expect(t, "sessions show ab", 0, shownSession, "Warning: messages whose role is neither user nor assistant, which no model is sent: 1\n")
	}
}

// TestSessionsShowRest tells of what could not be shown.
func TestSessionsShowRest(t *testing.T) {
	t.Parallel()
	events := []string{
		`{"type":"message","role":"user","text":"hello"}`, `{"type":"message","role":"user"}`, `{"type":"message","text":3}`, `{"no":"type"}`,
		`{"type":"tool_use","id":"1"}`, `{"type":"tool_result"}`, `{"type":"usage","input_tokens":"many"}`, `{"type":"error"}`,
		`{"type":"mood","x":1}`, `{"type":"mood\u001b\n"}`, `{"type":"mood"}`,
	}
	f := showing(t, events...)
	f.with(func() { f.skipped["abc"], f.list[0].Bytes = 3, 49+int64(len(events)) })
	f.expect(t, "sessions show abc", 0, "Session abc\n\nUser:\n  hello\n", "Warning: lines of the file that are no events were left out: 3\n"+
		"Warning: the last line of the file is not whole and was left out: 49 bytes\n"+
		"Warning: events that lack something were left out: 7; zino sessions show abc --json prints them\n"+
		"Warning: events of types that are not known here were left out: mood (2), mood^[  (1)\n")
	f.expect(t, "sessions show abc --format json", 0, strings.Join(events, "\n")+"\n", "Warning: lines of the file that are no events were left out: 3\n"+
		"Warning: the last line of the file is not whole and was left out: 49 bytes\n")
}

// TestSessionsShowTypes names so many unknown types, and no more.
func TestSessionsShowTypes(t *testing.T) {
	t.Parallel()
	var events []string
	for i := range 100 {
		events = append(events, fmt.Sprintf(`{"type":"t%03d"}`, i))
	}
	status, out, said := run(t, showing(t, events...).command(t, "sessions", "show", "abc"), "")
	if status != 0 || out != "Session abc\n" || !strings.Contains(said, ": others (84), t000 (1), ") || !strings.HasSuffix(said, "t015 (1)\n") {
		t.Errorf("status %d, printed %q, said %q", status, out, said)
	}
}

func TestSessionsShowUnknown(t *testing.T) {
	t.Parallel()
	f := newFakeSessions(t, "abc", "abd")
	f.expect(t, "sessions show x", 1, "", "Error [session]: There is no session \"x\".\n")
	f.expect(t, "sessions show ab", 1, "", "Error [usage]: Several sessions begin with \"ab\".\n")
	f.with(func() { f.endless = true })
	f.expect(t, "sessions show abc", 1, "Session abc\n\nUser:\n  words of abc\n", "Error [internal]: the session does not end: is the daemon of another version? try: zino status\n")
}

// TestSessionsShowLong shortens arguments and results, and says so.
func TestSessionsShowLong(t *testing.T) {
	t.Parallel()
	f := showing(t,
		fmt.Sprintf(`{"type":"tool_use","id":"1","name":"write","input":{"path":"a","content":%q}}`, strings.Repeat("x", 5000)),
		fmt.Sprintf(`{"type":"tool_result","tool_use_id":"1","output":{"ok":true,"data":{"stdout":%q}}}`, strings.Repeat("y\n", 100)),
		fmt.Sprintf(`{"type":"tool_result","tool_use_id":"2","output":%q}`, strings.Repeat("z", 5000)),
	)
	status, out, said := run(t, f.command(t, "sessions", "show", "abc"), "")
	if status != 0 || said != "" || len(out) > 3000 {
		t.Errorf("status %d, printed %d bytes, said %q", status, len(out), said)
	}
	for _, want := range []string{
		"Tool requested: write path=\"a\" content=\"xxx", "x…\"\n", "\n" + strings.Repeat("  y\n", 12) + "  [199 bytes in 100 lines in all: zino sessions export shows them]\n",
		"z…\n  [5000 bytes in 1 lines in all: zino sessions export shows them]\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}
