package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"zino/pkg/zinotest"
)

func openLog(t *testing.T, path string, limit int64) *LogFile {
	t.Helper()
	l, err := OpenLog(path, limit)
	zinotest.Must(t, err)
	return l
}

func write(t *testing.T, l *LogFile, text string) {
	t.Helper()
	if n, err := l.Write([]byte(text)); err != nil || n != len(text) {
		t.Fatalf("Write(%q) = %d, %v", text, n, err)
	}
}

func checkFile(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s contains %q, %v; want %q", filepath.Base(path), got, err, want)
	}
}

func TestLogFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	path := filepath.Join(dir, "zino.log")
	l := openLog(t, path, 10)
	for name, mode := range map[string]os.FileMode{path: 0o600, dir: 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, mode)
		}
	}
	write(t, l, "12345")
	write(t, l, "67890") // full to the byte
	checkFile(t, path, "1234567890")
	write(t, l, "a")
	checkFile(t, path, "a")
	checkFile(t, path+".1", "1234567890")
	write(t, l, strings.Repeat("b", 30)) // longer than a file may be
	checkFile(t, path, strings.Repeat("b", 30))
	checkFile(t, path+".1", "a")
	zinotest.Must(t, l.Close())
	if _, err := l.Write([]byte("late")); err == nil {
		t.Error("a write to a closed log succeeded")
	}

	again := openLog(t, path, 40) // appends, and counts the existing size
	defer again.Close()
	write(t, again, "0123456789")
	checkFile(t, path, strings.Repeat("b", 30)+"0123456789")
	write(t, again, "c")
	checkFile(t, path, "c")
}

// TestLogFileStays checks that a full file that cannot be rotated grows.
func TestLogFileStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "zino.log")
	zinotest.Must(t, os.MkdirAll(filepath.Join(path+".1", "in the way"), 0o700))
	l := openLog(t, path, 4)
	defer l.Close()
	write(t, l, "1234")
	write(t, l, "5678")
	checkFile(t, path, "12345678")
}

// TestLogFileRemoved checks that writes succeed after the directory was removed.
func TestLogFileRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	l := openLog(t, filepath.Join(dir, "zino.log"), 4)
	defer l.Close()
	write(t, l, "1234")
	zinotest.Must(t, os.RemoveAll(dir))
	write(t, l, "5678")
	write(t, l, "9")
}

// TestLogFileCrowd checks that concurrent writes lose and split no lines.
func TestLogFileCrowd(t *testing.T) {
	const writers, lines = 8, 50
	path := filepath.Join(t.TempDir(), "zino.log")
	l := openLog(t, path, writers*lines*8/2+8) // rotated once
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range lines {
				fmt.Fprintf(l, "w%d l%03d\n", w, i)
			}
		})
	}
	wg.Wait()
	zinotest.Must(t, l.Close())
	var all strings.Builder
	for _, name := range []string{path + ".1", path} {
		text, err := os.ReadFile(name)
		zinotest.Must(t, err)
		all.WriteString(string(text))
	}
	for w := range writers {
		for i := range lines {
			if line := fmt.Sprintf("w%d l%03d\n", w, i); strings.Count(all.String(), line) != 1 {
				t.Fatalf("%q occurs %d times", line, strings.Count(all.String(), line))
			}
		}
	}
}

func TestOpenLogFails(t *testing.T) {
	dir := t.TempDir()
	zinotest.Must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for path, want := range map[string]string{
		filepath.Join(dir, "file", "zino.log"): "create the directory of the log: ",
		dir:                                    "open the log: ",
	} {
		if _, err := OpenLog(path, 10); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}
