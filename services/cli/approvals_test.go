package cli

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/pkg/zinotest/fakedaemon"
	"zino/proto"
)

// aRequest returns a request to allow a command, for lists and packets.
func aRequest(id, state, command, more string) string {
	return `{"id":"` + id + `","state":"` + state + `","kind":"call","created":"` + time.Now().Add(-5*time.Minute).Format(time.RFC3339) + `","expires":"2030-01-01T10:00:00Z",` +
		`"session_id":"` + session + `","turn":"` + turnID + `","step":4,"call_id":"c1","by":{"uid":1000,"user":"ann"},` +
		`"call":{"tool":"bash","input":{"command":"` + command + `"},"root":"/p","cwd":"/p","sandbox":"off","network":true,"files":[]},` +
		`"digest":"sha256:` + id + `","reasons":["mode ask: commands at level off"],"preview":{"commands":["` + command + `"]},"grantable":"always"` + more + `}`
}

const aGrant = `{"id":"g-7d2mabcd","scope":"always","root":"/p","tool":"bash","command":"make *","sandbox":"off","network":true,"uid":1000,"expires":"2030-01-01T10:00:00Z","created":"2026-11-23T10:00:00Z","uses":3}`

// newAsking starts a fake daemon with two requests that are pending and one that was
// answered.
func newAsking(t *testing.T) (*fakedaemon.Daemon, func(args ...string) *exec.Cmd) {
	t.Helper()
	d := fakedaemon.New(t)
	d.Answer("approvals", func(r fakedaemon.Request) string {
		list := []string{aRequest("ap-k3v9q2mx", "pending", `make install\u001b[2J`, ""), aRequest("ap-k3aaaaaa", "pending", "rm -rf build", "")}
		if r.String("state") == "all" {
			list = append(list, aRequest("ap-denied22", "denied", "reboot", `,"answered":{"uid":1001,"user":"bob"},"answered_at":"2026-11-23T10:31:00Z"`))
		}
		return `{"type":"approval_list","approvals":[` + strings.Join(list, ",") + `]}`
	})
	d.Answer("approve", func(r fakedaemon.Request) string {
		return `{"type":"approval",` + strings.TrimPrefix(aRequest(r.String("id"), "approved", "x", `,"grant":"g-1"`), "{")
	})
	d.Answer("grants", func(fakedaemon.Request) string {
		return `{"type":"grant_list","grants":[` + aGrant + `],"problems":["grant g-x: unknown key \"y\""]}`
	})
	d.Answer("revoke_grant", func(fakedaemon.Request) string { return `{"type":"grant_list","grants":[` + aGrant + `]}` })
	d.SetVersion("")
	return d, func(args ...string) *exec.Cmd {
		return newWorld(t).command(append([]string{"--socket", d.Socket}, args...)...)
	}
}

// TestApprovals checks the lists, and what names a request.
func TestApprovals(t *testing.T) {
	d, command := newAsking(t)
	expect(t, command("approvals"), "", 0, ""+
		"ID           AGE  BY   SESSION   WHY                              CALL\n"+
		"ap-k3v9q2mx  5m   ann  5b0c1e52  mode ask: commands at level off  bash make install^[[2J\n"+
		"ap-k3aaaaaa  5m   ann  5b0c1e52  mode ask: commands at level off  bash rm -rf build\n", "")
	_, out, _ := run(t, command("approvals", "--all"), "")
	if !strings.Contains(out, "ID           STATE    AGE") || !strings.Contains(out, "ap-denied22  denied   5m ") {
		t.Errorf("all: %q", out)
	}
	_, out, _ = run(t, command("approvals", "--json"), "")
	if strings.Count(out, "\n") != 2 || field(strings.SplitAfter(out, "\n")[1], "digest") != `"sha256:ap-k3aaaaaa"` {
		t.Errorf("json: %q", out)
	}
	expect(t, command("approvals", "grants"), "", 0, ""+
		"ID          UNTIL             USES  LAST  ALLOWS\n"+
		"g-7d2mabcd  "+until(t)+"  3     -     bash make *, sandbox off, always below /p\n", "Warning: grant g-x: unknown key \"y\"\n")
	expect(t, command("approvals", "revoke", "g-7d"), "", 0, "Taken back: g-7d2mabcd  bash make *, sandbox off, always below /p\n", "")
	zinotest.Equal(t, "revoke", d.Request("revoke_grant").JSON(), `{"id":"g-7d"}`)
	_, out, _ = run(t, command("approvals", "show", "k3v"), "")
	for _, want := range []string{
		"ap-k3v9q2mx: bash wants to run (mode ask: commands at level off), sandbox off, in /p\n    make install^[[2J\n",
		"State:    pending, until ", "By:       ann (uid 1000)\n", "Network:  yes\n", "Digest:   sha256:ap-k3v9q2mx\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("show prints %q, without %q", out, want)
		}
	}
	_, out, _ = run(t, command("approvals", "show", "ap-d"), "")
	if !strings.Contains(out, "State:    Denied by bob (uid 1001), ") {
		t.Errorf("show prints %q", out)
	}
	for args, want := range map[string]string{
		"approvals show ap-k3":            `Error [usage]: zino approvals show: several requests begin with "ap-k3": ap-k3v9q2mx, ap-k3aaaaaa; try zino approvals show --help`,
		"approvals show":                  "name one request by its id",
		"approvals show a b":              "it takes one request",
		"approvals for the board":         "to send this as a message, type: zino -- approvals for the board",
		"approvals revoke":                "name one grant by its id, or give --all",
		"approvals revoke --all g":        "name one grant by its id, or give --all",
		"approve the plan":                `Error [usage]: No approval "the". To send this as a message: zino -- approve the plan`,
		"deny k3v9 all of them":           `Error [usage]: No approval "k3v9". To send this as a message: zino -- deny k3v9 all of them`,
		"approve ap-x":                    `no approval "ap-x": zino approvals --all lists them`,
		"approve k3v9 --pattern x":        "--pattern is for --session and --always",
		"approve k3v9 --session --always": "exclude each other",
		"approve ap-k3v9 ap-k3a":          "it takes one request",
	} {
		if _, out, stderr := run(t, command(strings.Fields(args)...), ""); out != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: %q, %q", args, out, stderr)
		}
	}
	zinotest.Equal(t, "answers", len(d.Requests("approve")), 0)
	_, out, _ = run(t, command("__complete", "approve", "ap-k3v"), "")
	zinotest.Equal(t, "completion", out, "ap-k3v9q2mx\tbash make install^[[2J\n:36\n")
	_, out, _ = run(t, command("__complete", "approvals", "revoke", ""), "")
	zinotest.Equal(t, "completion", out, "g-7d2mabcd\tbash make *, sandbox off, always below /p\n:4\n")
}

// until is the end of aGrant as it is printed.
func until(t *testing.T) string {
	t.Helper()
	at, err := time.Parse(time.RFC3339, "2030-01-01T10:00:00Z")
	zinotest.Must(t, err)
	return at.Local().Format("2006-01-02 15:04")
}

// TestApprove checks what is printed of a request, and what the daemon is sent.
func TestApprove(t *testing.T) {
	d, command := newAsking(t)
	const shown = "ap-k3v9q2mx: bash wants to run (mode ask: commands at level off), sandbox off, in /p\n    make install^[[2J\n"
	expect(t, command("approve", "k3v9"), "", 0, "Allowed once: bash make install^[[2J (grant g-1)\n", shown)
	zinotest.Equal(t, "once", d.Request("approve").JSON(), `{"answer":"once","digest":"sha256:ap-k3v9q2mx","id":"ap-k3v9q2mx"}`)
	for args, want := range map[string]string{
		"approve ap-k3v9 --session":               `{"answer":"session","digest":"sha256:ap-k3v9q2mx","id":"ap-k3v9q2mx"}`,
		"approve ap-k3v9 --always --pattern make": `{"answer":"always","digest":"sha256:ap-k3v9q2mx","id":"ap-k3v9q2mx","pattern":"make"}`,
		"deny ap-k3v9":                            `{"answer":"deny","digest":"sha256:ap-k3v9q2mx","id":"ap-k3v9q2mx"}`,
		"deny ap-k3v9 use the staging database":   `{"answer":"deny","digest":"sha256:ap-k3v9q2mx","id":"ap-k3v9q2mx","note":"use the staging database"}`,
		"deny ap-k3v9 --note no":                  `{"answer":"deny","digest":"sha256:ap-k3v9q2mx","id":"ap-k3v9q2mx","note":"no"}`,
		"approve --json ap-denied":                `{"answer":"once","digest":"sha256:ap-denied22","id":"ap-denied22"}`, // the daemon says that it is over
	} {
		if status, _, stderr := run(t, command(strings.Fields(args)...), ""); status != 0 {
			t.Errorf("%s: status %d, %q", args, status, stderr)
		}
		zinotest.Equal(t, args, d.Request("approve").JSON(), want)
	}
	d.Answer("approve", func(fakedaemon.Request) string {
		return fakedaemon.Error(proto.CodeInvalid, "ap-k3v9q2mx was denied by ann (uid 1000) at 10:31")
	})
	expect(t, command("approve", "k3v9"), "", 1, "", shown+"Error [usage]: ap-k3v9q2mx was denied by ann (uid 1000) at 10:31\n")
	d.Remove("approvals", "grants")
	d.SetVersion("0.1.3")
	for _, args := range []string{"approvals", "approve k3v9", "approvals grants"} {
		if status, _, stderr := run(t, command(strings.Fields(args)...), ""); status != 2 || !strings.Contains(stderr, "Error [usage]: Not available: this daemon has no approvals (version 0.1.3).\n") {
			t.Errorf("%s: status %d, %q", args, status, stderr)
		}
	}
}

// TestApproveTerminal checks that a person confirms, and that what was typed before the
// question does not.
func TestApproveTerminal(t *testing.T) {
	d, command := newAsking(t)
	for _, test := range []struct {
		args, typed string
		asks        string
		status      int
		answer      string
	}{
		{"approve k3v9", "\rperhaps\ry\r", "Allow it once? [y/n] ", 0, "once"},
		{"approve k3a --session", "yes\r", `Allow "rm -rf build*" for this session? [y/n] `, 0, "session"},
		{"approve k3v9 --always --pattern make", "y\r", `Always allow "make" below /p? [y/n] `, 0, "always"},
		{"approve k3v9", "n\r", "Allow it once? [y/n] ", 1, ""},
		{"approve k3v9", "\x04", "Allow it once? [y/n] ", 1, ""},
		{"approve k3v9", "\x03", "Allow it once? [y/n] ", 130, ""},
		{"approve k3v9 --yes", "", "Allowed once", 0, "once"},
	} {
		before := len(d.Requests("approve"))
		x := &terminal{zinotest.NewTerminal(t), t}
		if test.typed != "" {
			x.Type("y\r")
		}
		x.Start(command(strings.Fields(test.args)...))
		x.Shows(test.asks)
		x.Type(test.typed)
		x.leaves(test.status)
		sent := d.Requests("approve")[before:]
		if (test.answer != "") != (len(sent) == 1) || len(sent) == 1 && sent[0].String("answer") != test.answer {
			t.Errorf("%s, %q: sent %v", test.args, test.typed, sent)
		}
	}
}

// TestCommandsOfModels checks that a model's command does not answer for the user.
func TestCommandsOfModels(t *testing.T) {
	d, command := newAsking(t)
	for _, args := range []string{"approve k3v9", "deny k3v9", "approvals revoke --all", "policy add allow bash", "policy rm 1"} {
		cmd := command(strings.Fields(args)...)
		cmd.Env = append(cmd.Env, "ZINO_JOB=1")
		status, out, stderr := run(t, cmd, "")
		if status != 1 || out != "" || !strings.Contains(stderr, "is for people, and this is a command of a model (ZINO_JOB is set): run it in a terminal of your own") {
			t.Errorf("%s: status %d, %q, %q", args, status, out, stderr)
		}
	}
	zinotest.Equal(t, "answers", len(d.Requests("approve"))+len(d.Requests("revoke_grant")), 0)
}

// requested returns the packet of a request.
func requested(id, command, more string) string {
	return `{"type":"approval_requested",` + strings.TrimPrefix(aRequest(id, "pending", command, more), "{")
}

// asks starts a turn on a terminal.
func asks(t *testing.T, d *fakedaemon.Daemon, args string) (*terminal, *fakedaemon.Turn) {
	t.Helper()
	x := &terminal{zinotest.NewTerminal(t), t}
	x.Start(newWorld(t).command(append([]string{"--socket", d.Socket}, strings.Fields(args)...)...))
	turn := d.Turn()
	turn.Live()
	return x, turn
}

// TestAsk checks the dialog of exec on a terminal: what it accepts, what the daemon is sent,
// and what ends it.
func TestAsk(t *testing.T) {
	d := fakedaemon.New(t)
	d.SetVersion("")
	x, turn := asks(t, d, "exec --mode ask -p hi")
	zinotest.Equal(t, "reachable", turn.Start.Fields["reachable"], any(true))
	x.Type("y\ry\r")
	zinotest.Eventually(t, "what was typed ahead", func() bool { return x.Written.Count("y\r\n") == 2 })
	turn.Send(requested("ap-1", "make install", ""), requested("ap-2", "rm -rf build", ""), requested("ap-3", "sudo x", ""))
	const prompt = "[y]es once, [s]ession, [a]lways \"make *\", [n]o (reason), [e]xplain why: "
	x.Shows("bash wants to run (mode ask: commands at level off), sandbox off, in /p\r\n    make install\r\n" + prompt)
	x.Type("\r")
	x.Shows(prompt + "\r\n" + prompt)
	x.Type("what\r")
	x.Shows("what\r\n" + prompt)
	x.Type("\x04")
	x.Shows("\r\n" + prompt + "\r\n" + prompt)
	x.Type("e\r")
	x.Shows("Digest:   sha256:ap-1\r\n" + prompt)
	zinotest.Equal(t, "answers", len(d.Requests("approve")), 0)
	x.Type("a make install\r")
	zinotest.Equal(t, "the answer", d.Request("approve").JSON(), `{"answer":"always","digest":"sha256:ap-1","id":"ap-1","pattern":"make install"}`)
	turn.Send(`{"type":"approval_closed","approval":"ap-1","state":"approved","by":{"uid":1000,"user":"ann"}}`)
	x.Shows("Always allowed: bash make install\r\n")
	x.Shows("    rm -rf build\r\n")
	turn.Send(`{"type":"approval_closed","approval":"ap-2","state":"denied","by":{"uid":1001,"user":"bob"}}`)
	x.Shows("xplain why: \r\nDenied by bob (uid 1001): bash rm -rf build\r\n")
	x.Shows("    sudo x\r\n")
	d.Answer("approve", func(fakedaemon.Request) string {
		return fakedaemon.Error(proto.CodeInvalid, "request ap-3 has digest sha256:new; show it again")
	})
	d.Answer("approvals", func(fakedaemon.Request) string {
		return `{"type":"approval_list","approvals":[` + strings.Replace(aRequest("ap-3", "pending", "sudo y", `,"x":1`), "sha256:ap-3", "sha256:new", 1) + `]}`
	})
	x.Type("y\r")
	x.Shows("request ap-3 has digest sha256:new; show it again\r\n")
	x.Shows("    sudo y\r\n")
	d.Answer("approve", func(fakedaemon.Request) string {
		return `{"type":"approval",` + strings.TrimPrefix(aRequest("ap-3", "denied", "sudo y", ""), "{")
	})
	x.Shows("sudo y\r\n[y]es once")
	// Other lines go above the prompt.
	turn.Send(`{"type":"notice","kind":"note","text":"remark"}`)
	x.Shows("\r\nremark\r\n[y]es once")
	x.Type("n not now\r")
	x.Shows("Denied: bash sudo y\r\n")
	zinotest.Equal(t, "the answer", d.Requests("approve")[2].JSON(), `{"answer":"deny","digest":"sha256:new","id":"ap-3","note":"not now"}`)
	// A lost connection: the daemon sends what is pending again.
	turn.Send(requested("ap-4", "make once", `,"grantable":"once"`))
	x.Shows("    make once\r\n[y]es once, [n]o (reason), [e]xplain why: ")
	turn.HangUp()
	turn = d.Turn()
	turn.Live()
	turn.Send(requested("ap-4", "make once", ""))
	zinotest.Eventually(t, "the question again", func() bool { return x.Written.Count("    make once\r\n[y]es once") == 2 })
	turn.Answer("Over.")
	turn.End("done")
	x.leaves(1) // the turn has no result
	zinotest.Equal(t, "answers", len(d.Requests("approve")), 3)
}

// TestAskInterrupted checks that Ctrl-C interrupts a turn that asks, and that attach shows a
// request and leaves the turn.
func TestAskInterrupted(t *testing.T) {
	d := fakedaemon.New(t)
	d.SetVersion("")
	x, turn := asks(t, d, "exec --mode ask -p hi")
	turn.Send(requested("ap-1", "make install", ""))
	x.Shows("xplain why: ")
	x.Type("\x03")
	d.Request("turn_cancel")
	x.leaves(exitInterrupted)
	d.Answer("turns", func(fakedaemon.Request) string { return turnList(aTurn(session, turnID, "running", "", time.Minute)) })
	x, turn = asks(t, d, "attach")
	turn.Send(requested("ap-1", "make install", ""))
	x.Shows("xplain why: ")
	x.Type("\x03")
	x.Shows("Enter to continue: ")
	x.Type("\r")
	turn = d.Turn()
	turn.Live()
	turn.Send(requested("ap-1", "make install", ""))
	zinotest.Eventually(t, "the question again", func() bool { return x.Written.Count("    make install\r\n[y]es once") == 2 })
	x.Type("y\r")
	x.Shows("Allowed once: bash make install\r\n")
	zinotest.Equal(t, "the answer", d.Request("approve").JSON(), `{"answer":"once","digest":"sha256:ap-1","id":"ap-1"}`)
	turn.Answer("Over.")
	turn.End("done")
	x.leaves(1) // the turn has no result
}

// TestReachable checks who says that a person can be asked, and what a turn prints that
// waits for an answer from elsewhere.
func TestReachable(t *testing.T) {
	d := fakedaemon.New(t)
	d.SetVersion("")
	for args, want := range map[string]any{
		"exec -p hi":                     nil,
		"exec --json -p hi":              nil,
		"exec --wait-approval -p hi":     true,
		"exec --detach -p hi":            true,
		"exec --input json --json -p hi": true,
	} {
		p := zinotest.Start(t, newWorld(t).command(append([]string{"--socket", d.Socket}, strings.Fields(args)...)...))
		zinotest.Equal(t, args, d.Request("turn_start").Fields["reachable"], want)
		if !strings.Contains(args, "detach") {
			turn := d.Turn()
			turn.Live()
			if strings.Contains(args, "wait") {
				turn.Send(requested("ap-1", "make install", ""), `{"type":"approval_closed","approval":"ap-1","state":"expired"}`)
				p.WaitFor("Waiting for an answer to bash make install (mode ask: commands at level off). Give it with zino approve ap-1 or zino deny ap-1\nExpired: ap-1\n")
			}
			turn.Answer("Over.")
			turn.End("done")
		}
		p.Exit()
	}
	d.Remove("approve")
	p := zinotest.Start(t, newWorld(t).command("--socket", d.Socket, "exec", "--wait-approval", "-p", "hi"))
	zinotest.Equal(t, "without approvals", d.Request("turn_start").Fields["reachable"], nil)
	turn := d.Turn()
	turn.Answer("Over.")
	turn.End("done")
	p.Exit()
}

// TestInputApprove checks the answers of a program, and the packets that it gets.
func TestInputApprove(t *testing.T) {
	d := fakedaemon.New(t)
	d.SetVersion("")
	d.Answer("approve", func(r fakedaemon.Request) string {
		return `{"type":"approval",` + strings.TrimPrefix(aRequest(r.String("id"), "approved", "x", ""), "{")
	})
	cmd := newWorld(t).command("--socket", d.Socket, "exec", "--json", "--input", "json", "-p", "hi")
	in, err := cmd.StdinPipe()
	zinotest.Must(t, err)
	p := zinotest.Start(t, cmd)
	turn := d.Turn()
	turn.Live()
	turn.Send(requested("ap-1", "make install", ""))
	p.Out.WaitFor(t, requested("ap-1", "make install", ""))
	for _, line := range []string{
		`{"type":"approve","id":"ap-1","answer":"session","pattern":"make *"}`, `{"type":"approve","id":"ap-2","answer":"once"}`,
		`{"type":"approve","id":"ap-2","answer":"deny","digest":"sha256:x","note":"no"}`,
	} {
		_, err := in.Write([]byte(line + "\n"))
		zinotest.Must(t, err)
	}
	zinotest.Equal(t, "the answer", d.Request("approve").JSON(), `{"answer":"session","digest":"sha256:ap-1","id":"ap-1","pattern":"make *"}`)
	zinotest.Equal(t, "the answer", d.Request("approve").JSON(), `{"answer":"deny","digest":"sha256:x","id":"ap-2","note":"no"}`)
	p.Out.WaitFor(t, `"type":"approval","id":"ap-2"`)
	p.Out.WaitFor(t, `standard input: no request \"ap-2\" was printed: give its digest`)
	turn.Send(`{"type":"approval_closed","approval":"ap-1","state":"approved","by":{"uid":1000}}`)
	p.Out.WaitFor(t, `{"type":"approval_closed","approval":"ap-1","state":"approved","by":{"uid":1000}}`)
	turn.End("done")
	p.Exit()
}
