package input

import (
	"bytes"
	"strings"
	"time"
	"unicode/utf8"

	uv "github.com/charmbracelet/ultraviolet"
)

// How long the terminal must be quiet before bytes count as they stand that can be the
// start of something longer.
const (
	escTime   = 50 * time.Millisecond  // ESC: the key, or the start of a sequence
	enterTime = 30 * time.Millisecond  // CR: Enter, or a line end in a paste without marks
	pasteTime = 30 * time.Millisecond  // the end mark of a paste: it may be part of the text
	burstTime = 10 * time.Millisecond  // more text at once than a person types
	longTime  = 100 * time.Millisecond // the rest of a long paste, from a busy terminal
	replyTime = 500 * time.Millisecond // the start of an answer of the terminal
)

const (
	burstMin  = 16       // bytes at once that no person types
	longBurst = 1 << 10  // bytes at once that are part of a long paste
	burstMax  = 64 << 10 // bytes at once that are a paste even without a line end
	replyMax  = 4 << 10  // bytes of an answer of the terminal
)

// Marks of a bracketed paste.
var (
	pasteStart = []byte("\x1b[200~")
	pasteEnd   = []byte("\x1b[201~")
)

// decoder converts the bytes of a terminal into events. wait is how long the terminal must
// be quiet before quiet is called to decode what is pending; below 0: nothing is.
//
// A paste without marks is known by a line end that is followed by more bytes. It is
// gathered until the terminal is quiet, so that it becomes one event. Control characters
// and sequences in it are text, as in a paste with marks.
type decoder struct {
	wait      time.Duration
	backspace byte // that the Backspace key sends, as the modes of the terminal say
	ahead     bool // nothing was read yet: it may have been typed before raw mode

	buf     []byte // not decoded yet
	burst   bool   // buf is text that came at once, and more may come
	pasting bool   // buf is the inside of a paste
	open    bool   // the last mark in it was a start mark
	end     int    // where the last end mark in it begins
	seen    int    // bytes of it in which no further mark begins
	uv      uv.EventDecoder
	events  []Event
}

// feed decodes bytes, as far as they are certain.
func (d *decoder) feed(data []byte) []Event {
	d.buf = append(d.buf, data...)
	return d.decode(false)
}

// quiet decodes what is pending.
func (d *decoder) quiet() []Event { return d.decode(true) }

func (d *decoder) decode(quiet bool) []Event {
	d.events, d.wait = nil, -1
	for len(d.buf) > 0 {
		var n int
		var wait time.Duration
		switch {
		case d.pasting:
			n, wait = d.paste(quiet)
		case bytes.HasPrefix(d.buf, pasteStart):
			n, d.pasting, d.open, d.seen = len(pasteStart), true, true, 0
		case d.burst || d.isBurst():
			if d.burst = !quiet; quiet {
				n = d.atOnce()
			} else if wait = burstTime; len(d.buf) > longBurst {
				wait = longTime
			} else if d.buf[len(d.buf)-1] == '\r' {
				wait = enterTime
			}
		default:
			n, wait = d.one(d.buf, quiet)
		}
		if n == 0 {
			d.wait = wait
			return d.events
		}
		d.buf = d.buf[n:]
	}
	d.buf, d.ahead = nil, false
	return d.events
}

func (d *decoder) emit(e Event) { d.events = append(d.events, e) }

func (d *decoder) key(name string) { d.emit(Key{Name: name}) }

// paste decodes the inside of a paste. It ends with the last end mark before the terminal
// is quiet: an end mark within the pasted text ends nothing. It also ends with one behind
// which text is only erased, and then the next paste begins: a text with such bytes presses
// no key that does harm.
func (d *decoder) paste(quiet bool) (n int, wait time.Duration) {
	for {
		i := bytes.Index(d.buf[d.seen:], pasteStart[:4])
		if i < 0 {
			d.seen = max(d.seen, len(d.buf)-len(pasteStart)+1)
			break
		}
		d.seen += i
		if rest := d.buf[d.seen:]; len(rest) < len(pasteStart) {
			break
		} else if bytes.HasPrefix(rest, pasteEnd) {
			d.open, d.end = false, d.seen
		} else if bytes.HasPrefix(rest, pasteStart) {
			if !d.open && erases(d.buf[d.end+len(pasteEnd):d.seen]) {
				return d.pasted(), 0
			}
			d.open = true
		}
		d.seen++
	}
	switch {
	case d.open:
		return 0, -1
	case !quiet:
		return 0, pasteTime
	}
	return d.pasted(), 0
}

// pasted sends the paste that ends with the last end mark.
func (d *decoder) pasted() (n int) {
	d.pasting = false
	d.emit(Paste(bytes.ReplaceAll(bytes.ReplaceAll(d.buf[:d.end], pasteEnd, nil), pasteStart, nil)))
	return d.end + len(pasteEnd)
}

// erases reports whether data are keys that erase what stands before the cursor: Ctrl-U,
// Ctrl-W and Backspace.
func erases(data []byte) bool {
	return len(data) > 0 && len(bytes.Trim(data, "\x15\x17\x7f")) == 0
}

// isBurst reports whether buf begins with text that came at once: a paste without marks, or
// what was typed while this program was busy.
func (d *decoder) isBurst() bool {
	if textLen(d.buf[:min(len(d.buf), burstMin)]) == burstMin {
		return true
	}
	region := unmarked(d.buf)
	if end := len(region) - 1; end == len(d.buf)-1 && !d.ahead && (region[end] == '\r' || region[end] == '\n') {
		region = region[:end] // a key, so far
	}
	return isText(d.buf[0]) && (hasLineEnd(region) || d.ahead && bytes.IndexByte(region, '\n') >= 0)
}

// hasLineEnd reports whether bytes that came at once have the end of a line: a CR that is
// not part of Alt-Enter, or an LF among nothing but text, which is else Ctrl-J.
func hasLineEnd(data []byte) bool {
	for i, b := range data {
		if b == '\r' && (i == 0 || data[i-1] != 0x1b) {
			return true
		}
	}
	return bytes.IndexByte(data, '\n') >= 0 && !bytes.ContainsFunc(data, func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' || r == 0x7f })
}

// unmarked returns the bytes in front of a marked paste.
func unmarked(data []byte) []byte {
	if before, _, ok := bytes.Cut(data, pasteStart); ok {
		return before
	}
	return data
}

// isText reports whether a byte is of a text: not ESC, nor a control character besides
// tabs and line ends.
func isText(b byte) bool {
	return b >= ' ' && b != 0x7f || b == '\t' || b == '\r' || b == '\n'
}

// textLen returns how many bytes of text without line ends data begins with.
func textLen(data []byte) int {
	n := bytes.IndexFunc(data, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
	if n < 0 {
		return len(data)
	}
	return n
}

// atOnce decodes text that came at once.
func (d *decoder) atOnce() (n int) {
	region := unmarked(d.buf)
	data := d.replies(region)
	if d.ahead { // the terminal made CR a newline before raw mode
		data = bytes.ReplaceAll(data, []byte("\n"), []byte("\r"))
	}
	enter := len(region) == len(d.buf) && len(data) > 0 && data[len(data)-1] == '\r'
	if enter {
		data = data[:len(data)-1]
	}
	if hasLineEnd(data) || len(data) > burstMax {
		d.emit(Paste(data))
		data = nil
	}
	for begin := true; len(data) > 0; begin = false {
		n := textLen(data)
		if n >= burstMin { // a tab in front of all is that of an indented line, others are keys
			indent := n - len(bytes.TrimLeft(data[:n], "\t"))
			if i := bytes.IndexByte(data[:n], '\t'); i > 0 {
				n = i
			} else if indent == n || indent > 0 && !begin {
				n = 1
			}
		}
		if n >= burstMin {
			s := strings.ToValidUTF8(string(data[:n]), "\ufffd")
			d.emit(Key{Name: s, Text: s})
		} else {
			n, _ = d.one(data, true)
		}
		data = data[n:]
	}
	if enter {
		d.key("enter")
	}
	return len(region)
}

// replies sends what the terminal has answered amid a text, and returns the text.
func (d *decoder) replies(data []byte) (typed []byte) {
	for {
		i := bytes.IndexByte(data, 0x1b)
		if i < 0 {
			return append(typed, data...)
		}
		typed, data = append(typed, data[:i]...), data[i:]
		n := max(0, sequence(data))
		event := d.convert(data[:n])
		if _, isKey := event.(Key); event == nil || isKey {
			typed, data = append(typed, data[0]), data[1:]
			continue
		}
		d.emit(event)
		data = data[n:]
	}
}

// one decodes a key, a character, or an answer of the terminal.
func (d *decoder) one(data []byte, quiet bool) (n int, wait time.Duration) {
	switch b := data[0]; {
	case b == 0x1b:
		return d.escape(data, quiet)
	case b == '\r' && !quiet:
		return 0, enterTime
	case b < ' ' || b == 0x7f:
		d.key(d.control(b))
		return 1, 0
	case !utf8.FullRune(data) && !quiet:
		return 0, escTime
	}
	r, size := utf8.DecodeRune(data)
	d.emit(Key{Name: string(r), Text: string(r)})
	return size, 0
}

// control returns the name of the key that sends a control character.
func (d *decoder) control(b byte) string {
	switch b {
	case 0:
		return "ctrl+space"
	case '\b':
		if d.backspace == '\b' {
			return "backspace"
		}
		return "ctrl+backspace"
	case '\t':
		return "tab"
	case '\r':
		return "enter"
	case 0x7f:
		return "backspace"
	}
	return "ctrl+" + strings.ToLower(string(rune(b+'@')))
}

// escape decodes what begins with ESC: a sequence, a key with Alt, or the key Esc. An
// Alt key without a function is Esc and the key, so that Esc never eats what follows it.
func (d *decoder) escape(data []byte, quiet bool) (n int, wait time.Duration) {
	n = sequence(data)
	if n == 0 && !quiet {
		if len(data) <= 2 {
			return 0, escTime
		}
		return 0, replyTime
	}
	var event Event
	if n > 0 {
		event = d.convert(data[:n])
	}
	switch {
	case len(data) > 1 && data[1] == 0x1b && event == nil: // the key, and in the same moment an answer of the terminal
		d.key("esc")
		return 1, 0
	case n == 0 && len(data) > 2:
		return len(data), 0 // it will not be completed any more
	case n > 0:
		if event != nil {
			d.emit(event)
		}
		return n, 0
	}
	if len(data) > 1 {
		switch b := data[1]; b {
		case '\r', '\n':
			d.key("alt+enter")
			return 2, 0
		case 0x7f, '\b':
			d.key("alt+backspace")
			return 2, 0
		case 'b', 'f', 'd', 'y', 'B', 'F', 'D', 'Y':
			d.key("alt+" + strings.ToLower(string(rune(b))))
			return 2, 0
		}
	}
	d.key("esc")
	return 1, 0
}

// sequence returns the length of the sequence that data begins with; 0: its end is missing;
// -1: data does not begin with one.
func sequence(data []byte) int {
	if len(data) < 2 || data[0] != 0x1b {
		return 0
	}
	rest := data[2:]
	switch data[1] {
	case 0x1b: // rxvt and others send ESC in front of a key with Alt
		if len(rest) == 0 {
			return 0
		}
		if rest[0] != '[' && rest[0] != 'O' {
			return -1
		}
		if n := sequence(data[1:]); n >= 0 {
			return n + min(n, 1)
		}
		return -1
	case '[':
		if bytes.HasPrefix(rest, []byte("[")) { // a function key of the Linux console
			return complete(len(rest) > 1, 4)
		}
		n := span(rest, 0x30, 0x3f)
		n += span(rest[n:], 0x20, 0x2f)
		if n < len(rest) && (rest[n] < 0x40 || rest[n] > 0x7e) {
			return -1
		}
		return complete(n < len(rest), n+3)
	case 'O':
		n := span(rest, '0', '9')
		if n < len(rest) && bytes.IndexByte([]byte("ABCDEFHPQRSabcd"), rest[n]) < 0 {
			return -1
		}
		return complete(n < len(rest), n+3)
	case 'P', ']': // DCS and OSC: answers only
		if len(rest) == 0 {
			return 0
		}
		if data[1] == 'P' && bytes.IndexByte([]byte(">!01"), rest[0]) < 0 || data[1] == ']' && (rest[0] < '0' || rest[0] > '9') {
			return -1
		}
		for i, b := range rest {
			if b == 0x07 || b == '\\' && rest[i-1] == 0x1b {
				return i + 3
			}
		}
		if len(rest) > replyMax {
			return -1
		}
		return 0
	}
	return -1
}

// complete returns n, or 0 without ok.
func complete(ok bool, n int) int {
	if !ok {
		return 0
	}
	return n
}

// span returns how many bytes from low to high data begins with.
func span(data []byte, low, high byte) (n int) {
	for n < len(data) && data[n] >= low && data[n] <= high {
		n++
	}
	return n
}

// convert returns the event of a whole sequence, nil if the chat has no use for it.
func (d *decoder) convert(seq []byte) Event {
	if len(seq) == 0 {
		return nil
	}
	if seq[1] == 0x1b {
		if key, ok := d.convert(seq[1:]).(Key); ok {
			return Key{Name: "alt+" + key.Name}
		}
		return nil
	}
	_, event := d.uv.Decode(seq)
	if list, ok := event.(uv.MultiEvent); ok && len(list) > 0 { // F3, or a position in the first row
		event = list[len(list)-1]
	}
	switch e := event.(type) {
	case uv.KeyPressEvent:
		return keyOf(uv.Key(e))
	case uv.FocusEvent:
		return Focus(true)
	case uv.BlurEvent:
		return Focus(false)
	case uv.CursorPositionEvent:
		return Position{Row: e.Y + 1, Col: e.X + 1}
	case uv.TerminalVersionEvent:
		return TerminalName(e.Name)
	}
	return nil
}

// sameKeys lists other names of keys, as terminals with unambiguous sequences send them.
var sameKeys = map[string]string{
	"ctrl+m": "enter", "ctrl+i": "tab", "ctrl+[": "esc", "ctrl+?": "backspace",
	"ctrl+shift+_": "ctrl+_", "ctrl+shift+-": "ctrl+_", "ctrl+-": "ctrl+_", "ctrl+/": "ctrl+_", "ctrl+7": "ctrl+_",
	"ctrl+h": "backspace", "shift+backspace": "backspace", "ctrl+alt+h": "alt+backspace",
	"ctrl+alt+j": "alt+enter",
}

// keyOf returns a key without the modifiers that lock.
func keyOf(k uv.Key) Key {
	k.Mod &^= uv.ModCapsLock | uv.ModNumLock | uv.ModScrollLock
	text := k.Text
	if k.Mod&^uv.ModShift != 0 {
		text = ""
	}
	if k.Mod == uv.ModAlt|uv.ModShift {
		k.Mod = uv.ModAlt
	}
	name := strings.ToLower(k.Keystroke())
	if same, ok := sameKeys[name]; ok {
		name = same
	}
	return Key{Name: name, Text: text}
}
