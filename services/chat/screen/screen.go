// Package screen draws on a terminal: finished text, which is printed once and then
// belongs to the terminal's scrollback, and below it the region, whose rows are drawn
// again with each frame.
//
// Sequences are those of ECMA-48 and xterm (ctlseqs), and the synchronized output of
// mode 2026. ED is never used: tmux moves the screen into its scrollback when ED 0 comes
// at the home position.
package screen

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Region is what stands below the finished text.
type Region struct {
	Rows     []string // styled, without newlines; rows that are too wide are cut
	Row, Col int      // of the cursor
}

const (
	// frameTime is the shortest time between two frames. It leaves some of the
	// frames of a second for keys.
	frameTime = time.Second / 25
	// typingTime is the same within a second of a key: a person who types needs more
	// of them.
	typingTime = time.Second / 10
	// framesMax is how many frames are written in a second.
	framesMax = 30
	// settleTime is how long no frame is written after the size has changed: tmux
	// delays the signal by up to 250 ms.
	settleTime = 300 * time.Millisecond
	// answerTime limits the wait for the cursor's position.
	answerTime = 500 * time.Millisecond

	narrow    = 20 // windows with fewer columns leave rows of the region behind
	narrowest = 8  // windows with fewer columns are not expected
)

// phase is what the screen waits for.
type phase int

const (
	steady   phase = iota
	settling       // the size is changing
	asking         // for the position of the cursor
)

// Screen draws frames on a terminal in raw mode. It is used by one goroutine.
//
// Before a frame the region of the last one is erased: from its first row, which is a
// number of rows above the cursor, to the end of the screen. A terminal keeps the cursor
// in its text when its size changes, but it may wrap the rows above the cursor again, so
// that they take more rows than were drawn. To count too many would erase finished text;
// to count too few leaves a row of the region in the scrollback. A row takes at least one
// row on every terminal. It counts as more only if the terminal has confirmed
// that it was drawn that wide: a frame that reaches the terminal after the change of the
// size, but before the signal, is cut at the new width. So each frame whose rows can wrap
// asks for the cursor's position at the right margin. The answers come in order, and none
// is waited for until the size has changed.
type Screen struct {
	Widths  Widths
	Reflows bool // the terminal wraps rows again when its width changes

	out  io.Writer
	size func() (width, height int)
	now  func() time.Time

	width, height int
	done          strings.Builder // finished text for the next frame
	drawn         Region          // the present region; no rows: none
	changed       bool            // done or the region differ from what is on the screen
	urgent        bool            // the next frame shows a key that was pressed
	typed         time.Time       // when the last key was pressed

	asked, answered int // questions about the cursor's position, and answers
	about           int // the question of the frame that drew the region
	margin          int // width of the terminal when it drew the region; 0: not known

	phase    phase
	deadline time.Time            // of the phase
	frames   [framesMax]time.Time // times of the last frames, a ring
	last     int                  // index of the last frame
}

// New returns a screen that writes on out. size returns the terminal's size.
func New(out io.Writer, size func() (width, height int), now func() time.Time) *Screen {
	s := &Screen{out: out, size: size, now: now, Reflows: true}
	s.width, s.height = size()
	return s
}

// Size returns the size in cells that regions are made for.
func (s *Screen) Size() (width, height int) { return s.width, s.height }

// Print adds finished text, with a newline at the end of each line. Lines wider than the
// terminal are wrapped by it, so that a copy of them is whole.
func (s *Screen) Print(text string) {
	s.done.WriteString(text)
	s.changed = true
}

// Waiting returns how many bytes of finished text wait to be drawn.
func (s *Screen) Waiting() int { return s.done.Len() }

// Urgent lets the next frame come as soon as the limit of frames allows: it shows a key.
func (s *Screen) Urgent() { s.urgent, s.typed = true, s.now() }

// Resized is called when the terminal's size has changed.
func (s *Screen) Resized() { s.phase, s.deadline = settling, s.now().Add(settleTime) }

// Update draws a region, unless nothing has changed. If this is not the time for a frame,
// it returns how long to wait before it is called again; 0: until something happens.
func (s *Screen) Update(region func(width, height int) Region) (wait time.Duration, err error) {
	now := s.now()
	if w, h := s.size(); s.phase != settling && (w != s.width || h != s.height) {
		s.Resized()
	}
	switch {
	case s.phase == settling && now.Before(s.deadline):
		return s.deadline.Sub(now), nil
	case s.phase == settling:
		s.width, s.height = s.size()
		s.phase, s.deadline, s.changed = asking, now.Add(answerTime), true
		if len(s.drawn.Rows) > 0 {
			_, err = io.WriteString(s.out, s.ask())
			return answerTime, err
		}
	case s.phase == asking && s.answered < s.asked && now.Before(s.deadline):
		return s.deadline.Sub(now), nil
	case s.phase == steady:
		if wait = s.pause(now); wait > 0 {
			return wait, nil
		}
	}
	s.urgent = false
	r := s.fit(region(s.width, s.height))
	if s.changed || r.Row != s.drawn.Row || r.Col != s.drawn.Col || !slices.Equal(r.Rows, s.drawn.Rows) {
		err = s.draw(r, "")
	}
	s.phase = steady
	return 0, err
}

// pause returns how long the next frame has to wait.
func (s *Screen) pause(now time.Time) time.Duration {
	next := s.frames[(s.last+1)%framesMax].Add(time.Second) // after the oldest one
	interval := frameTime
	if now.Sub(s.typed) < time.Second {
		interval = typingTime
	}
	if regular := s.frames[s.last].Add(interval); !s.urgent && regular.After(next) {
		next = regular
	}
	return next.Sub(now)
}

// Position is called with the terminal's answer about the column of the cursor, counted
// from 1. The next Update may draw then.
func (s *Screen) Position(col int) {
	if s.answered == s.asked {
		return // not asked for
	}
	s.answered++
	switch {
	case s.answered == s.about:
		s.margin = col
	case s.answered == s.asked && col != s.width:
		s.margin = 0 // the size has changed again
	}
}

// ask returns the sequence that asks for the right margin's column.
func (s *Screen) ask() string {
	s.asked++
	return "\x1b[999G\x1b[6n"
}

// fit cuts a region to what the screen has room for: one row less than its height, and
// one cell less than its width. Blanks at the end of a row go: not every terminal counts
// them when it wraps rows again.
func (s *Screen) fit(r Region) Region {
	room := max(s.height-1, 1)
	if over := len(r.Rows) - room; over > 0 {
		over = min(over, r.Row) // the cursor's row stays
		r.Rows, r.Row = r.Rows[over:], r.Row-over
		r.Rows = r.Rows[:min(len(r.Rows), room)]
	}
	rows := make([]string, len(r.Rows))
	for i, row := range r.Rows {
		text := strings.TrimRight(Strip(row), " ")
		rows[i] = s.Widths.Cut(row, min(s.Widths.Of(text), s.width-1))
	}
	r.Rows, r.Col = rows, min(r.Col, s.width-1)
	return r
}

// above returns how many rows of the screen above the cursor are certainly the region's.
func (s *Screen) above() int {
	n := s.drawn.Row
	if !s.Reflows || len(s.drawn.Rows) == 0 || s.phase != asking || s.answered < s.asked {
		return n
	}
	for i, row := range s.drawn.Rows[:s.drawn.Row+1] {
		cells := min(s.Widths.Of(row), s.margin)
		if i == s.drawn.Row {
			cells = min(cells, s.drawn.Col)
		}
		if strings.ContainsFunc(row, disputed) {
			cells-- // the last cluster may be narrower
		}
		n += max(0, cells-1) / s.width
	}
	return n
}

// most returns how many rows are erased from the region's first row on, below which there
// is nothing: the screen's height, or more if the region may have become that high on a
// screen whose new size is not known yet.
func (s *Screen) most() int {
	n := 0
	for _, row := range s.drawn.Rows {
		n += 1 + s.Widths.Of(row)/narrowest
	}
	return max(n, s.height)
}

// canWrap reports whether the terminal may wrap rows of a region again which are above
// the cursor.
func (s *Screen) canWrap(r Region) bool {
	return s.Reflows && (r.Col > narrow || slices.ContainsFunc(r.Rows[:r.Row], func(row string) bool { return s.Widths.Of(row) > narrow }))
}

// draw writes a frame: it erases the region, prints what is finished, and draws another
// region. after is written behind the region.
func (s *Screen) draw(r Region, after string) error {
	var b strings.Builder
	b.WriteString("\x1b[?2026h\x1b[?25l")
	if len(s.drawn.Rows) > 0 {
		b.WriteByte('\r')
		b.WriteString(up(s.above()))
		fmt.Fprintf(&b, "\x1b[%dM", s.most())
	}
	b.WriteString(strings.ReplaceAll(s.done.String(), "\n", "\r\n"))
	s.done.Reset()
	s.margin, s.about = 0, 0
	if len(r.Rows) > 0 {
		b.WriteString("\x1b[?7l")
		for i, row := range r.Rows {
			if i > 0 {
				b.WriteString("\r\n")
			}
			b.WriteString(s.Widths.settled(row))
		}
		b.WriteString("\x1b[?7h")
		if s.canWrap(r) {
			b.WriteString(s.ask())
			s.about = s.asked
		}
		fmt.Fprintf(&b, "%s\x1b[%dG", up(len(r.Rows)-1-r.Row), r.Col+1)
	}
	b.WriteString(after + "\x1b[?25h\x1b[?2026l")
	s.drawn, s.changed = r, false
	s.last = (s.last + 1) % framesMax
	s.frames[s.last] = s.now()
	_, err := io.WriteString(s.out, b.String())
	return err
}

// Asks reports whether the terminal has not answered all questions yet.
func (s *Screen) Asks() bool { return s.answered < s.asked }

// up returns the sequence that moves the cursor up by n rows, but not off the screen.
func up(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA", n)
}

// Leave removes the region and prints what is finished: the cursor stands on a new row
// then. The next Update draws the region again.
func (s *Screen) Leave() error {
	err := s.draw(Region{}, "")
	s.phase = steady
	s.asked, s.answered, s.about = 0, 0, 0 // another program may get the answers
	return err
}

// Clear scrolls everything off the screen, so that the scrollback keeps it. The next
// Update draws the region at the top.
func (s *Screen) Clear() error {
	err := s.draw(Region{}, strings.Repeat("\n", s.height-1)+up(s.height-1))
	s.changed = true
	return err
}
