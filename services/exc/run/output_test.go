package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"zino/pkg/zinotest"
)

// captured writes text in pieces of size bytes to a stream that keeps limit bytes,
// and all of them in files if they are not nil.
func captured(files *Files, text string, limit, size int) *stream {
	o := &Output{Max: limit, Files: files}
	o.begin(nil)
	for p := []byte(text); len(p) > 0; {
		n := min(size, len(p))
		o.stdout.Write(p[:n])
		p = p[n:]
	}
	return &o.stdout
}

func TestStream(t *testing.T) {
	tests := []struct {
		name, in string
		limit    int
		want     string
		cut      bool
	}{
		{"empty", "", 8, "", false},
		{"short", "abc", 8, "abc", false},
		{"full", "abcdefgh", 8, "abcdefgh", false},
		{"one more", "abcdefghi", 8, "abcd\n[1 bytes left out]\nfghi", true},
		{"odd limit", "abcdefghi", 7, "abcd\n[2 bytes left out]\nghi", true},
		{"long", "abcd" + strings.Repeat("-", 1000) + "efgh", 8, "abcd\n[1000 bytes left out]\nefgh", true},
		{"at a line's end", "abc\n-----efgh", 8, "abc\n[5 bytes left out]\nefgh", true},
		{"inside characters", "abc€€€fgh", 8, "abc\n[9 bytes left out]\nfgh", true},
		{"beside characters", "a€-----€b", 8, "a€\n[5 bytes left out]\n€b", true},
		{"only rests of characters", "€€€", 4, "[9 bytes left out]\n", true},
		{"no text at all", strings.Repeat("\x80", 12), 8, strings.Repeat("\uFFFD", 4) + "\n[4 bytes left out]\n" + strings.Repeat("\uFFFD", 4), true},
		{"bad bytes stay", "ab\xff\xff----\xff\xffgh", 8, "ab\uFFFD\uFFFD\n[4 bytes left out]\n\uFFFD\uFFFDgh", true},
	}
	for _, tt := range tests {
		for size := 1; size <= 12; size++ {
			got, cut := captured(nil, tt.in, tt.limit, size).text(tt.limit)
			if got != tt.want || cut != tt.cut {
				t.Errorf("%s, %d at a time: got %q, %v, want %q", tt.name, size, got, cut, tt.want)
			}
		}
	}
}

// The kept text can be cut further, and the number of bytes left out is right.
func TestStreamTextWithLowerLimit(t *testing.T) {
	c := captured(nil, "0123456789abcdef", 12, 5)
	for limit, want := range map[int]string{
		12: "012345\n[4 bytes left out]\nabcdef",
		6:  "012\n[10 bytes left out]\ndef",
		1:  "0\n[15 bytes left out]\n",
	} {
		if got, cut := c.text(limit); got != want || !cut {
			t.Errorf("limit %d: got %q, %v, want %q", limit, got, cut, want)
		}
	}
}

func TestStreamMemory(t *testing.T) {
	const limit = 1000
	c := captured(nil, "", limit, 1)
	p := make([]byte, 999)
	for range 10000 {
		c.Write(p)
	}
	if kept := cap(c.head) + cap(c.tail); kept > 2*limit {
		t.Errorf("%d bytes are kept for a limit of %d", kept, limit)
	}
	if c.total != 9990000 {
		t.Errorf("counted %d", c.total)
	}
}

// The ring holds the last bytes, in pieces of any size.
func TestStreamRing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var all []byte
	c := captured(nil, "", 64, 1)
	for range 500 {
		p := make([]byte, random.IntN(40))
		for i := range p {
			p[i] = byte('a' + random.IntN(26))
		}
		all = append(all, p...)
		c.Write(p)
		got, cut := c.text(64)
		head, tail := all[:min(32, len(all))], all[max(0, len(all)-32):]
		if cut != (len(all) > 64) || !strings.HasPrefix(got, string(head)) || !strings.HasSuffix(got, string(tail)) {
			t.Fatalf("after %d bytes: %q", len(all), got)
		}
	}
}

func TestDecode(t *testing.T) {
	const bad = "\uFFFD"
	tests := []struct{ in, want string }{
		{"plain äöü € 𝄞", "plain äöü € 𝄞"},
		{"\xff\xfe", bad + bad},
		{"a\x80b", "a" + bad + "b"},
		{"\xe2\x82", bad},
		{"\xe2\x82A", bad + "A"},
		{"\xf0\x9d\x84", bad},
		{"\xf0\x9d\xff", bad + bad},
		{"\xed\xa0\x80", bad + bad + bad}, // a surrogate
		{"\xc0\xaf", bad + bad},           // overlong
		{"\xf5\x80", bad + bad},
		{bad, bad},
	}
	for _, tt := range tests {
		zinotest.Equal(t, tt.in, decode([]byte(tt.in)), tt.want)
	}
}

func TestDrainStopsAtAnError(t *testing.T) {
	c := captured(nil, "", 100, 1)
	new(pipes).drain(c, io.MultiReader(strings.NewReader("before"), iotest.ErrReader(io.ErrClosedPipe)))
	if got, cut := c.text(100); got != "before" || cut {
		t.Errorf("got %q, %v", got, cut)
	}
}

// newFiles keeps files in directories below a new one.
func newFiles(t *testing.T) (f *Files, dir string) {
	t.Helper()
	dir = t.TempDir()
	return NewFiles(func() (string, error) { return os.MkdirTemp(dir, "") }, func(dir string) { os.RemoveAll(dir) }), dir
}

func TestFile(t *testing.T) {
	tests := []struct {
		name, in string
		limit    int
		out      string // %s is the file
		file     string
	}{
		{"short", "abc", 8, "abc", ""},
		{"full", "abcdefgh", 8, "abcdefgh", ""},
		{"one more", "abcdefghi", 8, "abcd\n[1 bytes left out; the full output is in %s]\nfghi", "abcdefghi"},
		{"much more", strings.Repeat("abcdefgh", 8), 8, "abcd\n[56 bytes left out; the full output is in %s]\nefgh", strings.Repeat("abcdefgh", 8)},
		{"too much", strings.Repeat("abcdefgh", 20), 8, "abcd\n[152 bytes left out; the first 100 bytes are in %s]\nefgh", strings.Repeat("abcdefgh", 12) + "abcd"},
		{"raw bytes", "\xff\xfe\xfd\xfc\xfb", 2, "\uFFFD\n[3 bytes left out; the full output is in %s]\n\uFFFD", "\xff\xfe\xfd\xfc\xfb"},
	}
	o, _ := newFiles(t)
	o.bytesMax = 100
	for _, tt := range tests {
		for _, size := range []int{1, 3, 1000} {
			s := captured(o, tt.in, tt.limit, size)
			got, _ := s.text(tt.limit)
			s.closeFile(true)
			want := tt.out
			if tt.file != "" {
				want = fmt.Sprintf(tt.out, s.file)
			}
			if got != want {
				t.Errorf("%s, %d at a time: got %q", tt.name, size, got)
			}
			if kept, err := os.ReadFile(s.file); tt.file != "" && (err != nil || string(kept) != tt.file) {
				t.Errorf("%s, %d at a time: the file holds %q, %v", tt.name, size, kept, err)
			}
			if (s.file == "") != (tt.file == "") {
				t.Errorf("%s: there is a file %q", tt.name, s.file)
			}
		}
	}
}

// An output that is too long only with its control characters escaped is kept, too.
func TestFileForControlCharacters(t *testing.T) {
	o, _ := newFiles(t)
	s := captured(o, "abcdefgh", 8, 3)
	for range 2 { // the text is made again until it is short enough
		got, _ := s.text(4)
		if kept, err := os.ReadFile(s.file); got != "ab\n[4 bytes left out; the full output is in "+s.file+"]\ngh" || string(kept) != "abcdefgh" {
			t.Errorf("got %q, the file holds %q, %v", got, kept, err)
		}
	}
	s.closeFile(true)
}

// The last files are kept.
func TestFilesAreFew(t *testing.T) {
	o, dir := newFiles(t)
	var all []string
	for i := range filesMax + 5 {
		s := captured(o, fmt.Sprint("output ", i), 2, 5)
		s.text(2)
		s.closeFile(true)
		all = append(all, s.file)
	}
	for i, file := range all {
		if exists(file) != (i >= 5) {
			t.Errorf("file %d is there: %v", i, exists(file))
		}
	}
	zinotest.Equal(t, "directories", len(strings.Fields(zinotest.Names(t, dir))), filesMax)
}

// A full disk is reported, and the part that was written is removed.
func TestFileOnFullDisk(t *testing.T) {
	o, dir := newFiles(t)
	s := captured(o, "abcdefghi", 8, 100)
	closeAll(s.f)
	var err error
	s.f, err = os.OpenFile("/dev/full", os.O_WRONLY, 0)
	zinotest.Must(t, err)
	for range 3 {
		if n, err := s.Write([]byte("more")); n != 4 || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
	}
	got, cut := s.text(8)
	s.closeFile(true)
	if want := "abcd\n[13 bytes left out; the full output could not be kept: no space left on device]\nmore"; got != want || !cut {
		t.Errorf("got %q", got)
	}
	zinotest.Equal(t, "left", zinotest.Names(t, dir), "")
}

// Without a directory for files the output is cut as usual.
func TestFileWithoutDirectory(t *testing.T) {
	o, dir := newFiles(t)
	zinotest.Must(t, os.RemoveAll(dir))
	s := captured(o, "abcdefghi", 8, 2)
	if got, _ := s.text(8); got != "abcd\n[1 bytes left out; the full output could not be kept: no such file or directory]\nfghi" {
		t.Errorf("got %q", got)
	}
	s.closeFile(true)
}

// A file that the result does not name is removed.
func TestFileRemoved(t *testing.T) {
	o, dir := newFiles(t)
	s := captured(o, "abcdefghi", 8, 2)
	if !exists(s.file) {
		t.Fatalf("no file %q", s.file)
	}
	s.closeFile(false)
	zinotest.Equal(t, "left", zinotest.Names(t, dir), "")
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"", "abc", "\xff", "\xe2\x82", "\xf0\x9d\x84\x9e", "\xed\xa0\x80x"} {
		f.Add([]byte(seed), 4)
	}
	f.Fuzz(func(t *testing.T, p []byte, limit int) {
		text := decode(p)
		if !utf8.ValidString(text) {
			t.Errorf("%q is not UTF-8", text)
		}
		if utf8.Valid(p) != bytes.Equal(p, []byte(text)) && !bytes.Contains(p, []byte("\uFFFD")) {
			t.Errorf("%q became %q", p, text)
		}
		if limit < 1 || limit > 1000 {
			return
		}
		kept, cut := captured(nil, string(p), limit, 7).text(limit)
		if !utf8.ValidString(kept) || cut != (len(p) > limit) || !cut && kept != text {
			t.Errorf("limit %d: %q became %q, %v", limit, p, kept, cut)
		}
		var packed bytes.Buffer
		encoder := json.NewEncoder(&packed)
		encoder.SetEscapeHTML(false)
		plain := strings.NewReplacer("\u2028", "", "\u2029", "").Replace(kept) // these two only encoding/json escapes
		if err := encoder.Encode(plain); err != nil || packed.Len() > escapedLen(plain)+len("\"\"\n") {
			t.Errorf("%q takes %d bytes, not %d: %v", plain, packed.Len(), escapedLen(plain), err)
		}
	})
}

// TestDrainReadsBehindSlowWriter: what is in the pipe when the limit of reads passes is
// read, if the writer of before has blocked meanwhile.
func TestDrainReadsBehindSlowWriter(t *testing.T) {
	r, w, err := os.Pipe()
	zinotest.Must(t, err)
	defer r.Close()
	defer w.Close()
	_, err = w.Write(make([]byte, 40<<10))
	zinotest.Must(t, err)
	p := &pipes{stdoutR: r}
	slow := &slowWriter{begun: make(chan struct{}), release: make(chan struct{})}
	done := make(chan struct{})
	go func() { defer close(done); p.drain(slow, r) }()
	zinotest.Receive(t, "the first write", slow.begun)
	p.limitReads(time.Now())
	time.AfterFunc(drainLimit/2+20*time.Millisecond, func() { close(slow.release) })
	zinotest.Receive(t, "the end", done)
	zinotest.Equal(t, "bytes", slow.n, 40<<10)
}

// slowWriter blocks the first write until release is closed.
type slowWriter struct {
	n              int
	begun, release chan struct{}
}

func (w *slowWriter) Write(p []byte) (int, error) {
	if w.n == 0 {
		close(w.begun)
		<-w.release
	}
	w.n += len(p)
	return len(p), nil
}
