package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"golang.org/x/term"
)

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// reader returns what gives the turns of a chat one after the other, io.EOF at
// the end, and what must be called in the end.
func (a *app) reader(past *lineHistory) (next func() (string, error), leave func()) {
	if isTerminal(a.in) {
		l := newTerminalLines(a.in, a.screen(), past)
		return func() (string, error) { return a.remembering(l) }, l.leave
	}
	r := bufio.NewReader(a.in)
	return func() (string, error) {
		line, err := r.ReadString('\n')
		return strings.TrimRight(line, "\r\n"), err
	}, func() {}
}

// remembering reads a turn and remembers it. A turn that cannot be written down
// is one all the same.
func (a *app) remembering(l *terminalLines) (string, error) {
	turn, err := l.next()
	if lost := l.past.add(turn); lost != nil {
		a.say("Warning: what you type is not kept for the next chat: %v", lost)
		l.past.path = ""
	}
	return turn, err
}

// screen is where lines are edited: standard error, or the terminal itself if
// that goes elsewhere. Standard output belongs to the assistant.
func (a *app) screen() *os.File {
	if isTerminal(a.err) {
		return a.err
	}
	if tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0); err == nil {
		return tty
	}
	return a.err
}

// terminalLines edits lines on a terminal. The terminal is raw only while a
// line is being edited, so that Ctrl-C is a signal during a turn.
type terminalLines struct {
	in, out *os.File
	keys    keys
	t       *term.Terminal
	past    *lineHistory
	cooked  *term.State // as the terminal was found; nil if it cannot be read
	midLine atomic.Bool // the cursor stands in a line that has not been entered
}

func newTerminalLines(in, out *os.File, past *lineHistory) *terminalLines {
	l := &terminalLines{in: in, out: out, keys: keys{r: in}, past: past}
	l.cooked, _ = term.GetState(int(in.Fd())) // without it next will say what is wrong
	l.t = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{&l.keys, out}, "> ")
	l.t.History = past
	return l
}

// next returns what was typed for one turn.
func (l *terminalLines) next() (string, error) {
	state, err := term.MakeRaw(int(l.in.Fd()))
	if err != nil {
		return "", err
	}
	defer term.Restore(int(l.in.Fd()), state)
	if width, height, err := term.GetSize(int(l.in.Fd())); err == nil && width > 0 {
		l.t.SetSize(width, height)
	}
	l.bracketPaste(true)
	defer l.bracketPaste(false)
	l.midLine.Store(true)
	turn, err := l.turn()
	l.midLine.Store(err != nil)
	return turn, err
}

// bracketPaste has the terminal mark what is pasted, if it knows marks.
func (l *terminalLines) bracketPaste(on bool) {
	if os.Getenv("TERM") != "dumb" {
		l.t.SetBracketedPasteMode(on)
	}
}

// turn reads lines up to one that ends the turn: a line that ends in a
// backslash does not, nor does one inside of a paste. Ctrl-C takes back all.
func (l *terminalLines) turn() (string, error) {
	var turn strings.Builder
	l.past.recalled = false
	for {
		line, err := l.t.ReadLine()
		if l.keys.cleared {
			turn.Reset()
			l.keys.cleared = false
		}
		if err != nil && !errors.Is(err, term.ErrPasteIndicator) {
			return turn.String() + line, err
		}
		line = l.past.typed(line)
		rest, continued := strings.CutSuffix(line, `\`)
		switch {
		case l.keys.pasting:
			turn.WriteString(line + "\n")
		case continued:
			turn.WriteString(rest + "\n")
		default:
			return turn.String() + line, nil
		}
	}
}

// leave gives the terminal back as it was found, on a new line, even while
// next is still waiting.
func (l *terminalLines) leave() {
	if l.cooked != nil {
		term.Restore(int(l.in.Fd()), l.cooked)
	}
	l.bracketPaste(false)
	if l.midLine.Load() {
		fmt.Fprintln(l.out)
	}
}
