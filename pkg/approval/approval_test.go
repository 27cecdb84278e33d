package approval

import (
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
		zinotest.Equal(t, tt.command, Pattern(&proto.AskedCall{Tool: "bash", Input: input}), tt.want)
	}
	for _, tt := range []struct{ tool, input, want string }{
		{"edit", `{"path":"src/a.go","new":"x"}`, "src/a.go"},
		{"page_eval", `{"code":"1+1"}`, ""},
	} {
		zinotest.Equal(t, tt.tool, Pattern(&proto.AskedCall{Tool: tt.tool, Input: proto.Raw(tt.input)}), tt.want)
	}
}

// TestGrants checks which answers a request can be given.
func TestGrants(t *testing.T) {
	for grantable, want := range map[string][2]bool{"once": {false, false}, "session": {true, false}, "always": {true, true}, "": {true, true}} {
		a := proto.Approval{Grantable: grantable}
		zinotest.Equal(t, grantable, [2]bool{Grants(&a, proto.AnswerSession), Grants(&a, proto.AnswerAlways)}, want)
	}
}

// TestDescriptions checks that all of a call is shown, and how it would run.
func TestDescriptions(t *testing.T) {
	for _, tt := range []struct{ request, head, body string }{
		{
			`{"call":{"tool":"bash","input":{"command":"a\nb\n"},"sandbox":"off","network":true,"cwd":"/p"},"reasons":["mode ask","rule 1"]}`,
			"bash wants to run (mode ask; rule 1), sandbox off", "a\nb",
		},
		{
			`{"call":{"tool":"bash","input":{"command":"make","background":true},"sandbox":"workspace-write","network":true,"cwd":"/q"}}`,
			"bash wants to run, sandbox workspace-write, network, in Q", "make\nbackground: true",
		},
		{`{"call":{"tool":"page_eval","input":{"code":"1","page":"x"}}}`, "page_eval wants to run", "code: 1\npage: x"},
		{`{"call":{"tool":"bash","input":{}},"preview":{"commands":["a","b"]}}`, "bash wants to run", "a\nb"},
		{`{"call":{"tool":"write","input":{"path":"x","content":"one\ntwo"}}}`, "write wants to write", "x\ncontent: one\ntwo"},
		{`{"call":{"tool":"edit","input":{"path":"x","old":"a","new":"b"}},"preview":{"diff":"@@"}}`, "edit wants to change", "x"},
		{
			`{"kind":"escalation","from":"workspace-write","call":{"tool":"bash","input":{"command":"make","escalate":"no network"},"sandbox":"off","network":true}}`,
			"bash wants to run again, sandbox workspace-write → off", "make\nReason: no network\nThe whole command runs again.",
		},
	} {
		var a proto.Approval
		zinotest.Must(t, wire.DecodeReply([]byte(tt.request), &a))
		zinotest.Equal(t, tt.request, Head(&a, "/p", func(string) string { return "Q" }), tt.head)
		zinotest.Equal(t, tt.request, Body(&a), tt.body)
	}
}

// TestClosedText checks how the end of a request is described, and by whom.
func TestClosedText(t *testing.T) {
	for _, tt := range []struct {
		state string
		by    *proto.Requester
		want  string
	}{
		{proto.ApprovalDenied, &proto.Requester{UID: 1001, User: "bob"}, "Denied by bob (uid 1001)"},
		{proto.ApprovalUsed, &proto.Requester{UID: 1003}, "Allowed by uid 1003"},
		{proto.ApprovalExpired, nil, "Expired"},
		{proto.ApprovalCanceled, nil, "No longer needed"},
		{"later", nil, "later"},
	} {
		zinotest.Equal(t, tt.state, ClosedText(tt.state, tt.by), tt.want)
	}
}

// TestGranted checks how a grant is described.
func TestGranted(t *testing.T) {
	place := func(path string) string { return "~" + path }
	for _, tt := range []struct {
		grant proto.Grant
		want  string
	}{
		{proto.Grant{Tool: "bash", Command: "make *", Sandbox: "off", Network: true, Scope: "always", Root: "/p"}, "bash make *, sandbox off, always below ~/p"},
		{proto.Grant{Tool: "bash", Command: "x", Sandbox: "unit", Network: true, Scope: "session"}, "bash x, sandbox unit, network, for the session"},
		{proto.Grant{Tool: "page_eval", Input: `{"code":"1"}`, Sandbox: "off", Scope: "always", Root: "*"}, `page_eval {"code":"1"}, sandbox off, always`},
	} {
		zinotest.Equal(t, tt.want, Granted(&tt.grant, place), tt.want)
	}
}

// TestShown checks the names of tools of MCP servers, direct and by mcp_call.
func TestShown(t *testing.T) {
	for _, tt := range []struct{ tool, input, name, arguments string }{
		{"bash", `{"command":"x"}`, "bash", `{"command":"x"}`},
		{"mcp__github__star__it", `{"a":1}`, "github.star__it", `{"a":1}`},
		{"mcp__github", `{}`, "mcp__github", `{}`},
		{"mcp_call", `{"server":"github","tool":"star","arguments":{"a":1}}`, "github.star", `{"a":1}`},
		{"mcp_call", `{"server":"github","tool":"star","arguments":"{\"a\":1}"}`, "github.star", `{"a":1}`},
		{"mcp_call", `{"server":"github","tool":"star"}`, "github.star", ``},
		{"mcp_call", `{"server":1}`, "mcp_call", `{"server":1}`},
		{"mcp:github/star", `{"server":"github","tool":"star","arguments":{"a":1}}`, "github.star", `{"a":1}`},
		{"mcp:github/star", `{}`, "mcp:github/star", `{}`},
		{"mcp_search", `{"query":"x"}`, "mcp_search", `{"query":"x"}`},
	} {
		name, arguments := Shown(tt.tool, proto.Raw(tt.input))
		zinotest.Equal(t, tt.tool+" "+tt.input, name+" "+string(arguments), tt.name+" "+tt.arguments)
	}
	a := &proto.Approval{Call: proto.AskedCall{Tool: "mcp:github/star", Input: proto.Raw(`{"server":"github","tool":"star","arguments":{"repo":"zino"}}`)}}
	zinotest.Equal(t, "the request", Head(a, "", nil)+"\n"+Body(a), "github.star wants to run\nrepo: zino")
}
