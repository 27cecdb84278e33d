package cli

import (
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/cli/render"
)

const (
	session = "5b0c1e52-9f1c-4f0e-8f5b-1f6e1d2c3b4a"
	turnID  = "t-k3v9q2m7xd4a"
)

// turnList returns the answer to turns.
func turnList(turns ...string) string {
	return `{"type":"turn_list","turns":[` + strings.Join(turns, ",") + `]}`
}

// aTurn returns a turn of a list, started some time ago.
func aTurn(session, turn, state, more string, ago time.Duration) string {
	return fmt.Sprintf(`{"session_id":%q,"turn":%q,"state":%q,"text":"fix the test","root":"/p","started":%q,"updated":%q,"attempts":0,"followers":1,"queued":0,"jobs":0,"by":{"uid":0}%s}`,
		session, turn, state, time.Now().Add(-ago).Format(time.RFC3339), time.Now().Format(time.RFC3339), more)
}

// TestPs checks the table, at the width of a terminal too, and control characters.
func TestPs(t *testing.T) {
	s := newScripted(t, func(c *call) {
		c.send(turnList(
			aTurn(session, turnID, "running", `,"step":4,"activity":"bash: echo \u001b[31m日本語日本語日本語日本語日本語 && go test ./... -run 'TestOne|TestTwo'","input_tokens":12000,"output_tokens":345,"cost_usd":0.0421`, 3*time.Minute+5*time.Second),
			aTurn("notes", "t-bbbbbbbbbbbb", "parked", `,"reason":"limit","until":"2030-01-01T10:00:00Z","activity":"provider limit","step":1,"input_tokens":0,"output_tokens":0`, 26*time.Hour),
			aTurn("notes", "t-cccccccccccc", "queued", ``, 2*time.Hour),
		))
	})
	until, err := time.Parse(time.RFC3339, "2030-01-01T10:00:00Z")
	zinotest.Must(t, err)
	expect(t, s.command(t, "ps"), "", 0, ""+
		"SESSION   TURN            STATE    AGE  STEP  TOKENS  COST     ACTIVITY\n"+
		"5b0c1e52  t-k3v9q2m7xd4a  running  3m   4     12345   $0.0421  bash: echo ^[[31m日本語日本語日本語日本語日本語 && go test ./... -run 'TestOne|TestTwo'\n"+
		"notes     t-bbbbbbbbbbbb  parked   1d   1     0       -        until "+until.Local().Format("2006-01-02 15:04")+": provider limit\n"+
		"notes     t-cccccccccccc  queued   2h   -     0       -        -\n", "")
	if got := s.sent("turns"); len(got) != 1 || field(got[0], "all") != "" {
		t.Errorf("sent %q", got)
	}
	status, out, stderr := run(t, s.command(t, "ps", "--all", "--json"), "")
	if status != 0 || stderr != "" || strings.Count(out, "\n") != 3 || field(s.sent("turns")[1], "all") != "true" || field(strings.SplitAfter(out, "\n")[0], "turn") != `"`+turnID+`"` {
		t.Errorf("status %d, stdout %q, stderr %q", status, out, stderr)
	}
	for args, status := range map[string]int{"ps": 0, "attach": 2} { // attach lists them on standard error
		x := &terminal{zinotest.NewTerminal(t), t}
		x.Resize(80)
		x.Start(s.command(t, args))
		x.leaves(status)
		for line := range strings.Lines(x.Written.String()) {
			if row := strings.TrimRight(line, "\r\n"); strings.HasPrefix(row, "5b0c") && (!strings.HasSuffix(row, "…") || render.Cells(row) > 80) {
				t.Errorf("%s: %d cells: %q", args, render.Cells(row), row)
			}
		}
	}
}

// TestCompleteTurns checks that Tab offers the sessions of open turns.
func TestCompleteTurns(t *testing.T) {
	s := newScripted(t, func(c *call) {
		c.send(turnList(aTurn(session, turnID, "running", "", time.Minute), aTurn(session, "t-b", "queued", "", time.Minute), aTurn("notes", "t-c", "parked", "", time.Minute)))
	})
	for _, name := range []string{"attach", "say", "stop"} {
		_, out, _ := run(t, s.command(t, "__complete", name, "5"), "")
		zinotest.Equal(t, name, out, session+"\tfix the test\n:36\n")
	}
}

// TestPsNone checks the text without turns and without a daemon, which is not started.
func TestPsNone(t *testing.T) {
	s := newScripted(t, func(c *call) { c.send(turnList()) })
	expect(t, s.command(t, "ps"), "", 0, "No turns are running.\n", "")
	expect(t, s.command(t, "ps", "--json"), "", 0, "", "No turns are running.\n")
	expect(t, newWorld(t).command("ps"), "", 0, "No turns are running.\n", "The services are not running, and what they have stored is not listed. To start them:\n  zino up\n")
	old := newScripted(t, func(c *call) {
		c.send(`{"type":"error","code":"unknown","message":"Unknown message type: turns"}`)
	})
	status, _, stderr := run(t, old.command(t, "ps"), "")
	if status != 1 || !strings.Contains(stderr, "of an older version") {
		t.Errorf("an older daemon: status %d, stderr %q", status, stderr)
	}
}

// TestStopAndSay checks requests and texts of both commands.
func TestStopAndSay(t *testing.T) {
	answer := func(c *call) {
		switch {
		case c.typ == "turns":
			c.send(turnList(aTurn(session, turnID, "running", "", time.Minute), aTurn(session, "t-zzzzzzzzzzzz", "interrupted", "", time.Hour)))
		case c.typ == "turn_cancel" && strings.Contains(c.request, "t-k3"):
			c.send(strings.Replace(startedLine, "running", "done", 1))
		case c.typ == "turn_cancel" && strings.Contains(c.request, "t-zz"):
			c.send(strings.Replace(startedLine, `"state":"running"`, `"state":"interrupted","ended":true`, 1))
		case c.typ == "turn_cancel":
			c.send(strings.Replace(startedLine, "running", "interrupted", 1))
		case strings.Contains(c.request, `"queue"`):
			c.send(`{"type":"said","session_id":"` + session + `","turn":"t-bbbbbbbbbbbb","say":"s-abcdefgh","mode":"queue","position":1}`)
		case strings.Contains(c.request, "too late"):
			c.send(`{"type":"error","code":"not_found","message":"no turn is open in session ` + session + `"}`)
		case c.typ == "turn_say":
			c.send(`{"type":"said","session_id":"` + session + `","turn":"` + turnID + `","say":"s-abcdefgh","mode":"steer","position":1}`)
		}
	}
	for _, test := range []struct {
		args       string
		status     int
		out, err   string
		typ, field string // of the request
		value      string
	}{
		{"stop 5b0c", 0, "Stopped.\n", "", "turn_cancel", "session_id", `"` + session + `"`},
		{"stop 5b0c --jobs", 0, "Stopped.\n", "", "turn_cancel", "jobs", "true"},
		{"stop t-k3v9", 0, "The turn had ended: done.\n", "", "turn_cancel", "turn", `"` + turnID + `"`},
		{"stop t-zzzz", 0, "The turn had ended: interrupted.\n", "", "turn_cancel", "turn", `"t-zzzzzzzzzzzz"`},
		{"stop 5b0c --json", 0, `{"session_id":"` + session + `","turn":"` + turnID + `","state":"interrupted","next":412}` + "\n", "", "", "", ""},
		{"stop nginx", 1, "", "Error [session]: No session \"nginx\".\n", "", "", ""},
		{"stop the nginx service", 2, "", "Error [usage]: No session \"the\". To send this as a message: zino -- stop the nginx service\n", "", "", ""},
		{"stop t-shirts now", 2, "", "Error [usage]: No session \"t-shirts\". To send this as a message: zino -- stop t-shirts now\n", "", "", ""},
		{"stop 5b0c now", 2, "", "Error [usage]: zino stop: it takes one session, but was given \"now\" too; try zino stop --help\n", "", "", ""},
		{"stop", 2, "", "Error [usage]: zino stop: name one session by its id, or by the beginning of it; try zino stop --help\n", "", "", ""},
		{"say 5b0c use the other file", 0, "Queued for the next inference.\n", "", "turn_say", "text", `"use the other file"`},
		{"say 5b0c and then --queue", 0, "Queued as the next turn.\n", "", "turn_say", "mode", `"queue"`},
		{"say 5b0c too late", 1, "", "Error [session]: no turn is open in session " + session + "\n", "", "", ""},
		{"say 5b0c", 2, "", "Error [usage]: zino say: name the text behind the id; try zino say --help\n", "", "", ""},
		{"say hello to all", 2, "", "Error [usage]: No session \"hello\". To send this as a message: zino -- say hello to all\n", "", "", ""},
		{"attach nothing", 1, "", "Error [session]: No session \"nothing\".\n", "", "", ""},
		{"attach the files below", 2, "", "Error [usage]: No session \"the\". To send this as a message: zino -- attach the files below\n", "", "", ""},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			s := newScripted(t, answer)
			expect(t, s.command(t, strings.Fields(test.args)...), "", test.status, test.out, test.err)
			if test.typ != "" {
				zinotest.Equal(t, test.field, field(s.sent(test.typ)[0], test.field), test.value)
			}
		})
	}
}

// TestAttach checks what is shown of a turn that runs and of one that has ended, and
// which turn it is.
func TestAttach(t *testing.T) {
	const message = `{"type":"user_message","turn":"t-k3v9q2m7xd4a","text":"hi","via":"start","by":{"uid":0},"replay":true,"next":500}`
	const replayed = `{"type":"assistant_final","turn":"t-k3v9q2m7xd4a","text":"Hello there.","replay":true,"next":800}`
	failed := strings.Replace(endedLine, doneResult, `{"type":"error","message":"no key","code":"unavailable"}`, 1)
	failed = strings.Replace(failed, `"state":"done"`, `"state":"error"`, 1)
	for _, test := range []struct {
		name, packets string
		status        int
		out, err      string
	}{
		{"running", message + "\n" + liveLine + "\n" + strings.Replace(replayed, `"replay":true,`, "", 1) + "\n" + endedLine + "\n" + followLine, 0, "Hello there.\n", "> hi\n"},
		{"ended", message + "\n" + replayed + "\n" + endedLine + "\n" + followLine, 0, "Hello there.\n", "> hi\n"},
		{"fails", message + "\n" + liveLine + "\n" + failed + "\n" + followLine, 1, "", "> hi\nError [internal]: no key\n"},
		{"had failed", message + "\n" + failed + "\n" + followLine, 0, "", "> hi\nError [internal]: no key\n"},
		{"unknown", `{"type":"error","code":"not_found","message":"no turn in session ` + session + `"}`, 1, "", "Error [session]: no turn in session " + session + "\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newScripted(t, func(c *call) { c.send(test.packets) })
			expect(t, s.command(t, "attach", "5b0c"), "", test.status, test.out, test.err)
			if got := s.sent("turn_follow")[0]; field(got, "from") != "" || field(got, "turn") != "" {
				t.Errorf("followed with %s", got)
			}
		})
	}
	t.Run("packets for programs", func(t *testing.T) {
		s := newScripted(t, func(c *call) { c.send(message + "\n" + liveLine + "\n" + endedLine + "\n" + followLine) })
		status, out, _ := run(t, s.command(t, "attach", "5b0c", "--from", "0", "--json"), "")
		want := `{"type":"header","schema":"zino.events","version":1,"session_id":"` + session + `"}` + "\n" + message + "\n" + liveLine + "\n" + endedLine + "\n" + doneResult + "\n"
		if status != 0 || out != want || field(s.sent("turn_follow")[0], "from") != "0" {
			t.Errorf("status %d, stdout\n%s\nwant\n%s", status, out, want)
		}
	})
	for n, open := range []string{turnList(), turnList(aTurn(session, turnID, "running", "", time.Minute)), turnList(aTurn(session, turnID, "running", "", time.Minute), aTurn("notes", "t-b", "parked", "", time.Minute))} {
		t.Run(fmt.Sprint(n, " open turns"), func(t *testing.T) {
			s := newScripted(t, func(c *call) {
				if c.typ == "turns" {
					c.send(open)
					return
				}
				c.send(message + "\n" + liveLine + "\n" + endedLine + "\n" + followLine)
			})
			status, out, stderr := run(t, s.command(t, "attach"), "")
			wantStatus, want := []int{1, 0, 2}[n], []string{"No turns are running.", "> hi", "2 turns are open"}[n]
			if status != wantStatus || out != "" && n != 1 || !strings.Contains(stderr, want) || (n == 2) != strings.Contains(stderr, "notes     t-b") && n == 2 {
				t.Errorf("status %d, stdout %q, stderr %q", status, out, stderr)
			}
		})
	}
}

// TestAttachLeaves checks that leaving does not end the turn, and the question at Ctrl-C.
func TestAttachLeaves(t *testing.T) {
	const detached = "Detached. The turn goes on: zino attach 5b0c1e52\n"
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		s := newEndless(t)
		p := running(t, s, s.command(t, "attach", "5b0c"))
		p.Signal(signal)
		zinotest.Equal(t, "status", p.Exit(), 0)
		zinotest.Equal(t, "stderr", p.Err.String(), detached)
		zinotest.Equal(t, "cancels", len(s.sent("turn_cancel")), 0)
	}
	const question = "[d]etach, [i]nterrupt the turn, Enter to continue: "
	for _, test := range []struct {
		keys    string
		status  int
		shows   string
		cancels int
	}{
		{"d\r", 0, strings.TrimSpace(detached), 0},
		{"\x03", 0, strings.TrimSpace(detached), 0},
		{"\x04", 0, strings.TrimSpace(detached), 0},
		{"i\r", 130, "^C Interrupted.", 1},
	} {
		s := newEndless(t)
		x := onTerminal(t, s.command(t, "attach", "5b0c"))
		x.Shows("so far")
		x.Type("\x03")
		x.Shows(question)
		x.Type(test.keys)
		x.Shows(test.shows)
		x.leaves(test.status)
		zinotest.Equal(t, "cancels", len(s.sent("turn_cancel")), test.cancels)
	}
	// Enter goes on where the output was, without text that was shown before.
	s := newScripted(t, func(c *call) {
		c.send(liveLine + "\n" + `{"type":"assistant_delta","turn":"t-k3v9q2m7xd4a","text":"Hello there."}`)
		if c.nth == 1 {
			c.gone()
			return
		}
		c.send(`{"type":"assistant_final","turn":"t-k3v9q2m7xd4a","text":"Hello there.","next":800}` + "\n" + endedLine + "\n" + followLine)
	})
	x := onTerminal(t, s.command(t, "attach", "5b0c"))
	x.Shows("Hello there.")
	x.Type("\x03")
	x.Shows(question)
	x.Type("x\r\r")
	x.leaves(0)
	zinotest.Equal(t, "questions", x.Written.Count(question), 2)
	zinotest.Equal(t, "answers", x.Written.Count("Hello there."), 1)
}

// TestDetach checks the output of exec --detach, and that it starts nothing.
func TestDetach(t *testing.T) {
	s := newScripted(t, func(c *call) { c.send(startedLine) })
	const note = "Turn t-k3v9q2m7xd4a started. Follow it: zino attach 5b0c1e52\n"
	expect(t, s.command(t, "exec", "--detach", "-p", "hi"), "", 0, session+"\n", note)
	expect(t, s.command(t, "exec", "--detach", "--json", "-p", "hi"), "", 0,
		`{"type":"header","schema":"zino.events","version":1,"session_id":"`+session+`"}`+"\n"+startedLine+"\n", note)
	expect(t, newWorld(t).command("exec", "--detach", "-p", "hi"), "", 1, "", "Error [internal]: --detach needs a running constellation: start zino up, or the service\n")
	for _, flags := range []string{"--no-save", "--input json --json"} {
		args := append([]string{"exec", "--detach", "-p", "hi"}, strings.Fields(flags)...)
		if status, _, stderr := run(t, s.command(t, args...), ""); status != 2 {
			t.Errorf("%s: status %d, stderr %q", flags, status, stderr)
		}
	}
}

// TestDetachLingering checks the note about units that stop at logout.
func TestDetachLingering(t *testing.T) {
	s := newScripted(t, func(c *call) { c.send(startedLine) })
	w := newWorld(t)
	w.daemon(t, s.socket)
	const detached = "Turn t-k3v9q2m7xd4a started. Follow it: zino attach 5b0c1e52\n"
	for _, note := range []string{"", "Note: this turn pauses when you log out: loginctl enable-linger\n"} {
		cmd := w.command("exec", "--detach", "-p", "hi")
		cmd.Env = append(cmd.Env, "CLI_TEST_LINGER="+w.home)
		expect(t, cmd, "", 0, session+"\n", detached+note)
		zinotest.Write(t, w.runtime+"/zino/daemon.toml", "") // as for a unit
	}
}

// TestExecInputJSON checks commands for the turn on standard input.
func TestExecInputJSON(t *testing.T) {
	said := `{"type":"said","session_id":"` + session + `","turn":"` + turnID + `","say":"s-abcdefgh","mode":"steer","position":1}`
	steered, canceled := make(chan bool), make(chan bool)
	s := newScripted(t, func(c *call) {
		switch {
		case c.typ == "turn_start":
			c.send(startedLine)
		case c.typ == "turn_say":
			c.send(said)
			close(steered)
		case c.typ == "turn_cancel":
			c.send(strings.Replace(startedLine, "running", "interrupted", 1))
			close(canceled)
		case c.nth == 1: // the turn goes on in another session
			c.send(liveLine)
			<-steered
			c.send(`{"type":"continued","session_id":"notes","turn":"t-k3v9q2m7xd4a"}` + "\n" + strings.Replace(followLine, "done", "continued", 1))
		default:
			c.send(liveLine)
			<-canceled
			c.send(`{"type":"turn_ended","turn":"t-k3v9q2m7xd4a","state":"interrupted","reason":"canceled","next":900,"result":{"type":"error","message":"Interrupted.","code":"canceled"}}` + "\n" + followLine)
		}
	})
	cmd := s.command(t, "--session", "5b0c", "exec", "--json", "--input", "json", "-p", "hi")
	in, err := cmd.StdinPipe()
	zinotest.Must(t, err)
	p := zinotest.Start(t, cmd)
	io.WriteString(in, "{\"type\":\"say\",\"text\":\"faster\",\"mode\":\"steer\"}\n\nnothing\n{\"type\":\"later\"}\n")
	zinotest.Eventually(t, "the lines are answered", func() bool { return strings.Count(p.Out.String(), "\n") == 5 && len(s.sent("turn_follow")) == 2 })
	io.WriteString(in, "{\"type\":\"cancel\"}\n")
	zinotest.Equal(t, "status", p.Exit(), 130)
	zinotest.Equal(t, "canceled in", field(s.sent("turn_cancel")[0], "session_id"), `"notes"`)
	for _, want := range []string{said + "\n", `{"type":"notice","kind":"warning","text":"standard input: `, `unknown type \"later\" (want say, cancel or approve)`, `"code":"canceled","kind":"internal"}` + "\n"} {
		zinotest.Contains(t, "stdout", p.Out.String(), want)
	}
	if got := s.sent("turn_say"); len(got) != 1 || field(got[0], "text") != `"faster"` || field(got[0], "session_id") != `"`+session+`"` {
		t.Errorf("sent %q", got)
	}
	for _, args := range []string{"exec --input json -p hi", "exec --input xml -p hi"} {
		if status, _, stderr := run(t, s.command(t, strings.Fields(args)...), ""); status != 2 {
			t.Errorf("%s: status %d, stderr %q", args, status, stderr)
		}
	}
}

// TestModeOfOlderDaemon checks that a mode that restricts something is refused where the
// daemon would ignore it, and sent where the daemon knows it.
func TestModeOfOlderDaemon(t *testing.T) {
	for _, test := range []struct{ request, mode, want string }{
		{`{"properties":{}}`, "plan", ""},
		{`{"properties":{}}`, "yolo", "yolo"},
		{`{"properties":{"mode":{}}}`, "plan", "plan"},
	} {
		sent := ""
		s := newScripted(t, func(c *call) {
			switch c.typ {
			case "turn_start":
				var req proto.TurnStart
				if err := wire.DecodeReply([]byte(c.request), &req); err != nil {
					t.Error(err)
				}
				sent = req.Mode
				c.send(`{"type":"error","message":"enough"}`)
			default:
				c.send(`{"type":"error","message":"unexpected"}`)
			}
		})
		s.mu.Lock()
		s.describe = `{"type":"description","service":"daemon","proto":1,"methods":[{"type":"turn_start","reply":"turn","kind":"call","doc":"","request":` + test.request + `,"response":{}}]}`
		s.mu.Unlock()
		_, _, stderr := run(t, s.command(t, "exec", "--mode", test.mode, "-p", "hi"), "")
		zinotest.Equal(t, "the mode that is sent", sent, test.want)
		refused := strings.Contains(stderr, "Error [usage]: Not available: this daemon has no approvals (version ")
		zinotest.Equal(t, "refused: "+stderr, refused, test.want == "")
	}
}
