package durable

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestAppendLayout(t *testing.T) {
	a, seen, path := newArray(t, "")
	mustAppend(t, a)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("nothing was appended, but the file is there: %v", err)
	}
	mustAppend(t, a, elem(0))
	mustAppend(t, a, elem(1), []byte("{ \"n\":\r\n 2,\"t\":\"<b>\" }"))
	want := "[\n{\"n\":0},\n{\"n\":1},\n{\"n\":2,\"t\":\"<b>\"}\n]"
	if got := readFile(t, path); got != want {
		t.Errorf("file:\n%q\nwant\n%q", got, want)
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm() != FileMode {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	if len(*seen) != 0 {
		t.Errorf("events %v", *seen)
	}
}

func TestAppendRefusesScalars(t *testing.T) {
	a, _, path := newArray(t, "")
	mustAppend(t, a, elem(0))
	before := readFile(t, path)
	for _, bad := range []string{"", "1", "null", `"x"`, "[]", "{", "{\n"} {
		if err := a.Append([][]byte{elem(1), []byte(bad)}); err == nil {
			t.Errorf("%q was appended", bad)
		}
	}
	if got := readFile(t, path); got != before {
		t.Errorf("the file changed: %q", got)
	}
}

func TestLast(t *testing.T) {
	a, _, _ := newArray(t, "")
	const n = 3000 // several windows
	mustAppend(t, a, elems(0, n)...)
	for _, want := range []int{1, 2, 50, 1500, n - 1, n, n + 1, 0, -3} {
		list, err := a.Last(want, 0)
		if err != nil {
			t.Fatal(err)
		}
		first := max(0, n-want)
		if want <= 0 {
			first = 0
		}
		if got, want := bytes.Join(list, nil), bytes.Join(elems(first, n), nil); !bytes.Equal(got, want) {
			t.Errorf("Last(%d): %d elements", want, len(list))
		}
	}
}

func TestLastLimit(t *testing.T) {
	a, _, _ := newArray(t, "")
	big := func(size int) []byte { return fmt.Appendf(nil, `{"s":%q}`, strings.Repeat("x", size-8)) }
	mustAppend(t, a, big(100_000), big(100_000), big(50_000))
	for _, c := range []struct {
		n     int
		limit int64
		ok    bool
	}{
		{1, 50_000, true},
		{1, 49_999, false},
		{2, 150_001, true},
		{2, 150_000, false},
		{0, 250_002, true},
		{0, 250_001, false},
		{3, 1000, false},
		{0, 1, false},
		{0, 0, true},
	} {
		list, err := a.Last(c.n, c.limit)
		if c.ok != (err == nil) || !c.ok && !errors.Is(err, ErrTooLarge) {
			t.Errorf("Last(%d, %d): %d elements, %v", c.n, c.limit, len(list), err)
		}
	}
}

func TestRemove(t *testing.T) {
	a, _, path := newArray(t, "")
	if err := a.Remove(); err != nil {
		t.Errorf("removing an absent file: %v", err)
	}
	mustAppend(t, a, elem(0))
	b := NewArray(openRoot(t, filepath.Dir(path)), name, Options{})
	defer b.Close()
	if got := all(t, b); got != `{"n":0}` {
		t.Fatal(got)
	}
	if err := a.Remove(); err != nil {
		t.Fatal(err)
	}
	if got := all(t, b); got != "" {
		t.Errorf("after its removal the file still has %s", got)
	}
	mustAppend(t, b, elem(1))
	if got := all(t, a); got != `{"n":1}` {
		t.Errorf("the new file has %s", got)
	}
}

func TestOthersAppend(t *testing.T) {
	a, _, path := newArray(t, "")
	b := NewArray(openRoot(t, filepath.Dir(path)), name, Options{})
	defer b.Close()
	want := ""
	for i := range 10 {
		mustAppend(t, []*Array{a, b}[i%2], elem(i))
		want = strings.TrimSpace(want + " " + string(elem(i)))
		if got, also := all(t, a), all(t, b); got != want || also != want {
			t.Fatalf("a has %s\nb has %s\nwant  %s", got, also, want)
		}
	}
	checkFile(t, path)
}

func TestConcurrentAppends(t *testing.T) {
	a, seen, path := newArray(t, "")
	b := NewArray(openRoot(t, filepath.Dir(path)), name, Options{Report: seen.add})
	defer b.Close()
	const writers, each = 16, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				pair := [][]byte{fmt.Appendf(nil, `{"w":%d,"i":%d,"part":1}`, w, i), fmt.Appendf(nil, `{"w":%d,"i":%d,"part":2}`, w, i)}
				if err := []*Array{a, b}[w%2].Append(pair); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	list := strings.Fields(all(t, a))
	if len(list) != 2*writers*each {
		t.Fatalf("%d elements", len(list))
	}
	next := map[string]int{}
	for i := 0; i < len(list); i += 2 {
		var w, n int
		if _, err := fmt.Sscanf(list[i], `{"w":%d,"i":%d,`, &w, &n); err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprint(w)
		if list[i+1] != fmt.Sprintf(`{"w":%d,"i":%d,"part":2}`, w, n) || n != next[key] {
			t.Fatalf("out of order at %d: %s %s", i, list[i], list[i+1])
		}
		next[key]++
	}
	if len(*seen) != 0 {
		t.Errorf("events %v", *seen)
	}
}

func TestSince(t *testing.T) {
	a, _, path := newArray(t, "")
	var m Mark
	step := func(what, want string, wantAll bool) {
		t.Helper()
		err := a.View(func(tx *Tx) error {
			list, next, all, err := tx.Since(m)
			if got := string(bytes.Join(list, []byte(" "))); got != want || all != wantAll {
				t.Errorf("%s: %s (all %v), want %s (all %v)", what, got, all, want, wantAll)
			}
			m = next
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	step("absent", "", true)
	step("still absent", "", false)
	mustAppend(t, a, elem(0))
	step("made", `{"n":0}`, true)
	step("unchanged", "", false)
	mustAppend(t, a, elem(1), elem(2))
	step("appended", `{"n":1} {"n":2}`, false)
	b := NewArray(openRoot(t, filepath.Dir(path)), name, Options{})
	defer b.Close()
	mustAppend(t, b, elem(3))
	step("appended by another", `{"n":3}`, false)
	writeFile(t, path, "[\n{\"n\":7},\n{\"n\":8},\n{\"n\":9},\n{\"n\":10},\n{\"n\":11}\n]")
	step("edited in place", `{"n":7} {"n":8} {"n":9} {"n":10} {"n":11}`, true)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	step("removed", "", true)
	writeFile(t, path, "[]")
	step("empty", "", true)
	mustAppend(t, a, elem(5))
	step("first element", `{"n":5}`, false)
}

func TestUpdateIsAtomic(t *testing.T) {
	a, _, path := newArray(t, "")
	b := NewArray(openRoot(t, filepath.Dir(path)), name, Options{NoSync: true})
	defer b.Close()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				err := []*Array{a, b}[i%2].Update(func(tx *Tx) error {
					list, err := tx.Last(0, 0)
					if err != nil {
						return err
					}
					return tx.Append([][]byte{elem(len(list))})
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got, want := all(t, a), string(bytes.Join(elems(0, 80), []byte(" "))); got != want {
		t.Errorf("two updates saw the same state: %s", got)
	}
}

func TestUpdateWithoutAppend(t *testing.T) {
	a, _, path := newArray(t, "")
	want := errors.New("no")
	if err := a.Update(func(*Tx) error { return want }); err != want {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty file was left: %v", err)
	}
	if err := a.View(func(tx *Tx) error { return tx.Append(elems(0, 1)) }); err == nil {
		t.Error("View appended to an absent file")
	}
}

func TestNotAFile(t *testing.T) {
	a, _, path := newArray(t, "")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Last(0, 0); err == nil {
		t.Error("a directory was read as an array")
	}
	if err := a.Append(elems(0, 1)); err == nil {
		t.Error("appended to a directory")
	}
}
