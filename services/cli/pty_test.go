package cli

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal with a process on it.
type terminal struct {
	t        *testing.T
	keyboard *os.File // the master: what is written to it is typed
	tty      *os.File // the slave, kept open so that its state can be read
	cmd      *exec.Cmd
	ended    chan struct{}

	mu   sync.Mutex
	text bytes.Buffer
}

// onTerminal starts a command whose standard streams are a terminal.
func onTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	x := newTerminal(t)
	x.start(cmd)
	return x
}

// start runs a command on the terminal.
func (x *terminal) start(cmd *exec.Cmd) {
	x.t.Helper()
	cmd.Stdin, cmd.Stdout = x.tty, x.tty
	if cmd.Stderr == nil {
		cmd.Stderr = x.tty
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		x.t.Fatal(err)
	}
	x.cmd = cmd
	go func() { cmd.Wait(); close(x.ended) }()
	x.t.Cleanup(func() {
		cmd.Process.Kill() // an error: it has ended
		<-x.ended
	})
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	err = raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	x := &terminal{t: t, keyboard: master, tty: tty, ended: make(chan struct{})}
	go x.watch()
	return x
}

func (x *terminal) watch() {
	b := make([]byte, 4096)
	for {
		n, err := x.keyboard.Read(b)
		if err != nil {
			return
		}
		x.mu.Lock()
		x.text.Write(b[:n])
		x.mu.Unlock()
	}
}

// screen returns all output so far.
func (x *terminal) screen() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.String()
}

// shows waits until text is on the screen.
func (x *terminal) shows(text string) {
	x.t.Helper()
	until(x.t, strconv.Quote(text)+" on the screen", func() bool { return strings.Contains(x.screen(), text) })
}

// resize sets the number of columns.
func (x *terminal) resize(columns uint16) {
	x.t.Helper()
	raw, err := x.keyboard.SyscallConn()
	if err != nil {
		x.t.Fatal(err)
	}
	control := raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
	})
	if control != nil || err != nil {
		x.t.Fatal(control, err)
	}
}

// rows returns what a person sees on a screen of so many columns.
func rows(written string, columns int) (rows []string) {
	var row []rune
	column := 0
	for i := 0; i < len(written); {
		r, size := utf8.DecodeRuneInString(written[i:])
		switch {
		case strings.HasPrefix(written[i:], "\x1b[K"):
			row, size = row[:min(column, len(row))], 3
		case r == '\x1b': // a colour, or a mode
			size = strings.IndexAny(written[i:], "mhl") + 1
		case r == '\r':
			column = 0
		case r == '\n':
			rows, row = append(rows, string(row)), nil
		default:
			if column == columns {
				rows, row, column = append(rows, string(row)), nil, 0
			}
			row = append(row[:min(column, len(row))], append([]rune{r}, row[min(column+1, len(row)):]...)...)
			column++
		}
		i += size
	}
	return append(rows, string(row))
}

// prompts waits for the nth prompt, and until the keyboard is in use.
func (x *terminal) prompts(n int) {
	x.t.Helper()
	until(x.t, "prompt "+strconv.Itoa(n), func() bool { return strings.Count(x.screen(), "\x1b[?2004h") >= n && !x.cooked() })
}

func (x *terminal) types(keys string) {
	x.t.Helper()
	if _, err := x.keyboard.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// cooked reports whether the terminal is not in raw mode.
func (x *terminal) cooked() bool {
	state, err := unix.IoctlGetTermios(int(x.tty.Fd()), unix.TCGETS)
	if err != nil {
		x.t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0 && state.Lflag&unix.ICANON != 0 && state.Lflag&unix.ISIG != 0
}

// ends waits for the end, and checks that the terminal is restored.
func (x *terminal) ends(status int) {
	x.t.Helper()
	until(x.t, "the end", func() bool {
		select {
		case <-x.ended:
			return true
		default:
			return false
		}
	})
	if got := x.cmd.ProcessState.ExitCode(); got != status {
		x.t.Errorf("status %d, want %d", got, status)
	}
	if !x.cooked() {
		x.t.Error("the terminal is still raw")
	}
	until(x.t, "bracketed paste is off", func() bool { // what was written last may be under way
		screen := x.screen()
		return strings.LastIndex(screen, "\x1b[?2004l") > strings.LastIndex(screen, "\x1b[?2004h")
	})
}
