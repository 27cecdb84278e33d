package zino_test

import (
	"fmt"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/pkg/zinotest/fakedaemon"
)

// TestChatJoined checks a turn that is under way when its session is continued: its message
// is shown once, Esc stops it, and to leave the chat only leaves it.
func TestChatJoined(t *testing.T) {
	t.Parallel()
	const session = "6467336c-1f30-429b-8d2f-0123456789ab"
	d := fakedaemon.New(t)
	open := func(turn string) {
		d.Answer("turns", func(fakedaemon.Request) string {
			info := `{"session_id":"` + session + `","turn":%q,"state":%q,"text":"x","started":%q,"updated":"2026-11-23T10:00:00Z"}`
			return `{"type":"turn_list","turns":[` + fmt.Sprintf(info, "t-queued", "queued", "2026-11-23T10:00:01Z") + "," + fmt.Sprintf(info, turn, "running", "2026-11-23T10:00:00Z") + `]}`
		})
		d.Answer("mem.read_session", func(fakedaemon.Request) string {
			return `{"type":"session_events","events":[{"type":"message","role":"user","text":"hello","turn":"t-1"},{"type":"message","role":"assistant","text":"Hi.","turn":"t-1","step":1},` +
				fmt.Sprintf(`{"type":"message","role":"user","text":"fix %s","turn":%[1]q},{"type":"message","role":"assistant","text":"Looking at %[1]s.","turn":%[1]q,"step":1}]}`, turn)
		})
	}
	d.Answer("mem.find_session", func(fakedaemon.Request) string {
		return `{"type":"session_summary","session_id":"` + session + `","messages":4,"text":"hello","updated":"2026-11-23T10:00:00Z"}`
	})
	follow := func(s *zinotest.Screen, id string) *fakedaemon.Turn {
		turn := d.Turn()
		zinotest.Equal(t, "the turn that is followed", turn.ID, id)
		turn.Send(fmt.Sprintf(`{"type":"user_message","turn":%q,"text":"fix %[1]s","via":"start","next":300,"replay":true}`, id),
			fmt.Sprintf(`{"type":"assistant_final","turn":%q,"text":"Looking at %[1]s.","next":310,"replay":true}`, id))
		turn.Live()
		s.Shows("Looking at "+id, `claude`)
		s.Shows("Esc stops", `claude`)
		for _, line := range []string{"> fix " + id, "Looking at " + id} {
			zinotest.Equal(t, line+" on the screen", strings.Count(s.History(), line), 1)
		}
		return turn
	}

	open("t-8")
	s := newFakeChat(t, d, "sessions resume 6467336c")
	turn := follow(s, "t-8")
	// A message that the turn does not consume is not lost.
	s.Enter("More.")
	zinotest.Equal(t, "what is said", d.Request("turn_say").String("text"), "More.")
	s.Shows("next: More.", `claude`)
	turn.End("done")
	s.Shows("> More.", `claude`)
	s.Eventually("the end of the turn", func(text string) bool { return !strings.Contains(text, "Esc stops") })
	s.Tmux("send-keys", "C-c")

	for id, key := range map[string]string{"t-9": "Escape", "t-10": "C-c"} {
		open(id)
		s.Enter("/resume 6467336c")
		turn = follow(s, id)
		s.Tmux("send-keys", key)
		cancel := d.Request("turn_cancel")
		zinotest.Equal(t, "the turn that is stopped", cancel.String("session_id")+" "+cancel.String("turn"), session+" "+id)
		s.Shows("Stopping", `claude`)
		turn.End("interrupted")
		s.Shows("Interrupted.", `claude`)
		s.Eventually("the end of the turn", func(text string) bool { return !strings.Contains(text, "Stopping") })
	}

	open("t-11")
	s.Enter("/resume 6467336c")
	turn = follow(s, "t-11")
	leave(s)
	zinotest.Receive(t, "the end of the connection", turn.Gone)
	zinotest.Equal(t, "turns that were stopped", len(d.Requests("turn_cancel")), 2)
	zinotest.Contains(t, "the screen", s.Text(), "Go on with: ")
}
