package chat

import (
	"fmt"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// TestResumedHistory checks that the last two turns of a log are printed as they were, with
// at most 40 lines, and that events of other shapes are skipped.
func TestResumedHistory(t *testing.T) {
	message := func(role, via, text string) string {
		return fmt.Sprintf(`{"type":"message","role":%q,"via":%q,"text":%q}`, role, via, text)
	}
	open, fill := "", ""
	show := func(events ...string) string {
		x := newTestChat(t)
		x.turn, x.model = nil, "m"
		l := lastTurns{open: open}
		for _, e := range events {
			l.add(proto.Raw(e))
		}
		x.showLast(l)
		fill = x.contextText()
		return x.printed()
	}
	events := []string{
		`{"type":"meta"}`, message("user", "", "first"), message("assistant", "", "1"), message("user", "steer", "more"), message("assistant", "", "2"),
		message("user", "queue", "look"), message("assistant", "", "Let me look."), `{"type":"tool_use","id":"a","name":"read","input":{"path":"x"}}`,
		`{"type":"tool_result","tool_use_id":"a","ok":true,"duration_ms":10,"output":{"ok":true,"data":{"content":"1\n2"}}}`, `{"type":"message","role":7}`, `{"type":"of a later version"}`, `broken`,
		`{"type":"usage","input_tokens":5000,"output_tokens":1000,"model":"m","context_window":100000}`,
		message("assistant", "", "Done."), message("user", "", "and?"), `{"type":"interrupted"}`,
	}
	want := "── 4 earlier messages · /show history ──\n\n> look\n\nLet me look.\n\n✓ read  x  2 lines  0.01s\n\nDone.\n\n> and?\n\nInterrupted.\n"
	zinotest.Equal(t, "the history", show(events...), want)
	zinotest.Equal(t, "the context", fill, "6 %")
	zinotest.Contains(t, "a slash command", show(`{"type":"message","role":"user","text":"Fix it.","command":"fix","arguments":"it"}`), "> /fix it\n")
	open = "t-9"
	follows := []string{`{"type":"message","role":"user","text":"go on","turn":"t-9"}`, `{"type":"message","role":"assistant","text":"So far.","turn":"t-9","step":1}`}
	zinotest.Equal(t, "the history before an open turn", show(append(events, follows...)...), want)
	zinotest.Equal(t, "no history", show(`{"type":"meta"}`), "")
	long := show(message("user", "", "count"), message("assistant", "", strings.Repeat("line\n\n", 60)))
	if n := strings.Count(long, "\n"); n > resumedLines || n < resumedLines-1 || !strings.HasPrefix(long, "── more above · /show history ──\n\nline\n") {
		t.Errorf("%d lines of a long turn:\n%s", n, long)
	}
}
