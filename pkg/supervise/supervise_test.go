package supervise

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/zinotest"
)

// TestRestart checks that the socket of a killed program stays open and that the next
// process answers.
func TestRestart(t *testing.T) {
	l := zinotest.Listen(t, "")
	socket := l.Addr().String()
	_, log := run(t, program("answer", l), new(zinotest.Buffer), time.Hour)
	before, _ := who(t, socket)
	for range 2 {
		zinotest.Must(t, syscall.Kill(before, syscall.SIGKILL))
		zinotest.Eventually(t, "the process is gone", func() bool { return zinotest.Gone(before) })
		after, _ := who(t, socket) // fails if the connection is refused
		if after == before {
			t.Fatal("the same process answered")
		}
		before = after
	}
	log.WaitFor(t, "signal: killed", "name=answer", "pause=100ms", "pause=200ms")
}

// TestOnDemand checks that a program starts when a client connects, again after its death,
// and that one which was never needed ends with the set.
func TestOnDemand(t *testing.T) {
	p := program("answer", zinotest.Listen(t, ""))
	p.OnDemand = true
	var output zinotest.Buffer
	s, log := run(t, p, &output, time.Hour)
	idle := program("answer", zinotest.Listen(t, ""))
	idle.OnDemand = true
	never, _ := run(t, idle, new(zinotest.Buffer), time.Hour)
	never.Stop()
	socket := p.Socket.Addr().String()
	before, _ := who(t, socket)
	zinotest.Must(t, syscall.Kill(before, syscall.SIGKILL))
	log.WaitFor(t, "signal: killed")
	after, _ := who(t, socket)
	if after == before {
		t.Error("the same process answered")
	}
	s.Stop()
}

// TestBackOff checks the increasing pauses before restarts of a program that exits at
// once, and of one that cannot be started.
func TestBackOff(t *testing.T) {
	missing := program("answer", zinotest.Listen(t, ""))
	missing.Path = "/nowhere/zino-mem"
	deaf := program("answer", nil)
	for name, test := range map[string]struct {
		program Program
		why     string
	}{
		"ends at once":      {program("brief", zinotest.Listen(t, "")), "exit status 3"},
		"cannot be started": {missing, "no such file or directory"},
		"has no socket":     {deaf, "the socket of answer has no file descriptor"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, log := run(t, test.program, new(zinotest.Buffer), time.Hour)
			log.WaitFor(t, test.why, "pause=100ms", "pause=200ms", "pause=400ms")
			s.Stop() // in the middle of a pause
			said := log.String()
			if s.Stop(); log.String() != said {
				t.Error("restarted after Stop")
			}
		})
	}
}

// TestPause checks the longest pause and the reset to the shortest.
func TestPause(t *testing.T) {
	pause := time.Duration(0)
	for _, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
		if pause = nextPause(pause, time.Second); pause != want*time.Millisecond {
			t.Errorf("a pause of %v, want %v ms", pause, int(want))
		}
	}
	if pause = nextPause(pause, steady+time.Second); pause != firstPause {
		t.Errorf("pause after a long run: %v", pause)
	}
}

// TestStop checks that all programs are stopped, also one that ignores SIGTERM.
func TestStop(t *testing.T) {
	sockets := []net.Listener{zinotest.Listen(t, ""), zinotest.Listen(t, "")}
	programs := []Program{program("answer", sockets[0]), program("stubborn", sockets[1])}
	s := start(programs, new(zinotest.Buffer), slog.New(slog.DiscardHandler), 50*time.Millisecond)
	defer s.Stop()
	var pids []int
	for _, l := range sockets {
		pid, _ := who(t, l.Addr().String())
		pids = append(pids, pid)
	}
	s.Stop()
	for i, pid := range pids {
		if !zinotest.Gone(pid) {
			t.Errorf("%s is still running", programs[i].Name)
		}
	}
}

// TestStopOrder checks that programs with First are stopped before the others.
func TestStopOrder(t *testing.T) {
	neighbour := zinotest.Listen(t, "")
	output := new(zinotest.Buffer)
	first := program("asking", zinotest.Listen(t, ""))
	first.Args, first.First = []string{neighbour.Addr().String()}, true
	s := start([]Program{program("answer", neighbour), first}, output, slog.New(slog.DiscardHandler), time.Hour)
	t.Cleanup(s.Stop)
	output.WaitFor(t, "asking is up")
	pid, group := who(t, neighbour.Addr().String())
	s.Stop()
	output.WaitFor(t, fmt.Sprintf("answered %d %d, error <nil>", pid, group))
	if !zinotest.Gone(pid) {
		t.Error("the other program is still running")
	}
}

// TestStopHung checks that Stop kills a program that was stopped by SIGSTOP.
func TestStopHung(t *testing.T) {
	l := zinotest.Listen(t, "")
	s, _ := run(t, program("answer", l), new(zinotest.Buffer), 50*time.Millisecond)
	pid, _ := who(t, l.Addr().String())
	zinotest.Must(t, syscall.Kill(pid, syscall.SIGSTOP))
	s.Stop()
	if !zinotest.Gone(pid) {
		t.Error("the program is still running")
	}
}

// TestHandOver checks the variables for the inherited socket.
func TestHandOver(t *testing.T) {
	l := zinotest.Listen(t, "")
	run(t, program("answer", l), new(zinotest.Buffer), time.Hour)
	if got := ask(t, l.Addr().String(), "env"); got != "1 answer" {
		t.Errorf("LISTEN_FDS and LISTEN_FDNAMES are %q", got)
	}
}

// TestLifeline checks that a program sees the end of its lifeline when the only write
// end is closed: no program inherits that one.
func TestLifeline(t *testing.T) {
	r, w, err := os.Pipe()
	zinotest.Must(t, err)
	t.Cleanup(func() { r.Close() }) // after run's: a restart passes it on
	p := program("answer", zinotest.Listen(t, ""))
	p.Lifeline = r
	_, _ = run(t, p, new(zinotest.Buffer), time.Hour)
	if got := ask(t, p.Socket.Addr().String(), "env"); got != "2 answer:lifeline" {
		t.Errorf("LISTEN_FDS and LISTEN_FDNAMES are %q", got)
	}
	ended := make(chan string, 1)
	go func() { ended <- ask(t, p.Socket.Addr().String(), "lifeline") }()
	zinotest.Must(t, w.Close())
	if got := zinotest.Receive(t, "the end of the lifeline", ended); got != "EOF" {
		t.Errorf("read %q", got)
	}
}

// TestGrandchild checks that a grandchild that keeps the standard error open delays
// neither the restart nor Stop.
func TestGrandchild(t *testing.T) {
	l := zinotest.Listen(t, "")
	socket := l.Addr().String()
	path := filepath.Join(zinotest.Dir(t), "leash")
	zinotest.Must(t, syscall.Mkfifo(path, 0o600))
	leash, err := os.OpenFile(path, os.O_RDWR, 0)
	zinotest.Must(t, err)
	defer leash.Close()
	s, _ := run(t, program("answer", l), new(zinotest.Buffer), time.Hour)
	pid, _ := who(t, socket)
	if reply := ask(t, socket, "fork "+path); !strings.HasPrefix(reply, strconv.Itoa(pid)) {
		t.Fatalf("no grandchild: %s", reply)
	}
	zinotest.Must(t, syscall.Kill(pid, syscall.SIGKILL))
	after, _ := who(t, socket)
	if after == pid {
		t.Error("the same process answered")
	}
	s.Stop()
}

// broken is a log on a full disk.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestOutput checks that a program's standard error is copied to the output.
func TestOutput(t *testing.T) {
	l := zinotest.Listen(t, "")
	output := new(zinotest.Buffer)
	run(t, program("answer", l), output, time.Hour)
	ask(t, l.Addr().String(), "say one two")
	output.WaitFor(t, "one two\n")
}

func TestOutputFails(t *testing.T) {
	l := zinotest.Listen(t, "")
	socket := l.Addr().String()
	run(t, program("answer", l), broken{}, time.Hour)
	pid, _ := who(t, socket)
	for range 5 {
		if reply := ask(t, socket, "say something"); !strings.HasPrefix(reply, strconv.Itoa(pid)) {
			t.Fatalf("answered %q, want %d", reply, pid)
		}
	}
}

// TestOutputFile checks that a program writes directly to an output that is a file.
func TestOutputFile(t *testing.T) {
	l := zinotest.Listen(t, "")
	path := filepath.Join(zinotest.Dir(t), "log")
	f, err := os.Create(path)
	zinotest.Must(t, err)
	t.Cleanup(func() { f.Close() })
	run(t, program("answer", l), f, time.Hour)
	ask(t, l.Addr().String(), "say into the file")
	if got, err := os.ReadFile(path); err != nil || string(got) != "into the file\n" {
		t.Errorf("the file contains %q, %v", got, err)
	}
}
