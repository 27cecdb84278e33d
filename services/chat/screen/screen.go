// Package screen draws on a terminal: finished text, which is printed once and then
// belongs to the terminal's scrollback, and below it the region, whose rows are drawn
// again with each frame.
//
// Sequences are those of ECMA-48 and xterm (ctlseqs), and the synchronized output of
// mode 2026. ED is never used: tmux moves the screen into its scrollback when ED 0 comes
// at the home position.
package screen

import (
	"io"
	"strconv"
	"strings"
	"time"
)

// Region is what stands below the finished text.
type Region struct {
	Rows     []string // styled, without newlines; rows that are too wide are cut
	Row, Col int      // of the cursor
}

const (
	// frameTime is the shortest time between two frames.
	frameTime = time.Second / 30
	// settleTime is how long no frame is written after the size has changed: tmux
	// delays the signal by up to 250 ms.
	settleTime = 300 * time.Millisecond
	// answerTime limits the wait for the cursor's position.
	answerTime = 500 * time.Millisecond
)

// phase is what the screen waits for.
type phase int

const (
	steady   phase = iota
	settling       // the size is changing
	asking         // for the position of the cursor
)

// Screen draws frames on a terminal in raw mode. It is used by one goroutine.
type Screen struct {
	Widths  Widths
	Reflows bool // the terminal wraps rows again when its width changes

	out  io.Writer
	size func() (width, height int)
	now  func() time.Time

	width, height int
	done          strings.Builder // finished text for the next frame
	drawn         Region          // the present region; no rows: none
	cells         []int           // width of each row of it
	top           int             // row of the screen where the region begins, counted from 1, or less than that
	exact         bool            // top is that row
	changed       bool            // done or the region differ from what is on the screen

	phase    phase
	deadline time.Time // of the phase
	last     time.Time // of the last frame
	recent   bool      // the last frame may have been written after the terminal changed its size
	atBottom bool      // the region stood at the bottom then
	row, col int       // of the cursor, as the terminal answered; 0: unknown
}

// New returns a screen that writes on out. size returns the terminal's size.
func New(out io.Writer, size func() (width, height int), now func() time.Time) *Screen {
	s := &Screen{out: out, size: size, now: now, Reflows: true, top: 1}
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

// Waiting returns how many bytes of finished text wait for the next frame.
func (s *Screen) Waiting() int { return s.done.Len() }

// Resized is called when the terminal's size has changed.
func (s *Screen) Resized() {
	if s.phase == steady {
		s.recent = s.now().Sub(s.last) < settleTime
		s.atBottom = s.exact && s.top+len(s.drawn.Rows)-1 == s.height
	}
	s.phase, s.deadline = settling, s.now().Add(settleTime)
}

// Update draws a region, unless nothing has changed. If this is not the time for a frame,
// it returns how long to wait before it is called again; 0: until something happens.
func (s *Screen) Update(region func(width, height int) Region) (wait time.Duration, err error) {
	now := s.now()
	if w, h := s.size(); s.phase == steady && (w != s.width || h != s.height) {
		s.Resized()
	}
	switch {
	case s.phase != steady && now.Before(s.deadline):
		return s.deadline.Sub(now), nil
	case s.phase == settling:
		s.width, s.height = s.size()
		s.phase, s.deadline = asking, now.Add(answerTime)
		s.changed = true
		_, err = io.WriteString(s.out, "\x1b[6n")
		return answerTime, err
	case s.phase == asking:
		return 0, s.redraw(region, 0, 0)
	}
	if next := s.last.Add(frameTime); now.Before(next) {
		return next.Sub(now), nil
	}
	r := s.fit(region(s.width, s.height))
	if !s.changed && same(r, s.drawn) {
		return 0, nil
	}
	return 0, s.draw(r, s.erase(s.drawn.Row))
}

// Position is called with the terminal's answer about the place of the cursor, counted
// from 1. The next Update draws again.
func (s *Screen) Position(row, col int, region func(width, height int) Region) error {
	if s.phase != asking {
		return nil
	}
	return s.redraw(region, row, col)
}

// redraw draws the first frame after the size has changed.
func (s *Screen) redraw(region func(width, height int) Region, row, col int) error {
	s.phase = steady
	s.row, s.col = row, col
	n := s.certain()
	s.top, s.exact = 1, false
	if row > 0 && n >= 0 {
		s.top, s.exact = row-n, true
	}
	return s.draw(s.fit(region(s.width, s.height)), s.erase(n))
}

// fit cuts a region to what the screen has room for: one row less than its height, and
// one cell less than its width. The lowest row is filled with blanks: see certain.
func (s *Screen) fit(r Region) Region {
	if over := len(r.Rows) - max(s.height-1, 1); over > 0 {
		over = min(over, r.Row) // the cursor's row stays
		r.Rows, r.Row = r.Rows[over:], r.Row-over
		r.Rows = r.Rows[:min(len(r.Rows), max(s.height-1, 1))]
	}
	rows := make([]string, len(r.Rows))
	for i, row := range r.Rows {
		rows[i] = s.Widths.Cut(row, s.width-1)
	}
	if last := len(rows) - 1; last > r.Row {
		rows[last] = s.Widths.Pad(rows[last], s.width-1)
	}
	r.Rows, r.Col = rows, min(r.Col, s.width-1)
	return r
}

func same(a, b Region) bool {
	if a.Row != b.Row || a.Col != b.Col || len(a.Rows) != len(b.Rows) {
		return false
	}
	for i, row := range a.Rows {
		if row != b.Rows[i] {
			return false
		}
	}
	return true
}

// rewrapped returns the rows of the screen that a range of the region's rows takes after
// the terminal has wrapped them again.
func (s *Screen) rewrapped(from, to int) int {
	n := 0
	for _, cells := range s.cells[from:to] {
		n += max(1, (cells+s.width-1)/s.width)
	}
	return n
}

// certain returns how many rows above the cursor belong to the region after the size has
// changed; -1 if that cannot be known.
//
// A terminal that reflows has wrapped rows that are wider than the screen now. It has not
// if the last frame was written after the change but before the signal: then each row was
// cut at the new edge. If the region stands at the bottom, the cursor's row tells which:
// the lowest row of the region fills the old width, so it takes more rows in the first
// case.
func (s *Screen) certain() int {
	if len(s.drawn.Rows) == 0 {
		return 0
	}
	cut := s.drawn.Row
	wrapped := s.rewrapped(0, s.drawn.Row) + s.drawn.Col/s.width
	if s.drawn.Col > 0 && s.drawn.Col%s.width == 0 && s.col != 1 {
		wrapped-- // the cursor waits behind the last cell of the row above
	}
	below, belowWrapped := len(s.drawn.Rows)-1-cut, s.rewrapped(s.drawn.Row, len(s.drawn.Rows))-1-s.drawn.Col/s.width
	switch {
	case cut == wrapped:
		return cut
	case s.row == 0:
		return -1
	case s.atBottom && below != belowWrapped:
		switch s.row {
		case s.height - below:
			return cut
		case s.height - belowWrapped:
			return min(wrapped, s.row-1)
		}
		return -1
	case s.Reflows && !s.recent:
		return min(wrapped, s.row-1)
	}
	return min(cut, wrapped) // more would be finished text in one of the two cases
}

// erase returns the sequence that removes the region, of which n rows are above the
// cursor. With n = -1 it leaves the region and goes below it.
func (s *Screen) erase(n int) string {
	if len(s.drawn.Rows) == 0 {
		return ""
	}
	if n < 0 {
		return strings.Repeat("\n", s.rewrapped(s.drawn.Row, len(s.drawn.Rows))) + "\r"
	}
	seq := "\r"
	if n > 0 {
		seq += "\x1b[" + strconv.Itoa(n) + "A"
	}
	return seq + "\x1b[" + strconv.Itoa(s.height) + "M"
}

// draw writes a frame.
func (s *Screen) draw(r Region, erase string) error {
	var b strings.Builder
	b.WriteString("\x1b[?2026h\x1b[?25l" + erase)
	if s.done.Len() > 0 {
		text := s.done.String()
		s.done.Reset()
		b.WriteString(strings.ReplaceAll(text, "\n", "\r\n"))
		for line := range strings.Lines(text) {
			s.top += max(1, (s.Widths.Of(line)+s.width-1)/s.width)
		}
	}
	s.cells = s.cells[:0]
	if len(r.Rows) > 0 {
		b.WriteString("\x1b[?7l")
		for i, row := range r.Rows {
			if i > 0 {
				b.WriteString("\r\n")
			}
			b.WriteString(s.Widths.settled(row))
			s.cells = append(s.cells, s.Widths.Of(row))
		}
		b.WriteString("\x1b[?7h")
		if up := len(r.Rows) - 1 - r.Row; up > 0 {
			b.WriteString("\x1b[" + strconv.Itoa(up) + "A")
		}
		b.WriteString("\x1b[" + strconv.Itoa(r.Col+1) + "G")
	}
	b.WriteString("\x1b[?25h\x1b[?2026l")
	s.drawn, s.changed, s.last = r, false, s.now()
	if lowest := s.height - max(len(r.Rows), 1) + 1; s.top >= lowest { // it has scrolled
		s.top, s.exact = lowest, true
	}
	_, err := io.WriteString(s.out, b.String())
	return err
}

// Asks reports whether the terminal has been asked for the position of the cursor.
func (s *Screen) Asks() bool { return s.phase == asking }

// Leave removes the region and prints what is finished: the cursor stands on a new row
// then. The next Update draws the region again.
func (s *Screen) Leave() error {
	n := s.drawn.Row
	if w, _ := s.size(); s.phase != steady && w != s.width {
		n = -1
	}
	s.phase = steady
	return s.draw(Region{}, s.erase(n))
}

// Clear scrolls everything off the screen, so that the scrollback keeps it, and draws the
// region at the top.
func (s *Screen) Clear() error {
	if err := s.Leave(); err != nil {
		return err
	}
	s.changed, s.top, s.exact = true, 1, true
	_, err := io.WriteString(s.out, strings.Repeat("\n", s.height-1)+"\x1b[H")
	return err
}
