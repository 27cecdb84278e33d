package cli

import (
	"bytes"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"zino/pkg/zinotest"
	"zino/proto"
)

func TestEval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	newFakeRepl(t, w)
	const plain = `"background":[],"duration_ms":17,"file":"debug/shop-1a2b.md"}` + "\n"
	for _, test := range []struct {
		args        []string
		input       string
		status      int
		out, stderr string
	}{
		{[]string{"shop", "1+2"}, "unread", 0, "1+2\n", ""},
		{[]string{"shop", "a\n\n"}, "", 0, "a\n", ""},
		{[]string{"shop", "-"}, "from <stdin>\n", 0, "from <stdin>\n", ""},
		{[]string{"shop"}, "from stdin", 0, "from stdin\n", ""},
		{[]string{"shop", "--", "-1"}, "", 0, "-1\n", ""},
		{[]string{"shop", "a\x1b"}, "", 0, "a\x1b\n", ""}, // no terminal
		{[]string{"shop", "throw"}, "", 1, "", "Error: ^[[31m\n  at x\n"},
		{[]string{"none", "x"}, "", 1, "", "Error [session]: No page \"none\" is connected.\n"},
		{
			[]string{"shop", "events"},
			"", 0, "events\n",
			"console.log: a^[\nb\nconsole.warn: c\n... (7 more background events omitted) ...\nwindow.onerror: Error: d\n  at e\nunhandledrejection: f\n",
		},

		{[]string{"shop", "long"}, "", 0, "long\n", "The whole is in debug/shop-1a2b/3.txt, in the directory of the REPL.\n"},
		{[]string{"shop", "a\x1b", "--format", "json"}, "", 0, `{"type":"result","ok":true,"kind":"text","value":"a\u001b",` + plain, ""},
		{[]string{"shop", "throw", "--format", "json"}, "", 1, `{"type":"result","ok":false,"error":"Error: \u001b[31m\n  at x\n",` + plain, ""},
		{[]string{"none", "x", "--format", "json"}, "", 1, `{"type":"error","message":"No page \"none\" is connected.","code":"not_found","service":"repl"}` + "\n", ""},

		{[]string{"shop"}, " \n", 2, "", "Error [usage]: zino eval: there is no code; try zino eval --help\n"},
		{[]string{"shop", ""}, "x", 2, "", "Error [usage]: zino eval: there is no code; try zino eval --help\n"},
		{[]string{"shop"}, "\x00", 2, "", "Error [usage]: standard input: it is binary: byte 0 is NUL; give text\n"},
	} {
		expect(t, w.command(append([]string{"eval"}, test.args...)...), test.input, test.status, test.out, test.stderr)
	}
}

// TestEvalRequest checks the request to the REPL.
func TestEvalRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := newFakeRepl(t, w)
	me, err := user.Current()
	zinotest.Must(t, err)
	var want []proto.Eval
	for _, test := range []struct {
		args []string
		want proto.Eval
	}{
		{[]string{"shop-1a2b", " x\n"}, proto.Eval{Page: "shop-1a2b", Code: " x\n", Agent: me.Username}},
		{[]string{"--timeout", "1.5", "--agent", "ada", "1a2b", "x"}, proto.Eval{Page: "1a2b", Code: "x", Agent: "ada", TimeoutMS: 1500}},
		{[]string{"shop", "x", "--timeout", "86400"}, proto.Eval{Page: "shop", Code: "x", Agent: me.Username, TimeoutMS: 86_400_000}},
	} {
		if status, _, stderr := run(t, w.command(append([]string{"eval"}, test.args...)...), ""); status != 0 {
			t.Errorf("%q: status %d, stderr %q", test.args, status, stderr)
		}
		want = append(want, test.want)
	}
	if got := f.requests(); !reflect.DeepEqual(got, want) {
		t.Errorf("asked for %+v", got)
	}
}

// TestEvalTerminal checks that output is escaped on a terminal, and that code is not
// read from it.
func TestEvalTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	newFakeRepl(t, w)
	x := onTerminal(t, w.command("eval", "shop", "a\x1b[2J"))
	x.Exit()
	x.Shows("a^[[2J\r\n")
	x = onTerminal(t, w.command("eval", "shop"))
	x.Exit()
	x.Shows("Error [usage]: zino eval: there is no code: give it in quotes, or - to read it from standard input; try zino eval --help\r\n")
}

// TestEvalInterrupted checks status 130 during an evaluation and while standard input
// is read.
func TestEvalInterrupted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ format, out string }{
		{"text", ""}, {"json", `{"type":"error","message":"Interrupted.","code":"canceled"}` + "\n"},
	} {
		w := newWorld(t)
		f := newFakeRepl(t, w)
		p := zinotest.Start(t, w.command("eval", "--format", test.format, "shop", "wait"))
		zinotest.Eventually(t, "the code has begun", func() bool { return len(f.requests()) == 1 })
		p.Signal(os.Interrupt)
		if status := p.Exit(); status != exitInterrupted || p.Out.String() != test.out || p.Err.String() != "^C Interrupted.\n" {
			t.Errorf("status %d, stdout %q, stderr %q", status, p.Out, p.Err)
		}
		<-f.ended
	}
	w := newWorld(t)
	f := newFakeRepl(t, w)
	cmd := w.command("eval", "shop")
	pipe := filepath.Join(w.cwd, "pipe")
	zinotest.Must(t, syscall.Mkfifo(pipe, 0o600))
	r, err := os.OpenFile(pipe, os.O_RDWR, 0)
	zinotest.Must(t, err)
	defer r.Close()
	cmd.Stdin = r
	if _, err := r.WriteString("half"); err != nil {
		t.Fatal(err)
	}
	p := zinotest.Start(t, cmd)
	zinotest.Eventually(t, "the half is read", func() bool { return pending(t, r) == 0 })
	p.Signal(os.Interrupt)
	if status := p.Exit(); status != exitInterrupted || len(f.requests()) > 0 {
		t.Errorf("status %d, asked for %+v", status, f.requests())
	}
}

// TestEvalClosedPipe checks that EPIPE on standard output is not printed.
func TestEvalClosedPipe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	newFakeRepl(t, w)
	r, closed, err := os.Pipe()
	zinotest.Must(t, err)
	defer closed.Close()
	r.Close()
	for _, format := range []string{"text", "json"} {
		var stderr bytes.Buffer
		cmd := w.command("eval", "shop", strings.Repeat("x", 100), "--format", format)
		cmd.Stdout, cmd.Stderr = closed, &stderr
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != exitError || stderr.Len() > 0 {
			t.Errorf("%s: %v, stderr %q", format, err, &stderr)
		}
	}
}

// pending returns the number of unread bytes in a pipe.
func pending(t *testing.T, pipe *os.File) int {
	t.Helper()
	n, err := unix.IoctlGetInt(int(pipe.Fd()), unix.TIOCINQ)
	zinotest.Must(t, err)
	return n
}
