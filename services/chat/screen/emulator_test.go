package screen

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// emulator is a terminal with a scrollback which knows what Screen writes, and fails on
// everything else. Cells are single runes.
type emulator struct {
	width, height int
	reflows       bool // rows are wrapped again when the width changes
	eats          bool // a lower height removes rows below the cursor first, as in tmux

	rows     []emulated // the scrollback and the screen
	hidden   int        // how many rows are the scrollback
	x, y     int        // of the cursor; y is a row of the screen
	wraps    bool
	wide     int // the cursor waits behind the last cell of a row
	input    string
	answers  []int  // columns that were asked for
	unknown  string // the first sequence that is not known
	restored bool   // no mode is left that a program may not leave
}

// emulated is a row; wrapped says that it goes on in the next one.
type emulated struct {
	text    []rune
	wrapped bool
}

func newEmulator(width, height int, reflows, eats bool) *emulator {
	return &emulator{width: width, height: height, reflows: reflows, eats: eats, wraps: true, rows: make([]emulated, height), restored: true}
}

// Write draws what Screen writes.
func (e *emulator) Write(p []byte) (int, error) {
	s := e.input + string(p)
	for s != "" {
		if s[0] == '\x1b' {
			end := strings.IndexFunc(s[1:], func(r rune) bool { return r >= 'A' && r <= '~' && r != '[' })
			if end < 0 {
				break
			}
			e.sequence(s[:end+2])
			s = s[end+2:]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		e.character(r)
		s = s[n:]
	}
	e.input = s
	return len(p), nil
}

func (e *emulator) sequence(seq string) {
	arg, err := strconv.Atoi(seq[2 : len(seq)-1])
	if err != nil {
		arg = 1
	}
	switch last := seq[len(seq)-1]; {
	case last == 'm':
		return
	case seq == "\x1b[?7l", seq == "\x1b[?7h":
		e.wraps = last == 'h'
	case seq == "\x1b[?2026h", seq == "\x1b[?2026l":
		e.restored = last == 'l' && e.wraps
	case seq == "\x1b[?25h", seq == "\x1b[?25l":
	case seq == "\x1b[6n":
		e.answers = append(e.answers, e.x+1)
		return
	case last == 'A':
		e.y = max(0, e.y-arg)
	case last == 'G':
		e.x = min(arg, e.width) - 1
	case last == 'M':
		at := e.hidden + e.y
		n := min(arg, e.height-e.y)
		e.rows = append(slices.Delete(e.rows, at, at+n), make([]emulated, n)...)
		if at > 0 {
			e.rows[at-1].wrapped = false
		}
		e.x = 0
	default:
		if e.unknown == "" {
			e.unknown = seq
		}
	}
	e.wide = 0
}

func (e *emulator) character(r rune) {
	switch r {
	case '\r':
		e.x, e.wide = 0, 0
	case '\n':
		e.down()
	default:
		if e.wide == 1 && e.wraps {
			e.rows[e.hidden+e.y].wrapped = true
			e.x, e.wide = 0, 0
			e.down()
		}
		row := &e.rows[e.hidden+e.y]
		for len(row.text) <= e.x {
			row.text = append(row.text, ' ')
		}
		row.text[e.x] = r
		if e.x++; e.x == e.width {
			e.x, e.wide = e.width-1, 1
		}
	}
}

func (e *emulator) down() {
	if e.y < e.height-1 {
		e.y++
		return
	}
	e.hidden++
	e.rows = append(e.rows, emulated{})
}

// resize changes the size: first the height, then the width, as tmux does.
func (e *emulator) resize(width, height int) {
	e.wide = 0
	if n := e.height - height; n > 0 {
		if e.eats {
			gone := min(n, e.height-1-e.y)
			at := e.hidden + e.y + 1
			e.rows = slices.Delete(e.rows, at, at+gone)
			e.rows[at-1].wrapped = e.rows[at-1].wrapped && gone == 0
			n -= gone
		} else { // blank rows at the end
			for n > 0 && e.hidden+e.y < len(e.rows)-1 && len(e.rows[len(e.rows)-1].text) == 0 {
				e.rows = e.rows[:len(e.rows)-1]
				n--
			}
		}
		e.hidden, e.y = e.hidden+n, e.y-n
	} else {
		pulled := min(-n, e.hidden)
		e.hidden, e.y = e.hidden-pulled, e.y+pulled
		e.rows = append(e.rows, make([]emulated, -n-pulled)...)
	}
	e.height = height
	if e.reflows && width != e.width {
		e.reflow(width)
	}
	e.width = width
	if e.y < 0 { // the cursor's row is in the scrollback
		e.x, e.y = 0, 0
	}
	e.x = min(e.x, width-1)
}

func (e *emulator) reflow(width int) {
	var rows []emulated
	at, cursor := 0, e.hidden+e.y
	var line []rune
	offset := -1
	for i, row := range e.rows {
		if i == cursor {
			offset = len(line) + e.x
		}
		line = append(line, row.text...)
		if e.eats && !row.wrapped { // tmux drops some blanks
			line = []rune(strings.TrimRight(string(line), " "))
		}
		if row.wrapped {
			for len(line)%e.width != 0 {
				line = append(line, ' ')
			}
			continue
		}
		if offset >= 0 {
			down := offset / width
			if offset >= len(line) { // at the end of the text
				offset = len(line)
				down = max(0, offset-1) / width
			}
			at, e.x, offset = len(rows)+down, offset-down*width, -1
		}
		for len(line) > width {
			rows = append(rows, emulated{slices.Clone(line[:width]), true})
			line = line[width:]
		}
		rows = append(rows, emulated{slices.Clone(line), false})
		line = nil
	}
	e.hidden = max(0, len(rows)-e.height)
	for len(rows) < e.hidden+e.height {
		rows = append(rows, emulated{})
	}
	e.rows, e.y = rows, at-e.hidden
}

// text returns the lines of the scrollback and the screen, with wrapped rows joined.
func (e *emulator) text() (lines []string) {
	line := ""
	for _, row := range e.rows {
		line += string(row.text)
		if !row.wrapped {
			lines = append(lines, strings.TrimRight(line, " "))
			line = ""
		}
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func (e *emulator) String() string {
	var b strings.Builder
	for i, row := range e.rows {
		if i == e.hidden {
			fmt.Fprintln(&b, "----")
		}
		fmt.Fprintf(&b, "%q\n", string(row.text))
	}
	return b.String()
}
