// Package input reads keys from a terminal and edits messages.
package input

import (
	"context"
	"io"

	"golang.org/x/sys/unix"
)

// Event is something that the terminal sends: a Key, a Paste, Focus, Position, or
// TerminalName; or a Mark.
type Event any

type (
	// Key is a key that was pressed, or text that was typed at once.
	Key struct {
		Name string // such as "a", "ctrl+c", "shift+tab", "enter"
		Text string // what it types; "": nothing
	}
	// Paste is a pasted text.
	Paste string
	// Focus tells whether the terminal has the focus now.
	Focus bool
	// Position is the terminal's answer about the cursor, counted from 1.
	Position struct{ Row, Col int }
	// TerminalName is the terminal's answer about its name and version (XTVERSION).
	TerminalName string
	// Mark stands behind everything that was typed before Reader.Mark returned it.
	Mark int
)

// Reader reads the events of a terminal in raw mode.
type Reader struct {
	keys    *keyboard
	decoder decoder
}

// readSize is more than a terminal has at once.
const readSize = 16 << 10

// NewReader returns a reader of a terminal that is not in raw mode yet. What was typed
// before is read as what is typed later.
func NewReader(tty int) (*Reader, error) {
	keys, err := newKeyboard(tty)
	if err != nil {
		return nil, err
	}
	r := &Reader{keys: keys}
	r.decoder.ahead = true
	if modes, err := unix.IoctlGetTermios(tty, unix.TCGETS); err == nil {
		r.decoder.backspace = modes.Cc[unix.VERASE]
	}
	return r, nil
}

// Suspend stops reading: another program may use the terminal when it returns.
func (r *Reader) Suspend() { r.keys.set(true) }

// Resume goes on reading.
func (r *Reader) Resume() { r.keys.set(false) }

// Mark asks for a mark among the events, behind all that was typed so far, and returns it.
// A mark of a higher number stands for those before it, too.
func (r *Reader) Mark() Mark { return Mark(r.keys.mark()) }

// Run sends the terminal's events until ctx ends or the terminal is gone.
func (r *Reader) Run(ctx context.Context, events chan<- Event) error {
	stop := context.AfterFunc(ctx, r.keys.close)
	defer stop()
	buf := make([]byte, readSize)
	for {
		n, err := r.keys.read(buf, r.decoder.wait)
		var list []Event
		switch err {
		case nil:
			list = r.decoder.feed(buf[:n])
		case errQuiet:
			list = r.decoder.quiet()
		case errMark:
			list = []Event{Mark(r.keys.pass())}
		case io.EOF:
			return nil
		default:
			return err
		}
		for _, event := range list {
			select {
			case events <- event:
			case <-ctx.Done():
				return nil
			}
		}
	}
}
