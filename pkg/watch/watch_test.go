package watch

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newWatcher(t *testing.T, interval time.Duration, dirs ...string) *Watcher {
	w := New(dirs, interval, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { must(t, w.Close()) })
	return w
}

// expect reads notifications until one names path.
func expect(t *testing.T, w *Watcher, path string) {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		select {
		case got := <-w.C:
			if got == path {
				return
			}
		case <-timeout:
			t.Fatalf("no notification of %q", path)
		}
	}
}

func TestNotifiesOfFiles(t *testing.T) {
	t.Parallel()
	a, b := t.TempDir(), t.TempDir()
	w := newWatcher(t, time.Hour, a, b)
	for _, dir := range []string{a, b} {
		path := filepath.Join(dir, "x")
		must(t, os.WriteFile(path, []byte("1"), 0o600))
		expect(t, w, path)
		must(t, os.Remove(path))
		expect(t, w, path)
	}
}

// TestFollowsPaths checks that a directory that is created, replaced, or the target of
// a changed link is watched from the next poll on.
func TestFollowsPaths(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir, link := filepath.Join(base, "dir"), filepath.Join(base, "link")
	w := newWatcher(t, 10*time.Millisecond, dir, link)
	polled := func() { // a poll that began after this call
		expect(t, w, "")
		expect(t, w, "")
	}
	for range 2 {
		must(t, os.Mkdir(dir, 0o700))
		polled()
		must(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
		expect(t, w, filepath.Join(dir, "x"))
		must(t, os.RemoveAll(dir))
		expect(t, w, dir)
	}
	for _, name := range []string{"1", "2"} {
		target := filepath.Join(base, name)
		must(t, os.Mkdir(target, 0o700))
		must(t, os.Symlink(target, link+".new"))
		must(t, os.Rename(link+".new", link))
		polled()
		must(t, os.WriteFile(filepath.Join(target, "x"), nil, 0o600))
		expect(t, w, filepath.Join(link, "x"))
	}
}

func TestPoll(t *testing.T) {
	t.Parallel()
	w := Poll(time.Millisecond)
	for range 3 {
		if path := <-w.C; path != "" {
			t.Errorf("got %q", path)
		}
	}
	must(t, w.Close())
	if path, ok := <-w.C; ok {
		t.Errorf("got %q after Close", path)
	}
}

// TestCloseWithoutReader checks that Close does not block if C is not read.
func TestCloseWithoutReader(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := New([]string{dir}, time.Millisecond, slog.New(slog.DiscardHandler))
	must(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
	must(t, w.Close())
}
