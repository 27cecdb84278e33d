package durable

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	root, path := openRoot(t, dir), filepath.Join(dir, "soft.txt")
	for _, text := range []string{"first\r\n", "", "a much longer one \x00\xff"} {
		if err := Replace(root, "soft.txt", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := readFile(t, path); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm() != FileMode {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	if err := Replace(root, "no/such/dir", nil); err == nil {
		t.Error("a file was made in a directory that does not exist")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestKeepAside(t *testing.T) {
	dir := t.TempDir()
	root := openRoot(t, dir)
	writeFile(t, filepath.Join(dir, name), "damaged")
	for _, want := range []string{name + ".damaged-1", name + ".damaged-2"} {
		kept, err := keepAside(root, name, []byte("damaged"))
		if err != nil || kept != want || !IsKept(kept) || IsKept(name) {
			t.Errorf("kept as %q, %v; want %q", kept, err, want)
		}
		if got := readFile(t, filepath.Join(dir, want)); got != "damaged" {
			t.Errorf("%s holds %q", want, got)
		}
	}
	if err := copyAside(root, "copy", []byte("damaged"), true); err != nil {
		t.Fatal(err)
	}
	if err := copyAside(root, "copy", nil, false); !errors.Is(err, os.ErrExist) {
		t.Errorf("a copy was overwritten: %v", err)
	}
}

func TestGroupShares(t *testing.T) {
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
	for joined := 0; joined < 50; { // all wait behind the first commit
		g.mu.Lock()
		if g.next != nil {
			joined = len(g.next.items)
		}
		g.mu.Unlock()
		runtime.Gosched()
	}
	close(more)
	wg.Wait()
	if commits.Load() != 2 || items.Load() != 51 {
		t.Errorf("%d items in %d commits", items.Load(), commits.Load())
	}
}

func TestGroupError(t *testing.T) {
	var g Group[int]
	want := errors.New("full")
	if err := g.Do(1, func([]int) error { return want }); err != want {
		t.Errorf("error %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		g.Do(1, func([]int) error { panic("broken") })
	}()
	if err := g.Do(1, func([]int) error { return nil }); err != nil {
		t.Errorf("after a panic: %v", err)
	}
}
