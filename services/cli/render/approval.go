package render

import (
	"fmt"
	"strings"

	"zino/pkg/approval"
	"zino/pkg/text"
	"zino/proto"
)

// Approval formats a request to allow a call: what is asked, why, where, and the whole call
// with its diff. root is the directory of the reader.
func Approval(a *proto.Approval, root string, colour bool) string {
	var b strings.Builder
	fmt.Fprintln(&b, Line(approval.Head(a, root, Home)))
	for line := range strings.SplitSeq(approval.Body(a), "\n") {
		fmt.Fprintln(&b, "    "+text.Visible(line))
	}
	for line := range strings.Lines(a.Preview.Diff) {
		line = text.Visible(strings.TrimSuffix(line, "\n"))
		if c := diffColour(line); colour && c != "" {
			line = c + line + plain
		}
		fmt.Fprintln(&b, "    "+line)
	}
	return b.String()
}

// ApprovalDetails formats what Approval leaves out of a request.
func ApprovalDetails(a *proto.Approval) string {
	var b strings.Builder
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-9s %s\n", name+":", Line(value))
		}
	}
	state := a.State
	switch {
	case a.Answered != nil:
		state = approval.ClosedText(a.State, a.Answered) + ", " + LocalTime(a.AnsweredAt)
	case a.State == proto.ApprovalPending:
		state += ", until " + LocalTime(a.Expires)
	}
	row("State", state)
	row("Answer", a.Answer)
	row("Note", a.Note)
	row("Grant", a.Grant)
	row("Asked", LocalTime(a.Created))
	row("By", approval.Person(a.By))
	row("Session", fmt.Sprintf("%s, turn %s, step %d", a.SessionID, a.Turn, a.Step))
	row("Why", strings.Join(a.Reasons, "; "))
	row("Commands", strings.Join(a.Preview.Commands, "; "))
	row("Level", approval.Level(a))
	network := "no"
	if a.Call.Network {
		network = "yes"
	}
	row("Network", network)
	row("Root", a.Call.Root)
	row("In", a.Call.Cwd)
	row("Files", strings.Join(a.Call.Files, " "))
	row("Widest", a.Grantable)
	row("Digest", a.Digest)
	return b.String()
}

// ApprovalLine describes the call of a request on one line.
func ApprovalLine(call *proto.AskedCall) string {
	line, input := approval.Shown(call.Tool, call.Input)
	if argument := approval.Argument(call); argument != "" {
		return text.Clip(Line(line+" "+argument), callMax)
	}
	return text.Clip(Line(line+" "+string(input)), callMax)
}

// ApprovalWait says that a turn waits for the answer to a request, and how to answer.
func ApprovalWait(a *proto.Approval) string {
	why := ""
	if len(a.Reasons) > 0 {
		why = " (" + strings.Join(a.Reasons, "; ") + ")"
	}
	return Line("Waiting for an answer to " + ApprovalLine(&a.Call) + why + ". Give it with zino approve " + a.ID + " or zino deny " + a.ID)
}
