package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"zino/pkg/mask"
)

// Recorder stores output in a file of bounded size: the first half as it came, the
// second half as a ring. A Write never fails and never waits for a reader. After an
// error of the file, such as a full disk, output is only counted.
type Recorder struct {
	file io.WriterAt
	ring ring

	mu     sync.Mutex
	total  int64
	stored int64
}

// NewRecorder stores into f, which is empty, at most max bytes.
func NewRecorder(f *os.File, max int64) *Recorder { return &Recorder{file: f, ring: ring{max}} }

// Write stores p.
func (r *Recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(p)
	if r.stored == r.total {
		r.stored += r.ring.write(r.file, p, r.stored)
	}
	r.total += int64(n)
	return n, nil
}

// Count returns how many bytes were written, and how many of them before the first
// error.
func (r *Recorder) Count() (total, stored int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total, r.stored
}

// ring maps places of an output to places in its file.
type ring struct{ max int64 }

func (r ring) head() int64 { return r.max - r.max/2 } // bytes that stay

// at is the place in the file of a byte of the output, and how many bytes from there
// on are contiguous.
func (r ring) at(offset int64) (place, room int64) {
	if offset < r.head() {
		return offset, r.head() - offset
	}
	turn := r.max - r.head()
	if turn == 0 {
		return 0, 0
	}
	in := (offset - r.head()) % turn
	return r.head() + in, turn - in
}

// oldest is the first byte behind the head that is in the file when stored bytes
// were written.
func (r ring) oldest(stored int64) int64 { return max(r.head(), stored-(r.max-r.head())) }

// write writes p at an offset and returns how many bytes of it can be counted as
// stored.
func (r ring) write(f io.WriterAt, p []byte, offset int64) int64 {
	done := int64(0)
	for int64(len(p)) > done {
		place, room := r.at(offset + done)
		if room == 0 {
			return done
		}
		n, err := f.WriteAt(p[done:min(int64(len(p)), done+room)], place)
		done += int64(n)
		if err != nil {
			return done
		}
	}
	return done
}

// Stored is the output that a Recorder has stored.
type Stored struct {
	File  io.ReaderAt
	Path  string       // of the file
	Max   int64        // of the Recorder
	Total int64        // bytes that were written
	Kept  int64        // how many of them before the first error
	Mask  *mask.Masker // masks the texts; nil: they are not masked
}

// masked decodes the output from an offset on without secrets, also those that are only
// partly in p.
func (s Stored) masked(p []byte, offset int64) string {
	if s.Mask == nil {
		return decode(p)
	}
	r := ring{s.Max}
	start := max(0, offset-maskAround)
	if oldest := r.oldest(s.Kept); offset >= r.head() && oldest > r.head() { // a gap precedes it
		start = max(start, oldest)
	}
	before := int(offset - start)
	b := make([]byte, before+len(p)+maskAround)
	n, _, err := s.Read(b, start)
	if err != nil || n < before+len(p) {
		return decodeMasked(s.Mask, p, 0, len(p))
	}
	return decodeMasked(s.Mask, b[:n], before, before+len(p))
}

// Read reads from an offset on, up to len(p) bytes. skipped are the bytes from there
// on that are not in the file any more: what it returns comes behind them. It
// returns 0 bytes behind the last stored one.
func (s Stored) Read(p []byte, offset int64) (n int, skipped int64, err error) {
	r := ring{s.Max}
	if offset >= r.head() && offset < s.Kept {
		oldest := min(r.oldest(s.Kept), s.Kept)
		skipped = max(0, oldest-offset)
	}
	for at := offset + skipped; n < len(p) && at < s.Kept; at = offset + skipped + int64(n) {
		if n > 0 && at == r.head() && r.oldest(s.Kept) > at {
			break // a gap follows
		}
		place, room := r.at(at)
		if room == 0 {
			break
		}
		m, err := s.File.ReadAt(p[n:min(int64(len(p)), int64(n)+min(room, s.Kept-at))], place)
		n += m
		if err != nil && !(errors.Is(err, io.EOF) && m > 0) {
			return n, skipped, err
		}
		if m == 0 {
			break
		}
	}
	return n, skipped, nil
}

// text is up to limit bytes of the output, as stream.text makes it.
func (s Stored) text(limit int) (string, bool, error) {
	if s.Kept == s.Total && s.Total <= min(s.Max, int64(limit)) {
		b := make([]byte, s.Total)
		n, _, err := s.Read(b, 0)
		return s.masked(b[:n], 0), false, err
	}
	half := limit / 2
	if s.Kept < s.Total {
		half = 0 // the end is not known
	}
	head := make([]byte, limit-half)
	n, _, err := s.Read(head[:min(len(head), int(ring{s.Max}.head()))], 0)
	if err != nil {
		return "", true, err
	}
	tail := make([]byte, min(int64(half), s.Total-int64(n)))
	m, _, err := s.Read(tail, s.Total-int64(len(tail)))
	if err != nil {
		return "", true, err
	}
	head, tail = trimPartialEnd(head[:n]), trimPartialStart(tail[:m])
	text := lineEnd(s.masked(head, 0))
	return fmt.Sprintf("%s[%d bytes left out%s]\n%s", text, s.Total-int64(len(head)+len(tail)), s.note(), s.masked(tail, s.Total-int64(len(tail)))), true, nil
}

// note says where the output is.
func (s Stored) note() string {
	switch first := min(s.Kept, ring{s.Max}.head()); {
	case s.Kept == 0:
		return "; the full output could not be kept"
	case s.Kept == s.Total && s.Total <= s.Max:
		return "; the full output is in " + s.Path
	default:
		return "; the first " + ByteCount(first) + " are in " + s.Path
	}
}

// StoredTexts are two outputs for a result, each of up to limit bytes, cut so that
// they fill one packet at most.
func StoredTexts(limit int, out, errs Stored) (stdout, stderr string, truncated bool, err error) {
	for ; ; limit /= 2 {
		stdout, cutOut, err1 := out.text(limit)
		stderr, cutErr, err2 := errs.text(limit)
		if err := errors.Join(err1, err2); err != nil {
			return "", "", false, err
		}
		if escapedLen(stdout)+escapedLen(stderr) <= PacketRoom {
			return stdout, stderr, cutOut || cutErr, nil
		}
	}
}

// Passage is a part of an output.
type Passage struct {
	Text string // valid UTF-8; a line says where bytes are missing
	Next int64  // the offset behind it
}

// Passage reads from an offset on, up to limit bytes. An incomplete character at the
// end waits for its rest unless final.
func (s Stored) Passage(offset int64, limit int, final bool) (Passage, error) {
	p := Passage{Next: offset}
	for room := limit; room > 0 && p.Next < s.Total; {
		b := make([]byte, min(int64(room), s.Total-p.Next))
		n, skipped, err := s.Read(b, p.Next)
		if err != nil {
			return p, err
		}
		if n == 0 { // not stored
			skipped = s.Total - p.Next
		}
		if skipped > 0 {
			p.Text = fmt.Sprintf("%s[%d bytes left out]\n", lineEnd(p.Text), skipped)
		}
		whole, growing := b[:n], p.Next+skipped+int64(n) == s.Total && !final
		if rest := trimPartialEnd(whole); len(rest) > 0 || growing { // else it is broken by a gap
			whole = rest
		}
		p.Text += s.masked(whole, p.Next+skipped)
		p.Next += skipped + int64(len(whole))
		room -= n
		if len(whole) < n {
			break
		}
	}
	return p, nil
}

func lineEnd(text string) string {
	if text != "" && text[len(text)-1] != '\n' {
		return text + "\n"
	}
	return text
}
