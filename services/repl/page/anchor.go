package page

import "bytes"

// anchor is up to where a file is settled: the place, which is the beginning of a
// line outside of any fence, and the bytes before it.
type anchor struct {
	bytes []byte
	end   int64
}

const (
	anchorMax = 1024     // bytes of an anchor
	anchorMin = 64       // shorter ones stand for nothing
	reach     = 64 << 10 // how far an anchor is searched before its place
)

// start is where the anchor ends in the text.
func (s *step) start() int { return int(s.anchor.end - s.view.Offset) }

// setAnchor puts the anchor at a place of the text.
func (s *step) setAnchor(text []byte, i int) {
	s.anchor = anchor{bytes.Clone(text[max(0, i-anchorMax):i]), s.view.Offset + int64(i)}
}

// find finds where the file is settled. Otherwise it says what it needs, or there
// is nothing to be done.
func (s *step) find() bool {
	if s.seen && s.view.Scan == nil {
		switch found, need := s.known(); {
		case need:
			return false
		case found:
			s.watch(s.text[s.start():])
			return !s.nearsighted()
		}
	}
	return s.cold()
}

// nearsighted asks for more of the text above, if it has to be compared with the
// past.
func (s *step) nearsighted() bool {
	from := max(0, s.anchor.end-reach)
	if !s.suspect || len(s.past) == 0 || s.view.Offset <= from {
		return false
	}
	s.edit = Edit{Need: More, From: from}
	return true
}

// known finds the anchor: at its place, or where the text was moved to when the
// file was edited above.
func (s *step) known() (found, need bool) {
	from := s.From()
	if s.view.Offset > from {
		s.edit = Edit{Need: More, From: from}
		return false, true
	}
	n := len(s.anchor.bytes)
	if n < anchorMin {
		return false, false
	}
	if i := s.start(); i <= len(s.text) && bytes.HasSuffix(s.text[:i], s.anchor.bytes) {
		return true, false
	}
	if i := bytes.LastIndex(s.text, s.anchor.bytes); i >= 0 {
		s.suspect = true
		s.setAnchor(s.text, i+n)
		return true, false
	}
	if from = max(0, from-reach); s.view.Offset > from {
		s.edit = Edit{Need: More, From: from}
		return false, true
	}
	return false, false
}

// cold finds out where to begin in a file that is not known, or not any more.
func (s *step) cold() bool {
	scan := s.view.Scan
	if s.view.Offset == 0 {
		scan = s.scan(s.text)
	}
	if scan == nil || scan.From < s.view.Offset || !s.begins(scan.boundary) {
		s.edit = Edit{Need: Head}
		return false
	}
	if scan.utf16 {
		s.decline()
		return false // left alone
	}
	if scan.orphan {
		s.effect(Log{s.File() + ": below the last footer stands a reply; what is between them is taken as history and not run"})
	}
	s.fresh = s.fresh || !s.seen
	s.eol, s.seen, s.suspect = scan.eol, true, true
	s.setAnchor(s.text, int(scan.boundary-s.view.Offset))
	s.watch(s.text[s.start():])
	return true
}

// begins reports whether a line of the text begins at a place of the file.
func (s *step) begins(place int64) bool {
	i := place - s.view.Offset
	return i >= 0 && i <= int64(len(s.text)) && (place == 0 || i > 0 && hasEnd(s.text[:i]))
}

// scan is what Page.Scan does, for a file that is here as a whole.
func (p *Page) scan(text []byte) *Scan {
	s := newScanner(p)
	s.write(text)
	return s.close()
}
