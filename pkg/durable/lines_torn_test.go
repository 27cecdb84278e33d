package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// joinedLines is the text of a file with these lines.
func joinedLines(list [][]byte) []byte {
	var b []byte
	for _, line := range list {
		b = append(append(b, line...), '\n')
	}
	return b
}

// TestTornLines cuts the write of an append at every byte, with what a crash may
// leave behind the cut. What was stored before must be there, whole lines of
// the write may be, and the next append must work.
func TestTornLines(t *testing.T) {
	l, _, path := newLines(t, "")
	batches := [][][]byte{elems(10, 11), elems(10, 13), {[]byte(`{"s":"a ] } , \" {\"n\":1},"}`)}}
	for stored := range 3 {
		old := joinedLines(elems(0, stored))
		for _, batch := range batches {
			whole := joinedLines(slices.Concat(elems(0, stored), batch))
			for cut := len(old); cut <= len(whole); cut++ {
				zeros := bytes.Clone(whole)
				clear(zeros[cut:])
				hole := bytes.Clone(whole) // a later page was written, an earlier one was not
				clear(hole[len(old):cut])
				for what, torn := range map[string][]byte{
					"nothing": whole[:cut], "zeros": zeros, "a hole before": hole,
					"garbage":     append(bytes.Clone(whole[:cut]), "\xff\x00}{]\"x"...),
					"a line":      append(bytes.Clone(whole[:cut]), "garbage\n"...),
					"white space": append(bytes.Clone(whole[:cut]), " \t\r"...),
				} {
					writeFile(t, path, string(torn))
					checkTornLines(t, l, path, fmt.Sprintf("%d stored, cut at %d of %d, %s behind", stored, cut, len(whole), what), stored, batch)
				}
			}
		}
	}
}

// objectsOf are the lines that hold objects.
func objectsOf(t *testing.T, l *Lines) (list [][]byte) {
	t.Helper()
	for line, err := range l.From(0) {
		if err != nil {
			t.Fatal(err)
		}
		if line.IsObject() {
			list = append(list, bytes.Clone(line.Text))
		}
	}
	return list
}

func checkTornLines(t *testing.T, l *Lines, path, what string, stored int, batch [][]byte) {
	t.Helper()
	torn, list := readFile(t, path), objectsOf(t, l)
	if len(list) < stored || !slices.EqualFunc(list[:stored], elems(0, stored), bytes.Equal) {
		t.Fatalf("%s: got %s\n%q", what, list, torn)
	}
	for _, line := range list[stored:] {
		if !slices.ContainsFunc(batch, func(b []byte) bool { return bytes.Equal(b, line) }) {
			t.Fatalf("%s: %s was never written\n%q", what, line, torn)
		}
	}
	mustAdd(t, l, elem(99))
	if got := objectsOf(t, l); !slices.EqualFunc(got, append(list, elem(99)), bytes.Equal) {
		t.Fatalf("%s: after an append %s, before %s", what, got, list)
	}
	if err := l.removeKept(); err != nil {
		t.Fatal(err)
	}
	if text := readFile(t, path); !strings.HasSuffix(text, "\n"+string(elem(99))+"\n") && text != string(elem(99))+"\n" {
		t.Fatalf("%s: file %q", what, text)
	}
}

// TestWriteLinesFails cuts the write of an append short at every byte. The file
// must be as before, and the next append must work.
func TestWriteLinesFails(t *testing.T) {
	if alone(t) {
		return
	}
	for _, stored := range []int{0, 1, 5} {
		l, seen, path := newLines(t, "")
		before := ""
		if stored > 0 {
			mustAdd(t, l, elems(0, stored)...)
			before = readFile(t, path)
		}
		for room := range 20 {
			lift := limitFileSize(t, uint64(len(before)+room))
			_, err := add(l, elems(70, 73)...)
			lift()
			if !errors.Is(err, syscall.EFBIG) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("room for %d bytes: %v", room, err)
			}
			if stored == 0 {
				if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
					t.Fatalf("a file that was not there before: %v", err)
				}
			} else if got := readFile(t, path); got != before {
				t.Fatalf("room for %d bytes: the file became %q", room, got)
			}
		}
		mustAdd(t, l, elem(stored))
		if got := objectsOf(t, l); len(got) != stored+1 || len(*seen) != 0 {
			t.Errorf("afterwards: %s, %v", got, *seen)
		}
	}
}

// TestTornAndFull has a torn end on a disk that takes no new file: nothing is
// taken off that could not be kept.
func TestTornAndFull(t *testing.T) {
	if alone(t) {
		return
	}
	const text = "{\"n\":0}\n{\"b\":\"xx"
	l, _, path := newLines(t, text)
	lift := limitFileSize(t, 4)
	_, err := add(l, elem(1))
	if !errors.Is(err, syscall.EFBIG) || readFile(t, path) != text {
		t.Errorf("append: %v, file %q", err, readFile(t, path))
	}
	if got := texts(t, l, 0); got != `{"n":0}` {
		t.Errorf("got %s", got)
	}
	lift()
	mustAdd(t, l, elem(1))
	if got := texts(t, l, 0); got != `{"n":0} {"n":1}` {
		t.Errorf("afterwards: %s", got)
	}
}

// TestPenAfterFailure has a pen write nothing more once it could not take back
// what it had begun.
func TestPenAfterFailure(t *testing.T) {
	l, _, path := newLines(t, "{\"n\":0}\n")
	err := l.Update(false, func(p *Pen) error {
		p.f.Close()
		if err := p.Append(elems(1, 2)); err == nil || !strings.Contains(err.Error(), "could not be restored") {
			t.Errorf("the first append: %v", err)
		}
		if err := p.Append(elems(1, 2)); err == nil || !strings.Contains(err.Error(), "the write before this one failed") {
			t.Errorf("the second append: %v", err)
		}
		return nil
	})
	if !errors.Is(err, os.ErrClosed) || readFile(t, path) != "{\"n\":0}\n" {
		t.Errorf("%v, file %q", err, readFile(t, path))
	}
}

// FuzzLines reads any file at all: places are where lines begin, whatever is a
// line stays one, and an append works.
func FuzzLines(f *testing.F) {
	for _, s := range []string{
		"", "\n", "{}", "{}\n", "{\"a\":1}\n{\"b", "{\"a\":1}\r\n\r\n{\"b\":2}", "\x00\x00", "{}\x00\n\x00", "\ufeff{}", "\ufeff\n{}\n", "[{}]\n1\n\"x\"\n{}",
		"{\"a\":\"\xff\"}\n", "{\"a\":\"\xff\"}", "{}{}\n", "{} \t\r", " {}", "{}\n\xff", "{\n}\n", strings.Repeat("{}\n", 300) + "x",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, _, path := newLines(t, string(data))
		writeFile(t, path, string(data))
		var before []string
		var places []int64
		for line, err := range l.From(0) {
			if err != nil {
				t.Fatal(err)
			}
			if line.IsObject() != (len(line.Text) > 0 && line.Text[0] == '{' && json.Valid(line.Text)) {
				t.Fatalf("%q: an object: %v", line.Text, line.IsObject())
			}
			before, places = append(before, string(line.Text)), append(places, line.Next)
		}
		end := mustAdd(t, l, elem(1))
		want := append(before, string(elem(1)))
		if got := rest(t, l, 0); !slices.Equal(got, want) {
			t.Fatalf("after an append %q, before %q", got, before)
		}
		if len(places) > 0 {
			i := rand.IntN(len(places))
			if got := rest(t, l, places[i]); !slices.Equal(got, want[i+1:]) {
				t.Fatalf("from %d: %q, want %q", places[i], got, want[i+1:])
			}
		}
		if got := rest(t, l, end); len(got) != 0 || int64(len(readFile(t, path))) != end {
			t.Fatalf("the end is %d of %q", end, readFile(t, path))
		}
	})
}

func rest(t *testing.T, l *Lines, from int64) (list []string) {
	t.Helper()
	for line, err := range l.From(from) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(line.Text))
	}
	return list
}
