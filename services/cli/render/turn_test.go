package render

import (
	"encoding/json"
	"strings"
	"testing"

	"zino/pkg/text"
	"zino/pkg/zinotest"
)

// FuzzEvents checks that no packet can control the terminal.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		`{"type":"assistant_delta","text":"one "}`,
		`{"type":"assistant_final","text":"one two\n"}`,
		`{"type":"tool_requested","id":"a","name":"bash","input":{"command":"ls \"x\"\n\u001b[31m","timeout":5}}`,
		`{"type":"tool_started","id":"a","name":"bash"}`,
		`{"type":"tool_output","id":"a","text":"line\n"}`,
		`{"type":"tool_finished","id":"a","name":"bash","ok":true,"result":{"ok":true,"data":{"stdout":"","exit_code":3}},"duration_ms":120}`,
		`{"type":"usage","input_tokens":5,"output_tokens":7,"cost_usd":0.5}`,
		`{"type":"notice","kind":"warning","text":"x"}`,
		`{"type":"user_message","turn":"t-1","text":"a\u001b[31m\nb","via":"steer"}`,
		`{"type":"user_message","turn":"t-1","text":"Fix it.","command":"fix","arguments":"it","via":"queue"}`,
		`{"type":"turn_ended","turn":"t-1","state":"interrupted","returned":[{"say":"s-1","text":"a\u001b[2J"}]}`,
		`{"type":"retracted","turn":"t-1"}`,
		`{"type":"todo","items":[{"text":"\u001b]0;x\u0007","status":"active"}]}`,
		`{"type":"undo","turn":"t-1","restored":["a\u001b[31m.go"]}`,
		`{"type":"continued","session_id":"\u009b31m","turn":"t-2"}`,
		`{"type":"tool_requested","id":"a","name":"x","input":[1,"\u001b"]}`,
		`{"type":"tool_finished","id":"a","name":"x","duration_ms":3,"result":{"ok":false,"error":{"code":"\u0007"}}}`,
	} {
		var head struct{ Type string }
		if err := json.Unmarshal([]byte(seed), &head); err != nil {
			f.Fatal(err)
		}
		f.Add(head.Type, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, typ string, payload []byte) {
		var out, stderr strings.Builder
		x := &TextTurns{out: Printer{w: &out, terminal: true}, thoughts: Printer{w: &stderr, terminal: true}, err: &stderr, status: still(), reasoning: true}
		x.Event(typ, payload) // may refuse it
		x.End(Done{}, nil)
		if got := out.String() + stderr.String(); strings.ContainsFunc(got, text.Hidden) {
			t.Errorf("%s %s prints %q", typ, payload, got)
		}
	})
}

// TestJSONAgentsOnce checks that the notice of AGENTS.md is not repeated.
func TestJSONAgentsOnce(t *testing.T) {
	var out strings.Builder
	j := &JSONTurns{w: &out}
	for _, text := range []string{"a", "a", "b"} {
		zinotest.Must(t, j.Event("notice", []byte(`{"type":"notice","kind":"agents","text":"`+text+`"}`)))
	}
	if n := strings.Count(out.String(), "\n"); n != 2 {
		t.Errorf("stdout %s", out.String())
	}
}

// TestServerTools checks that calls of MCP servers are printed as SERVER.TOOL.
func TestServerTools(t *testing.T) {
	var out, stderr strings.Builder
	x := &TextTurns{out: Printer{w: &out}, thoughts: Printer{w: &stderr}, err: &stderr, status: still()}
	for _, packet := range []string{
		`{"type":"tool_requested","id":"a","name":"mcp__github__star","input":{"repo":"zino"}}`,
		`{"type":"tool_requested","id":"b","name":"mcp_call","input":{"server":"pg","tool":"query","arguments":{"sql":"x"}}}`,
		`{"type":"tool_finished","id":"a","name":"mcp__github__star","ok":true,"duration_ms":10,"result":{"ok":true,"data":{"text":"x"}}}`,
		`{"type":"tool_finished","id":"b","name":"mcp_call","ok":false,"duration_ms":10,"result":{"ok":false,"error":{"code":"needs_login","message":"run: zino mcp login pg"}}}`,
	} {
		var head struct{ Type string }
		zinotest.Must(t, json.Unmarshal([]byte(packet), &head))
		zinotest.Must(t, x.Event(head.Type, []byte(packet)))
	}
	zinotest.Equal(t, "stderr", stderr.String(), `Tool requested: github.star repo="zino"
Tool requested: pg.query sql="x"
Done. (0.01s)
Done. (0.01s)
Tool failed: pg.query needs_login: run: zino mcp login pg
`)
}
