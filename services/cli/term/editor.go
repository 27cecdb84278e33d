package term

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	xterm "golang.org/x/term"

	"zino/pkg/history"
)

// Editor reads messages from a terminal. The terminal is in raw mode only while a
// line is edited, so that Ctrl-C is a signal during a turn.
type Editor struct {
	in, out *os.File
	keys    keys
	t       *xterm.Terminal
	history *recalled
	warn    func(error) // called when the history cannot be written
	restore func() bool // the terminal's state when the editor was made
	midLine atomic.Bool // the current line was not submitted
}

// NewEditor returns an editor that reads keys from in and draws on out. warn is
// called once if messages cannot be stored in the history.
func NewEditor(in, out *os.File, h *history.History, warn func(error)) *Editor {
	e := &Editor{in: in, out: out, keys: keys{r: in}, history: &recalled{History: h}, warn: warn, restore: Preserve(in)}
	e.t = xterm.NewTerminal(struct {
		io.Reader
		io.Writer
	}{&e.keys, out}, "> ")
	e.t.History = e.history
	return e
}

// Next reads the next message and adds it to the history.
func (e *Editor) Next() (string, error) {
	message, err := e.read()
	if err := e.history.History.Add(message); err != nil {
		e.warn(err)
	}
	return message, err
}

func (e *Editor) read() (string, error) {
	state, err := xterm.MakeRaw(int(e.in.Fd()))
	if err != nil {
		return "", err
	}
	defer xterm.Restore(int(e.in.Fd()), state)
	if width, height, err := xterm.GetSize(int(e.in.Fd())); err == nil && width > 0 {
		e.t.SetSize(width, height)
	}
	e.bracketPaste(true)
	defer e.bracketPaste(false)
	e.midLine.Store(true)
	message, err := e.message()
	e.midLine.Store(err != nil)
	return message, err
}

func (e *Editor) bracketPaste(on bool) {
	if os.Getenv("TERM") != "dumb" {
		e.t.SetBracketedPasteMode(on)
	}
}

// message reads the lines of a message. A line that ends in a backslash continues it,
// and so does each line of a paste. Ctrl-C discards it.
func (e *Editor) message() (string, error) {
	var message strings.Builder
	e.history.changed = false
	for {
		line, err := e.t.ReadLine()
		if e.keys.cleared {
			message.Reset()
			e.keys.cleared = false
		}
		if err != nil && !errors.Is(err, xterm.ErrPasteIndicator) {
			return message.String() + line, err
		}
		line = e.history.original(line)
		rest, continued := strings.CutSuffix(line, `\`)
		switch {
		case e.keys.pasting:
			message.WriteString(line + "\n")
		case continued:
			message.WriteString(rest + "\n")
		default:
			return message.String() + line, nil
		}
	}
}

// Leave restores the terminal, with the cursor on a new line, even while Next is
// still waiting.
func (e *Editor) Leave() {
	e.restore()
	e.bracketPaste(false)
	if e.midLine.Load() {
		fmt.Fprintln(e.out)
	}
}
