package screen

import (
	"errors"
	"io"
	"os"

	xterm "golang.org/x/term"
)

// Terminal is a terminal whose modes the chat changes.
type Terminal struct {
	in, out *os.File
	title   bool
	name    string // the title
	before  *xterm.State
	left    *xterm.State // the modes that Leave has restored
	asked   bool         // for its name
}

// Sequences of xterm's ctlseqs and kitty's keyboard protocol.
const (
	// enter: bracketed paste, focus reports, kitty's flag 1 (disambiguate), modifyOtherKeys 1.
	enter = "\x1b[?2004h\x1b[?1004h\x1b[>1u\x1b[>4;1m"
	leave = "\x1b[<u\x1b[>4m\x1b[?1004l\x1b[?2004l"
	// ask: the terminal's name and version (XTVERSION).
	ask = "\x1b[>q"
	// saveTitle and restoreTitle: the title on the terminal's stack.
	saveTitle    = "\x1b[22;2t"
	restoreTitle = "\x1b[23;2t"
)

// NewTerminal returns the terminal of two files. title says whether its title is set.
func NewTerminal(in, out *os.File, title bool) *Terminal {
	return &Terminal{in: in, out: out, title: title}
}

// Enter sets raw mode and the modes that the chat needs.
func (t *Terminal) Enter() error {
	before, err := xterm.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return err
	}
	t.before = before
	seq := enter
	if !t.asked {
		t.asked, seq = true, enter+ask
	}
	if t.title {
		seq = saveTitle + seq
	}
	_, err = io.WriteString(t.out, seq)
	return errors.Join(err, t.SetTitle(t.name))
}

// Again sets everything again that Enter has set: another program may have changed it.
func (t *Terminal) Again() error {
	if t.before == nil {
		return nil
	}
	_, err := xterm.MakeRaw(int(t.in.Fd()))
	_, err2 := io.WriteString(t.out, leave+enter)
	return errors.Join(err, err2)
}

// Leave restores everything that Enter changed. It may be called again.
func (t *Terminal) Leave() error {
	if t.before == nil {
		return nil
	}
	seq := leave
	if t.title {
		seq += restoreTitle
	}
	_, err := io.WriteString(t.out, seq)
	restored := xterm.Restore(int(t.in.Fd()), t.before)
	t.before, t.left = nil, t.before
	if err == nil {
		err = restored
	}
	return err
}

// Reset undoes what a program has done to the terminal that was killed: alternate screen,
// mouse reports, bracketed paste, application keys, autowrap, cursor and style.
const Reset = "\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>\x1b[?7h\x1b[?25h\x1b[m\r"

// Restore sets the modes again that Leave has restored: a program may have changed them
// since.
func (t *Terminal) Restore() error {
	if t.left == nil {
		return nil
	}
	return xterm.Restore(int(t.in.Fd()), t.left)
}

// SetTitle sets the title of the terminal's window, while the terminal is the chat's.
func (t *Terminal) SetTitle(title string) error {
	t.name = title
	if !t.title || t.before == nil || title == "" {
		return nil
	}
	_, err := io.WriteString(t.out, "\x1b]2;"+title+"\x1b\\")
	return err
}

// Size returns the terminal's size in cells, 80 by 24 if it is not known.
func (t *Terminal) Size() (width, height int) {
	width, height, err := xterm.GetSize(int(t.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}
