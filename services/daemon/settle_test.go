package daemon

import (
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// crashedFile is a session whose turn has crashed while its second call ran. extra are
// members of its turn event.
func crashedFile(extra string) string {
	return strings.Join([]string{
		`{"type":"meta","schema_version":1,"ts":"2026-11-22T10:00:00Z"}`,
		`{"type":"turn","turn":"t-crashed12345","session_id":"s-1","state":"running",` + extra + `"ts":"2026-11-22T10:00:00Z"}`,
		`{"type":"message","role":"user","text":"count","turn":"t-crashed12345","ts":"2026-11-22T10:00:00Z"}`,
		`{"type":"say","say":"s-12345678","turn":"t-crashed12345","mode":"steer","text":"quick","ts":"2026-11-22T10:00:00Z"}`,
		`{"type":"tool_use","id":"a","name":"bash","input":{},"turn":"t-crashed12345","step":1,"ts":"2026-11-22T10:00:00Z"}`,
		`{"type":"tool_use","id":"b","name":"bash","input":{},"turn":"t-crashed12345","step":1,"ts":"2026-11-22T10:00:00Z"}`,
		`{"type":"tool_result","tool_use_id":"a","output":{"ok":true},"ok":true,"turn":"t-crashed12345","step":1,"ts":"2026-11-22T10:00:00Z"}`,
	}, "\n") + "\n"
}

// TestCrashedTurn checks that a turn that crashed is ended before the next one begins if
// it may not be resumed, and that the session is busy otherwise.
func TestCrashedTurn(t *testing.T) {
	for _, c := range []struct {
		extra string
		busy  bool
	}{
		{`"attached":true,"lifetime":"persistent",`, false}, {`"lifetime":"private",`, false}, {`"lifetime":"persistent",`, true}, {``, true},
	} {
		b := newRealEnv(t, whole)
		b.service.lifetime = proto.LifetimePrivate
		zinotest.Write(t, filepath.Join(b.sessions, "s-1.jsonl"), crashedFile(c.extra))
		before := b.file("s-1")
		_, last := b.turn(turnPayload)
		if c.busy {
			want := `{"type":"error","message":"session s-1 has an open turn t-crashed12345 of another constellation: zino attach s-1, or zino stop s-1","code":"busy","service":"daemon","kind":"session"}`
			zinotest.Equal(t, "the end", last.Raw, want)
			equalLists(t, "the session", b.file("s-1"), before)
			continue
		}
		zinotest.Equal(t, "the end", last.Type, "done")
		settled := []string{
			`{"type":"tool_result","tool_use_id":"b","output":` + interruptedResult + `,"ok":false,"duration_ms":0,"synthetic":true,"name":"bash","turn":"t-crashed12345","step":1}`,
			strings.Replace(storedBreak, `"t"`, `"t-crashed12345"`, 1),
			`{"type":"turn","turn":"t-crashed12345","session_id":"s-1","state":"interrupted","reason":"crashed"}`,
			`{"type":"say","say":"s-12345678","turn":"t-crashed12345","withdrawn":true}`,
		}
		want := append(before, settled...)
		for _, line := range wholeStored() {
			want = append(want, strings.Replace(line, "persistent", "private", 1))
		}
		equalLists(t, "the session", b.file("s-1"), want)
	}
}
