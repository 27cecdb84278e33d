package page

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// anchor is the end of the settled part of a file: the position, which is the
// beginning of a line outside of any fence, and the bytes before it.
type anchor struct {
	bytes []byte
	end   int64
}

const (
	anchorMax = 1024     // bytes of an anchor
	anchorMin = 64       // a shorter anchor does not identify a place
	reach     = 64 << 10 // how far before its place an anchor is searched
)

// start returns where the anchor ends in the text.
func (t *transition) start() int { return int(t.file.anchor.end - t.view.Offset) }

// setAnchor moves the anchor to a place of the text. What it moves over is settled.
func (t *transition) setAnchor(text []byte, i int) {
	if from := t.start(); from >= 0 && from < i {
		t.history = slices.Clone(t.history)
		for n := range t.shownIn(t.answersIn(text[:i], from)) {
			t.history[n].settled = true
		}
	}
	t.putAnchor(text, i)
}

// putAnchor makes a place of the text the anchor.
func (t *transition) putAnchor(text []byte, i int) {
	t.file.anchor = anchor{bytes.Clone(text[max(0, i-anchorMax):i]), t.view.Offset + int64(i)}
}

// locateTail finds the end of the settled part in the view. It returns false if
// the transition ends here: the edit says what more must be read, or the file is
// left alone.
func (t *transition) locateTail() bool {
	if t.phase != unread && t.view.Scan == nil {
		from := t.From()
		if t.view.Offset > from {
			t.edit = Edit{Need: More, From: from}
			return false
		}
		a, found := t.file.anchor.bytes, false
		if len(a) >= anchorMin {
			if i := t.start(); i <= len(t.text) && bytes.HasSuffix(t.text[:i], a) {
				found = true
			} else if i := bytes.LastIndex(t.text, a); i >= 0 { // the file was edited above it
				t.suspect()
				t.putAnchor(t.text, i+len(a))
				found = true
			} else if from = max(0, from-reach); t.view.Offset > from {
				t.edit = Edit{Need: More, From: from}
				return false
			}
		}
		if found {
			t.observe(t.text[t.start():])
			return true
		}
	}

	// The file was not read yet, or the anchor is gone: only the head tells whether
	// a line stands inside a fence.
	scan := t.view.Scan
	if t.view.Offset == 0 {
		scan = t.scan(t.text)
	}
	if scan == nil || scan.From < t.view.Offset || !t.begins(scan.boundary) {
		t.edit = Edit{Need: Head}
		return false
	}
	if scan.utf16 {
		t.refuseUTF16()
		return false
	}
	if scan.orphan {
		t.act(Log{t.File() + ": below the last footer stands a reply; what is between them is taken as history and not run"})
	}
	t.suspect()
	if t.phase == unread {
		t.phase, t.file.origin = idle, firstRead
	}
	t.file.eol = scan.eol
	t.hasSaid(scan.said)
	t.putAnchor(t.text, int(scan.boundary-t.view.Offset))
	t.observe(t.text[t.start():])
	t.readNotes()
	t.markSettled(scan.titles)
	return true
}

// begins reports whether a line of the text begins at a position of the file.
func (t *transition) begins(position int64) bool {
	i := position - t.view.Offset
	return i >= 0 && i <= int64(len(t.text)) && (position == 0 || i > 0 && hasEnd(t.text[:i]))
}

// Scan is what the head of a file says about its tail.
type Scan struct {
	// From is where the tail that Apply must see begins.
	From int64

	boundary int64          // where parsing begins: a line outside of any fence
	said     string         // the last line that begins with nowMark
	titles   map[string]int // of State.titles: how often each was found
	eol      string         // the file's line end
	utf16    bool           // the file begins with a UTF-16 byte order mark
	orphan   bool           // replies stand below a footer
}

// Scan reads a file from its head to its end in constant memory. The error is the
// reader's.
func (s *State) Scan(r io.Reader) (*Scan, error) {
	c := newScanner(s)
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		c.write(buf[:n])
		if errors.Is(err, io.EOF) {
			return c.close(), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// scan is Scan for a whole file in memory.
func (s *State) scan(text []byte) *Scan {
	c := newScanner(s)
	c.write(text)
	return c.close()
}

// scanner parses a file line by line. A position is -1 until its line was found.
type scanner struct {
	state   *State
	options *Options
	scan    Scan

	line []byte // the line so far, cut to lineMax
	at   int64  // where the line begins
	pos  int64
	cr   bool // the last byte was a CR, which may be half a line end

	fence  markdownFence
	block  bool  // a block was closed, and only blank lines stand below it
	blank  int64 // where the line before begins, if it is empty and outside of fences
	safe   int64 // the last position outside of fences
	inside bool  // the state before the last line

	footer    int64 // the first one behind the last mark, with the empty line above it
	orphan    int64 // the first one above a mark
	request   int64 // the first exact header behind the last mark
	noted     int64 // that header, if the line before was the header of a note
	announced int64 // the last announcement, if no other mark is below it
	bare      bool  // nothing stands below it
	running   bool  // it has a placeholder
	known     bool  // it is that of an answered request
	answered  int64 // the first announcement of an answered request with a placeholder: an older copy
	opened    int64 // the beginning of the last block
	own       int64 // the announcement of the current job, or the block directly above it
	ownHead   int64 // the header of the current job
	ownFooter int64 // a footer above it: an older copy with a request that has lost its reply
}

func newScanner(s *State) *scanner {
	return &scanner{state: s, options: &s.options, blank: -1, scan: Scan{titles: s.titles()}, footer: -1, orphan: -1, request: -1, noted: -1, announced: -1, answered: -1, own: -1, ownHead: -1, ownFooter: -1}
}

// write parses the next bytes.
func (s *scanner) write(b []byte) {
	grow := func(b []byte) {
		s.pos += int64(len(b))
		s.line = append(s.line, b[:min(len(b), lineMax-len(s.line))]...)
	}
	for len(b) > 0 {
		if s.cr {
			s.cr = false
			if b[0] == '\n' {
				s.pos, b = s.pos+1, b[1:]
				s.endLine("\r\n")
				continue
			}
			s.endLine("\n")
		}
		n := bytes.IndexAny(b, "\r\n")
		if n < 0 {
			grow(b)
			return
		}
		grow(b[:n])
		s.pos++
		if s.cr = b[n] == '\r'; !s.cr {
			s.endLine("\n")
		}
		b = b[n+1:]
	}
}

// endLine parses the complete line. The first line end is the file's.
func (s *scanner) endLine(eol string) {
	if s.scan.eol == "" {
		s.scan.eol = eol
	}
	s.parse()
	s.line, s.at = s.line[:0], s.pos
}

func (s *scanner) parse() {
	text := s.line
	if s.at == 0 {
		s.scan.utf16 = isUTF16(text)
		text = bytes.TrimPrefix(text, []byte(bom))
	}
	blank := s.blank
	s.blank = -1
	s.inside = s.fence.Char != 0
	switch s.fence.Next(text) {
	case outside:
		if len(s.line) == 0 {
			s.blank = s.at
		}
		s.safe = s.at
		s.parseOutside(text, blank)
	case opens:
		s.safe, s.opened, s.bare = s.at, s.at, false
	case closes:
		s.safe, s.block = s.pos, true
	default:
		// A note that the page is gone makes no history of what is above it.
		if s.noted >= 0 && bytes.HasPrefix(text, []byte(goneMark)) {
			s.request = s.noted
		}
		s.noted = -1
	}
}

// parseOutside parses a line outside of fences. The line before begins at blank if it
// is empty.
func (s *scanner) parseOutside(text []byte, blank int64) {
	below := s.block
	s.block = below && isBlank(text)
	if s.state.busy() {
		switch string(bytes.TrimRight(text, " \t")) {
		case s.state.job.announcement:
			if s.own = s.at; below {
				s.own = s.opened
			}
			if s.ownHead < 0 {
				s.ownFooter = s.footer
			}
		case s.state.job.header:
			s.ownHead, s.ownFooter = s.at, s.footer
		}
	}
	if isBlank(text) {
		return
	}
	if s.options.isFooter(text) {
		switch {
		case s.footer >= 0:
		case blank >= 0:
			s.footer = blank
		default:
			s.footer = s.at
		}
		return
	}
	request := s.request
	s.noted = -1
	kind, _ := s.options.mark(text)
	_, shown := placeholder(text)
	if kind != noMark || below && (shown && s.announced < 0 || s.options.answers(text)) {
		// What stands above a line of the service is history, a footer too.
		if s.orphan < 0 {
			s.orphan = s.footer
		}
		s.footer, s.request, s.announced = -1, -1, -1
		if title := string(bytes.TrimRight(text, " \t")); kind == replies {
			if n, ok := s.scan.titles[title]; ok {
				s.scan.titles[title] = n + 1
			}
			if s.state.job.index == 1 { // what stands above was another request
				s.own, s.ownHead, s.ownFooter = -1, -1, -1
			}
		} else if kind == reports {
			s.noted = request
		}
		if s.bare = kind == announces || below && s.options.announces(text); s.bare || shown {
			s.announced = s.at
		}
		s.known = s.bare && s.state.wasAnnounced(string(bytes.TrimRight(text, " \t")))
		s.running = shown
		return
	}
	if bytes.HasPrefix(text, []byte(nowMark)) && len(text) < lineMax/16 {
		s.scan.said = string(bytes.TrimRight(text, " \t"))
	}
	s.bare, s.running = false, s.running || shown && s.announced >= 0
	if s.running && s.known && s.answered < 0 {
		s.answered = s.announced
	}
	if h, ok := s.options.request(text); ok && h.exact() && s.options.isSelf(h.page) && s.request < 0 {
		s.request = s.at
	}
}

// close parses a last line without a line end and returns the result.
func (s *scanner) close() *Scan {
	if s.cr {
		s.cr = false
		s.endLine("\n")
	}
	if safe := s.safe; len(s.line) > 0 {
		s.parse()
		if s.fence.Char == 0 && s.inside {
			s.safe = safe // more may be appended to the line that closes the fence
		}
	}
	if s.scan.eol == "" {
		s.scan.eol = "\n"
	}
	if s.scan.orphan = s.orphan >= 0; s.scan.orphan && s.footer < 0 && s.state.phase == idle {
		s.footer, s.scan.orphan = s.orphan, false // the file was replaced: what is below the replies may be run
	}
	s.scan.boundary = s.boundary()
	s.scan.From = max(0, s.scan.boundary-reach)
	return &s.scan
}

func (s *scanner) boundary() int64 {
	if at := s.end(); s.answered < 0 || at < s.answered {
		return at
	}
	return s.answered
}

// end returns the end of the settled part without regard to older copies.
func (s *scanner) end() int64 {
	switch {
	case s.ownFooter >= 0:
		return s.ownFooter
	case s.ownHead >= 0 && s.ownHead < s.own:
		return s.ownHead
	case s.own >= 0:
		return s.own
	case s.ownHead >= 0:
		return s.ownHead
	case s.running || s.bare:
		return s.announced
	case s.footer >= 0 && s.request >= 0:
		return min(s.footer, s.request)
	case s.footer >= 0:
		return s.footer
	case s.request >= 0:
		return s.request
	}
	return s.safe
}
