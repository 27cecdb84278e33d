package bench_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"zino/pkg/zinotest"
)

// tty is a pseudo-terminal of 80 by 24 cells with a program on it.
type tty struct {
	master *os.File
	cmd    *exec.Cmd

	mu      sync.Mutex
	out     []byte // the end of the output
	dropped int    // bytes before it
	got     chan struct{}
}

// ttyTimeout limits the wait for output.
const ttyTimeout = 60 * time.Second

// terminal starts a program on a new terminal with an empty home.
func (b *bench) terminal(cmd *exec.Cmd, env ...string) (*tty, error) {
	home, err := os.MkdirTemp(b.dir, "h")
	if err != nil {
		return nil, err
	}
	master, name := zinotest.OpenPTY(b.t)
	side, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer side.Close()
	bin, err := filepath.Abs("../../../bin")
	if err != nil {
		return nil, err
	}
	x := &tty{master: master, cmd: cmd, got: make(chan struct{}, 1)}
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = home, side, side, side
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Env = append([]string{"HOME=" + home, "XDG_RUNTIME_DIR=" + home, "TMPDIR=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "TERM=xterm-256color", "PS1=$ ", "LC_ALL=C.UTF-8"}, env...)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go x.read()
	return x, nil
}

// read keeps what is written on the terminal until it is closed.
func (x *tty) read() {
	for p := make([]byte, 1<<16); ; {
		n, err := x.master.Read(p)
		if err != nil {
			return
		}
		x.mu.Lock()
		if x.out = append(x.out, p[:n]...); len(x.out) > 4<<20 {
			x.dropped += 3 << 20
			x.out = bytes.Clone(x.out[3<<20:])
		}
		x.mu.Unlock()
		select {
		case x.got <- struct{}{}:
		default:
		}
	}
}

// mark returns the place where the output ends now.
func (x *tty) mark() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.dropped + len(x.out)
}

// until waits until the output behind a place contains a text, and returns when that
// was read.
func (x *tty) until(mark int, text string) (time.Time, error) {
	limit := time.After(ttyTimeout)
	for {
		x.mu.Lock()
		found := bytes.Contains(x.out[max(0, mark-x.dropped):], []byte(text))
		x.mu.Unlock()
		if found {
			return time.Now(), nil
		}
		select {
		case <-x.got:
		case <-limit:
			return time.Time{}, fmt.Errorf("no %q on the terminal, which shows %q", text, x.tail())
		}
	}
}

// tail returns the end of the output.
func (x *tty) tail() []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	return bytes.Clone(x.out[max(0, len(x.out)-600):])
}

// typed types keys and returns how long it takes until the terminal shows a text.
func (x *tty) typed(keys, text string) (float64, error) {
	mark, begin := x.mark(), time.Now()
	if _, err := x.master.WriteString(keys); err != nil {
		return 0, err
	}
	end, err := x.until(mark, text)
	return float64(end.Sub(begin)), err
}

// close types keys that end the program, and waits for its end.
func (x *tty) close(keys string) error {
	_, err := x.master.WriteString(keys)
	ended := make(chan error, 1)
	go func() { ended <- x.cmd.Wait() }()
	select {
	case e := <-ended:
		err = errors.Join(err, e)
	case <-time.After(ttyTimeout):
		err = errors.Join(err, fmt.Errorf("%v does not end", x.cmd.Args), x.cmd.Process.Kill(), <-ended)
	}
	return errors.Join(err, x.master.Close())
}

// child returns the pid of the child of a process with a name.
func child(pid int, name string) (int, error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	for _, file := range lists {
		list, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		for word := range strings.FieldsSeq(string(list)) {
			comm, err := os.ReadFile("/proc/" + word + "/comm")
			if err == nil && strings.TrimSpace(string(comm)) == name {
				return strconv.Atoi(word)
			}
		}
	}
	return 0, fmt.Errorf("process %d has no child %s", pid, name)
}

// status returns a number of /proc/PID/status, such as VmRSS in kB.
func status(pid int, key string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			return strconv.ParseFloat(strings.Fields(rest)[0], 64)
		}
	}
	return 0, fmt.Errorf("no %s of process %d", key, pid)
}
