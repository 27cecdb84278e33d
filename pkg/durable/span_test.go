package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/wire"
)

// walk reads what lies behind a mark, in one line, each element with its place.
func walk(t *testing.T, a *Array, m Mark) (text string, s Span) {
	t.Helper()
	var f *os.File
	err := a.View(func(tx *Tx) (err error) {
		if s, err = tx.Span(m); err == nil && s.To > 0 {
			f, err = tx.Open()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if f == nil {
		return "", s
	}
	defer f.Close()
	var list []string
	err = Walk(f, s, func(elem []byte, at int64) error {
		again := make([]byte, len(elem))
		if _, err := f.ReadAt(again, at); err != nil || string(again) != string(elem) {
			t.Errorf("at %d stands %q, want %q, %v", at, again, elem, err)
		}
		list = append(list, string(elem))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, " "), s
}

func TestSpans(t *testing.T) {
	a, _, path := newArray(t, "")
	text, s := walk(t, a, Mark{})
	if text != "" || !s.All || !a.Looks(s.Seen) || a.Looks(Look{}) {
		t.Errorf("no file: %q, %+v", text, s)
	}
	mustAppend(t, a, elems(0, 3)...)
	if a.Looks(s.Seen) {
		t.Error("a file looks like none")
	}
	text, s = walk(t, a, s.Next)
	if text != `{"n":0} {"n":1} {"n":2}` || !s.All || !a.Looks(s.Seen) {
		t.Errorf("the first elements: %q, %+v", text, s)
	}
	first := s
	mustAppend(t, a, elems(3, 5)...)
	if text, s = walk(t, a, first.Next); text != `{"n":3} {"n":4}` || s.All || a.Looks(first.Seen) {
		t.Errorf("what was appended: %q, %+v", text, s)
	}
	if text, s = walk(t, a, s.Next); text != "" || s.All || s.From != s.To {
		t.Errorf("nothing more: %q, %+v", text, s)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if text, s = walk(t, a, s.Next); text != "" || !s.All || s.To != 0 {
		t.Errorf("after the file was removed: %q, %+v", text, s)
	}
}

// TestSpanOfLongLines reads lines that are longer than what is read at a time.
func TestSpanOfLongLines(t *testing.T) {
	a, _, _ := newArray(t, "")
	long := fmt.Appendf(nil, `{"s":%q}`, strings.Repeat("x", 3*walkSize))
	mustAppend(t, a, long, elem(1), long)
	if text, _ := walk(t, a, Mark{}); text != string(long)+` {"n":1} `+string(long) {
		t.Errorf("%d bytes were read", len(text))
	}
}

// TestSpanLayouts reads files of other programs, which may need to be put
// right first.
func TestSpanLayouts(t *testing.T) {
	for text, fine := range map[string]bool{
		"[]":                             true,
		"[\n{\"n\":0},\n{\"n\":1}\n]":    true,
		"[ \n {\"n\":0} ,\n{\"n\":1}\n]": true,
		"[\n{\"n\":0}\n,{\"n\":1},\n{\"n\":1}\n]":           false,
		"[\n{\"n\":\n0},\n{\"n\":1}\n]":                     false,
		"[{\"n\":0},\n{\"n\":1}\n]":                         false,
		"[\n{\"n\":0},,\n{\"n\":1}\n]":                      false,
		"[\n{\"n\":0},\n\n{\"n\":1}\n]":                     false,
		"{\n{\"n\":0},\n{\"n\":1}\n]":                       false,
		"[\n{\"n\":0},\n{\"n\":1},\n{\"n\"},\n{\"n\":1}\n]": false,
	} {
		a, _, path := newArray(t, text)
		err := a.View(func(tx *Tx) error {
			s, err := tx.Span(Mark{})
			if err != nil {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			if err = Walk(f, s, func([]byte, int64) error { return nil }); errors.Is(err, ErrLayout) != !fine {
				t.Errorf("%q: %v", text, err)
			}
			return tx.Recover()
		})
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if got, _ := walk(t, a, Mark{}); strings.Count(got, "n") < 2 && text != "[]" {
			t.Errorf("%q: then %q", text, got)
		}
		checkFile(t, path)
	}
}

func TestWalkEnds(t *testing.T) {
	a, _, path := newArray(t, "")
	mustAppend(t, a, elems(0, 3)...)
	_, s := walk(t, a, Mark{})
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	enough := errors.New("enough")
	seen := 0
	if err := Walk(f, s, func([]byte, int64) error { seen++; return enough }); !errors.Is(err, enough) || seen != 1 {
		t.Errorf("%d elements, %v", seen, err)
	}
	if err := os.Truncate(path, 4); err != nil {
		t.Fatal(err)
	}
	if err := Walk(f, s, func([]byte, int64) error { return nil }); err == nil {
		t.Error("a file that was cut was read to its end")
	}
}

// TestSpanOfUnmendable serves what could be read of a file that cannot be
// written anew.
func TestSpanOfUnmendable(t *testing.T) {
	a, _, path := newArray(t, "[\n{\"n\":0},\n{\"n\":1}, x")
	err := a.View(func(tx *Tx) error {
		tx.a.keepInMemory(elems(0, 2), &Event{Err: errors.New("no room")})
		s, err := tx.Span(Mark{})
		if err != nil || len(s.Salvaged) != 2 || !s.All || s.To != 0 || a.Looks(s.Seen) {
			t.Errorf("%+v, %v", s, err)
		}
		return tx.Recover()
	})
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(filepath.Dir(path)); err != nil || !fi.IsDir() {
		t.Fatal(err)
	}
}

// FuzzWalk reads whatever a file holds: an element is found as it stands, and
// nothing that is no JSON.
func FuzzWalk(f *testing.F) {
	for _, text := range []string{"[]", "[\n{}\n]", "[\n{\"n\":0},\n{\"n\":1}", "[\n 1 ,\n2", ",\n{}", "", "[\n\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := Span{To: int64(len(text))}
		err := Walk(strings.NewReader(text), s, func(elem []byte, at int64) error {
			if !wire.Valid(elem) || !strings.HasPrefix(text[at:], string(elem)) {
				t.Errorf("%q: %q at %d", text, elem, at)
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrLayout) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
