package cli

import (
	"bytes"
	"fmt"
	"io"

	"zino/pkg/visible"
)

// printer writes text that comes in pieces: exactly one newline ends it, and on
// a terminal no character reaches it that it would act on.
type printer struct {
	w        io.Writer
	terminal bool
	dim      bool
	wrote    bool
	newlines int // held back until something follows them
}

// Text prints one piece of text.
func (p *printer) Text(delta []byte) error {
	if p.terminal {
		delta = []byte(visible.Text(string(delta)))
	}
	body := bytes.TrimRight(delta, "\n")
	trailing := len(delta) - len(body)
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

// Flush has nothing to do: every piece is written at once.
func (p *printer) Flush() error { return nil }

// end closes a turn's text with its one newline.
func (p *printer) end() error {
	if !p.wrote {
		return nil
	}
	return p.blank()
}

// blank is the one newline, also of a turn without text.
func (p *printer) blank() error {
	p.newlines, p.wrote = 0, false
	_, err := fmt.Fprintln(p.w)
	return err
}
