package chat

import (
	"strings"
	"testing"

	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestPattern checks which pattern is proposed for a grant.
func TestPattern(t *testing.T) {
	for _, tt := range []struct{ command, want string }{
		{"git push origin main", "git push *"},
		{"git push", "git push *"},
		{"go test ./...", "go test *"},
		{"make install", "make *"},
		{"make", "make *"},
		{"rm -rf build", "rm -rf build*"},
		// A name that begins elsewhere, or ends a number, would allow too much.
		{"rm -rf /", "rm -rf /"},
		{"rm -rf .", "rm -rf ."},
		{"rm -rf ../build", "rm -rf ../build"},
		{"kill 1", "kill 1"},
		{"reboot", "reboot"},
		// Options before the subcommand, and subcommands that run others.
		{"git -C /x push", "git -C /x push"},
		{"docker run alpine", "docker run alpine"},
		{"npm exec x", "npm exec x"},
		// Words that the shell expands.
		{"rm -rf $HOME", "rm -rf $HOME"},
		{"rm -rf *", "rm -rf *"},
		{"rm -rf ~", "rm -rf ~"},
		{"rm -rf {a,b}", "rm -rf {a,b}"},
		{`git commit -m "two words"`, `git commit -m "two words"`},
		{`g\it push`, `g\it push`},
		// Several commands, redirections, assignments.
		{"git push; rm x", "git push; rm x"},
		{"git push && rm x", "git push && rm x"},
		{"git push | sh", "git push | sh"},
		{"git push\nrm x", "git push\nrm x"},
		{"git push &", "git push &"},
		{"git log > x", "git log > x"},
		{"git push `x`", "git push `x`"},
		{"PATH=/tmp git push", "PATH=/tmp git push"},
		// Interpreters, wrappers, and programs named by a path.
		{"python x.py", "python x.py"},
		{"python3.12 x.py", "python3.12 x.py"},
		{"sudo make install", "sudo make install"},
		{"env make install", "env make install"},
		{"find src -delete", "find src -delete"},
		{"ssh host", "ssh host"},
		{"./run x", "./run x"},
		{"  make install \n", "make *"},
		{"", ""},
	} {
		input, err := wire.AppendObject(nil, "", struct {
			Command string `json:"command"`
		}{tt.command})
		zinotest.Must(t, err)
		var a approval
		a.Call.Tool, a.Call.Input = "bash", input
		zinotest.Equal(t, tt.command, a.pattern(), tt.want)
	}
	var a approval
	a.Call.Tool, a.Call.Input = "edit", proto.Raw(`{"path":"src/a.go","new":"x"}`)
	zinotest.Equal(t, "an edit", a.pattern(), "src/a.go")
	a.Call.Tool, a.Call.Input = "page_eval", proto.Raw(`{"code":"1+1"}`)
	zinotest.Equal(t, "another tool", a.pattern(), "")
}

// TestPerson checks how the person is named who answered a request.
func TestPerson(t *testing.T) {
	for _, tt := range []struct{ by, want string }{
		{`{"uid":1000,"user":"ann"}`, "ann (uid 1000)"},
		{`{"uid":1003}`, "uid 1003"},
		{`{"user":"ann"}`, "ann"},
		{`"root"`, "root"},
		{`{"uid":0,"user":"a\u001b[31m"}`, `a` + safe("\x1b") + `[31m (uid 0)`},
		{`7`, ""},
		{``, ""},
	} {
		zinotest.Equal(t, tt.by, person(proto.Raw(tt.by)), tt.want)
	}
}

// TestApprovalBody checks that all of a call is shown, and nothing of it as a control
// character.
func TestApprovalBody(t *testing.T) {
	for _, tt := range []struct{ request, want string }{
		{`{"call":{"tool":"bash","input":{"command":"a\nb\u001b[2J"}}}`, "a|b" + safe("\x1b") + "[2J"},
		{`{"call":{"tool":"page_eval","input":{"code":"1","page":"x"}}}`, "code: 1|page: x"},
		{`{"call":{"tool":"bash","input":{}},"preview":{"commands":["a","b"]}}`, "a|b"},
		{`{"kind":"escalation","call":{"tool":"bash","input":{"command":"make","escalate":"no network"}}}`, "make|Reason: no network|The whole command runs again."},
	} {
		var a approval
		zinotest.Must(t, wire.DecodeReply([]byte(tt.request), &a))
		var got strings.Builder
		for i, line := range a.body() {
			if i > 0 {
				got.WriteString("|")
			}
			got.WriteString(line)
		}
		zinotest.Equal(t, tt.request, got.String(), tt.want)
	}
}
