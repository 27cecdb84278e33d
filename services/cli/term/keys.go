package term

import (
	"bytes"
	"io"
)

const (
	ctrlC  = 0x03
	ctrlE  = 0x05 // go to the end of the line
	ctrlU  = 0x15 // clear the line
	rubout = 0x7f
)

// Marks that a terminal sends around pasted text (bracketed paste).
const (
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// keys filters the keyboard for the line editor: Ctrl-C clears the line, twice in
// a row ends the input; pasted text loses its control characters. A Read returns
// at most one line, so that pasting is the state at the end of that line.
type keys struct {
	r io.Reader

	raw     []byte // read, not yet examined
	pending []byte // examined, not yet returned
	mark    []byte // the part of a paste mark that was seen so far

	pasting bool // between the marks
	cleared bool // Ctrl-C was pressed; the reader of the line resets it
	struck  bool // the last key was Ctrl-C
	left    bool // Ctrl-C was pressed twice
	afterCR bool // the last byte of the paste was a carriage return
}

// Read returns what was typed, and io.EOF when the user leaves.
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
		k.examine()
	}
	n := copy(b, k.pending)
	k.pending = k.pending[n:]
	return n, nil
}

// examine moves bytes from raw to pending, up to the end of a line.
func (k *keys) examine() {
	for len(k.raw) > 0 && !k.left {
		c := k.raw[0]
		k.raw = k.raw[1:]
		before := len(k.pending)
		switch {
		case k.pasting:
			k.paste(c)
		case c == ctrlC:
			k.left, k.struck, k.cleared = k.struck, true, true
			if !k.left {
				k.pending = append(k.pending, ctrlE, ctrlU)
			}
		default:
			k.struck = false
			k.pending = append(k.pending, c)
			if k.follow(c, pasteStart) {
				k.pasting, k.afterCR = true, false
			}
		}
		if c == '\r' || c == '\n' && len(k.pending) > before {
			return
		}
	}
}

// follow extends the part of mark that was seen, and reports that it is complete.
func (k *keys) follow(c byte, mark string) bool {
	k.mark = append(k.mark, c)
	for !bytes.HasPrefix([]byte(mark), k.mark) {
		k.mark = k.mark[1:]
	}
	if len(k.mark) < len(mark) {
		return false
	}
	k.mark = nil
	return true
}

// paste examines one byte of pasted text. Bytes that may become the end mark are
// delayed; control characters other than tab and newline are dropped.
func (k *keys) paste(c byte) {
	delayed := append(bytes.Clone(k.mark), c)
	if k.follow(c, pasteEnd) {
		k.pasting = false
		k.pending = append(k.pending, pasteEnd...)
		return
	}
	for _, c := range delayed[:len(delayed)-len(k.mark)] {
		switch {
		case c == '\n' && k.afterCR: // the second half of CRLF
		case c == '\t', c == '\r', c == '\n', c >= ' ' && c != rubout:
			k.pending = append(k.pending, c)
		}
		k.afterCR = c == '\r'
	}
}
