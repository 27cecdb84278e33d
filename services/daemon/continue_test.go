package daemon

import (
	"strings"
	"testing"
)

// TestFollowContinued checks that a follower of a turn is told where it went on, also if
// it follows that turn alone.
func TestFollowContinued(t *testing.T) {
	e := newResumeEnv(t)
	e.write(
		"s-1", openTurn, openAsked, `{"type":"turn","turn":"t-1","session_id":"s-1","state":"continued","to":"s-2","to_turn":"t-9"}`,
		strings.Replace(openOther, "queued", "running", 1),
	)
	for _, more := range []string{`,"from":0`, ``} {
		packets := e.follow(`,"turn":"t-1"` + more)
		equalLists(t, "packets", packets[len(packets)-2:], []string{
			`{"type":"continued","session_id":"s-2","turn":"t-9","from_session_id":"s-1","replay":true}`,
			`{"type":"followed","session_id":"s-1","turn":"t-1","state":"continued"}`,
		})
	}
}
