package exc

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// capture keeps what a stream brought: all of it up to its limit, beyond it
// the head and the tail. Memory stays bounded however much comes.
type capture struct {
	head, tail []byte // tail is a ring once it is full
	headMax    int
	tailMax    int
	next       int   // where the ring is written next, and so its oldest byte
	total      int64 // bytes that came

	// note, if set, adds what there is to say where bytes were left out.
	note func() string
}

// newCapture makes a capture that keeps up to limit bytes.
func newCapture(limit int) *capture {
	half := limit / 2
	return &capture{headMax: limit - half, tailMax: half}
}

// Write takes p in. It never fails.
func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	c.total += int64(n)
	if room := c.headMax - len(c.head); room > 0 {
		take := min(room, len(p))
		c.head = append(c.head, p[:take]...)
		p = p[take:]
	}
	c.writeTail(p)
	return n, nil
}

// writeTail grows the tail to its size and then overwrites its oldest bytes.
func (c *capture) writeTail(p []byte) {
	p = p[max(0, len(p)-c.tailMax):]
	if room := c.tailMax - len(c.tail); room > 0 {
		take := min(room, len(p))
		c.tail = append(c.tail, p[:take]...)
		p = p[take:]
	}
	for len(p) > 0 {
		n := copy(c.tail[c.next:], p)
		c.next = (c.next + n) % len(c.tail)
		p = p[n:]
	}
}

// text is what came as valid UTF-8, and whether the middle was left out. No
// more than limit bytes of what came are in it.
func (c *capture) text(limit int) (string, bool) {
	kept := c.kept()
	if c.total <= int64(min(len(kept), limit)) {
		return decode(kept), false
	}
	half := min(limit, len(kept)) / 2
	head := trimPartialEnd(kept[:min(limit, len(kept))-half])
	tail := trimPartialStart(kept[len(kept)-half:])
	return join(decode(head), decode(tail), c.total-int64(len(head)+len(tail)), c.remark()), true
}

// kept is the head and behind it the tail.
func (c *capture) kept() []byte {
	kept := append(c.head[:len(c.head):len(c.head)], c.tail[c.next:]...)
	return append(kept, c.tail[:c.next]...)
}

func (c *capture) remark() string {
	if c.note == nil {
		return ""
	}
	return c.note()
}

// join puts a line about the n bytes left out between head and tail.
func join(head, tail string, n int64, remark string) string {
	newline := ""
	if head != "" && !strings.HasSuffix(head, "\n") {
		newline = "\n"
	}
	return fmt.Sprintf("%s%s[%d bytes left out%s]\n%s", head, newline, n, remark, tail)
}

// trimPartialEnd cuts off a character that p holds only the beginning of.
func trimPartialEnd(p []byte) []byte {
	for i := len(p) - 1; i >= 0 && i > len(p)-utf8.UTFMax; i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				return p[:i]
			}
			break
		}
	}
	return p
}

// trimPartialStart cuts off the rest of a character whose beginning is gone:
// at most three bytes. More of that kind are no text anyway.
func trimPartialStart(p []byte) []byte {
	for i := range min(len(p), utf8.UTFMax) {
		if utf8.RuneStart(p[i]) {
			return p[i:]
		}
	}
	if len(p) < utf8.UTFMax {
		return nil
	}
	return p
}

// decode makes valid UTF-8 of p. Like most decoders, and unlike
// strings.ToValidUTF8, it writes one U+FFFD for every bad byte, or for the
// beginning of a character that breaks off.
func decode(p []byte) string {
	if utf8.Valid(p) {
		return string(p)
	}
	var b strings.Builder
	b.Grow(len(p) + len(p)/8)
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if r == utf8.RuneError && n == 1 {
			n = brokenLen(p)
		}
		b.WriteRune(r)
		p = p[n:]
	}
	return b.String()
}

// brokenLen is the length of the broken character at the start of p: as many
// bytes as could have begun a valid one, at least 1.
func brokenLen(p []byte) int {
	n := 1
	for n < len(p) && n < utf8.UTFMax && !utf8.FullRune(p[:n+1]) {
		n++
	}
	return n
}

// buffers holds the read buffers of runs.
var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// drain reads r to its end into w, which never fails. An error ends it like the
// end: the reader is given a deadline once all writers ought to be gone.
func drain(w io.Writer, r io.Reader) {
	buf := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buf)
	for {
		n, err := r.Read(buf[:])
		_, _ = w.Write(buf[:n])
		if err != nil {
			return
		}
	}
}

// escapedLen is the number of bytes that s takes at most inside a JSON string.
func escapedLen(s string) int {
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c == 0x7f:
			n += 5
		case c == '"' || c == '\\':
			n++
		}
	}
	return n
}
