package chat

import (
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// TestApprovalBody checks that no control character of a call reaches the terminal.
func TestApprovalBody(t *testing.T) {
	a := asked{Approval: proto.Approval{Call: proto.AskedCall{Tool: "bash", Input: proto.Raw(`{"command":"a\nb\u001b[2J"}`)}}}
	zinotest.Equal(t, "the lines", strings.Join(a.body(), "|"), "a|b"+safe("\x1b")+"[2J")
}
