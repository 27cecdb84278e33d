package cli

import (
	"bytes"
	"io"
)

const (
	ctrlC  = 0x03
	ctrlE  = 0x05 // to the end of the line
	ctrlU  = 0x15 // clear the line
	rubout = 0x7f
)

// The marks that a terminal puts around what is pasted.
var (
	pasteStart = []byte("\x1b[200~")
	pasteEnd   = []byte("\x1b[201~")
)

// keys is the keyboard as the line editor is to see it: Ctrl-C clears the line,
// twice in a row it leaves; of a paste only text comes through. It gives at
// most one line at a time, so that pasting is what held at that line's end.
type keys struct {
	r io.Reader

	raw     []byte // read, and not looked at yet
	pending []byte // looked at, and not given yet
	mark    []byte // the bytes of a mark that have come up to now

	pasting bool // between the marks
	cleared bool // Ctrl-C was struck; the reader of the line takes it back
	struck  bool // the last key was Ctrl-C
	left    bool // it was struck twice
	afterCR bool // the last byte of the paste was a carriage return
}

// Read gives what was typed. io.EOF says that the user leaves.
func (k *keys) Read(b []byte) (int, error) {
	for len(k.pending) == 0 {
		if k.left {
			return 0, io.EOF
		}
		if len(k.raw) == 0 {
			buf := make([]byte, 256)
			n, err := k.r.Read(buf)
			if n == 0 {
				return 0, err
			}
			k.raw = buf[:n]
		}
		k.look()
	}
	n := copy(b, k.pending)
	k.pending = k.pending[n:]
	return n, nil
}

// look takes keys up to the end of a line.
func (k *keys) look() {
	for len(k.raw) > 0 && !k.left {
		c := k.raw[0]
		k.raw = k.raw[1:]
		before := len(k.pending)
		if k.pasting {
			k.paste(c)
		} else {
			k.key(c)
		}
		if c == '\r' || c == '\n' && len(k.pending) > before {
			return
		}
	}
}

// key takes one byte that was typed.
func (k *keys) key(c byte) {
	if c == ctrlC {
		k.left, k.struck, k.cleared = k.struck, true, true
		if !k.left {
			k.pending = append(k.pending, ctrlE, ctrlU)
		}
		return
	}
	k.struck = false
	k.pending = append(k.pending, c)
	if k.follow(c, pasteStart) {
		k.pasting, k.afterCR = true, false
	}
}

// follow counts how much of the mark has come, and reports that it is whole.
func (k *keys) follow(c byte, mark []byte) bool {
	k.mark = append(k.mark, c)
	for !bytes.HasPrefix(mark, k.mark) {
		k.mark = k.mark[1:]
	}
	if len(k.mark) < len(mark) {
		return false
	}
	k.mark = nil
	return true
}

// paste takes one byte of a paste. What may become the end mark is held back;
// control characters other than tab and newline are dropped.
func (k *keys) paste(c byte) {
	held := append(bytes.Clone(k.mark), c)
	if k.follow(c, pasteEnd) {
		k.pasting = false
		k.pending = append(k.pending, pasteEnd...)
		return
	}
	for _, c := range held[:len(held)-len(k.mark)] {
		switch {
		case c == '\n' && k.afterCR: // the second half of a line's end
		case c == '\t', c == '\r', c == '\n', c >= ' ' && c != rubout:
			k.pending = append(k.pending, c)
		}
		k.afterCR = c == '\r'
	}
}
