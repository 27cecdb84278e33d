package cli

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"zino/proto"
)

var someContext = proto.ContextReport{
	Parts: []proto.ContextPart{
		{Name: "system prompt", Tokens: 12, Content: "You are \x1b[2J\n"},
		{Name: "/a/AGENTS.md", Tokens: 3, Content: "Be\nbrief."},
		{Name: "tools", Tokens: 1000, Content: `[{"name":"bash"}]`},
	},
	Tokens: 1015, Warnings: []string{"Warning: /b/AGENTS.md: permission denied", "something"},
}

const contextTable = `PART           TOKENS
system prompt      12
/a/AGENTS.md        3
tools            1000
total            1015
`

const contextWarnings = "Warning: /b/AGENTS.md: permission denied\nWarning: something\n"

func newFakeContext(t *testing.T) *fakeSessions {
	t.Helper()
	f := newFakeSessions(t)
	f.with(func() { f.report = someContext })
	return f
}

func TestContext(t *testing.T) {
	t.Parallel()
	f := newFakeContext(t)
	f.expect(t, "context --summary", 0, contextTable, contextWarnings)
	f.expect(t, "context", 0, contextTable+"\n--- system prompt (12 tokens) ---\nYou are \x1b[2J\n\n--- /a/AGENTS.md (3 tokens) ---\nBe\nbrief.\n"+
		"\n--- tools (1000 tokens) ---\n[{\"name\":\"bash\"}]\n", contextWarnings)
	f.expect(t, "context --format json", 0, `{"name":"system prompt","tokens":12,"content":"You are \u001b[2J\n"}`+"\n"+
		`{"name":"/a/AGENTS.md","tokens":3,"content":"Be\nbrief."}`+"\n"+`{"name":"tools","tokens":1000,"content":"[{\"name\":\"bash\"}]"}`+"\n", contextWarnings)
	_, out, _ := run(t, f.command(t, "context", "--format", "json", "--summary"), "")
	if !strings.HasSuffix(out, `{"name":"tools","tokens":1000,"content":""}`+"\n") {
		t.Errorf("a summary in JSON: %s", out)
	}
}

// TestContextRequest checks that the request has the options of a turn.
func TestContextRequest(t *testing.T) {
	t.Parallel()
	f := newFakeContext(t)
	for _, test := range []struct {
		args []string
		want proto.Preview
	}{
		{nil, proto.Preview{Root: "."}},
		{[]string{"--session", "abc", "--root", ".."}, proto.Preview{SessionID: "abc", Root: ".."}},
		{[]string{"--system-prompt", ""}, proto.Preview{Root: ".", SystemPrompt: new("")}},
		{[]string{"--system-prompt", "Be brief."}, proto.Preview{Root: ".", SystemPrompt: new("Be brief.")}},
	} {
		w := newWorld(t)
		cmd := w.command(append([]string{"--socket", f.socket, "context"}, test.args...)...)
		if status, _, stderr := run(t, cmd, ""); status != 0 {
			t.Errorf("%q: status %d, stderr %q", test.args, status, stderr)
		}
		test.want.Root = filepath.Join(w.cwd, test.want.Root)
		var got proto.Preview
		f.with(func() { got = f.previews[len(f.previews)-1] })
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%q: asked for %+v, want %+v", test.args, got, test.want)
		}
	}
}

// TestContextTerminal checks that the contents of files are escaped on a terminal.
func TestContextTerminal(t *testing.T) {
	t.Parallel()
	x := onTerminal(t, newFakeContext(t).command(t, "context"))
	x.Exit()
	x.Shows("You are ^[[2J\r\n")
}
