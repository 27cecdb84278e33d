package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// printed writes text in pieces of size bytes to the standard output of an Output
// that keeps limit bytes.
func printed(t *testing.T, files *Files, text string, limit, size int) *stream {
	t.Helper()
	o := &Output{Max: limit, Files: files}
	o.begin(nil)
	for p := []byte(text); len(p) > 0; {
		n, err := o.stdout.Write(p[:min(size, len(p))])
		if err != nil {
			t.Fatal(err)
		}
		p = p[n:]
	}
	return &o.stdout
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
			s := printed(t, o, tt.in, tt.limit, size)
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

// An output that would fit, but for its control characters, is kept as well.
func TestFileForControlCharacters(t *testing.T) {
	o, _ := newFiles(t)
	s := printed(t, o, "abcdefgh", 8, 3)
	for range 2 { // a text is asked for until it is short enough
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
		s := printed(t, o, fmt.Sprint("output ", i), 2, 5)
		s.text(2)
		s.closeFile(true)
		all = append(all, s.file)
	}
	for i, file := range all {
		if exists(file) != (i >= 5) {
			t.Errorf("file %d is there: %v", i, exists(file))
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != filesMax {
		t.Errorf("%d directories, %v", len(entries), err)
	}
}

// A disk that is full is told, and given free again.
func TestFileOnFullDisk(t *testing.T) {
	o, dir := newFiles(t)
	s := printed(t, o, "abcdefghi", 8, 100)
	closeAll(s.f)
	var err error
	if s.f, err = os.OpenFile("/dev/full", os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
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
	if left, err := filepath.Glob(dir + "/*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Without a place the output is cut all the same.
func TestFileWithoutDirectory(t *testing.T) {
	o, dir := newFiles(t)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	s := printed(t, o, "abcdefghi", 8, 2)
	if got, _ := s.text(8); got != "abcd\n[1 bytes left out; the full output could not be kept: no such file or directory]\nfghi" {
		t.Errorf("got %q", got)
	}
	s.closeFile(true)
}

// What nobody is told of goes away.
func TestFileRemoved(t *testing.T) {
	o, dir := newFiles(t)
	s := printed(t, o, "abcdefghi", 8, 2)
	if !exists(s.file) {
		t.Fatalf("no file %q", s.file)
	}
	s.closeFile(false)
	if left, err := filepath.Glob(dir + "/*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
