package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// text is a writing of a text.
func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func TestWriteOut(t *testing.T) {
	dir := shortDir(t)
	path, link := filepath.Join(dir, "f"), filepath.Join(dir, "l")
	defer syscall.Umask(syscall.Umask(0o027))
	for _, s := range []string{"one", strings.Repeat("two", 1e5), ""} {
		if err := writeOut(path, 0o644, text(s)); err != nil {
			t.Fatal(err)
		}
		holds(t, path, s, 0o640)
	}
	if err := errors.Join(os.Chmod(path, 0o600), os.Symlink("f", link)); err != nil {
		t.Fatal(err)
	}
	if err := writeOut(link, 0o644, text("linked")); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "linked", 0o600)
	if to, err := os.Readlink(link); err != nil || to != "f" {
		t.Errorf("the link is %q, %v", to, err)
	}
}

// TestWriteOutFails leaves what was there, and nothing else.
func TestWriteOutFails(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := writeOut(path, 0o644, func(w io.Writer) error { return errors.Join(text(strings.Repeat("half", 1e5))(w), broken) })
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	holds(t, path, "before", 0o600)
	for _, bad := range []string{filepath.Join(dir, "none", "f"), filepath.Join(path, "f"), dir} {
		if err := writeOut(bad, 0o644, text("x")); err == nil {
			t.Errorf("%s was written", bad)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestWriteOutPipe writes to what is no ordinary file, and does not replace it.
func TestWriteOutPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(shortDir(t), "p")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		data, err := os.ReadFile(path)
		if err != nil {
			data = []byte(err.Error())
		}
		read <- string(data)
	}()
	if err := writeOut(path, 0o644, text("through")); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "through" {
		t.Errorf("read %q", got)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("it is %v, %v", info.Mode(), err)
	}
}
