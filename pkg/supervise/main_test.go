package supervise

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/zinotest"
)

// modeEnv makes the test binary run as one of the processes below.
const modeEnv = "SUPERVISE_TEST_MODE"

func TestMain(m *testing.M) {
	switch os.Getenv(modeEnv) {
	case "":
		os.Exit(m.Run())
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		answer()
	case "answer":
		answer()
	case "asking":
		askAtEnd(os.Args[1])
	case "supervisor":
		superviseOne(os.Args[1])
	case "leashed":
		io.Copy(io.Discard, os.Stdin) // until the test closes it
	case "givesup":
		fmt.Fprintln(os.Stderr, "started\nthe file is wrong")
		os.Exit(1)
	case "brief":
		os.Exit(3)
	}
}

// answer executes commands read from the inherited socket, one per connection.
func answer() {
	l, err := net.FileListener(os.NewFile(3, "socket"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for {
		nc, err := l.Accept()
		if err != nil {
			os.Exit(1)
		}
		command, err := bufio.NewReader(nc).ReadString('\n')
		if err != nil {
			nc.Close()
			continue
		}
		fmt.Fprint(nc, execute(strings.TrimSpace(command)))
		nc.Close()
	}
}

// askAtEnd sends a command to its neighbour after SIGTERM, and prints the answer.
func askAtEnd(neighbour string) {
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	fmt.Fprintln(os.Stderr, "asking is up")
	<-terms
	nc, err := net.Dial("unix", neighbour)
	if err != nil {
		fmt.Fprintln(os.Stderr, "refused:", err)
		return
	}
	fmt.Fprintln(nc, "who")
	reply, err := io.ReadAll(nc)
	fmt.Fprintf(os.Stderr, "answered %s, error %v\n", reply, err)
}

func execute(command string) string {
	word, rest, _ := strings.Cut(command, " ")
	switch word {
	case "say":
		if _, err := fmt.Fprintln(os.Stderr, rest); err != nil {
			return err.Error()
		}
	case "fork": // a child with the same standard error that runs until rest is closed
		leash, err := os.Open(rest)
		if err != nil {
			return err.Error()
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{modeEnv + "=leashed"}
		cmd.Stdin, cmd.Stderr = leash, os.Stderr
		if err := cmd.Start(); err != nil {
			return err.Error()
		}
	case "lifeline": // until its end
		if _, err := os.NewFile(4, "lifeline").Read(make([]byte, 1)); err != nil {
			return err.Error()
		}
		return "data"
	case "env":
		return os.Getenv("LISTEN_FDS") + " " + os.Getenv("LISTEN_FDNAMES")
	}
	return fmt.Sprintf("%d %d", os.Getpid(), syscall.Getpgrp())
}

// superviseOne runs one program until it is killed, and prints each SIGINT.
func superviseOne(socket string) {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	l, err := net.Listen("unix", socket)
	if err != nil {
		fmt.Println(err)
		return
	}
	Start([]Program{program("answer", l)}, os.Stderr, slog.New(slog.DiscardHandler))
	fmt.Println("ready")
	for range interrupts {
		fmt.Println("interrupted")
	}
}

// program is the test binary in one of its modes.
func program(mode string, l net.Listener) Program {
	return Program{Name: mode, Path: os.Args[0], Env: append(os.Environ(), modeEnv+"="+mode, "GORACE=atexit_sleep_ms=0"), Socket: l}
}

// run starts a set of one program, which is stopped when the test ends.
func run(t *testing.T, p Program, output io.Writer, grace time.Duration) (*Set, *zinotest.Buffer) {
	t.Helper()
	log := new(zinotest.Buffer)
	s := start([]Program{p}, output, slog.New(slog.NewTextHandler(log, nil)), grace)
	t.Cleanup(s.Stop)
	return s, log
}

// ask sends a command and returns the answer, empty after an error.
func ask(t *testing.T, socket, command string) string {
	t.Helper()
	nc, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	defer nc.Close()
	zinotest.Must(t, nc.SetDeadline(time.Now().Add(zinotest.Timeout)))
	if _, err := fmt.Fprintln(nc, command); err != nil {
		return ""
	}
	reply, err := io.ReadAll(nc)
	if err != nil {
		return ""
	}
	return string(reply)
}

// who returns the pid and the process group of the program behind a socket.
func who(t *testing.T, socket string) (pid, group int) {
	t.Helper()
	reply := ask(t, socket, "who")
	first, second, _ := strings.Cut(reply, " ")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatalf("answered %q", reply)
	}
	if group, err = strconv.Atoi(second); err != nil {
		t.Fatalf("answered %q", reply)
	}
	return pid, group
}
