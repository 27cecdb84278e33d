package chat

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/chat/screen"
)

func strip(s string) string { return screen.Strip(s) }

// TestActivity checks the activity line in each state of a turn.
func TestActivity(t *testing.T) {
	x := newTestChat(t)
	check := func(want string) {
		t.Helper()
		zinotest.Equal(t, "the activity", x.activityRows(), want)
	}
	x.pass(12 * time.Second)
	check("Working 12s · Esc stops")
	x.send(`{"type":"notice","kind":"retry","text":"HTTP 429: slow down; asking again in 8s (1 of 4)","wait_ms":8000,"provider":"anthropic"}`)
	check("Waiting for anthropic, HTTP 429, retry in 8s")
	x.pass(3 * time.Second)
	check("Waiting for anthropic, HTTP 429, retry in 5s")
	x.send(`{"type":"reasoning","text":"hm"}`)
	x.pass(75 * time.Second)
	check("Thinking 1m15s")
	x.send(`{"type":"assistant_delta","text":"No"}`)
	check("\nNo\nWorking 1m30s · Esc stops")
	x.send(`{"type":"assistant_final","text":"No"}`)
	x.send(`{"type":"todo","items":[{"text":"write the test","status":"active"}]}`)
	check("Working 1m30s · write the test · Esc stops")
	x.packet(packet{turn: x.turn, typ: typeLost})
	check("Connection lost, connecting again · write the test · Esc stops")
	x.send(`{"type":"turn_state","state":"parked","reason":"limit","until":"2026-11-23T10:05:00Z"}`)
	zinotest.Contains(t, "a parked turn", x.activityRows(), "Waiting for the provider's limit until ")
	x.send(`{"type":"turn_state","state":"queued"}`)
	zinotest.Contains(t, "a queued turn", x.activityRows(), "Waiting for another turn to end")
	x.send(`{"type":"turn_state","state":"running"}`)
	zinotest.Contains(t, "a running turn", x.activityRows(), "Working 1m30s")
	x.turn.canceled = true
	zinotest.Contains(t, "a cancelled turn", x.activityRows(), "Stopping")
}

// TestNothingMovesWithoutColours checks that with NO_COLOR the rows change only when the
// turn does something.
func TestNothingMovesWithoutColours(t *testing.T) {
	x := newTestChat(t)
	x.still = true
	x.send(call3("bash", `{"command":"make"}`, "")[:2]...)
	x.pass(3 * time.Second)
	before := x.activityRows()
	zinotest.Equal(t, "rows", before, "bash  make  0s\nWorking 0s · Esc stops")
	x.pass(time.Minute)
	x.send(`{"type":"keepalive"}`)
	zinotest.Equal(t, "later rows", x.activityRows(), before)
	x.send(`{"type":"tool_output","id":"c1","text":"x"}`)
	zinotest.Equal(t, "rows after some output", x.activityRows(), "bash  make  1m03s  x\nWorking 1m03s · Esc stops")
}

// TestTextAfterLostConnection checks that text which comes again is not printed twice, and
// that lost text is marked.
func TestTextAfterLostConnection(t *testing.T) {
	x := newTestChat(t)
	x.send(`{"type":"assistant_delta","text":"One.\n\nTw"}`)
	x.packet(packet{turn: x.turn, typ: typeLost})
	x.send(`{"type":"live","state":"running"}`, `{"type":"assistant_delta","text":"One.\n\nTwo.\n\nThr"}`, `{"type":"assistant_delta","text":"ee"}`, `{"type":"assistant_final","text":"One.\n\nTwo.\n\nThree"}`)
	zinotest.Equal(t, "the text", x.printed(), "One.\n\nTwo.\n\nThree\n")
	x.send(`{"type":"assistant_delta","text":"Old.\n\nmore\nx"}`, `{"type":"retracted"}`, `{"type":"assistant_delta","text":"New."}`, `{"type":"assistant_final","text":"New."}`)
	zinotest.Equal(t, "lost text", x.printed(), "\nOld.\n\nmore x\n\nThe answer was interrupted and begins again.\n\nNew.\n")
	x.send(`{"type":"assistant_delta","text":"not printed"}`, `{"type":"retracted"}`, `{"type":"assistant_final","text":"New again."}`)
	zinotest.Equal(t, "lost text that was not printed", x.printed(), "\nNew again.\n")
}

// TestReasoning checks the ways in which reasoning is shown.
func TestReasoning(t *testing.T) {
	x := newTestChat(t)
	think := func(mode string) string {
		x.reason = mode
		x.send(`{"type":"reasoning","text":"First I\nlook "}`)
		x.pass(12 * time.Second)
		x.send(`{"type":"reasoning","text":"at it."}`, `{"type":"assistant_delta","text":"Well."}`, `{"type":"assistant_final","text":"Well."}`)
		return x.styled()
	}
	zinotest.Equal(t, "folded", think("fold"), "\x1b[2m· thought for 12s  [1]\x1b[m\n\nWell.\n")
	it, _, _ := x.items.get(1)
	zinotest.Equal(t, "the item", strings.Join(it.lines, "|"), "First I|look at it.")
	zinotest.Equal(t, "shown", think("show"), "\n\x1b[2mFirst I\x1b[m\n\x1b[2mlook at it.\x1b[m\n\nWell.\n")
	zinotest.Equal(t, "hidden", think("hide"), "\nWell.\n")
}

// TestTasks checks that the list is printed when it has changed, at most every two
// seconds, and that the last one is printed.
func TestTasks(t *testing.T) {
	x := newTestChat(t)
	list := func(statuses ...string) string {
		var items []string
		for i, s := range statuses {
			items = append(items, fmt.Sprintf(`{"text":"step %d","status":%q}`, i+1, s))
		}
		return `{"type":"todo","items":[` + strings.Join(items, ",") + `]}`
	}
	x.send(list("active", "open"))
	zinotest.Equal(t, "the first list", x.printed(), "Tasks 0/2\n  [>] step 1\n  [ ] step 2\n")
	x.pass(5 * time.Second)
	x.send(list("active", "open"))
	zinotest.Equal(t, "the same list", x.printed(), "")
	x.send(list("done", "active"))
	zinotest.Equal(t, "a changed list", x.printed(), "\nTasks 1/2\n  [x] step 1\n  [>] step 2\n")
	x.pass(time.Second)
	x.send(list("done", "done"))
	zinotest.Equal(t, "a list too soon", x.printed(), "")
	x.pass(time.Second)
	x.ticked()
	zinotest.Equal(t, "the list later", x.printed(), "\nTasks 2/2\n  [x] step 1\n  [x] step 2\n")
	x.send(list("done", "open"), `{"type":"turn_ended","turn":"t-1","state":"done"}`)
	zinotest.Equal(t, "the last list", x.printed(), "\nTasks 1/2\n  [x] step 1\n  [ ] step 2\n")
}

// TestErrors checks how errors are printed.
func TestErrors(t *testing.T) {
	for _, test := range []struct {
		name string
		err  proto.Error
		want string
	}{
		{"a status", proto.Error{Kind: "http_status", Status: 401, Message: "HTTP 401: invalid x-api-key"}, "Error [http_status]: HTTP 401: invalid x-api-key\n  Try: zino auth set anthropic\n"},
		{"a kind that does not cross sockets", proto.Error{Kind: "transport", Message: "exc hung up"}, "Error [internal]: exc hung up\n"},
		{"details", proto.Error{Kind: "parse", Message: "not JSON", Details: "line 1\nline 2"}, "Error [parse]: not JSON\n  Details: line 1\n           line 2\n"},
		{"details that the message has", proto.Error{Kind: "parse", Message: "not JSON: line 1  x", Details: "line 1\nx"}, "Error [parse]: not JSON: line 1  x\n"},
		{
			"JSON without a text",
			proto.Error{Kind: "http_status", Status: 500, Message: "HTTP 500: no", Details: "{\"error\":{\"type\":\"x_error\"},\"id\":12}\n{\"hint\":\"see there\"}"},
			"Error [http_status]: HTTP 500: no\n  Details: {\"hint\":\"see there\"}\n",
		},
		{"relaying services", proto.Error{Message: "Agentic runtime error: rtr error: no", Code: proto.CodeInvalid}, "Error [usage]: no\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := newTestChat(t)
			x.fail(&test.err)
			got := x.styled()
			zinotest.Equal(t, "printed", strip(got), test.want)
			if !strings.HasPrefix(got, "\x1b[31mError") {
				t.Errorf("the error is not red: %q", got)
			}
		})
	}
}

// TestBlankLines checks that one blank line separates what is printed of turns.
func TestBlankLines(t *testing.T) {
	x := newTestChat(t)
	x.echo(x.messageOf("one"))
	x.send(`{"type":"reasoning","text":"x"}`, `{"type":"assistant_final","text":"Let me look.\n"}`)
	x.send(call3("read", `{"path":"a"}`, `"ok":true,"duration_ms":0,"result":{"ok":true,"data":{"content":"x"}}`)...)
	x.send(call3("read", `{"path":"b"}`, `"ok":true,"duration_ms":0,"result":{"ok":true,"data":{"content":"x"}}`)...)
	x.send(`{"type":"notice","kind":"warning","text":"careful"}`, `{"type":"assistant_final","text":"\n\n# Done\n\n\n\nIt works.\n\n"}`, `{"type":"turn_ended","turn":"t-1","state":"done"}`)
	x.echo(x.messageOf("two"))
	want := "> one\n\n· thought for 0s  [1]\n\nLet me look.\n\n✓ read  a  1 line  0.00s\n✓ read  b  1 line  0.00s\n\ncareful\n\nDone\n\nIt works.\n\n> two\n"
	zinotest.Equal(t, "printed", x.printed(), want)
}

// TestMessagesFromElsewhere checks messages that were not typed here: long ones are folded,
// and the ends of jobs are no messages of the user.
func TestMessagesFromElsewhere(t *testing.T) {
	x := newTestChat(t)
	x.turn.elsewhere = true
	x.send(`{"type":"user_message","text":"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12","via":"start"}`, `{"type":"user_message","text":"[job j-1 ended: exit 0]","via":"job"}`)
	want := "> 1\n  2\n  3\n  4\n  5\n  6\n  7\n  8\n  9\n  10\n  … 2 more lines · /show 1\n\n[job j-1 ended: exit 0]\n"
	zinotest.Equal(t, "printed", x.printed(), want)
	x.send(`{"type":"user_message","text":"Fix issue 12.\n\nContents of a:\n","command":"fix","arguments":"12","via":"start"}`)
	zinotest.Equal(t, "a slash command", x.printed(), "\n> /fix 12\n")
	x.turn.elsewhere = false
	x.queued = []*queued{{message: x.messageOf("also this"), say: "s-1", mode: proto.ViaSteer}}
	x.send(`{"type":"user_message","text":"what was typed","via":"start"}`, `{"type":"user_message","text":"also this","via":"steer","say":"s-1"}`)
	zinotest.Equal(t, "a message that steers", x.printed(), "\n> also this\n")
	if len(x.queued) > 0 {
		t.Error("the message waits still")
	}
}

// TestUnfolded checks what the pager shows: the whole last turn.
func TestUnfolded(t *testing.T) {
	x := newTestChat(t)
	x.say("before")
	x.echo(x.messageOf("count"))
	x.send(`{"type":"reasoning","text":"I count."}`)
	x.send(call3("bash", `{"command":"seq 7"}`, `"ok":true,"duration_ms":0,"result":{"ok":true,"data":{"stdout":"1\n2\n3\n4\n5\n6\n7\n","stderr":"","exit_code":0,"timed_out":false}}`)...)
	x.send(`{"type":"assistant_final","text":"Seven."}`, `{"type":"turn_ended","turn":"t-1","state":"done"}`)
	x.say("after")
	want := "> count\n\n· thought for 0s\n    I count.\n\n✓ bash  seq 7  7 lines  0.00s  [2]\n    1\n    2\n    3\n    4\n    5\n    6\n    7\n\nSeven.\n"
	zinotest.Equal(t, "the turn", strip(x.unfolded.String()), want)
	x.unfolded.restart()
	for range 3 {
		x.unfolded.add(strings.Repeat("x", unfoldedMax/2+1))
	}
	if n := len(x.unfolded.String()); n > unfoldedMax {
		t.Errorf("%d bytes are kept", n)
	}
}

// TestAnswersForScreenReaders checks that nothing is drawn with characters, and that lists
// are numbered.
func TestAnswersForScreenReaders(t *testing.T) {
	x := newTestChat(t, reader)
	x.send(`{"type":"reasoning","text":"Hm"}`, `{"type":"assistant_delta","text":"# Plan\n\n- one\n"}`, `{"type":"assistant_delta","text":"- two\n  1. inner\n- three\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"}`,
		`{"type":"assistant_delta","text":"> said\n> twice\n\n---\n\n1. last\n"}`, `{"type":"turn_ended","turn":"t-1","state":"done"}`)
	want := "Thinking.\nThought for 0s: /show 1\nPlan\n\n1. one\n2. two\n   1. inner\n3. three\n\na: 1\nb: 2\n\nQuote: said twice\n\n---\n\n1. last\nDone.\n"
	zinotest.Equal(t, "printed", x.printed(), want)
}

// TestQueuedMessagesReturn checks that after an error nothing that waits begins: it returns
// to the editor.
func TestQueuedMessagesReturn(t *testing.T) {
	x := newTestChat(t)
	x.queued = []*queued{{message: x.messageOf("steer"), say: "s-1", mode: proto.ViaSteer}, {message: x.messageOf("then"), mode: proto.ViaQueue}}
	zinotest.Equal(t, "rows", x.activityRows(), "Working 0s · Esc stops\nnext: steer\nthen: then")
	x.send(`{"type":"turn_ended","turn":"t-1","state":"error","result":{"type":"error","message":"no","code":"internal"},"returned":[{"say":"s-1","text":"steer"}]}`)
	zinotest.Equal(t, "the editor", x.editor.Text(), "steer\n\nthen")
	if x.turn != nil || len(x.queued) > 0 {
		t.Error("something goes on")
	}
}

// TestOpenTurnOfSession checks that a turn that is followed without its id can be stopped.
func TestOpenTurnOfSession(t *testing.T) {
	x := newTestChat(t)
	x.methods = map[string]bool{proto.DaemonTurnStart.Type: true}
	x.turn.id = ""
	x.cancelTurn()
	zinotest.Equal(t, "requests before the id is known", len(x.early), 0)
	x.send(`{"type":"assistant_delta","turn":"t-5","text":"so"}`, `{"type":"assistant_delta","turn":"t-5","text":" on"}`)
	zinotest.Equal(t, "the turn", x.turn.id, "t-5")
	zinotest.Equal(t, "requests", len(x.early), 1)
}

// packetExamples has a packet of each type.
var packetExamples = append(call3("bash", `{"command":"x"}`, meanDiff+`,"ok":true,"duration_ms":1,"result":{"ok":true,"data":{"stdout":"a\nb","stderr":"c","exit_code":1}}`),
	`{"type":"user_message","turn":"t-1","text":"hi","via":"steer","say":"s-1","next":530}`, `{"type":"user_message","text":"[job j-k3v9q2mx ended: exit 0]","via":"job"}`,
	`{"type":"live","turn":"t-1","state":"running","next":2210}`, `{"type":"assistant_delta","text":"| a |\n|---|\n| b"}`, `{"type":"assistant_final","text":"done"}`,
	`{"type":"reasoning","text":"hm\nx"}`, `{"type":"retracted","turn":"t-1"}`, `{"type":"tool_output","id":"c1","text":"x"}`,
	`{"type":"usage","input_tokens":10,"output_tokens":2,"cost_usd":0.01,"model":"m","provider":"p","context_window":100}`,
	`{"type":"notice","kind":"retry","text":"HTTP 429","wait_ms":10}`, `{"type":"todo","items":[{"text":"a","status":"active"}]}`,
	`{"type":"turn_state","state":"parked","reason":"approval","until":"2026-11-23T10:00:00Z"}`, `{"type":"of a later version","x":[1,{}]}`,
	`{"type":"approval_requested","id":"ap-1","call":{"tool":"bash","input":{"command":"rm x"}},"digest":"d","preview":{"diff":"@@ -1 +1 @@\n-a\n+b"}}`,
	`{"type":"approval_closed","approval":"ap-1"}`,
	`{"type":"turn_ended","turn":"t-1","state":"error","result":{"type":"error","message":"no","code":"internal"},"returned":[{"say":"s","text":"t"}]}`)

// TestBrokenPackets checks that no part of a packet makes the chat panic, and that the
// region can be drawn after each.
func TestBrokenPackets(t *testing.T) {
	for _, p := range packetExamples {
		_, rest, _ := strings.Cut(p, `"type":"`)
		typ, _, _ := strings.Cut(rest, `"`)
		for n := range len(p) + 1 {
			for _, payload := range []string{p[:n], strings.ReplaceAll(p[:n], `"`, "7"), `{"type":"` + typ + `",` + p[n:]} {
				x := newTestChat(t)
				x.send(packetExamples[0])
				x.packet(packet{turn: x.turn, typ: typ, payload: []byte(payload)})
				x.region(80, 24)
				x.cancel()
			}
		}
	}
}

// TestNotify checks when the end of a turn rings.
func TestNotify(t *testing.T) {
	for _, test := range []struct {
		name                 string
		notify, program      string
		took                 time.Duration
		focusing, focused    bool
		state, want, wantAsk string
	}{
		{"no focus reports", "auto", "", 10 * time.Second, false, false, "done", "\a", "\a"},
		{"a short turn", "auto", "kitty", 9 * time.Second, false, false, "done", "", "\a"},
		{"focused", "auto", "kitty", time.Minute, true, true, "done", "", "\a"},
		{"unfocused", "auto", "kitty", time.Minute, true, false, "done", "\a\x1b]9;zino: done\x1b\\", "\a\x1b]9;zino: a question waits\x1b\\"},
		{"failed", "auto", "WezTerm", time.Minute, true, false, "error", "\a\x1b]9;zino: the turn failed\x1b\\", "\a\x1b]9;zino: a question waits\x1b\\"},
		{"the bell only", "bell", "kitty", time.Minute, true, false, "done", "\a", "\a"},
		{"off", "off", "kitty", time.Minute, true, false, "done", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := newTestChat(t, func(s *proto.ChatStart) { s.Chat.Notify = test.notify })
			t.Setenv("TERM_PROGRAM", test.program)
			x.focusing, x.focused = test.focusing, test.focused
			x.pass(test.took)
			x.bell()
			zinotest.Equal(t, "a question", x.sent.String(), test.wantAsk)
			x.sent.Reset()
			x.send(`{"type":"turn_ended","turn":"t-1","state":"` + test.state + `"}`)
			zinotest.Equal(t, "the end", x.sent.String(), test.want)
		})
	}
}
