package exc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// spilled writes text in pieces to a spill of that limit.
func spilled(t *testing.T, o *outputs, text string, limit, size int) *spill {
	t.Helper()
	s := newSpill(o, "stdout", newCapture(limit), limit)
	for p := []byte(text); len(p) > 0; {
		n, err := s.Write(p[:min(size, len(p))])
		if err != nil {
			t.Fatal(err)
		}
		p = p[n:]
	}
	return s
}

func TestSpill(t *testing.T) {
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
	o := newOutputs(openTestWorkspace(t, t.TempDir()))
	o.bytesMax = 100
	for _, tt := range tests {
		for _, size := range []int{1, 3, 1000} {
			s := spilled(t, o, tt.in, tt.limit, size)
			got, _ := s.text(tt.limit)
			s.end(true)
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
func TestSpillOfWhatFitsNot(t *testing.T) {
	o := newOutputs(openTestWorkspace(t, t.TempDir()))
	s := spilled(t, o, "abcdefgh", 8, 3)
	for range 2 { // a text is asked for until it is short enough
		got, _ := s.text(4)
		if kept, err := os.ReadFile(s.file); got != "ab\n[4 bytes left out; the full output is in "+s.file+"]\ngh" || string(kept) != "abcdefgh" {
			t.Errorf("got %q, the file holds %q, %v", got, kept, err)
		}
	}
	s.end(true)
}

// The last files are kept.
func TestSpillsAreFew(t *testing.T) {
	o := newOutputs(openTestWorkspace(t, t.TempDir()))
	var all []string
	for i := range spillsMax + 5 {
		s := spilled(t, o, fmt.Sprint("output ", i), 2, 5)
		s.text(2)
		s.end(true)
		all = append(all, s.file)
	}
	for i, file := range all {
		if exists(file) != (i >= 5) {
			t.Errorf("file %d is there: %v", i, exists(file))
		}
	}
	if entries, err := os.ReadDir(o.files.dir); err != nil || len(entries) != spillsMax {
		t.Errorf("%d directories, %v", len(entries), err)
	}
}

// A disk that is full is told, and given free again.
func TestSpillOnFullDisk(t *testing.T) {
	o := newOutputs(openTestWorkspace(t, t.TempDir()))
	s := spilled(t, o, "abcdefghi", 8, 100)
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
	s.end(true)
	if want := "abcd\n[13 bytes left out; the full output could not be kept: no space left on device]\nmore"; got != want || !cut {
		t.Errorf("got %q", got)
	}
	if left, err := filepath.Glob(o.files.dir + "/*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Without a place the output is cut all the same.
func TestSpillWithoutPlace(t *testing.T) {
	parent := t.TempDir()
	w := openTestWorkspace(t, parent)
	if err := os.RemoveAll(parent); err != nil {
		t.Fatal(err)
	}
	s := spilled(t, newOutputs(w), "abcdefghi", 8, 2)
	if got, _ := s.text(8); got != "abcd\n[1 bytes left out; the full output could not be kept: no such file or directory]\nfghi" {
		t.Errorf("got %q", got)
	}
	s.end(true)
}

// What nobody is told of goes away.
func TestSpillDropped(t *testing.T) {
	o := newOutputs(openTestWorkspace(t, t.TempDir()))
	s := spilled(t, o, "abcdefghi", 8, 2)
	if !exists(s.file) {
		t.Fatalf("no file %q", s.file)
	}
	s.end(false)
	if left, err := filepath.Glob(o.files.dir + "/*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
