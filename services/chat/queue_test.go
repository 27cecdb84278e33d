package chat

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// queueTest runs the steps of a case of TestQueue. Messages have one letter; the daemon's
// say of a is s-a.
type queueTest struct {
	*testChat
	known map[string]*queued
	first *turn // for which the messages are typed
}

// step carries out one step, such as "steer a".
func (x *queueTest) step(step string) {
	x.t.Helper()
	word, rest, _ := strings.Cut(step, " ")
	name, arg, _ := strings.Cut(rest, " ")
	switch word {
	case "steer", "queue": // the user types a message during a turn
		x.wait(x.messageOf(name), word)
		if len(x.queued) > 0 {
			x.known[name] = x.queued[len(x.queued)-1]
		}
	case "command":
		x.beginOrWait(message{draft: x.editor.NewDraft("/" + name), command: name}, proto.ViaQueue)
	case "up":
		if len(x.waiting()) == 0 || !x.editor.Empty() {
			x.t.Fatal("nothing waits")
		}
		x.takeBack()
	case "said": // the answer to turn_say: its mode and turn
		mode, turn, _ := strings.Cut(arg, " ")
		x.said(x.known[name], x.first, proto.Said{Say: "s-" + name, Mode: mode, Turn: turn}, nil)
	case "fails": // turn_say fails with a code
		x.said(x.known[name], x.first, proto.Said{}, proto.Errorf(proto.Code(arg), "no"))
	case "delivered": // the packet about a message: the way it came
		x.send(fmt.Sprintf(`{"type":"user_message","text":%q,"via":%q,"say":"s-%s"}`, name, arg, name))
	case "other": // a message from another terminal
		x.send(fmt.Sprintf(`{"type":"user_message","text":%q,"via":"steer","say":"s-other"}`, name))
	case "done":
		x.send(fmt.Sprintf(`{"type":"turn_ended","turn":%q,"state":"done"}`, x.turn.id))
	case "interrupted": // with the messages that are returned
		var says []string
		for name := range strings.FieldsSeq(rest) {
			says = append(says, fmt.Sprintf(`{"say":"s-%s","text":%q}`, name, name))
		}
		x.send(fmt.Sprintf(`{"type":"turn_ended","turn":%q,"state":"interrupted","reason":"canceled","returned":[%s]}`, x.turn.id, strings.Join(says, ",")))
	case "moves": // the turn goes on in another session
		x.send(`{"type":"continued","session_id":"s-2","turn":"t-9"}`)
	case "edit":
		x.editor.Set(name)
	default:
		x.t.Fatalf("unknown step %q", step)
	}
}

// TestQueue checks that a message that is typed while a turn goes on or ends is neither
// lost nor sent twice, in any order of events.
func TestQueue(t *testing.T) {
	for _, c := range []struct {
		name, steps string
		editor      string // its text at the end
		waiting     string // messages that are shown as waiting
		turn        string // the turn that is open: t-2, or the message that begins one
	}{
		{"a steer is delivered", "steer a; said a steer t-1; delivered a steer; done", "", "", ""},
		{"a steer is delivered before its answer", "steer a; delivered a steer; said a steer t-1; done", "", "", ""},
		{"a queued message is followed", "queue a; said a queue t-2; done", "", "then: a", "t-2"},
		{"and delivered", "queue a; said a queue t-2; done; delivered a queue; done", "", "", ""},
		{"the answer comes after the end of the turn", "queue a; done; said a queue t-2", "", "then: a", "t-2"},
		{"a steer that is too late is queued", "steer a; said a queue t-2; done; delivered a queue", "", "", "t-2"},
		{"the turn has ended", "steer a; done; fails a not_found", "", "", "a"},
		{"the turn has ended, its end comes later", "steer a; fails a not_found; done", "", "", "a"},
		{"the turn was interrupted", "steer a; interrupted; fails a not_found", "a", "", ""},
		{"the turn was interrupted, its end comes later", "steer a; fails a not_found; interrupted", "a", "", ""},
		{"returned", "steer a; queue b; said a steer t-1; said b queue t-2; interrupted a b", "a\n\nb", "", ""},
		{"returned before the answer", "steer a; interrupted a; said a steer t-1", "a", "", ""},
		{"not consumed", "steer a; said a steer t-1; done", "a", "", ""},
		{"not consumed, the answer comes later", "steer a; done; said a steer t-1", "a", "", ""},
		{"not consumed, in front of a queued one", "steer a; queue b; said a steer t-1; said b queue t-2; done", "a", "then: b", "t-2"},
		{"the turn goes on in another session", "steer a; said a steer t-1; moves; done", "", "", ""},
		{"the turn goes on in another session before the answer", "steer a; moves; said a steer t-1; done", "", "", ""},
		{"returned in front of what is typed", "steer a; said a steer t-1; edit x; interrupted a", "a\n\nx", "", ""},
		{"what another terminal made is not returned", "steer a; said a steer t-1; interrupted other a", "a", "", ""},
		{"another terminal's message", "steer a; other x; said a steer t-1; interrupted a", "a", "", ""},
		{"too large to steer", "steer a; fails a busy; said a queue t-2; done", "", "then: a", "t-2"},
		{"too many queued at the daemon", "queue a; fails a busy; done", "", "", "a"},
		{"too many, and interrupted", "queue a; fails a busy; interrupted", "a", "", ""},
		{"refused", "steer a; fails a invalid", "a", "", "t-1"},
		{"taken back", "steer a; said a steer t-1; up; done", "a", "", ""},
		{"taken back on its way", "steer a; up; said a steer t-1; done", "a", "", ""},
		{"taken back on its way, which fails", "steer a; up; fails a not_found; done", "a", "", ""},
		{"taken back too late", "steer a; said a steer t-1; up; delivered a steer; done", "", "", ""},
		{"taken back on its way, too late", "steer a; up; delivered a steer; said a steer t-1; done", "", "", ""},
		{"taken back too late and changed", "steer a; said a steer t-1; up; edit ab; delivered a steer; done", "ab", "", ""},
		{"taken back and returned", "steer a; said a steer t-1; up; interrupted a", "a", "", ""},
		{"taken back on its way and returned", "steer a; up; interrupted a; said a steer t-1", "a", "", ""},
		{"the newest one is taken back", "steer a; queue b; up", "b", "next: a", "t-1"},
		{"several in order", "queue a; queue b; said b queue t-3; said a queue t-2; done", "", "then: a then: b", "t-2"},
		{"a command waits here", "command a; done", "", "", "/a"},
		{"a command is taken back", "command a; up; done", "/a", "", ""},
		{"a command, and an interruption", "command a; interrupted", "/a", "", ""},
		{"a command behind one of the daemon", "queue a; said a queue t-2; command b; done; delivered a queue; done", "", "", "/b"},
		{"a local one behind one of the daemon", "queue a; said a queue t-2; queue b; fails b busy; done; delivered a queue; done", "", "", "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &queueTest{testChat: newTestChat(t), known: map[string]*queued{}}
			x.methods = map[string]bool{proto.DaemonTurnSay.Type: true, proto.DaemonTurnStart.Type: true}
			x.ready, x.session, x.first = true, "s-1", x.turn
			x.client = &rpc.Client{Service: "daemon", Path: filepath.Join(zinotest.Dir(t), "none")} // the test answers
			for step := range strings.SplitSeq(c.steps, "; ") {
				x.step(step)
			}
			var waiting []string
			for _, q := range x.waiting() {
				waiting = append(waiting, q.label(false)+q.text)
			}
			zinotest.Equal(t, "editor", x.editor.Text(), c.editor)
			zinotest.Equal(t, "waiting", strings.Join(waiting, " "), c.waiting)
			open := ""
			if x.turn != nil {
				if open = x.turn.id; open == "" {
					printed := strings.TrimSpace(x.printed())
					open = printed[strings.LastIndex(printed, " ")+1:]
				}
			}
			zinotest.Equal(t, "open turn", open, c.turn)
		})
	}
}
