package page

import (
	"bytes"
	"crypto/sha256"
	"time"
)

// step is one application of an event. The page in it is the next one; its
// slices and its job are shared with the one before, and are replaced, not changed.
type step struct {
	*Page
	view  View
	event Event
	now   time.Time

	text []byte // the file from view.Offset on, as it is to be
	put  string // the header of the exchange that was put back last

	edit    Edit
	effects []Effect
}

type digest [sha256.Size]byte

func (s *step) effect(e Effect) { s.effects = append(s.effects, e) }

// wakeAt asks for a Tick.
func (s *step) wakeAt(t time.Time) {
	if t.Before(s.now) {
		t = s.now
	}
	if s.wake.IsZero() || t.Before(s.wake) {
		s.wake = t
	}
}

// due reports whether a time has come. If not, a Tick is asked for.
func (s *step) due(t time.Time) bool {
	if s.now.Before(t) {
		s.wakeAt(t)
		return false
	}
	return true
}

// ready reports whether the text was complete when it was read: somebody said so,
// or it has not changed for a while.
func (s *step) ready() bool { return s.told == s.sum || s.due(s.since.Add(s.o.Debounce)) }

// quiet reports whether the text has not changed for so long that it can be taken
// as final.
func (s *step) quiet() bool { return s.due(s.since.Add(s.o.Quiet)) }

// watch notices when a text, what stands behind the anchor, has changed.
func (s *step) watch(text []byte) {
	if sum := digest(sha256.Sum256(text)); sum != s.sum || s.since.IsZero() {
		s.sum, s.since = sum, s.now
	}
	switch s.event.(type) {
	case Changed, Start:
		s.told = s.sum
	}
}

// settle makes the file what it is to be.
func (s *step) settle() {
	s.text = s.view.Tail
	if s.view.Missing || s.view.Offset == 0 && isBlank(bytes.TrimPrefix(s.text, []byte(bom))) {
		if !s.blank() {
			return
		}
	}
	if s.view.Offset == 0 && isUTF16(s.text) {
		s.decline()
		return // left alone
	}
	if !s.find() {
		return
	}
	for s.advance() {
	}
	s.finish()
}

// decline answers programs whose requests cannot be written, because the file is
// in UTF-16.
func (s *step) decline() {
	for _, e := range s.queue {
		s.effect(Done{Key: e.Key, Error: "not run: the page's file is in UTF-16, and is left alone"})
	}
	s.queue = nil
}

// advance does one thing to the text behind the anchor, and reports whether there
// may be more to do.
func (s *step) advance() bool {
	if s.run != nil {
		return s.running()
	}
	return s.idle()
}

// finish makes an edit of the difference between what was and what is to be.
func (s *step) finish() {
	old := s.view.Tail
	n := samePrefix(old, s.text)
	if n == len(old) && n == len(s.text) && !s.view.Missing {
		return
	}
	s.edit = Edit{Changed: true, From: s.view.Offset + int64(n), Text: s.text[n:]}
	s.written = s.now
	sum := digest(sha256.Sum256(s.text[s.start():]))
	if s.told == s.sum {
		s.told = sum
	}
	s.sum = sum
}

// samePrefix is how many bytes two texts have in common at their beginning.
func samePrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
