package render

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"zino/pkg/text"
	"zino/services/cli/term"
)

// Printer writes text that arrives in pieces. The text ends with exactly one newline,
// and control characters are escaped on a terminal.
type Printer struct {
	w        io.Writer
	terminal bool
	dim      bool
	wrote    bool
	newlines int // delayed until text follows them
}

// NewPrinter returns a printer to f.
func NewPrinter(f *os.File) *Printer { return &Printer{w: f, terminal: term.IsTerminal(f)} }

// Text prints one piece of text.
func (p *Printer) Text(piece []byte) error {
	if p.terminal {
		piece = []byte(text.Visible(string(piece)))
	}
	body := bytes.TrimRight(piece, "\n")
	trailing := len(piece) - len(body)
	if len(body) == 0 {
		p.newlines += trailing
		return nil
	}
	if p.dim {
		body = []byte(dimmed(string(body)))
	}
	out := append(bytes.Repeat([]byte("\n"), p.newlines), body...)
	p.newlines, p.wrote = trailing, true
	_, err := p.w.Write(out)
	return err
}

// Flush does nothing: each piece is written at once.
func (p *Printer) Flush() error { return nil }

// Wrote reports whether text was printed since the last End.
func (p *Printer) Wrote() bool { return p.wrote }

// End prints the newline behind the text, if there is any.
func (p *Printer) End() error {
	if !p.wrote {
		return nil
	}
	return p.Newline()
}

// Newline ends a turn that may have no text.
func (p *Printer) Newline() error {
	p.newlines, p.wrote = 0, false
	_, err := fmt.Fprintln(p.w)
	return err
}

// Line returns s on one line, for a terminal: newlines and tabs become blanks,
// other control characters are escaped.
func Line(s string) string {
	return text.Visible(strings.NewReplacer("\n", " ", "\t", " ").Replace(s))
}

// Escape returns a writer that escapes control characters.
func Escape(w io.Writer) io.Writer { return escaper{w} }

type escaper struct{ w io.Writer }

func (e escaper) Write(b []byte) (int, error) {
	if _, err := io.WriteString(e.w, text.Visible(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Colours of a terminal.
const (
	red   = "\x1b[31m"
	green = "\x1b[32m"
	cyan  = "\x1b[36m"
	dim   = "\x1b[2m"
	plain = "\x1b[0m"
)

func dimmed(s string) string { return dim + s + plain }
