// Package input reads keys from a terminal and edits messages.
package input

import (
	"context"

	uv "github.com/charmbracelet/ultraviolet"
)

// Event is something that the terminal sends: a Key, a Paste, Focus, Position, or
// TerminalName; or a Mark.
type Event any

type (
	// Key is a key that was pressed.
	Key struct {
		Name string // such as "a", "ctrl+c", "shift+tab", "enter"
		Text string // what it types; "": nothing
	}
	// Paste is a text between the marks of a bracketed paste.
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
	keys *keyboard
	uv   *uv.TerminalReader
}

// NewReader returns a reader of a terminal of the kind that $TERM names.
func NewReader(tty int, term string) (*Reader, error) {
	keys, err := newKeyboard(tty)
	if err != nil {
		return nil, err
	}
	return &Reader{keys: keys, uv: uv.NewTerminalReader(keys, term)}, nil
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
	raw := make(chan uv.Event)
	ended := make(chan error, 1)
	go func() {
		ended <- r.uv.StreamEvents(ctx, raw)
		close(raw)
	}()
	for {
		var event Event
		select {
		case e, ok := <-raw:
			if !ok {
				return <-ended
			}
			event = convert(e)
		case n := <-r.keys.marks:
			event = Mark(n)
		}
		if event == nil {
			continue
		}
		select {
		case events <- event:
		case <-ctx.Done():
			for range raw { // until the reader has noticed
			}
			return <-ended
		}
	}
}

// convert returns nil for what the chat has no use for.
func convert(e uv.Event) Event {
	switch e := e.(type) {
	case uv.KeyPressEvent:
		key := uv.Key(e)
		key.Mod &^= uv.ModCapsLock | uv.ModNumLock | uv.ModScrollLock
		text := key.Text
		if key.Mod&(uv.ModCtrl|uv.ModAlt|uv.ModMeta|uv.ModSuper) != 0 {
			text = ""
		}
		return Key{Name: key.Keystroke(), Text: text}
	case uv.PasteEvent:
		return Paste(e.Content)
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
