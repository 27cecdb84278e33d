package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

// recorded stores pieces in a file of at most max bytes and returns what is stored.
func recorded(t testing.TB, max int64, pieces ...string) Stored {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stdout")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	zinotest.Must(t, err)
	t.Cleanup(func() { f.Close() })
	r := NewRecorder(f, max)
	for _, p := range pieces {
		if n, err := r.Write([]byte(p)); n != len(p) || err != nil {
			t.Errorf("Write: %d, %v", n, err)
		}
	}
	total, kept := r.Count()
	if fi, err := f.Stat(); err != nil || fi.Size() > max {
		t.Errorf("the file has %d bytes of at most %d, %v", fi.Size(), max, err)
	}
	return Stored{File: f, Path: path, Max: max, Total: total, Kept: kept}
}

// letters is a text of n different letters in a row.
func letters(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteByte('a' + byte(i%26))
	}
	return b.String()
}

// TestStoredKeepsBothEnds checks each length of output around the size of the file, in
// pieces of each size: the first half and the newest bytes stay.
func TestStoredKeepsBothEnds(t *testing.T) {
	for _, limit := range []int64{1, 2, 7, 16} {
		for length := range 3 * int(limit) {
			for size := 1; size <= length; size++ {
				text, pieces := letters(length), []string{}
				for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
					pieces = append(pieces, rest[:min(size, len(rest))])
				}
				s := recorded(t, limit, pieces...)
				p, err := s.Passage(0, 1000, true)
				zinotest.Must(t, err)
				want := text
				if head, tail := int(limit-limit/2), int(limit/2); length > int(limit) {
					want = fmt.Sprintf("%s\n[%d bytes left out]\n%s", text[:head], length-head-tail, text[length-tail:])
				}
				if p.Text != want || p.Next != int64(length) {
					t.Fatalf("%d bytes of %d in pieces of %d: %q up to %d, want %q", length, limit, size, p.Text, p.Next, want)
				}
			}
		}
	}
}

// TestPassages reads an output in parts of each size.
func TestPassages(t *testing.T) {
	s := recorded(t, 16, letters(40))
	whole, err := s.Passage(0, 1000, true)
	zinotest.Must(t, err)
	for limit := 1; limit < 20; limit++ {
		text, at := "", int64(0)
		for range 100 {
			p, err := s.Passage(at, limit, true)
			zinotest.Must(t, err)
			if p.Next == at {
				break
			}
			text, at = lineEndBefore(text, p.Text)+p.Text, p.Next
		}
		if text != whole.Text || at != 40 {
			t.Errorf("in parts of %d bytes: %q up to %d, want %q", limit, text, at, whole.Text)
		}
	}
}

// lineEndBefore ends the text so far before a line about missing bytes.
func lineEndBefore(text, next string) string {
	if strings.HasPrefix(next, "[") {
		return lineEnd(text)
	}
	return text
}

// TestPassageWaitsForCharacters checks that a character whose end has not come yet is
// read with its end.
func TestPassageWaitsForCharacters(t *testing.T) {
	s := recorded(t, 100, "a\xc3")
	p, err := s.Passage(0, 100, false)
	if err != nil || p.Text != "a" || p.Next != 1 {
		t.Errorf("while it runs: %+v, %v", p, err)
	}
	if p, err = s.Passage(1, 100, true); err != nil || p.Text != "\uFFFD" || p.Next != 2 {
		t.Errorf("at the end: %+v, %v", p, err)
	}
}

// TestStoredTexts checks what a result says of a long output.
func TestStoredTexts(t *testing.T) {
	empty := recorded(t, 100)
	for _, tt := range []struct {
		name      string
		max       int64
		text      string
		limit     int
		want      string
		truncated bool
	}{
		{"fits", 100, "short\n", 20, "short\n", false},
		{"in the file", 100, letters(50), 20, "abcdefghij\n[30 bytes left out; the full output is in PATH]\nopqrstuvwx", true},
		{"longer than the file", 40, letters(100), 20, "abcdefghij\n[80 bytes left out; the first 20 bytes are in PATH]\nmnopqrstuv", true},
		{"result as long as the file", 20, letters(100), 50, "abcdefghij\n[80 bytes left out; the first 10 bytes are in PATH]\nmnopqrstuv", true},
	} {
		s := recorded(t, tt.max, tt.text)
		stdout, stderr, truncated, err := StoredTexts(tt.limit, s, empty)
		if want := strings.ReplaceAll(tt.want, "PATH", s.Path); err != nil || stdout != want || stderr != "" || truncated != tt.truncated {
			t.Errorf("%s: %q, %q, %v, %v, want %q", tt.name, stdout, stderr, truncated, err, want)
		}
	}
}

// TestRecorderOnFullDisk checks that output is counted when it cannot be stored, and
// that what is missing is said.
func TestRecorderOnFullDisk(t *testing.T) {
	f := &fullFile{File: recordedFile(t), room: 10}
	r := &Recorder{file: f, ring: ring{100}}
	for range 5 {
		n, err := r.Write([]byte("123456"))
		if n != 6 || err != nil {
			t.Errorf("Write: %d, %v", n, err)
		}
		f.room += 100 * int64(r.total/18) // the disk has room again later
	}
	total, kept := r.Count()
	zinotest.Equal(t, "total", total, 30)
	zinotest.Equal(t, "stored", kept, 10)
	s := Stored{File: f.File, Path: f.Name(), Max: 100, Total: total, Kept: kept}
	p, err := s.Passage(0, 100, true)
	if err != nil || p.Text != "1234561234\n[20 bytes left out]\n" || p.Next != 30 {
		t.Errorf("%+v, %v", p, err)
	}
	text, truncated, err := s.text(100)
	if want := "1234561234\n[20 bytes left out; the first 10 bytes are in " + s.Path + "]\n"; err != nil || !truncated || text != want {
		t.Errorf("%q, %v, %v", text, truncated, err)
	}
	none := Stored{File: f.File, Max: 100, Total: 5}
	if text, _, err := none.text(100); err != nil || text != "[5 bytes left out; the full output could not be kept]\n" {
		t.Errorf("%q, %v", text, err)
	}
}

func recordedFile(t testing.TB) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "stdout")
	zinotest.Must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// fullFile is a file on a disk with little room.
type fullFile struct {
	*os.File
	room int64
}

func (f *fullFile) WriteAt(p []byte, at int64) (int, error) {
	fits := max(0, min(int64(len(p)), f.room-at))
	n, err := f.File.WriteAt(p[:fits], at)
	if err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, errors.Join(err)
}

// FuzzStored checks that any passage of any output is valid, ends, and never goes
// back.
func FuzzStored(f *testing.F) {
	f.Add([]byte("hello world, this is long"), int64(8), int64(0), int64(25), 4)
	f.Add([]byte("a\xc3\xa4\xff\x00"), int64(3), int64(2), int64(4), 1)
	f.Add([]byte(""), int64(1), int64(-1), int64(0), 0)
	f.Fuzz(func(t *testing.T, text []byte, limit, from, kept int64, room int) {
		if limit < 1 || limit > 1<<12 || room < 0 || room > 1<<12 {
			return
		}
		s := recorded(t, limit, string(text))
		s.Kept = max(0, min(kept, s.Kept))
		from = max(0, min(from, s.Total))
		p, err := s.Passage(from, room, true)
		if err != nil || p.Next < from || p.Next > s.Total || room > 0 && from < s.Total && p.Next == from {
			t.Errorf("from %d of %d, %d kept: %+v, %v", from, s.Total, s.Kept, p, err)
		}
		if _, _, err := s.text(room); err != nil {
			t.Error(err)
		}
	})
}
