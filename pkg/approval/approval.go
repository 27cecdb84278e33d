// Package approval describes requests to allow a call in words, for the programs that
// show them to a person. What it returns stems from a model: the caller escapes control
// characters.
package approval

import (
	"cmp"
	"fmt"
	"strings"

	"zino/pkg/gate/propose"
	"zino/pkg/wire"
	"zino/proto"
)

// Grants reports whether a request can be answered with session or always.
func Grants(a *proto.Approval, scope string) bool {
	switch a.Grantable {
	case proto.AnswerOnce:
		return false
	case proto.AnswerSession:
		return scope == proto.AnswerSession
	}
	return true
}

// Pattern returns the pattern that is proposed for a grant of calls like this one; "": none
// can be derived, and the grant is for this call only.
func Pattern(call *proto.AskedCall) string {
	switch call.Tool {
	case "bash":
		return propose.Pattern(strings.TrimSpace(Argument(call)))
	case "read", "write", "edit":
		return Argument(call)
	}
	return ""
}

// Shown returns the name and the arguments of a call as people read them: SERVER.TOOL and
// the tool's own arguments if it is that of an MCP server.
func Shown(tool string, input proto.Raw) (name string, arguments proto.Raw) {
	if rest, ok := strings.CutPrefix(tool, "mcp__"); ok {
		if server, name, ok := strings.Cut(rest, "__"); ok {
			return server + "." + name, input
		}
	}
	if tool != "mcp_call" && !strings.HasPrefix(tool, "mcp:") {
		return tool, input
	}
	var call struct {
		Server    string    `json:"server"`
		Tool      string    `json:"tool"`
		Arguments proto.Raw `json:"arguments"`
	}
	if wire.DecodeReply(input, &call) != nil || call.Server == "" || call.Tool == "" {
		return tool, input
	}
	if s, ok := wire.Unquote(nil, call.Arguments); ok { // models also write them as a string
		call.Arguments = s
	}
	return call.Server + "." + call.Tool, call.Arguments
}

// mainArgument maps tools to the argument that says what they run or change.
var mainArgument = map[string]string{"bash": "command", "read": "path", "write": "path", "edit": "path"}

// Argument returns what the tool runs or changes, whole; "": it has no such argument.
func Argument(call *proto.AskedCall) string {
	name := mainArgument[call.Tool]
	for key, value := range wire.Members(call.Input) {
		if name != "" && string(key) == name {
			return unquote(value)
		}
	}
	return ""
}

// unquote returns the text of a JSON string, and other JSON as it is.
func unquote(raw []byte) string {
	if s, ok := wire.Unquote(nil, raw); ok {
		return string(s)
	}
	return string(raw)
}

// Head returns what is asked, why, and how the call would run. root is the directory of
// the reader: another working directory is named, as place formats it.
func Head(a *proto.Approval, root string, place func(path string) string) string {
	does := map[string]string{"read": "read", "write": "write", "edit": "change"}[a.Call.Tool]
	if does == "" {
		does = "run"
	}
	name, _ := Shown(a.Call.Tool, a.Call.Input)
	head := name + " wants to " + does
	if a.Kind == proto.ApprovalEscalation {
		head += " again"
	}
	if len(a.Reasons) > 0 {
		head += " (" + strings.Join(a.Reasons, "; ") + ")"
	}
	if level := Level(a); level != "" {
		head += ", sandbox " + level
	}
	if dir := a.Call.Cwd; dir != "" && dir != root {
		head += ", in " + place(dir)
	}
	return head
}

// Level returns the confinement of the call, with escalation behind that of the turn.
func Level(a *proto.Approval) string {
	level := string(a.Call.Sandbox)
	if a.From != "" && a.From != a.Call.Sandbox {
		level = string(a.From) + " → " + level
	}
	if a.Call.Network && a.Call.Sandbox != proto.LevelOff {
		level += ", network"
	}
	return level
}

// Body returns all of the call, except a diff that shows it better.
func Body(a *proto.Approval) string {
	var lines []string
	main, escalate := Argument(&a.Call), ""
	if main != "" {
		lines = append(lines, strings.TrimRight(main, "\n"))
	} else if len(a.Preview.Commands) > 0 {
		lines = append(lines, a.Preview.Commands...)
	}
	_, arguments := Shown(a.Call.Tool, a.Call.Input)
	for key, value := range wire.Members(arguments) {
		switch name := string(key); {
		case name == mainArgument[a.Call.Tool]:
		case name == "escalate":
			escalate = unquote(value)
		case a.Preview.Diff == "":
			lines = append(lines, name+": "+strings.TrimRight(unquote(value), "\n"))
		}
	}
	if a.Kind == proto.ApprovalEscalation {
		if escalate != "" {
			lines = append(lines, "Reason: "+escalate)
		}
		lines = append(lines, "The whole command runs again.")
	}
	return strings.Join(lines, "\n")
}

// ClosedText says how a request ended that was closed in a state: "Denied by bob (uid 1001)".
func ClosedText(state string, by *proto.Requester) string {
	what := map[string]string{
		proto.ApprovalApproved: "Allowed", proto.ApprovalUsed: "Allowed", proto.ApprovalDenied: "Denied", proto.ApprovalExpired: "Expired",
		proto.ApprovalCanceled: "No longer needed", proto.ApprovalStale: "No longer needed", "": "No longer needed",
	}[state]
	if what == "" { // of a later version
		what = state
	}
	if by != nil {
		what += " by " + Person(*by)
	}
	return what
}

// Answered maps answers to what was done.
var Answered = map[string]string{
	proto.AnswerOnce: "Allowed once", proto.AnswerSession: "Allowed for this session", proto.AnswerAlways: "Always allowed", proto.AnswerDeny: "Denied",
}

// Person names a user.
func Person(p proto.Requester) string {
	if p.User == "" {
		return fmt.Sprintf("uid %d", p.UID)
	}
	return fmt.Sprintf("%s (uid %d)", p.User, p.UID)
}

// Granted describes what a grant allows: "bash make *, sandbox off, always below ~/p".
func Granted(g *proto.Grant, place func(path string) string) string {
	line := g.Tool
	if what := cmp.Or(g.Command, g.Path, g.Host, g.MCP, g.Input); what != "" {
		line += " " + what
	}
	line += ", sandbox " + string(g.Sandbox)
	if g.Network && g.Sandbox != proto.LevelOff {
		line += ", network"
	}
	if g.Scope == proto.AnswerSession {
		return line + ", for the session"
	}
	if g.Root == "*" {
		return line + ", always"
	}
	return line + ", always below " + place(g.Root)
}
