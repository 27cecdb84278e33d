// Package term handles the terminal: a line editor with history, reading secrets
// without echo, and the width.
package term

import (
	"errors"
	"fmt"
	"io"
	"os"

	xterm "golang.org/x/term"
)

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool { return xterm.IsTerminal(int(f.Fd())) }

// Width returns the width of a terminal in cells, 0 for another file and if it is not
// known.
func Width(f *os.File) int {
	width, _, err := xterm.GetSize(int(f.Fd()))
	if err != nil || width < 0 {
		return 0
	}
	return width
}

// Fancy reports whether colours and control sequences may be used.
func Fancy() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }

// Screen returns the file for prompts: stderr, or /dev/tty if stderr is redirected.
// Standard output is for data.
func Screen(stderr *os.File) *os.File {
	if IsTerminal(stderr) {
		return stderr
	}
	if tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0); err == nil {
		return tty
	}
	return stderr
}

// Preserve returns a function that restores the current state of the terminal, for
// programs that may leave it changed. It reports whether they have.
func Preserve(f *os.File) (restore func() (changed bool)) {
	fd := int(f.Fd())
	before, err := xterm.GetState(fd)
	if err != nil {
		return func() bool { return false } // not a terminal
	}
	return func() bool {
		now, err := xterm.GetState(fd)
		if err != nil || *now == *before {
			return false
		}
		return xterm.Restore(fd, before) == nil
	}
}

// ReadLine reads a line byte by byte, so that nothing behind it is consumed.
func ReadLine(in io.Reader) (string, error) {
	var line []byte
	for b := make([]byte, 1); ; {
		n, err := in.Read(b)
		if n > 0 && b[0] == '\n' || err != nil {
			return string(line), err
		}
		line = append(line, b[:n]...)
	}
}

// ErrCtrlC is the error of Secret after Ctrl-C.
var ErrCtrlC = errors.New("interrupted")

// Secret reads a line from the terminal in without an echo. Ctrl-D gives an empty
// line. restore resets the terminal, even while read is still waiting.
func Secret(in, screen *os.File, prompt string) (read func() (string, error), restore func(), err error) {
	state, err := xterm.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, nil, err
	}
	restore = func() {
		xterm.Restore(int(in.Fd()), state) // best effort
		fmt.Fprintln(screen)
	}
	keys := &ctrlCWatcher{r: in}
	t := xterm.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, screen}, "")
	return func() (string, error) {
		line, err := t.ReadPassword(prompt)
		switch {
		case keys.seen && err != nil:
			return "", ErrCtrlC
		case errors.Is(err, io.EOF): // Ctrl-D
			return "", nil
		}
		return line, err
	}, restore, nil
}

// ctrlCWatcher records that Ctrl-C was read: x/term reports it as io.EOF, like the
// end of the input.
type ctrlCWatcher struct {
	r    io.Reader
	seen bool
}

func (c *ctrlCWatcher) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	for _, key := range b[:n] {
		c.seen = c.seen || key == ctrlC
	}
	return n, err
}
