package run

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/zinotest"
)

func TestParseReport(t *testing.T) {
	tests := []struct {
		text string
		want Result
		code int
	}{
		{"", Result{}, -1},
		{"exit 0\n", Result{End: Exited, Number: 0}, 0},
		{"exit 255\n", Result{End: Exited, Number: 255}, 255},
		{"signal 9\n", Result{End: Signaled, Number: 9}, -9},
		{"start 2\n", Result{End: NotStarted, Number: 2}, -1},
		{"start 13\nexit 127\n", Result{End: NotStarted, Number: 13}, -1},
		{"confine no mount: a b\nexit 127\n", Result{End: NotConfined, Reason: "no mount: a b"}, -1},
		{"confine cut", Result{}, -1},
		{"exit 1", Result{}, -1}, // cut short
		{"exit\nexit -1\nexit x\nwho 3\n\n", Result{}, -1},
		{"exit 99999999999\n", Result{}, -1},
	}
	for _, tt := range tests {
		got := parseReport(tt.text)
		if got != tt.want || got.ExitCode() != tt.code {
			t.Errorf("%q: got %+v, code %d, want %+v, %d", tt.text, got, got.ExitCode(), tt.want, tt.code)
		}
	}
}

func TestEndOf(t *testing.T) {
	for code, want := range map[string]string{"exit 7": "exit 7\n", "kill -9 $$": "signal 9\n", "kill -15 $$": "signal 15\n"} {
		cmd := exec.Command("sh", "-c", code)
		_ = cmd.Run() // its error is what is tested
		zinotest.Equal(t, code, endOf(cmd.ProcessState.Sys().(syscall.WaitStatus)), want)
	}
}

func FuzzParseReport(f *testing.F) {
	f.Add("exit 0\n")
	f.Add("signal 9\n")
	f.Add("start 2\n")
	f.Add("confine this\nexit 1\n")
	f.Add("exit \n 3\nexit 3")
	f.Fuzz(func(t *testing.T, text string) {
		r := parseReport(text)
		if r.Number < 0 || r.End == Lost && (r.Number != 0 || r.ExitCode() != -1) {
			t.Errorf("%q: %+v", text, r)
		}
		line := endLine(r.End, r.Number)
		if r.End == NotConfined {
			line = refusalLine(errors.New(r.Reason))
		}
		if again := parseReport(line); r.End != Lost && len(r.Reason) < reportMax/2 && again != r {
			t.Errorf("%+v became %+v", r, again)
		}
	})
}

func TestParseStat(t *testing.T) {
	tests := []struct {
		stat string
		want int
		ok   bool
	}{
		{"12 (bash) S 7 12 13 0 -1", 7, true},
		{"12 (a ) b) (S 9 9) R 7 12 13", 7, true},
		{"12 (bash) S x 12 13", 0, false},
		{"12 (bash) S", 0, false},
		{"", 0, false},
		{")", 0, false},
	}
	for _, tt := range tests {
		if got, ok := parseStat([]byte(tt.stat)); got != tt.want || ok != tt.ok {
			t.Errorf("%q: got %v, %v", tt.stat, got, ok)
		}
	}
	if parent, ok := parentOf(os.Getpid()); !ok || parent != os.Getppid() {
		t.Errorf("own parent: %v, %v", parent, ok)
	}
	if _, ok := parentOf(0); ok {
		t.Error("process 0 has a parent")
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("12 (bash) S 7 12 12 0 -1")
	f.Add("12 (a ) b) R 7 1 1")
	f.Add("(()")
	f.Fuzz(func(t *testing.T, stat string) {
		parent, ok := parseStat([]byte(stat))
		if ok && !strings.Contains(stat, ")") || !ok && parent != 0 {
			t.Errorf("%q: got %v, %v", stat, parent, ok)
		}
	})
}

func TestSupervisorEnv(t *testing.T) {
	env := []string{"PATH=/bin", "GODEBUG=inittrace=1", "+PLUS=1"}
	marked := supervisorEnv(env)
	for _, entry := range marked {
		if strings.HasPrefix(entry, "GODEBUG") {
			t.Errorf("%s would set the supervisor's Go runtime", entry)
		}
	}
	if got := commandEnv(marked); strings.Join(got, " ") != strings.Join(env, " ") {
		t.Errorf("got %q, want %q", got, env)
	}
}

func TestCloseEachOnExec(t *testing.T) {
	const high = 700 // above what else is open
	zinotest.Must(t, unix.Dup3(0, high, 0))
	defer unix.Close(high)
	closeEachOnExec(high)
	if flags, err := unix.FcntlInt(high, unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
}

// A supervisor that its command stopped is killed, and the command with it.
func TestStoppedSupervisor(t *testing.T) {
	t.Parallel()
	p, err := Start(&Cmd{
		Path: "/bin/sh", Args: []string{"sh", "-c", "echo stop; kill -STOP $PPID; exec sleep 1000"}, Limit: 2 * time.Second, Output: &Output{Max: 10},
	})
	zinotest.Must(t, err)
	p.killAfter = 100 * time.Millisecond
	if r, err := p.Wait(t.Context()); err != nil || r != (Result{TimedOut: true, Stdout: "stop\n"}) {
		t.Errorf("got %+v, %v", r, err)
	}
}

// A command that is stopped gets SIGTERM and may end by itself within the grace.
func TestStopLeavesTimeForLastWords(t *testing.T) {
	t.Parallel()
	ready := make(chan bool)
	out := &Output{Max: 100, Tap: func(_ string, p []byte) {
		if string(p) == "ready\n" {
			close(ready)
		}
	}}
	p, err := Start(&Cmd{
		Path: "/bin/sh", Args: []string{"sh", "-c", "trap 'echo bye; exit 7' TERM; echo ready; sleep 1000 & wait"},
		Grace: zinotest.Timeout, Output: out,
	})
	zinotest.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-ready
		cancel()
	}()
	if r, err := p.Wait(ctx); err != nil || r != (Result{End: Exited, Number: 7, Interrupted: true, Stdout: "ready\nbye\n"}) {
		t.Errorf("got %+v, %v", r, err)
	}
}
