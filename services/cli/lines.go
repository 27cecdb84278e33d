package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// reader returns what gives the turns of a chat one after the other, io.EOF at
// the end, and what must be called in the end.
func (a *app) reader() (next func() (string, error), leave func()) {
	if isTerminal(a.in) {
		l := newTerminalLines(a.in, a.err)
		return l.next, l.leave
	}
	r := bufio.NewReader(a.in)
	return func() (string, error) {
		line, err := r.ReadString('\n')
		return strings.TrimRight(line, "\r\n"), err
	}, func() {}
}

// terminalLines edits lines on a terminal. The terminal is raw only while a
// line is being edited, so that Ctrl-C is a signal during a turn.
type terminalLines struct {
	in, out *os.File
	t       *term.Terminal
	cooked  *term.State // as the terminal was found; nil if it cannot be read
}

func newTerminalLines(in, out *os.File) *terminalLines {
	l := &terminalLines{in: in, out: out}
	l.cooked, _ = term.GetState(int(in.Fd())) // without it next will say what is wrong
	l.t = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{&keys{r: in}, out}, "> ")
	return l
}

// next returns what was typed. Several lines that are pasted together, and
// lines that end in a backslash, make one turn.
func (l *terminalLines) next() (string, error) {
	state, err := term.MakeRaw(int(l.in.Fd()))
	if err != nil {
		return "", err
	}
	defer term.Restore(int(l.in.Fd()), state)
	if width, height, err := term.GetSize(int(l.in.Fd())); err == nil && width > 0 {
		l.t.SetSize(width, height)
	}
	l.t.SetBracketedPasteMode(true)
	defer l.t.SetBracketedPasteMode(false)
	var turn strings.Builder
	for {
		line, err := l.t.ReadLine()
		pasted := errors.Is(err, term.ErrPasteIndicator)
		if err != nil && !pasted {
			return turn.String() + line, err
		}
		rest, continued := strings.CutSuffix(line, `\`)
		if !continued && !pasted {
			return turn.String() + line, nil
		}
		if pasted {
			rest = line
		}
		turn.WriteString(rest + "\n")
	}
}

// leave gives the terminal back as it was found, on a new line, even while
// next is still waiting.
func (l *terminalLines) leave() {
	if l.cooked != nil {
		term.Restore(int(l.in.Fd()), l.cooked)
	}
	fmt.Fprintln(l.out)
}

const (
	ctrlC = 0x03
	ctrlE = 0x05 // to the end of the line
	ctrlU = 0x15 // clear the line
)

// keys is the keyboard: Ctrl-C clears the line, and twice in a row it leaves.
type keys struct {
	r       io.Reader
	pending []byte
	struck  bool // the last key was Ctrl-C
}

func (k *keys) Read(b []byte) (int, error) {
	if len(k.pending) == 0 {
		buf := make([]byte, 256)
		n, err := k.r.Read(buf)
		if n == 0 {
			return 0, err
		}
		for _, c := range buf[:n] {
			if c != ctrlC {
				k.pending, k.struck = append(k.pending, c), false
				continue
			}
			if k.struck {
				return 0, io.EOF
			}
			k.pending, k.struck = append(k.pending, ctrlE, ctrlU), true
		}
	}
	n := copy(b, k.pending)
	k.pending = k.pending[n:]
	return n, nil
}
