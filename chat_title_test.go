package zino_test

import (
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/fakedaemon"
)

// titled waits until the status line and the terminal show a title.
func titled(t *testing.T, s *zinotest.Screen, title string) {
	t.Helper()
	s.Eventually("the title "+title, func(text string) bool {
		return strings.Contains(text, " · "+title+" · ") && strings.TrimSpace(s.Tmux("display-message", "-p", "#{pane_title}")) == "zino: "+title
	})
}

// TestChatTitle gives a session a title, which stays when the session is continued.
func TestChatTitle(t *testing.T) {
	t.Parallel()
	provider := fakellm.New(fakellm.Turn{Times: fakellm.Forever, Text: "done"})
	t.Cleanup(provider.Close)
	s := zinotest.NewScreen(t, bin, "ANTHROPIC_API_KEY=test", "ANTHROPIC_BASE_URL="+provider.Host, "TMUX=yes")
	s.Tmux("set", "-g", "status", "off")
	s.Tmux("resize-window", "-x", "100", "-y", "24")
	s.Enter("clear; zino")
	s.Shows("/help", `\$0\.00`)
	s.Enter("/rename too soon")
	s.Shows("The session is empty.", ``)
	s.Enter("hello there")
	answered(s, "done")
	titled(t, s, "hello there")
	s.Enter("/rename " + strings.Repeat("x", 81))
	s.Shows("the title has 81 characters: use at most 80", ``)
	s.Enter("/rename fix 漢字")
	s.Shows("is now: fix 漢字", ``)
	titled(t, s, "fix 漢字")
	s.Tmux("send-keys", "C-d")
	s.Shows("Go on with", shell)
	s.Enter("clear; zino --continue")
	s.Shows("hello there", `\$0\.`)
	titled(t, s, "fix 漢字")
	s.Tmux("send-keys", "C-d")
	s.Shows("Go on with", shell)
}

// TestChatTitleElsewhere shows a title that another terminal gives: at once during a turn,
// else with the next turn.
func TestChatTitleElsewhere(t *testing.T) {
	t.Parallel()
	d := fakedaemon.New(t)
	s := newFakeChat(t, d, "")
	turn := begin(s, d, "hello")
	titled(t, s, "hello")
	turn.Send(`{"type":"title","text":"a\u001bname","turn":"t-1"}`)
	s.Shows("· a^[name ·", ``)
	turn.End("done")
	d.Answer("mem.find_session", func(r fakedaemon.Request) string {
		return `{"type":"session_summary","session_id":"` + r.String("session_id") + `","created":"","updated":"","messages":2,"text":"hello","title":"by another","bytes":1}`
	})
	turn = begin(s, d, "more")
	titled(t, s, "by another")
	turn.End("done")
	leave(s)
}
