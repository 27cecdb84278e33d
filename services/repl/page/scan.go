package page

import (
	"bytes"
	"errors"
	"io"
)

// Scan is what a log's head has to say about its tail.
type Scan struct {
	// From is where the tail that Apply must see begins.
	From int64

	boundary int64  // where parsing begins: a line outside of any fence
	eol      string // the file's line end
	utf16    bool   // it begins with a UTF-16 BOM
	orphan   bool   // a footer was passed over, because replies stand below it
}

// context is how many bytes before the boundary are looked at, to find it again.
const context = reach

// Scan reads a log from its head to its end. Memory does not depend on its
// length. The error is the reader's.
func (p *Page) Scan(r io.Reader) (*Scan, error) {
	s := newScanner(p)
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		s.write(buf[:n])
		if errors.Is(err, io.EOF) {
			return s.close(), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// scanner goes through a log's lines. Places are -1 where there is none.
type scanner struct {
	p    *Page
	o    *Options
	scan Scan

	line []byte // the line so far, cut to lineMax
	at   int64  // where it begins
	pos  int64
	cr   bool // the last byte was a CR, which may be half a line end

	fence  fence
	block  bool  // a block has been closed, and only blank lines stand below it
	safe   int64 // the last place outside of fences
	inside bool  // the state before the last line

	footer  int64 // the first behind the last mark
	request int64 // the first exact header behind the last mark
	shown   int64 // the last announcement, if no other mark is below it
	running bool  // it has a placeholder
	own     int64 // the announcement of the page's current job
	ownHead int64 // its header
}

func newScanner(p *Page) *scanner {
	return &scanner{p: p, o: &p.o, footer: -1, request: -1, shown: -1, own: -1, ownHead: -1}
}

// write takes the next bytes.
func (s *scanner) write(b []byte) {
	for len(b) > 0 {
		if s.cr {
			s.cr = false
			if b[0] == '\n' {
				s.pos, b = s.pos+1, b[1:]
				s.ended("\r\n")
				continue
			}
			s.ended("\n")
		}
		n := bytes.IndexAny(b, "\r\n")
		if n < 0 {
			s.grow(b)
			return
		}
		s.grow(b[:n])
		s.pos++
		if s.cr = b[n] == '\r'; !s.cr {
			s.ended("\n")
		}
		b = b[n+1:]
	}
}

func (s *scanner) grow(b []byte) {
	s.pos += int64(len(b))
	s.line = append(s.line, b[:min(len(b), lineMax-len(s.line))]...)
}

// ended takes the line that is complete. A file's first line end is the file's.
func (s *scanner) ended(eol string) {
	if s.scan.eol == "" {
		s.scan.eol = eol
	}
	s.take()
	s.line, s.at = s.line[:0], s.pos
}

// take classifies a line.
func (s *scanner) take() {
	text := s.line
	if s.at == 0 {
		s.scan.utf16 = isUTF16(text)
		text = bytes.TrimPrefix(text, []byte(bom))
	}
	s.inside = s.fence.char != 0
	switch s.fence.step(text) {
	case outside:
		s.safe = s.at
		s.plain(text)
	case opens:
		s.safe = s.at
	case closes:
		s.safe, s.block = s.pos, true
	}
}

// plain takes a line outside of fences.
func (s *scanner) plain(text []byte) {
	below := s.block
	s.block = below && isBlank(text)
	if j := s.p.run; j != nil {
		switch string(bytes.TrimRight(text, " \t")) {
		case j.ann:
			s.own = s.at
		case j.line:
			s.ownHead = s.at
		}
	}
	if s.o.isFooter(text) {
		if s.footer < 0 {
			s.footer = s.at
		}
		return
	}
	switch kind, _ := s.o.mark(text); kind {
	case announces:
		s.marked(s.at)
		return
	case replies, reports:
		s.marked(-1)
		return
	}
	if below && s.o.answers(text) {
		s.marked(-1)
	} else if h, ok := s.o.request(text); ok && h.exact() && s.o.isSelf(h.page) && s.request < 0 {
		s.request = s.at
	} else if _, ok := placeholder(text); ok && s.shown >= 0 {
		s.running = true
	}
}

// marked takes a line of the service's. What is above it is history, a footer too.
func (s *scanner) marked(shown int64) {
	s.scan.orphan = s.scan.orphan || s.footer >= 0
	s.footer, s.request, s.shown, s.running = -1, -1, shown, false
}

// close takes the last line, if it has no end, and tells where to begin.
func (s *scanner) close() *Scan {
	if s.cr {
		s.cr = false
		s.ended("\n")
	}
	if safe := s.safe; len(s.line) > 0 {
		s.take()
		if s.fence.char == 0 && s.inside {
			s.safe = safe // the line that closes it may grow
		}
	}
	if s.scan.eol == "" {
		s.scan.eol = "\n"
	}
	s.scan.boundary = s.begin()
	s.scan.From = max(0, s.scan.boundary-context)
	return &s.scan
}

func (s *scanner) begin() int64 {
	switch {
	case s.ownHead >= 0 && s.ownHead < s.own:
		return s.ownHead
	case s.own >= 0:
		return s.own
	case s.ownHead >= 0:
		return s.ownHead
	case s.footer >= 0 && s.request >= 0:
		return min(s.footer, s.request)
	case s.footer >= 0:
		return s.footer
	case s.running:
		return s.shown
	case s.request >= 0:
		return s.request
	}
	return s.safe
}

// bom is the UTF-8 byte order mark, which may begin a file.
const bom = "\xef\xbb\xbf"

// isUTF16 reports whether a text begins with a UTF-16 byte order mark.
func isUTF16(b []byte) bool {
	return len(b) >= 2 && (b[0] == 0xff && b[1] == 0xfe || b[0] == 0xfe && b[1] == 0xff)
}
