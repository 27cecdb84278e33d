package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Edits of one file at the same time all land, whatever names they use.
func TestConcurrentEdits(t *testing.T) {
	dir := place(t)
	var content strings.Builder
	for i := range 8 {
		fmt.Fprintf(&content, "line %d of the file\n", i)
	}
	path := put(t, dir, "file", content.String())
	for _, name := range []string{"link", "other"} {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	f := New()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for round := range 10 {
				a := args{"path": []string{"file", "link", "other"}[i%3], "old": fmt.Sprintf("line %d of", i), "new": fmt.Sprintf("LINE %d of", i)}
				if round%2 == 1 {
					a["old"], a["new"] = a["new"], a["old"]
				}
				if round == 9 {
					a["new"] = fmt.Sprintf("edited %d in", i)
				}
				if _, err := f.Edit(context.Background(), dir, a.input()); err != nil {
					t.Errorf("edit %d, round %d: %v", i, round, err)
				}
			}
		})
	}
	all.Wait()
	want := strings.NewReplacer("line ", "edited ", " of", " in").Replace(content.String())
	if got := holds(t, path); got != want {
		t.Errorf("the file holds %q", got)
	}
	if len(f.locks.held) > 0 {
		t.Errorf("%d locks are left", len(f.locks.held))
	}
}

// The same with hard links, which are overwritten.
func TestConcurrentEditsOfHardLinks(t *testing.T) {
	dir := place(t)
	put(t, dir, "0", "........")
	for i := 1; i < 8; i++ {
		if err := os.Link(filepath.Join(dir, "0"), filepath.Join(dir, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	f := New()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := 8; n > 0; n-- { // somebody else's edit changes the number
				a := args{"path": fmt.Sprint(i), "old": ".", "new": "xy", "expected_replacements": n}
				if _, err := f.Edit(context.Background(), dir, a.input()); err == nil {
					return
				}
			}
		})
	}
	all.Wait()
	if got := holds(t, filepath.Join(dir, "0")); got != "xyxyxyxyxyxyxyxy" {
		t.Errorf("the file holds %q", got)
	}
}

// Of writers that make one file at the same time, one makes it, and one has
// the last word.
func TestConcurrentWrites(t *testing.T) {
	dir := place(t)
	f := New()
	created := make(chan bool, 16)
	var all sync.WaitGroup
	for i := range cap(created) {
		all.Go(func() {
			content := strings.Repeat(fmt.Sprint(i%10), 100<<10)
			reply, err := f.Write(context.Background(), dir, args{"path": "a/b/file", "content": content}.input())
			if err != nil {
				t.Error(err)
				return
			}
			created <- reply.Data.(Written).Created
		})
	}
	all.Wait()
	close(created)
	makers := 0
	for made := range created {
		if made {
			makers++
		}
	}
	got := holds(t, filepath.Join(dir, "a/b/file"))
	if makers != 1 || len(got) != 100<<10 || got != strings.Repeat(got[:1], 100<<10) {
		t.Errorf("%d made it, it holds %d bytes", makers, len(got))
	}
}

// Whoever waits too long for a file changes nothing.
func TestWaitForFile(t *testing.T) {
	dir := place(t)
	path := put(t, dir, "file", "old")
	f := New()
	was, err := resolve(path, asTheyAre)
	if err != nil {
		t.Fatal(err)
	}
	release, err := f.locks.take(t.Context(), was.id)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	reply, err := f.Write(ctx, dir, args{"path": "file", "content": "new"}.input())
	expect(t, reply, err, Timeout)
	reply, err = f.Edit(ctx, dir, args{"path": "file", "old": "old", "new": "new"}.input())
	expect(t, reply, err, Timeout)
	if holds(t, path) != "old" {
		t.Error("it was changed all the same")
	}
	release()
	reply, err = f.Write(ctx, dir, args{"path": "file", "content": "new"}.input())
	expect(t, reply, err, Timeout) // although nobody has the file any more
	if must(t, f.Write, dir, args{"path": "file", "content": "new"}); len(f.locks.held) > 0 {
		t.Errorf("%d locks are left", len(f.locks.held))
	}
}

// A file that others change while it is edited is edited anew, but not for ever.
func TestPersist(t *testing.T) {
	n := 0
	disturbed := func(times int) (Reply, error) {
		n = 0
		return persist("/file", func() (Reply, error) {
			if n++; n <= times {
				return Reply{}, errReplaced
			}
			return Reply{Diff: "done"}, nil
		})
	}
	if reply, err := disturbed(attempts - 1); err != nil || reply.Diff != "done" || n != attempts {
		t.Errorf("got %+v, %v after %d attempts", reply, err, n)
	}
	reply, err := disturbed(attempts)
	if message := expect(t, reply, err, WriteError); !strings.Contains(message, "/file keeps being changed") || n != attempts {
		t.Errorf("got %q after %d attempts", message, n)
	}
}

// Any change of a file is noticed.
func TestSame(t *testing.T) {
	dir := place(t)
	past := time.Unix(1e9, 0)
	for name, change := range map[string]func(path string) error{
		"longer":   func(path string) error { return os.WriteFile(path, []byte("longer"), 0o600) },
		"touched":  func(path string) error { return os.Chtimes(path, past, past) },
		"replaced": func(path string) error { return os.Rename(put(t, dir, "other", "old"), path) },
		"removed":  os.Remove,
	} {
		path := put(t, dir, "file", "old")
		was, err := os.Stat(path)
		if err != nil || !same(path, was) {
			t.Fatalf("%s: %v", name, err)
		}
		if err := change(path); err != nil || same(path, was) {
			t.Errorf("%s: not noticed, %v", name, err)
		}
	}
}
