package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"zino/pkg/wire"
	"zino/pkg/zinotest"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	root, path := openRoot(t, dir), filepath.Join(dir, "soft.txt")
	for _, text := range []string{"first\r\n", "", "a much longer one \x00\xff" + strings.Repeat("x", 1<<17)} {
		zinotest.Must(t, Replace(root, "soft.txt", []byte(text)))
		zinotest.Equal(t, "the file", zinotest.Read(t, path), text)
	}
	failed := errors.New("no more content")
	zinotest.Error(t, ReplacePath(path, 0o640, func(w io.Writer) error { fmt.Fprint(w, "some"); return failed }), failed)
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != FileMode || fi.Size() < 1<<17 {
		t.Errorf("after a failed write: mode %v, %d bytes, %v", fi.Mode(), fi.Size(), err)
	}
	zinotest.Must(t, ReplacePath(path, 0o640, func(w io.Writer) error { _, err := fmt.Fprint(w, "some"); return err }))
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o640 || fi.Size() != 4 {
		t.Errorf("mode %v, %d bytes, %v", fi.Mode(), fi.Size(), err)
	}
	zinotest.Error(t, Replace(root, "no/such/dir", nil), fs.ErrNotExist)
	zinotest.Error(t, ReplacePath(dir+"/no/such/dir", 0o600, nil), fs.ErrNotExist)
	zinotest.Equal(t, "the directory", zinotest.Names(t, dir), "soft.txt")
}

func TestAppendLayout(t *testing.T) {
	for what, want := range map[string]string{
		"array": "[\n{\"n\":0},\n{\"n\":1},\n{\"n\":2,\"t\":\"<b>\"}\n]",
		"lines": "{\"n\":0}\n{\"n\":1}\n{\"n\":2,\"t\":\"<b>\"}\n",
	} {
		t.Run(what, func(t *testing.T) {
			e := newEnv(t, framings[what], "")
			zinotest.Error(t, e.Update(t.Context(), false, func(*Tx) error { return nil }), fs.ErrNotExist)
			zinotest.Error(t, e.Remove(), fs.ErrNotExist)
			zinotest.Must(t, e.Sync())
			mustAdd(t, e.File)
			failed := errors.New("no")
			zinotest.Error(t, e.Update(t.Context(), true, func(*Tx) error { return failed }), failed)
			zinotest.Equal(t, "the directory after no append", zinotest.Names(t, e.dir), "")
			mustAdd(t, e.File, object(0))
			end := mustAdd(t, e.File, object(1), []byte("{ \"n\":\r\n 2,\"t\":\"<b>\" }\n"))
			zinotest.Equal(t, "the file", e.text(t), want)
			zinotest.Equal(t, "the end", end, int64(len(strings.TrimSuffix(want, closing))))
			zinotest.Must(t, e.Sync())
			if fi, err := os.Stat(e.path); err != nil || fi.Mode().Perm() != FileMode || len(e.events) != 0 {
				t.Errorf("mode %v, %v, events %v", fi.Mode(), err, e.events)
			}
			zinotest.Must(t, os.Chmod(e.path, 0o644))
			e.Close()
			mustAdd(t, e.File, object(3))
			if fi, err := os.Stat(e.path); err != nil || fi.Mode().Perm() != FileMode {
				t.Errorf("mode %v, %v", fi.Mode(), err)
			}
		})
	}
}

func TestAppendRefuses(t *testing.T) {
	for what, framing := range framings {
		t.Run(what, func(t *testing.T) {
			e := newEnv(t, framing, "")
			mustAdd(t, e.File, object(0))
			before := e.text(t)
			for _, bad := range []string{"", "1", "null", `"x"`, "[]", "{", "{\n", "{\n]}"} {
				if _, err := add(e.File, object(1), []byte(bad)); err == nil {
					t.Errorf("%q was appended", bad)
				}
			}
			long := []byte(`{"s":"` + strings.Repeat("x", MaxLine-7) + `"}`)
			if _, err := add(e.File, object(1), long); framing == Lines {
				zinotest.Error(t, err, ErrTooLarge)
				zinotest.Equal(t, "the file", e.text(t), before)
			}
			longest := append(long[:len(long)-3], `"}`...)
			mustAdd(t, e.File, longest)
			if !strings.HasSuffix(contents(t, e.File), " "+string(longest)) {
				t.Error("the longest line was not read")
			}
		})
	}
	e := newEnv(t, Array, "")
	if err := e.View(func(tx *Tx) error { return tx.Append(objectsFrom(0, 1)) }); err == nil {
		t.Error("View appended to an absent file")
	}
}

func TestNotAFile(t *testing.T) {
	for what, create := range map[string]func(path string) error{
		"directory":        func(path string) error { return os.Mkdir(path, 0o700) },
		"pipe":             func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link to a device": func(path string) error { return os.Symlink("/dev/null", path) },
	} {
		for _, framing := range framings {
			e := newEnv(t, framing, "")
			zinotest.Must(t, create(e.path))
			_, lastErr := e.Last(0, 0)
			_, addErr := add(e.File, object(0))
			for _, err := range []error{lastErr, addErr, e.Append(objectsFrom(0, 1)), placeError(e.File, 0), e.Sync()} {
				if err == nil || errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
	}
}

// TestReadOnly reads a file without write permission, and writes to it after the
// permission is added.
func TestReadOnly(t *testing.T) {
	zinotest.Unprivileged(t, func() {
		e := newEnv(t, Array, string(arrayOf(objectsFrom(0, 2))))
		zinotest.Must(t, os.Chmod(e.path, 0o400))
		zinotest.Equal(t, "the contents", contents(t, e.File), `{"n":0} {"n":1}`)
		zinotest.Error(t, e.Append(objectsFrom(2, 3)), fs.ErrPermission)
		zinotest.Equal(t, "the contents", contents(t, e.File), `{"n":0} {"n":1}`)
		zinotest.Must(t, os.Chmod(e.path, 0o600))
		mustAdd(t, e.File, object(2))
		zinotest.Equal(t, "the contents", contents(t, e.File), `{"n":0} {"n":1} {"n":2}`)
	})
}

func TestRemove(t *testing.T) {
	for what, framing := range framings {
		t.Run(what, func(t *testing.T) {
			e := newEnv(t, framing, "")
			mustAdd(t, e.File, object(0))
			other := e.open(t, e.opt)
			zinotest.Equal(t, "the contents", contents(t, other), `{"n":0}`)
			zinotest.Must(t, e.Remove())
			zinotest.Equal(t, "the directory", zinotest.Names(t, e.dir), "")
			if framing == Array {
				zinotest.Equal(t, "the contents after Remove", contents(t, other), "")
			}
			mustAdd(t, other, object(1))
			zinotest.Equal(t, "the new file", contents(t, e.File), `{"n":1}`)
		})
	}
}

func TestOthersAppend(t *testing.T) {
	for what, framing := range framings {
		t.Run(what, func(t *testing.T) {
			e := newEnv(t, framing, "")
			other := e.open(t, e.opt)
			for i := range 10 {
				mustAdd(t, []*File{e.File, other}[i%2], object(i))
				want := joined(objectsFrom(0, i+1))
				zinotest.Equal(t, "one sees", contents(t, e.File), want)
				zinotest.Equal(t, "the other sees", contents(t, other), want)
			}
		})
	}
}

// TestConcurrentAppends checks that the objects of one call stay together and in
// order, and that readers see complete lines only.
func TestConcurrentAppends(t *testing.T) {
	for what, framing := range framings {
		t.Run(what, func(t *testing.T) {
			e := newEnv(t, framing, "")
			mustAdd(t, e.File, object(0))
			shared := e.open(t, e.opt)
			const writers, each = 8, 20
			var writing, reading sync.WaitGroup
			done := make(chan struct{})
			for range 2 {
				reading.Go(func() {
					for {
						for line := range strings.FieldsSeq(contents(t, e.File)) {
							if !isObject([]byte(line)) {
								t.Errorf("a reader saw %.60q", line)
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
					f := shared
					if w%2 == 0 {
						f = e.open(t, e.opt)
					}
					for i := range each {
						pad := strings.Repeat("x", i*300)
						pair := [][]byte{fmt.Appendf(nil, `{"w":%d,"i":%d,"pad":%q}`, w, i, pad), fmt.Appendf(nil, `{"w":%d,"i":%d}`, w, i)}
						if err := f.Append(pair); err != nil {
							t.Error(err)
						}
					}
				})
			}
			writing.Wait()
			close(done)
			reading.Wait()
			list := strings.Fields(contents(t, e.File))[1:]
			if len(list) != 2*writers*each || len(e.events) != 0 {
				t.Fatalf("%d objects, events %v", len(list), e.events)
			}
			var next [writers]int
			for i := 0; i < len(list); i += 2 {
				var w, n int
				if _, err := fmt.Sscanf(list[i+1], `{"w":%d,"i":%d}`, &w, &n); err != nil {
					t.Fatal(err)
				}
				first, _, _ := strings.Cut(list[i], `,"pad"`)
				if first+"}" != list[i+1] || n != next[w] {
					t.Fatalf("out of order at %d: %.60s %s", i, list[i], list[i+1])
				}
				next[w]++
			}
		})
	}
}

func TestUpdateIsAtomic(t *testing.T) {
	e := newEnv(t, Array, "")
	other := e.open(t, e.opt)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				err := []*File{e.File, other}[i%2].Update(t.Context(), true, func(tx *Tx) error {
					list, err := tx.Last(0, 0)
					if err != nil {
						return err
					}
					return tx.Append([][]byte{object(len(list))})
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	zinotest.Equal(t, "the contents", contents(t, e.File), joined(objectsFrom(0, 80)))
}

// TestUpdateWaits checks that Update waits, until its context ends, for a file
// that is locked through another descriptor or by another call.
func TestUpdateWaits(t *testing.T) {
	for what, framing := range framings {
		t.Run(what, func(t *testing.T) {
			e := newEnv(t, framing, "")
			mustAdd(t, e.File, object(0))
			holder, err := os.Open(e.path)
			zinotest.Must(t, err)
			zinotest.Must(t, TryLock(holder))
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error)
			for range 2 {
				go func() { failed <- e.Update(ctx, true, func(*Tx) error { return nil }) }()
			}
			if framing == Lines {
				zinotest.Equal(t, "read from a locked file", linesFrom(t, e.File, 0), `{"n":0}`)
			}
			cancel()
			for range 2 {
				zinotest.Error(t, zinotest.Receive(t, "the update", failed), context.Canceled)
			}
			zinotest.Must(t, holder.Close())
			mustAdd(t, e.File, object(1))
			zinotest.Equal(t, "the contents", contents(t, e.File), `{"n":0} {"n":1}`)
		})
	}
}

func TestGroup(t *testing.T) {
	var g Group[int]
	var commits, items atomic.Int32
	started, more := make(chan struct{}), make(chan struct{})
	commit := func(list []int) error {
		if commits.Add(1) == 1 {
			close(started)
			<-more
		}
		items.Add(int32(len(list)))
		return nil
	}
	var wg sync.WaitGroup
	wg.Go(func() { g.Do(0, commit) })
	<-started
	for i := range 50 {
		wg.Go(func() {
			if err := g.Do(i, commit); err != nil {
				t.Error(err)
			}
		})
	}
	for waiting := 0; waiting < 50; runtime.Gosched() {
		g.mu.Lock()
		if g.next != nil {
			waiting = len(g.next.items)
		}
		g.mu.Unlock()
	}
	close(more)
	wg.Wait()
	if commits.Load() != 2 || items.Load() != 51 {
		t.Errorf("%d items in %d commits", items.Load(), commits.Load())
	}

	full := errors.New("full")
	zinotest.Error(t, g.Do(1, func([]int) error { return full }), full)
	func() {
		defer func() { _ = recover() }()
		g.Do(1, func([]int) error { panic("broken") })
	}()
	zinotest.Must(t, g.Do(1, func([]int) error { return nil }))
}

func TestLast(t *testing.T) {
	e := newEnv(t, Array, "")
	const n = 3000 // several windows
	mustAdd(t, e.File, objectsFrom(0, n)...)
	for _, want := range []int{1, 2, 50, 1500, n - 1, n, n + 1, 0, -3} {
		list, err := e.Last(want, 0)
		zinotest.Must(t, err)
		first := max(0, n-want)
		if want <= 0 {
			first = 0
		}
		if joined(list) != joined(objectsFrom(first, n)) {
			t.Errorf("Last(%d): %d elements", want, len(list))
		}
	}
}

// TestLastValidatesEach reads the ends of a file with a damaged element, in one generation:
// each element is validated when it is returned for the first time, also if a call
// before returned those around it, or another program appended it.
func TestLastValidatesEach(t *testing.T) {
	const n, appended, all = 8, 3, 13
	for damaged := range n + appended {
		for before := range n {
			if damaged < n && before >= n-1-damaged {
				continue // the first call would find it
			}
			elements := objectsFrom(0, n+appended)
			elements[damaged] = bytes.Replace(elements[damaged], []byte("{"), []byte("x"), 1)
			e := newEnv(t, Array, string(arrayOf(elements[:n])))
			list, err := e.Last(before+1, 0)
			zinotest.Must(t, err)
			zinotest.Equal(t, "list", joined(list), joined(elements[n-before-1:n]))
			gen := e.gen
			zinotest.Write(t, e.path, string(arrayOf(elements)))
			mustAdd(t, e.File, objectsFrom(n+appended, all)...)
			if e.gen != gen && damaged != n+appended-1 {
				t.Errorf("the file has a new generation")
			}
			list, err = e.Last(all, 0)
			zinotest.Must(t, err)
			if len(list) != all-1 {
				t.Errorf("element %d is damaged, after %d: %d elements", damaged, before+1, len(list))
			}
		}
	}
}

func TestLastLimit(t *testing.T) {
	e := newEnv(t, Array, "")
	big := func(size int) []byte { return fmt.Appendf(nil, `{"s":%q}`, strings.Repeat("x", size-8)) }
	mustAdd(t, e.File, big(100_000), big(100_000), big(50_000))
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
		list, err := e.Last(c.n, c.limit)
		if c.ok != (err == nil) || !c.ok && !errors.Is(err, ErrTooLarge) {
			t.Errorf("Last(%d, %d): %d elements, %v", c.n, c.limit, len(list), err)
		}
	}
}

// placeError returns the error of From(place), if any.
func placeError(f *File, place int64) error {
	for _, err := range f.From(place) {
		return err
	}
	return nil
}

func TestPlaces(t *testing.T) {
	e := newEnv(t, Lines, "{\"n\":0}\n\n{\"n\":1}\r\n{\"n\":2}")
	size := int64(len(e.text(t)))
	for place := int64(-2); place < size+3; place++ {
		err := placeError(e.File, place)
		good := place == 0 || place == 8 || place == 9 || place == 18 || place == size+1
		if good && err != nil || !good && !errors.Is(err, ErrPlace) {
			t.Errorf("place %d: %v", place, err)
		}
	}
	var places []int64
	for line, err := range e.From(0) {
		if err != nil || !line.IsObject() {
			t.Fatalf("%q, %v", line.Text, err)
		}
		places = append(places, line.Start, line.Next)
	}
	zinotest.Equal(t, "the places", fmt.Sprint(places), fmt.Sprint([]int64{0, 8, 9, 18, 18, size + 1}))
	// The next append adds the missing line break; offsets stay valid.
	mustAdd(t, e.File, object(3))
	zinotest.Equal(t, "from the former end", linesFrom(t, e.File, size+1), `{"n":3}`)
	zinotest.Equal(t, "from the beginning", linesFrom(t, e.File, 0), joined(objectsFrom(0, 4)))
	for range e.From(0) {
		break // the iterator must stop without a panic
	}
	zinotest.Error(t, placeError(newEnv(t, Lines, "").File, 0), fs.ErrNotExist)
}

// readSpan returns the objects behind a mark, separated by spaces.
func readSpan(t *testing.T, e *env, m Mark) (text string, s Span) {
	t.Helper()
	var list []string
	err := e.View(func(tx *Tx) (err error) {
		if s, err = tx.Span(m); err != nil || s.To == 0 {
			return err
		}
		if e.opt.Framing == Lines {
			for line, err := range ReadLines(tx, s.From, s.To) {
				zinotest.Must(t, err)
				list = append(list, string(line.Text))
			}
			return nil
		}
		f, err := tx.Open()
		if err != nil {
			return err
		}
		defer f.Close()
		return Walk(f, s, func(elem []byte, at int64) error {
			again := make([]byte, len(elem))
			if _, err := tx.ReadAt(again, at); err != nil || string(again) != string(elem) {
				t.Errorf("at %d is %q, want %q, %v", at, again, elem, err)
			}
			list = append(list, string(elem))
			return nil
		})
	})
	zinotest.Must(t, err)
	return strings.Join(list, " "), s
}

// TestSpans reads the spans after appends, edits, replacement and removal.
func TestSpans(t *testing.T) {
	for what, framing := range framings {
		t.Run(what, func(t *testing.T) {
			text := func(list [][]byte) string {
				if framing == Lines {
					return string(linesOf(list))
				}
				return string(arrayOf(list))
			}
			e := newEnv(t, framing, "")
			e.opt.KeepOpen = true
			other := e.open(t, e.opt)
			last := Span{}
			for _, step := range []struct {
				what   string
				change func()
				want   string
				all    bool
			}{
				{"absent", func() {}, "", true},
				{"still absent", func() {}, "", false},
				{"made", func() { mustAdd(t, e.File, object(0)) }, `{"n":0}`, true},
				{"unchanged", func() {}, "", false},
				{"appended", func() { mustAdd(t, e.File, object(1), object(2)) }, `{"n":1} {"n":2}`, false},
				{"appended by another", func() { mustAdd(t, other, object(3)) }, `{"n":3}`, false},
				{"edited in place", func() { e.put(t, text(objectsFrom(7, 12))) }, joined(objectsFrom(7, 12)), true},
				{"shorter", func() { e.put(t, text(objectsFrom(7, 9))) }, joined(objectsFrom(7, 9)), true},
				{"another file", func() { zinotest.Must(t, Replace(e.root, name, []byte(text(objectsFrom(7, 10))))) }, joined(objectsFrom(7, 10)), true},
				{"removed", func() { zinotest.Must(t, os.Remove(e.path)) }, "", true},
				{"empty", func() { e.put(t, text(nil)) }, "", true},
				{"first object", func() { mustAdd(t, e.File, object(5)) }, `{"n":5}`, false},
			} {
				step.change()
				got, s := readSpan(t, e, last.Next)
				if got != step.want || s.All != step.all {
					t.Errorf("%s: %s (all %v), want %s (all %v)", step.what, got, s.All, step.want, step.all)
				}
				if changed := !strings.Contains(step.what, "absent") && step.what != "unchanged"; e.Unchanged(last.Version) == changed && step.what != "absent" || !e.Unchanged(s.Version) {
					t.Errorf("%s: unchanged: %v, now %v", step.what, e.Unchanged(last.Version), e.Unchanged(s.Version))
				}
				last = s
			}
		})
	}
	if newEnv(t, Array, "").Unchanged(Version{}) {
		t.Error("an absent file equals the zero Version")
	}
}

// TestWalkLongLines reads lines that are longer than the read buffer.
func TestWalkLongLines(t *testing.T) {
	e := newEnv(t, Array, "")
	long := fmt.Appendf(nil, `{"s":%q}`, strings.Repeat("x", 12*readSize))
	mustAdd(t, e.File, long, object(1), long)
	if text, _ := readSpan(t, e, Mark{}); text != string(long)+` {"n":1} `+string(long) {
		t.Errorf("%d bytes were read", len(text))
	}
}

// TestWalkLayouts reads arrays in layouts of other programs, some of which need a
// repair first.
func TestWalkLayouts(t *testing.T) {
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
		e := newEnv(t, Array, text)
		zinotest.Must(t, e.View(func(tx *Tx) error {
			s, err := tx.Span(Mark{})
			zinotest.Must(t, err)
			if err := Walk(tx, s, func([]byte, int64) error { return nil }); errors.Is(err, ErrLayout) != !fine {
				t.Errorf("%q: %v", text, err)
			}
			return tx.Repair()
		}))
		if got, _ := readSpan(t, e, Mark{}); strings.Count(got, "n") < 2 && text != "[]" {
			t.Errorf("%q: after the repair %q", text, got)
		}
		checkArray(t, e.text(t))
	}
}

func TestWalkEnds(t *testing.T) {
	e := newEnv(t, Array, "")
	mustAdd(t, e.File, objectsFrom(0, 3)...)
	_, s := readSpan(t, e, Mark{})
	f, err := os.Open(e.path)
	zinotest.Must(t, err)
	defer f.Close()
	enough, seen := errors.New("enough"), 0
	zinotest.Error(t, Walk(f, s, func([]byte, int64) error { seen++; return enough }), enough)
	zinotest.Equal(t, "elements", seen, 1)
	zinotest.Must(t, os.Truncate(e.path, 4))
	zinotest.Error(t, Walk(f, s, func([]byte, int64) error { return nil }), nil)
}

// FuzzWalk checks for any text that every element is valid JSON and stands at the
// reported offset.
func FuzzWalk(f *testing.F) {
	for _, text := range []string{"[]", "[\n{}\n]", "[\n{\"n\":0},\n{\"n\":1}", "[\n 1 ,\n2", ",\n{}", "", "[\n\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		err := Walk(strings.NewReader(text), Span{To: int64(len(text))}, func(elem []byte, at int64) error {
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

// linesOf returns the text of a file of Lines.
func linesOf(list [][]byte) []byte {
	if len(list) == 0 {
		return nil
	}
	return append(bytes.Join(list, []byte("\n")), '\n')
}
