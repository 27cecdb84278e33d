package zinotest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"
	"unsafe"
)

// Terminal is a pseudo-terminal: a test sees every byte that a program writes to
// it. For what a person sees after a whole session, use Screen.
type Terminal struct {
	*Process         // set by Start; Out is empty, as the terminal has the output
	Written  *Buffer // all output so far

	t           testing.TB
	master, tty *os.File // tty stays open, so that its state can be read at the end
}

// NewTerminal opens a pseudo-terminal, which is closed when the test ends.
func NewTerminal(t testing.TB) *Terminal {
	t.Helper()
	master, name := OpenPTY(t)
	tty, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOCTTY, 0)
	Must(t, err)
	t.Cleanup(func() { tty.Close() })
	x := &Terminal{Written: new(Buffer), t: t, master: master, tty: tty}
	go func() {
		for b := make([]byte, 4096); ; {
			n, err := x.master.Read(b)
			if err != nil {
				return // closed
			}
			x.Written.Write(b[:n])
		}
	}()
	return x
}

// OpenPTY returns the master of a new pseudo-terminal, and the path of its other
// side, as openpty(3) does.
func OpenPTY(t testing.TB) (master *os.File, name string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	Must(t, err)
	t.Cleanup(func() { master.Close() })
	var unlock, number int32
	Must(t, ioctl(master, syscall.TIOCSPTLCK, unsafe.Pointer(&unlock)))
	Must(t, ioctl(master, syscall.TIOCGPTN, unsafe.Pointer(&number)))
	return master, "/dev/pts/" + strconv.Itoa(int(number))
}

// ioctl calls ioctl(2). It leaves f non-blocking, which os.File.Fd would not.
func ioctl(f *os.File, request uintptr, arg unsafe.Pointer) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var errno syscall.Errno
	if err := raw.Control(func(fd uintptr) { _, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(arg)) }); err != nil {
		return err
	}
	if errno != 0 {
		return fmt.Errorf("ioctl %#x of %s: %w", request, f.Name(), errno)
	}
	return nil
}

// Start starts a command whose controlling terminal this is, and whose standard
// streams are on it, unless cmd has a standard error.
func (x *Terminal) Start(cmd *exec.Cmd) {
	x.t.Helper()
	cmd.Stdin, cmd.Stdout = x.tty, x.tty
	if cmd.Stderr == nil {
		cmd.Stderr = x.tty
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	x.Process = Start(x.t, cmd)
}

// Type types keys.
func (x *Terminal) Type(keys string) {
	x.t.Helper()
	_, err := x.master.WriteString(keys)
	Must(x.t, err)
}

// Shows waits until the terminal has got text.
func (x *Terminal) Shows(text string) {
	x.t.Helper()
	x.Written.WaitFor(x.t, text)
}

// Resize sets the number of columns.
func (x *Terminal) Resize(columns uint16) {
	x.t.Helper()
	size := [4]uint16{24, columns} // struct winsize
	Must(x.t, ioctl(x.master, syscall.TIOCSWINSZ, unsafe.Pointer(&size)))
}

// Cooked reports whether the terminal edits lines itself, as a shell expects it.
func (x *Terminal) Cooked() bool {
	x.t.Helper()
	var state syscall.Termios
	Must(x.t, ioctl(x.tty, syscall.TCGETS, unsafe.Pointer(&state)))
	const cooked = syscall.ECHO | syscall.ICANON | syscall.ISIG
	return state.Lflag&cooked == cooked
}

// Rows returns what a person sees of all output on a screen of so many columns.
// It knows line ends, erasing to the end of a row, and colours.
func (x *Terminal) Rows(columns int) (rows []string) {
	var row []rune
	column, written := 0, x.Written.String()
	for i := 0; i < len(written); {
		r, size := utf8.DecodeRuneInString(written[i:])
		switch {
		case strings.HasPrefix(written[i:], "\x1b[K"):
			row, size = row[:min(column, len(row))], 3
		case r == '\x1b': // a colour or a mode
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

// Screen is a terminal emulator of 80 by 30 characters: a shell in tmux. It shows
// what a person sees.
type Screen struct {
	Dir string // its directories home, work and run

	t testing.TB
}

// NewScreen starts a shell in an empty directory and with an empty home, which
// finds the programs in bin.
func NewScreen(t testing.TB, bin string, env ...string) *Screen {
	t.Helper()
	return newScreen(t, []string{"sh"}, bin, env)
}

// NewUserScreen starts a shell that is not root's, even where the tests are: in
// a user namespace that shows this uid as another.
func NewUserScreen(t testing.TB, bin string, env ...string) *Screen {
	t.Helper()
	if os.Geteuid() != 0 {
		return NewScreen(t, bin, env...)
	}
	return newScreen(t, []string{"unshare", "--user", "--map-user=1000", "--map-group=1000", "sh"}, bin, env)
}

func newScreen(t testing.TB, shell []string, bin string, env []string) *Screen {
	t.Helper()
	s := &Screen{Dir(t), t}
	for _, name := range []string{"home", "work", "run"} {
		Must(t, os.Mkdir(filepath.Join(s.Dir, name), 0o700))
	}
	env = slices.Concat([]string{
		"HOME=" + filepath.Join(s.Dir, "home"), "XDG_RUNTIME_DIR=" + filepath.Join(s.Dir, "run"), "TMPDIR=" + filepath.Join(s.Dir, "run"),
		"PATH=" + bin + ":" + os.Getenv("PATH"), "PS1=$ ", "TERM=screen", "LC_ALL=C.UTF-8",
	}, CoverEnv(), env)
	// history-limit holds for windows that are made afterwards
	args := []string{"-f", "/dev/null", "start-server", ";", "set", "-g", "history-limit", "50000", ";", "new-session", "-d", "-x", "80", "-y", "30", "-c", filepath.Join(s.Dir, "work"), "env", "-i"}
	s.Tmux(slices.Concat(args, env, shell)...) // tmux's own -e does not reach PATH
	t.Cleanup(func() {
		s.Tmux("kill-server")
		Eventually(t, "the end of tmux", func() bool { return len(Processes(filepath.Join(s.Dir, "tmux"))) == 0 })
	})
	s.Shows("", `^[$[]`)
	return s
}

// Tmux runs a command of tmux and returns its output.
func (s *Screen) Tmux(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", filepath.Join(s.Dir, "tmux")}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Enter types text and Enter.
func (s *Screen) Enter(text string) {
	s.t.Helper()
	s.Tmux("send-keys", "-l", text)
	s.Tmux("send-keys", "Enter")
}

// Text returns the screen without blank lines at its end.
func (s *Screen) Text() string {
	s.t.Helper()
	return strings.TrimRight(s.Tmux("capture-pane", "-p"), "\n")
}

// History returns the screen with all that was scrolled off.
func (s *Screen) History() string {
	s.t.Helper()
	return strings.TrimRight(s.Tmux("capture-pane", "-p", "-S", "-"), "\n")
}

// Shows waits until the last line of the screen matches the pattern last, and part
// stands on the screen.
func (s *Screen) Shows(part, last string) {
	s.t.Helper()
	pattern := regexp.MustCompile(last)
	s.Eventually(fmt.Sprintf("%q and a last line like %q", part, last), func(text string) bool {
		return strings.Contains(text, part) && pattern.MatchString(text[strings.LastIndexByte(text, '\n')+1:])
	})
}

// Eventually waits until a condition of the screen's text holds.
func (s *Screen) Eventually(what string, condition func(text string) bool) {
	s.t.Helper()
	text, ok := "", false
	defer func() {
		if !ok {
			s.t.Logf("the screen:\n%s", text)
		}
	}()
	Eventually(s.t, what, func() bool {
		text = s.Text()
		ok = condition(text)
		return ok
	})
}
