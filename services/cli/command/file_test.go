package command

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

// writer returns a function that writes s.
func writer(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func TestWriteFile(t *testing.T) {
	dir := zinotest.Dir(t)
	path, link := filepath.Join(dir, "f"), filepath.Join(dir, "l")
	defer syscall.Umask(syscall.Umask(0o027))
	for _, s := range []string{"one", strings.Repeat("two", 1e5), ""} {
		zinotest.Must(t, WriteFile(path, 0o644, writer(s)))
		checkFile(t, path, s, 0o640)
	}
	zinotest.Must(t, errors.Join(os.Chmod(path, 0o600), os.Symlink("f", link)))
	zinotest.Must(t, WriteFile(link, 0o644, writer("linked")))
	checkFile(t, path, "linked", 0o600)
	if to, err := os.Readlink(link); err != nil || to != "f" {
		t.Errorf("the link is %q, %v", to, err)
	}
}

// TestWriteFileFails checks that a failed write keeps the old file and leaves no other.
func TestWriteFileFails(t *testing.T) {
	dir := zinotest.Dir(t)
	path := filepath.Join(dir, "f")
	zinotest.Write(t, path, "before")
	broken := errors.New("broken")
	err := WriteFile(path, 0o644, func(w io.Writer) error { return errors.Join(writer(strings.Repeat("half", 1e5))(w), broken) })
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	checkFile(t, path, "before", 0o600)
	for _, bad := range []string{filepath.Join(dir, "none", "f"), filepath.Join(path, "f"), dir} {
		if err := WriteFile(bad, 0o644, writer("x")); err == nil {
			t.Errorf("%s was written", bad)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestWriteFilePipe checks that a FIFO is written to, not replaced.
func TestWriteFilePipe(t *testing.T) {
	path := filepath.Join(zinotest.Dir(t), "p")
	zinotest.Must(t, syscall.Mkfifo(path, 0o600))
	read := make(chan string)
	go func() {
		data, err := os.ReadFile(path)
		if err != nil {
			data = []byte(err.Error())
		}
		read <- string(data)
	}()
	zinotest.Must(t, WriteFile(path, 0o644, writer("through")))
	if got := <-read; got != "through" {
		t.Errorf("read %q", got)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("mode %v, %v, want a FIFO", info.Mode(), err)
	}
}

func checkFile(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || string(data) != text {
		t.Errorf("%s contains %q, %v, want %q", path, data, err, text)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
		t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, mode)
	}
}
