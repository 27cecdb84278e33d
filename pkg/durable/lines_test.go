package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// newLines are lines in a fresh directory whose file holds content, if any.
func newLines(tb testing.TB, content string) (*Lines, *events, string) {
	tb.Helper()
	dir := tb.TempDir()
	path := filepath.Join(dir, name)
	if content != "" {
		writeFile(tb, path, content)
	}
	seen := &events{}
	return NewLines(openRoot(tb, dir), name, Options{NoSync: true, Report: seen.add}), seen, path
}

// add appends lines, and makes the file if need be.
func add(l *Lines, list ...[]byte) (end int64, err error) {
	err = l.Update(true, func(p *Pen) error {
		err := p.Append(list)
		end = p.End()
		return err
	})
	return end, err
}

func mustAdd(tb testing.TB, l *Lines, list ...[]byte) int64 {
	tb.Helper()
	end, err := add(l, list...)
	if err != nil {
		tb.Fatal(err)
	}
	return end
}

// texts are the lines from a place on, parted by spaces; one that is too long is
// its length.
func texts(tb testing.TB, l *Lines, from int64) string {
	tb.Helper()
	var list []string
	for line, err := range l.From(from) {
		switch {
		case err != nil:
			tb.Fatal(err)
		case line.Text == nil:
			list = append(list, fmt.Sprint(line.Next-line.Start))
		default:
			list = append(list, string(line.Text))
		}
	}
	return strings.Join(list, " ")
}

func placeError(l *Lines, from int64) error {
	for _, err := range l.From(from) {
		return err
	}
	return nil
}

func TestLines(t *testing.T) {
	l, seen, path := newLines(t, "")
	if err := placeError(l, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading no file: %v", err)
	}
	if err := l.Update(false, func(*Pen) error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("appending to no file: %v", err)
	}
	if err := l.Remove(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removing no file: %v", err)
	}
	mustAdd(t, l)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing was appended, and the file is there: %v", err)
	}
	first := mustAdd(t, l, elem(0))
	end := mustAdd(t, l, elem(1), []byte("{ \"n\":\r\n 2,\"t\":\"<b>\" }\n"))
	want := "{\"n\":0}\n{\"n\":1}\n{\"n\":2,\"t\":\"<b>\"}\n"
	if got := readFile(t, path); got != want || end != int64(len(want)) {
		t.Errorf("file %q to %d, want %q", got, end, want)
	}
	if got := texts(t, l, first); got != `{"n":1} {"n":2,"t":"<b>"}` {
		t.Errorf("from %d: %s", first, got)
	}
	if got := texts(t, l, end); got != "" {
		t.Errorf("from the end: %s", got)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != FileMode || len(*seen) != 0 {
		t.Errorf("mode %v, %v, events %v", fi.Mode(), err, *seen)
	}
	if err := l.Remove(); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestLinesPlaces(t *testing.T) {
	l, _, path := newLines(t, "{\"n\":0}\n\n{\"n\":1}\r\n{\"n\":2}")
	size := int64(len(readFile(t, path)))
	for place := int64(-2); place < size+3; place++ {
		err := placeError(l, place)
		good := place == 0 || place == 7 || place == 8 || place == 9 || place == 18 || place == 17 || place == size
		if good && err != nil || !good && !errors.Is(err, ErrPlace) {
			t.Errorf("place %d: %v", place, err)
		}
	}
	var starts []int64
	for line, err := range l.From(0) {
		if err != nil || !line.IsObject() {
			t.Fatalf("%q, %v", line.Text, err)
		}
		starts = append(starts, line.Start, line.Next)
	}
	if got, want := fmt.Sprint(starts), fmt.Sprint([]int64{0, 8, 9, 18, 18, size}); got != want {
		t.Errorf("places %s, want %s", got, want)
	}
	// The last line gets its break with the next one, and places hold.
	mustAdd(t, l, elem(3))
	if got := texts(t, l, size); got != `{"n":3}` {
		t.Errorf("from the former end: %s", got)
	}
	if got := texts(t, l, 0); got != `{"n":0} {"n":1} {"n":2} {"n":3}` {
		t.Error(got)
	}
	for range l.From(0) {
		break // must not go on
	}
}

func TestLinesRefuse(t *testing.T) {
	l, _, path := newLines(t, "")
	mustAdd(t, l, elem(0))
	before := readFile(t, path)
	for _, bad := range []string{"", "1", "null", `"x"`, "[]", "{", "{\n"} {
		if _, err := add(l, elem(1), []byte(bad)); err == nil {
			t.Errorf("%q was appended", bad)
		}
	}
	long := []byte(`{"s":"` + strings.Repeat("x", MaxLine) + `"}`)
	if _, err := add(l, elem(1), long); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a line that is too long: %v", err)
	}
	if got := readFile(t, path); got != before {
		t.Errorf("the file changed: %.100q", got)
	}
	longest := long[:0]
	longest = append(append(append(longest, `{"s":"`...), strings.Repeat("x", MaxLine-8)...), `"}`...)
	mustAdd(t, l, longest)
	for line, err := range l.From(int64(len(before))) {
		if err != nil || !bytes.Equal(line.Text, longest) || !line.IsObject() {
			t.Errorf("the longest line: %d bytes, %v", len(line.Text), err)
		}
	}
}

func TestForeignLines(t *testing.T) {
	long := strings.Repeat("x", MaxLine+100)
	for what, c := range map[string]struct{ text, want, after, events string }{
		"empty":           {"", "", `{"n":7}`, ""},
		"no break":        {`{"a":1}`, `{"a":1}`, `{"a":1} {"n":7}`, ""},
		"DOS":             {"{\"a\":1}\r\n{\"b\":2}\r\n", `{"a":1} {"b":2}`, `{"a":1} {"b":2} {"n":7}`, ""},
		"byte order mark": {"\ufeff{\"a\":1}\n", `{"a":1}`, `{"a":1} {"n":7}`, ""},
		"mark, no break":  {"\ufeff{\"a\":1}", `{"a":1}`, `{"a":1} {"n":7}`, ""},
		"blank lines":     {"\n\n  \n{\"a\":1}\n \n", `{"a":1}`, `{"a":1} {"n":7}`, ""},
		"not objects":     {"1\nx y\n[{}]\n{\"a\":1}\n{\n", `1 x y [{}] {"a":1} {`, `1 x y [{}] {"a":1} { {"n":7}`, ""},
		"zeros":           {"{\"a\":1}\n\x00\x00\x00", `{"a":1}`, `{"a":1} {"n":7}`, ""},
		"zeros at once":   {"{\"a\":1}\x00\x00", `{"a":1}`, `{"a":1} {"n":7}`, ""},
		"spaces":          {"{\"a\":1}  ", `{"a":1}`, `{"a":1} {"n":7}`, ""},
		"text":            {"a note\nof mine", "a note", `a note {"n":7}`, "cut"},
		"too long":        {long + "\n{\"a\":1}\n", fmt.Sprint(len(long)+1) + ` {"a":1}`, fmt.Sprint(len(long)+1) + ` {"a":1} {"n":7}`, ""},
	} {
		t.Run(what, func(t *testing.T) {
			l, seen, path := newLines(t, c.text)
			if c.text == "" {
				writeFile(t, path, "")
			}
			if got := texts(t, l, 0); got != c.want {
				t.Errorf("got %.200s", got)
			}
			if got := readFile(t, path); got != c.text {
				t.Errorf("reading changed the file: %.200q", got)
			}
			mustAdd(t, l, elem(7))
			if got := texts(t, l, 0); got != c.after || seen.kinds() != c.events {
				t.Errorf("after an append: %.200s, events %v", got, *seen)
			}
		})
	}
}

// TestForeignEnd has a file end with more than any line of ours can be.
func TestForeignEnd(t *testing.T) {
	text := "{\"a\":1}\n" + strings.Repeat("\xff", MaxLine+1)
	l, seen, path := newLines(t, text)
	if got := texts(t, l, 0); got != `{"a":1}` {
		t.Errorf("got %.100s", got)
	}
	if _, err := add(l, elem(7)); err == nil || !strings.Contains(err.Error(), "not written by this program") {
		t.Errorf("append: %v", err)
	}
	if readFile(t, path) != text || len(*seen) != 0 {
		t.Errorf("the file changed, events %v", *seen)
	}
}

// TestKeptPiece has what was taken off the end kept, and removed with the file.
func TestKeptPiece(t *testing.T) {
	l, seen, path := newLines(t, "{\"a\":1}\n{\"b\":")
	mustAdd(t, l, elem(0))
	if err := os.WriteFile(path, []byte("{\"a\":1}\nmore"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustAdd(t, l, elem(1))
	for i, want := range []string{`{"b":`, "more"} {
		kept := fmt.Sprintf("%s.damaged-%d", name, i+1)
		if ev := (*seen)[i]; ev.Kind != Cut || ev.Kept != kept || !strings.Contains(ev.String(), kept) {
			t.Errorf("event %v", ev)
		}
		if got := readFile(t, filepath.Join(filepath.Dir(path), kept)); got != want {
			t.Errorf("kept %q, want %q", got, want)
		}
	}
	writeFile(t, path+"x.damaged-1", "another's")
	if err := l.Remove(); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestLinesNotAFile(t *testing.T) {
	for what, create := range map[string]func(path string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"way out":   func(path string) error { return os.Symlink("/dev/null", path) },
	} {
		l, _, path := newLines(t, "")
		if err := create(path); err != nil {
			t.Fatal(err)
		}
		if err := placeError(l, 0); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was read: %v", what, err)
		}
		if _, err := add(l, elem(0)); err == nil {
			t.Errorf("appended to a %s", what)
		}
		if _, err := l.Print(0); err == nil {
			t.Errorf("%s has a print", what)
		}
	}
}

func TestPrint(t *testing.T) {
	l, _, _ := newLines(t, strings.Repeat("x", 60)+"\n"+strings.Repeat("y", 60)+"\n")
	for place, want := range map[int64]string{
		0: "", 2: "xx", 61: strings.Repeat("x", 60) + "\n", 122: "xx\n" + strings.Repeat("y", 60) + "\n", 130: strings.Repeat("y", 55) + "\n",
	} {
		if got, err := l.Print(place); err != nil || string(got) != want {
			t.Errorf("before %d: %q, %v", place, got, err)
		}
	}
}

// TestConcurrentLines has appends of several writers interleave by whole calls,
// and readers see whole lines only.
func TestConcurrentLines(t *testing.T) {
	l, seen, path := newLines(t, "")
	mustAdd(t, l, elem(0))
	const writers, each = 8, 20
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		reading.Go(func() {
			for {
				for line, err := range l.From(0) {
					if err != nil || !line.IsObject() {
						t.Errorf("a reader saw %.60q, %v", line.Text, err)
						return
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for w := range writers {
		writing.Go(func() {
			mine := NewLines(openRoot(t, filepath.Dir(path)), name, Options{NoSync: true, Report: seen.add})
			for i := range each {
				pad := strings.Repeat("x", i*300)
				if _, err := add(mine, fmt.Appendf(nil, `{"w":%d,"i":%d,"pad":%q}`, w, i, pad), fmt.Appendf(nil, `{"w":%d,"i":%d}`, w, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	list := strings.Fields(texts(t, l, 0))[1:]
	if len(list) != 2*writers*each || len(*seen) != 0 {
		t.Fatalf("%d lines, events %v", len(list), *seen)
	}
	for i := 0; i < len(list); i += 2 {
		if pair, _, _ := strings.Cut(list[i], `,"pad"`); pair+"}" != list[i+1] {
			t.Fatalf("two calls are mixed: %.60s, %.60s", list[i], list[i+1])
		}
	}
}
