package daemon

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// commandEnv is a daemon with an exc that answers calls as the test says.
type commandEnv struct {
	*resumeEnv
	calls   rpctest.Record[proto.Call]
	stopped rpctest.Record[proto.StopTurn]
}

func newCommandEnv(t *testing.T, play func(ctx context.Context, out *rpc.Out) (string, error), scripts ...runScript) *commandEnv {
	t.Helper()
	e := &commandEnv{resumeEnv: newResumeEnv(t, scripts...)}
	rpctest.New(t, "exc", e.cfg.Exc.Socket, func(s *rpc.Server) {
		rpc.HandleEvents(s, proto.ExcCall, func(ctx context.Context, req proto.Call, out *rpc.Out) (proto.CallResult, error) {
			req.Input = append(proto.Raw(nil), req.Input...)
			e.calls.Add(req)
			result, err := play(ctx, out)
			return proto.CallResult{Result: proto.Raw(result)}, err
		})
		rpc.Handle(s, proto.ExcStopTurn, func(_ context.Context, req proto.StopTurn) (proto.Empty, error) {
			e.stopped.Add(req)
			return proto.Empty{}, nil
		})
		rpc.Handle(s, proto.ExcJobs, func(context.Context, proto.ListJobs) (proto.JobList, error) {
			return proto.JobList{Jobs: []proto.JobInfo{}}, nil
		})
	})
	return e
}

const builtResult = `{"ok":true,"data":{"stdout":"built\n","stderr":"slow","exit_code":3,"timed_out":false}}`

// prints is a command that prints "built\n" and waits for release; nil: it ends.
func prints(release <-chan struct{}) func(context.Context, *rpc.Out) (string, error) {
	return func(ctx context.Context, out *rpc.Out) (string, error) {
		if err := out.Event(proto.TypeToolOutput, proto.ToolOutput{Text: "built\n"}); err != nil {
			return "", err
		}
		if release != nil {
			if err := rpctest.Until(ctx, release); err != nil {
				return "", err
			}
		}
		return builtResult, out.Event(proto.TypeNotice, proto.Notice{Kind: proto.NoticeUndo, Text: "undo does not cover it"})
	}
}

// volatile are the parts of packets and events that differ between runs.
var volatile = regexp.MustCompile(`"(id|turn)":"[^"]*"|"(duration_ms|next)":\d+`)

func stable(lines []string) (all []string) {
	for _, line := range lines {
		all = append(all, volatile.ReplaceAllStringFunc(line, func(m string) string { return m[:strings.Index(m, ":")] + ":0" }))
	}
	return all
}

// commandEvents are those of a command in session s-1, with what the end adds.
func commandEvents(end ...string) []string {
	begin := `{"type":"turn","turn":"t","session_id":"s-1","state":"running","lifetime":"persistent","attached":true,"command":true}`
	return append([]string{begin}, end...)
}

const (
	commandDone    = `{"type":"turn","turn":"t","session_id":"s-1","state":"done"}`
	commandStopped = `{"type":"turn","turn":"t","session_id":"s-1","state":"interrupted","reason":"canceled"}`
)

// TestCommand checks the packets of a command, what is stored of it, and what the next
// turn's model reads.
func TestCommand(t *testing.T) {
	e := newCommandEnv(t, prints(nil), answer, answer)
	mark := func(typ, rest string) string { return `{"type":"` + typ + `",` + rest + `,"turn":0}` }
	for _, keep := range []bool{true, false} {
		request, err := json.Marshal(map[string]any{
			"type": "run_command", "session_id": "s-1", "root": "/r", "command": "make `x`", "sandbox": "read-only", "network": false, "keep": keep,
			"env": map[string]string{"A": "b"}, "cwd": "/c", "umask": 18, "recall": false,
		})
		zinotest.Must(t, err)
		packets, _ := e.turn(string(request))
		equalLists(t, "packets", stable(packets), []string{
			mark("tool_started", `"id":0,"name":"bash"`),
			mark("tool_output", `"id":0,"text":"built\n"`),
			mark("notice", `"kind":"undo","text":"undo does not cover it"`),
			mark("tool_finished", `"id":0,"name":"bash","ok":true,"result":`+builtResult+`,"duration_ms":0`),
			`{"type":"done","session_id":"s-1","turn":0,"next":0}`,
		})
	}
	call := e.calls.All()[0]
	zinotest.Equal(t, "the input", string(call.Input), "{\"command\":\"make `x`\"}")
	if call.Tool != "bash" || call.Root != "/r" || call.Sandbox != "read-only" || *call.Network || call.SessionID != "s-1" || call.Turn == "" || call.Key != "" ||
		!call.Events || call.Env["A"] != "b" || call.Cwd != "/c" || *call.Umask != 18 || call.OutputBytes != e.cfg.Agr.ToolOutputBytes {
		t.Errorf("exc was asked %+v", call)
	}
	const kept = `{"type":"message","role":"user","text":"I ran: make ` + "`x`" + `\n\n` + "```" + `\nbuilt\nslow\n` + "```" + `\n\nExit status: 3","turn":"t"}`
	zinotest.Contains(t, "the first line", e.file("s-1")[0], `,"recall":false}`)
	equalLists(t, "the session", e.file("s-1")[1:], append(commandEvents(kept, commandDone), commandEvents(commandDone)...))

	e.startTurn("and now?", "")
	zinotest.Eventually(t, "the turn", func() bool { return len(e.requests.All()) == 1 })
	equalLists(t, "roles", roles(t, e.requests.All()[0].Messages), []string{"system", "user", "user"})
	zinotest.Contains(t, "the messages", string(e.requests.All()[0].Messages), "I ran: make `x`", "Exit status: 3", "and now?")
	zinotest.Eventually(t, "the session leaves the memory", e.idle)

	e.read("s-1")
	packets, last := e.turn(`{"type":"run_command","command":"x","keep":true}`)
	if last.Type != "done" || !regexp.MustCompile(`"session_id":"[0-9a-f-]{36}"`).MatchString(last.Raw) {
		t.Errorf("a new session: %s", packets)
	}
}

// TestCommandMessage checks the message of a kept command.
func TestCommandMessage(t *testing.T) {
	data := func(data string) string { return `{"ok":true,"data":{` + data + `}}` }
	for _, c := range []struct{ result, want string }{
		{data(`"stdout":"","stderr":"","exit_code":0`), "```\n```\n\nExit status: 0"},
		{data(`"stdout":"a","stderr":"b","exit_code":0`), "```\na\nb\n```\n\nExit status: 0"},
		{data(`"stdout":"` + "```" + `\n","exit_code":0`), "````\n```\n````\n\nExit status: 0"},
		{data(`"stdout":"a","exit_code":-9`), "```\na\n```\n\nIt was ended by signal 9."},
		{data(`"stdout":"a","exit_code":-1,"timed_out":true`), "```\na\n```\n\nIt was ended by the time limit."},
		{data(`"stdout":"a","exit_code":-1,"timed_out":true,"job":"j-1","running":true`), "```\na\n```\n\nIt continues as job j-1."},
		{data(`"stdout":"a","exit_code":-1,"interrupted":true`), "```\na\n```\n\nIt was interrupted."},
		{interruptedResult, "```\n```\n\nIt was interrupted."},
		{`{"ok":false,"error":{"code":"sandbox","message":"no such level"}}`, "```\n```\n\nIt was not run: no such level"},
		{`5`, "```\n```\n\nIt was not run: its result cannot be read"},
	} {
		result := commandResult(proto.Raw(c.result))
		zinotest.Equal(t, c.result, result.message("x"), "I ran: x\n\n"+c.want)
	}
	long := commandResult(proto.Raw(data(`"stdout":"` + strings.Repeat("ä", keptMax) + `end","exit_code":0`)))
	got := long.message("x")
	zinotest.Contains(t, "a long output", got, "\n[16386 bytes left out]\n", "äend\n```")
	if len(got) > keptMax+200 {
		t.Errorf("the message has %d bytes", len(got))
	}
}

// TestCommandStopped ends a command by hanging up and by turn_cancel: its processes are
// stopped before its end is stored, and the answer before it does not count as cut off.
func TestCommandStopped(t *testing.T) {
	e := newCommandEnv(t, prints(make(chan struct{})), answer, answer)
	e.startTurn("hi", "")
	zinotest.Eventually(t, "the first turn", func() bool { return len(e.read("s-1").Turns) == 1 && e.idle() })
	before := len(e.file("s-1"))

	c := e.dial()
	c.Send(`{"type":"run_command","session_id":"s-1","command":"sleep","keep":false}`)
	c.Packets(2)
	c.Close()
	zinotest.Eventually(t, "the end", e.idle)
	equalLists(t, "the session", e.file("s-1")[before:], commandEvents(commandStopped))
	turn := e.read("s-1").Turns[1].ID
	zinotest.Equal(t, "stopped", e.stopped.All()[0], proto.StopTurn{SessionID: "s-1", Turn: turn})

	c = e.dial()
	c.Send(`{"type":"run_command","session_id":"s-1","command":"sleep","keep":true}`)
	c.Packets(2)
	var said proto.Said
	if err := e.call(`{"type":"turn_say","session_id":"s-1","text":"then"}`, &said); err != nil || said.Mode != proto.ViaQueue {
		t.Errorf("a message during a command: %+v, %v", said, err)
	}
	var canceled proto.TurnStarted
	if err := e.call(`{"type":"turn_cancel","session_id":"s-1"}`, &canceled); err != nil || canceled.State != proto.TurnInterrupted {
		t.Errorf("turn_cancel: %+v, %v", canceled, err)
	}
	packets, last := rest(c)
	equalLists(t, "packets", stable(packets), []string{
		`{"type":"tool_finished","id":0,"name":"bash","ok":true,"result":{"ok":true,"data":{"stdout":"built\n","stderr":"","exit_code":-1,"timed_out":false,"interrupted":true}},"duration_ms":0,"turn":0}`,
		`{"type":"error","message":"The turn was interrupted.","code":"canceled","service":"daemon"}`,
	})
	if last.Code != "canceled" {
		t.Errorf("the end is %s", last.Raw)
	}
	lines := e.file("s-1")[before+2:]
	zinotest.Contains(t, "the kept message", lines[2], `I ran: sleep\n\n`+"```"+`\nbuilt\n`+"```"+`\n\nIt was interrupted.`)
	zinotest.Equal(t, "the message that was queued", e.read("s-1").Turn(said.Turn).Reason, reasonWithdrawn)
	e.startTurn("on", "")
	zinotest.Eventually(t, "the next turn", func() bool { return len(e.requests.All()) == 2 })
	messages := string(e.requests.All()[1].Messages)
	zinotest.Contains(t, "the messages", messages, `"content":"all done"`, "It was interrupted.")
	if strings.Contains(messages, "[The answer was interrupted here.]") {
		t.Errorf("the answer before the command counts as interrupted: %s", messages)
	}
}

// TestCommandBusy refuses a command while a turn is open, also a parked one and one of
// another process. A turn that comes during a command waits for its end.
func TestCommandBusy(t *testing.T) {
	release := make(chan struct{})
	e := newCommandEnv(t, prints(release), answer)
	const request = `{"type":"run_command","session_id":"s-1","command":"x"}`
	c := e.dial()
	c.Send(request)
	c.Packets(2)
	if _, last := e.turn(request); last.Code != "busy" || !strings.Contains(last.Message, "session s-1 has an open turn t-") {
		t.Errorf("a second command: %s", last.Raw)
	}
	list := e.turnsOf(proto.ListTurns{SessionID: "s-1"})
	if len(list) != 1 {
		t.Errorf("turns: %q", list)
	}
	queued := e.startTurn("then", "")
	if queued.State != proto.TurnQueued || queued.Durable != nil {
		t.Errorf("a turn during a command: %+v", queued)
	}
	follower := e.dial()
	follower.Send(`{"type":"turn_follow","session_id":"s-1"}`)
	packets := follower.Packets(3)
	zinotest.Equal(t, "a follower", packets[0].Type+" "+packets[1].Type+" "+packets[2].Type, "turn_state turn_state live")
	zinotest.Equal(t, "the call", follower.Next().Type, "tool_started")
	close(release)
	checkDone(t, c)
	follower.Close()
	e.ended("s-1", queued.Turn)

	unlock := e.lockSession("s-2")
	if _, last := e.turn(strings.Replace(request, "s-1", "s-2", 1)); last.Code != "busy" {
		t.Errorf("a session that is locked elsewhere: %s", last.Raw)
	}
	unlock()
	parked := strings.Replace(openTurn, "s-1", "s-3", 1)
	e.write("s-3", parked, openAsked, `{"type":"turn","turn":"t-1","session_id":"s-3","state":"parked","reason":"limit","until":"2099-01-01T00:00:00Z"}`)
	if _, last := e.turn(strings.Replace(request, "s-1", "s-3", 1)); last.Code != "busy" || !strings.Contains(last.Message, "open turn t-1") {
		t.Errorf("a session with a parked turn: %s", last.Raw)
	}
	zinotest.Eventually(t, "the sessions leave the memory", func() bool { return e.service.lot.has("s-3") && e.idle() })
}

// TestCommandCrashed ends a command whose daemon was killed: with its turn event alone,
// and its processes stopped.
func TestCommandCrashed(t *testing.T) {
	crashed := `{"type":"turn","turn":"t-1","session_id":"s-1","state":"running","lifetime":"persistent","attached":true,"command":true,"request":{"root":"/r"}}`
	for _, lifetime := range []string{proto.LifetimePersistent, proto.LifetimePrivate} {
		t.Run(lifetime, func(t *testing.T) {
			e := newCommandEnv(t, prints(nil))
			e.service.lifetime = lifetime
			e.write("s-1", `{"type":"message","role":"user","text":"hi"}`, `{"type":"message","role":"assistant","text":"ho"}`, crashed)
			e.service.Resume()
			if lifetime == proto.LifetimePersistent { // a private one ends it when the session is used
				zinotest.Eventually(t, "the end of the crashed command", func() bool { return len(e.file("s-1")) > 4 && e.idle() })
			}
			checkDone(t, func() *rpctest.Conn {
				c := e.dial()
				c.Send(`{"type":"run_command","session_id":"s-1","command":"x"}`)
				return c
			}())
			zinotest.Equal(t, "stopped", e.stopped.All()[0], proto.StopTurn{SessionID: "s-1", Turn: "t-1"})
			zinotest.Equal(t, "the end", e.file("s-1")[4], strings.NewReplacer("canceled", "crashed", `"t"`, `"t-1"`).Replace(commandStopped))
			zinotest.Equal(t, "events", len(e.file("s-1")), 7)
			e.read("s-1")
		})
	}
}

// TestCommandFails checks a command that exc cannot run.
func TestCommandFails(t *testing.T) {
	e := newCommandEnv(t, func(context.Context, *rpc.Out) (string, error) {
		return "", &proto.Error{Code: proto.CodeUnavailable, Message: "exc is stopping"}
	})
	_, last := e.turn(`{"type":"run_command","session_id":"s-1","command":"x","keep":true}`)
	if last.Code != "unavailable" || !strings.Contains(last.Message, "exc is stopping") {
		t.Errorf("the end is %s", last.Raw)
	}
	equalLists(t, "the session", e.file("s-1")[1:], commandEvents(`{"type":"turn","turn":"t","session_id":"s-1","state":"error","reason":"exc is stopping"}`))
}
