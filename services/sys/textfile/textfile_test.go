package textfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestHead(t *testing.T) {
	for _, tt := range []struct {
		name, content string
		limit         int
		want          string
		err           error
	}{
		{"all", "héllo\n", 10, "héllo\n", nil},
		{"fits exactly", "1234", 4, "1234", nil},
		{"empty", "", 4, "", nil},
		{"cut", "12345", 4, "1234", nil},
		{"cut before a character of two bytes", "123é", 4, "123", nil},
		{"of three", "12€€", 4, "12", nil},
		{"of four", "1😀", 4, "1", nil},
		{"cut after one", "é€4", 5, "é€", nil},
		{"nothing fits", "😀", 3, "", nil},
		{"not UTF-8", "a\xffb", 4, "", ErrNotUTF8},
		{"ends inside a character", "ab\xe2\x82", 9, "", ErrNotUTF8},
		{"not UTF-8 at the cut", "1\x80\x80\x80\x80\x80", 5, "", ErrNotUTF8},
		{"not UTF-8 after the cut", "1234\xff", 4, "1234", nil},
		{"a mark is kept", Mark + "x", 9, Mark + "x", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			must(t, os.WriteFile(path, []byte(tt.content), 0o600))
			got, size, err := Head(path, tt.limit)
			if got != tt.want || !errors.Is(err, tt.err) || err == nil && size != int64(len(tt.content)) {
				t.Errorf("got %q, %d bytes, %v", got, size, err)
			}
		})
	}
}

// TestHeadOfOthers checks that files that are not text are rejected, without waiting
// for a writer or reading endlessly.
func TestHeadOfOthers(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(t *testing.T, path string)
		want error
	}{
		{"nothing", func(*testing.T, string) {}, fs.ErrNotExist},
		{"a directory", func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }, ErrDirectory},
		{"a pipe", func(t *testing.T, path string) { must(t, syscall.Mkfifo(path, 0o600)) }, ErrNotRegular},
		{"a device", func(t *testing.T, path string) { must(t, os.Symlink("/dev/zero", path)) }, ErrNotRegular},
		{"a loop", func(t *testing.T, path string) { must(t, os.Symlink("f", path)) }, syscall.ELOOP},
		{"a link to nothing", func(t *testing.T, path string) { must(t, os.Symlink("g", path)) }, fs.ErrNotExist},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			tt.make(t, path)
			text, _, err := Head(path, 9)
			if text != "" || !errors.Is(err, tt.want) || strings.Contains(err.Error(), path) {
				t.Errorf("got %q, %v", text, err)
			}
		})
	}
}

// TestHeadOfMuch checks that only limit bytes are read, and that the size is that of
// the file.
func TestHeadOfMuch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, []byte("begin"), 0o600))
	const size = 1 << 40 // a sparse file
	must(t, os.Truncate(path, size))
	text, got, err := Head(path, 6)
	if text != "begin\x00" || got != size || err != nil {
		t.Errorf("got %q, %d, %v", text, got, err)
	}
}
