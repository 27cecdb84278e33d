package mask

import (
	"bytes"
	"slices"
)

// Sizes in bytes of the parts in which a text is masked.
const (
	blockSize  = 16 << 10 // whole lines are masked together up to this size
	windowSize = 4 << 10  // a longer line is masked by windows
	maxWindow  = 32 << 10 // of a line that is one secret
)

// A Stream masks a text that comes in pieces. Its output does not depend on where the
// text is cut: whole lines are passed on; of a line longer than 4 KiB the last 512
// bytes, or as many as the longest known value has, are kept back, and of a private
// key everything until its end or up to 16 KiB.
type Stream struct {
	m     *Masker
	buf   []byte
	pem   bool // buf continues a private key of more than 16 KiB
	count int

	part     bool // only text[from:to] is passed on
	from, to int
	at       int // bytes of the text before buf
}

// Stream returns a stream of a new text.
func (m *Masker) Stream() *Stream { return &Stream{m: m} }

// Add adds a piece of text and returns what can be passed on.
func (s *Stream) Add(piece []byte) []byte {
	s.buf = append(s.buf, piece...)
	return s.process(nil, false)
}

// Flush returns the rest at the end of the text.
func (s *Stream) Flush() []byte { return s.process(nil, true) }

// Count returns the number of placeholders in what was passed on.
func (s *Stream) Count() int { return s.count }

// process appends to out what can be passed on. All decisions depend on the text
// alone, not on how much of it is there: too little for a decision ends the loop.
func (s *Stream) process(out []byte, final bool) []byte {
	for len(s.buf) > 0 {
		if s.m.shapes && (s.pem || markerLength(s.buf) > 0) {
			n, more := pemLength(s.buf, s.pem, final)
			switch {
			case n < 0:
				return out
			case n == 0 && s.pem:
				s.pem = false
			case n == 0: // a first line without a key
				out = s.pass(out, markerLength(s.buf))
			default:
				out = s.mask(out, n, []span{{to: n, kind: kindPEM}})
				s.pem = more
			}
			continue
		}
		var ok bool
		if n := wholeLines(s.buf, final); n > 0 {
			spans, pem := s.m.find(s.buf[:n])
			if pem >= 0 {
				n = pem
			}
			out = s.mask(out, n, spans)
		} else if out, ok = s.window(out, final); !ok {
			return out
		}
	}
	return out
}

// wholeLines returns the length of the lines at the start of text, none of which is
// longer than a window.
func wholeLines(text []byte, final bool) (n int) {
	for n < min(len(text), blockSize) {
		rest := text[n:]
		i := bytes.IndexByte(rest[:min(len(rest), windowSize)], '\n')
		if i < 0 {
			if final && len(rest) < windowSize {
				n = len(text)
			}
			return n
		}
		n += i + 1
	}
	return n
}

// window masks a part of a line that is longer than a window, and reports false if it
// needs more text.
func (s *Stream) window(out []byte, final bool) ([]byte, bool) {
	for size := max(windowSize, 2*s.m.keep); ; size *= 2 {
		text, whole := s.buf[:min(size, len(s.buf))], false
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			text, whole = text[:i+1], true
		} else if len(text) < size {
			if !final {
				return out, false
			}
			whole = true
		}
		spans, pem := s.m.find(text)
		cut := len(text)
		if pem >= 0 {
			cut = pem
		} else if !whole {
			cut = before(spans, len(text)-s.m.keep)
		}
		if cut == 0 && size < maxWindow {
			continue
		}
		if cut == 0 {
			cut = len(text)
		}
		return s.mask(out, cut, spans), true
	}
}

// before returns the last place up to cut that is within no span.
func before(spans []span, cut int) int {
	for i := len(spans) - 1; i >= 0; i-- {
		if spans[i].at < cut && cut < spans[i].to {
			cut = spans[i].at
		}
	}
	return max(cut, 0)
}

// mask appends the first n bytes of the text with spans masked. Masking may bring
// forth new shapes, so it is repeated until it changes nothing.
func (s *Stream) mask(out []byte, n int, spans []span) []byte {
	lo, hi := s.clip(n)
	text, spans := s.buf[:n], upTo(spans, n)
	for range 8 {
		spans = slices.DeleteFunc(spans, func(sp span) bool { return sp.to <= lo || sp.from >= hi })
		if len(spans) == 0 {
			break
		}
		masked := make([]byte, 0, hi-lo+32*len(spans))
		at := lo
		for _, sp := range spans {
			masked = append(masked, text[at:max(at, sp.from)]...)
			masked = s.m.appendPlaceholder(masked, sp.kind, text[sp.from:sp.to])
			at = sp.to
		}
		if at < hi {
			masked = append(masked, text[at:hi]...)
		}
		s.count += len(spans)
		text, lo, hi = masked, 0, len(masked)
		spans, _ = s.m.find(text)
		spans = upTo(spans, len(text))
	}
	s.advance(n)
	return append(out, text[lo:hi]...)
}

// clip returns what is passed on of the first n bytes of the text.
func (s *Stream) clip(n int) (lo, hi int) {
	if !s.part {
		return 0, n
	}
	lo = min(max(s.from-s.at, 0), n)
	return lo, max(lo, min(s.to-s.at, n))
}

func (s *Stream) advance(n int) {
	s.buf = s.buf[n:]
	s.at += n
}

// upTo returns the spans that begin before n.
func upTo(spans []span, n int) []span {
	for len(spans) > 0 && spans[len(spans)-1].from >= n {
		spans = spans[:len(spans)-1]
	}
	if len(spans) > 0 {
		last := &spans[len(spans)-1]
		last.to = min(last.to, n)
	}
	return spans
}

// pass appends the first n bytes of the text unchanged.
func (s *Stream) pass(out []byte, n int) []byte {
	lo, hi := s.clip(n)
	out = append(out, s.buf[lo:hi]...)
	s.advance(n)
	return out
}
