package files

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// read calls read and expects success.
func read(t testing.TB, root, path string) Content {
	t.Helper()
	return must(t, doRead, root, args{"path": path}).Data.(Content)
}

func TestRead(t *testing.T) {
	dir := newDir(t)
	long := strings.Repeat("0123456789", ReadMax/10)
	tests := []struct{ name, content string }{
		{"plain", "one\ntwo\n"},
		{"empty", ""},
		{"no newline", "a"},
		{"CRLF and BOM", "\ufeffone\r\ntwo\r\n"},
		{"full", long},
		{"characters", "äöü € 𝄞 \uFFFD\n"},
		{"new\nline", "x"},
		{"it's a \"name\"", "x"},
		{".hidden", "x"},
		{"ünïcödé", "x"},
	}
	for _, tt := range tests {
		path := put(t, dir, tt.name, tt.content)
		want := Content{Path: path, Content: tt.content, Bytes: int64(len(tt.content))}
		for _, asked := range []string{path, tt.name, "./" + tt.name, dir + "//./" + tt.name} {
			zinotest.Equal(t, asked, read(t, dir, asked), want)
		}
	}
}

// TestReadEdited reads the text that an editor has of a file.
func TestReadEdited(t *testing.T) {
	dir := newDir(t)
	path := put(t, dir, "file", "one\n")
	long := put(t, dir, "long", strings.Repeat("x\n", ReadMax))
	edited := func(path, text string) (Reply, error) {
		return Do(t.Context(), Call{Tool: Read, Root: dir, Input: args{"path": path}.input(), Text: &text}, nil, func(Plan) error { return nil })
	}
	for _, tt := range []struct {
		path, text, content, notice string
	}{
		{path, "one\n", "one\n", ""},
		{path, "two\n", "two\n", "This is the text in the user's editor"},
		{path, "on", "on", "This is the text in the user's editor"},
		{path, "", "", "This is the text in the user's editor"},
		{path, strings.Repeat("y\n", ReadMax), strings.Repeat("y\n", ReadMax/2), "Left out: the last 51200 bytes. This is"},
		{long, "short", "short", "This is the text in the user's editor"},
		{long, strings.Repeat("x\n", ReadMax), strings.Repeat("x\n", ReadMax/2), "Left out: the last 51200 bytes. Read the rest with bash"},
	} {
		r, err := edited(tt.path, tt.text)
		zinotest.Must(t, err)
		c := r.Data.(Content)
		if c.Content != tt.content || c.Bytes != int64(len(tt.text)) || !strings.HasPrefix(c.Notice, tt.notice) || c.Notice != "" && tt.notice == "" {
			t.Errorf("%.20q: %.20q of %d bytes, %q", tt.text, c.Content, c.Bytes, c.Notice)
		}
	}
	if _, err := edited(dir+"/none", "x"); errorCode(err) != "ENOENT" {
		t.Errorf("a file that does not exist: %v", err)
	}
	if _, err := edited(path, "\x00"); errorCode(err) != NotText {
		t.Errorf("a NUL byte: %v", err)
	}
}

func TestReadCut(t *testing.T) {
	dir := newDir(t)
	tests := []struct {
		name, content string
		kept          int
	}{
		{"one more", strings.Repeat("x", ReadMax+1), ReadMax},
		{"two bytes", strings.Repeat("x", ReadMax-1) + strings.Repeat("ä", 9), ReadMax - 1},
		{"three bytes", strings.Repeat("x", ReadMax-2) + "€€€", ReadMax - 2},
		{"four bytes", strings.Repeat("x", ReadMax-3) + "𝄞𝄞", ReadMax - 3},
		{"just fits", strings.Repeat("x", ReadMax-4) + "𝄞𝄞", ReadMax},
		{"bad behind", strings.Repeat("x", ReadMax) + "\xff\x00", ReadMax},
	}
	for _, tt := range tests {
		path := put(t, dir, tt.name, tt.content)
		got := read(t, dir, tt.name)
		notice := fmt.Sprintf("Left out: the last %d bytes. Read the rest with bash: tail -c +%d '%s'", len(tt.content)-tt.kept, tt.kept+1, path)
		if !strings.Contains(tt.name, " ") {
			notice = strings.ReplaceAll(notice, "'", "")
		}
		if got != (Content{path, tt.content[:tt.kept], true, int64(len(tt.content)), notice}) {
			t.Errorf("%s: got %d bytes of %d, truncated %v, %q", tt.name, len(got.Content), got.Bytes, got.Truncated, got.Notice)
		}
	}
}

// The command in the notice prints the rest, to the byte.
func TestReadNotice(t *testing.T) {
	content := strings.Repeat("x", ReadMax-1) + "€ and the rest\n"
	dir := newDir(t)
	for _, name := range []string{"plain.txt", "it's a\n\"name\" $(here)"} {
		put(t, dir, name, content)
		got := read(t, dir, name)
		_, command, _ := strings.Cut(got.Notice, "with bash: ")
		rest, err := exec.Command("sh", "-c", command).Output()
		if err != nil || got.Content+string(rest) != content {
			t.Errorf("%q prints %q, %v", got.Notice, rest, err)
		}
	}
}

// Of a large file only the part that is shown is read.
func TestReadLarge(t *testing.T) {
	dir := newDir(t)
	path := put(t, dir, "large", strings.Repeat("x", ReadMax+10))
	zinotest.Must(t, os.Truncate(path, 100<<30))
	if got := read(t, dir, path); got.Bytes != 100<<30 || len(got.Content) != ReadMax {
		t.Errorf("got %d of %d bytes", len(got.Content), got.Bytes)
	}
	if got := read(t, dir, "/proc/self/status"); got.Bytes != int64(len(got.Content)) || got.Bytes == 0 || got.Truncated {
		t.Errorf("a file without a size: %+v", got)
	}
}

func TestReadThroughLinks(t *testing.T) {
	dir := newDir(t)
	path := put(t, dir, "file", "x")
	link(t, dir, map[string]string{"link": "file", "second": dir + "/link", "here": "."})
	zinotest.Must(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o755))
	zinotest.Must(t, os.Symlink(filepath.Join(dir, "a/b"), filepath.Join(dir, "deep")))
	for _, asked := range []string{"link", "second", "here/here/link", "deep/../../file"} {
		if got := read(t, dir, asked); got.Path != path || got.Content != "x" {
			t.Errorf("%s: got %+v", asked, got)
		}
	}
}

func TestReadErrors(t *testing.T) {
	dir := newDir(t)
	put(t, dir, "file", "x")
	put(t, dir, "latin1", "na\xefve\n")
	put(t, dir, "zero", "\x7fELF\x00")
	put(t, dir, "half", "abc\xe2\x82")
	addOddFiles(t, dir)
	link(t, dir, map[string]string{"nowhere": "gone"})
	tests := []struct{ path, code, message string }{
		{"gone", "ENOENT", "File not found: " + dir + "/gone"},
		{"gone/file", "ENOENT", "File not found"},
		{"nowhere", "ENOENT", "File not found"},
		{"file/x", "ENOTDIR", "not a directory"},
		{"file/", "ENOTDIR", "not a directory"},
		{".", "EISDIR", "is a directory: list it with bash: ls -la " + dir},
		{"/", "EISDIR", "/ is a directory"},
		{"loop", "ELOOP", "symbolic links"},
		{strings.Repeat("x", 300), "ENAMETOOLONG", "name too long"},
		{"pipe", NotRegular, dir + "/pipe is a named pipe"},
		{"socket", NotRegular, dir + "/socket is a socket"},
		{"/dev/zero", NotRegular, "/dev/zero is a device"},
		{"latin1", NotText, "byte 0xef at offset 2 is not UTF-8. Look at it with bash: od -c " + dir + "/latin1"},
		{"zero", NotText, "a NUL byte at offset 4"},
		{"half", NotText, "byte 0xe2 at offset 3"},
		{"", InvalidInput, "empty"},
		{"a\x00b", InvalidInput, "NUL"},
	}
	for _, tt := range tests {
		if got := refused(t, doRead, dir, args{"path": tt.path}, tt.code); !strings.Contains(got, tt.message) {
			t.Errorf("%q: got %q, want %q", tt.path, got, tt.message)
		}
	}
}

// claiming is a PNG whose header claims a size, padded to a length.
func claiming(width, height uint32, length int) string {
	b := binary.BigEndian.AppendUint32([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR"), width)
	b = append(binary.BigEndian.AppendUint32(b, height), 8, 2, 0, 0, 0, 0, 0, 0, 0)
	return string(append(b, make([]byte, max(0, length-len(b)))...))
}

// TestReadPicture checks that an image is returned as it is, by its content and not its
// name, directly and by a helper, and that its size is limited before it is decoded.
func TestReadPicture(t *testing.T) {
	dir := newDir(t)
	h := newHelper(t, Sandbox{Root: dir})
	long := "\xff\xd8" + strings.Repeat("\xff\xe2\xff\xff"+strings.Repeat("x", 0xffff-2), 2) + "\xff\xc0\x00\x0b\x08\x00\x14\x00\x1e\x01\x01\x11\x00\xff\xd9"
	for name, tt := range map[string]struct {
		content string
		want    Picture
	}{
		"a PNG.jpg": {claiming(30, 20, 0), Picture{MediaType: "image/png", Width: 30, Height: 20}},
		"none":      {"GIF89a\x1e\x00\x14\x00\x80\x00\x00", Picture{MediaType: "image/gif", Width: 30, Height: 20}},
		"long.jpg":  {long, Picture{MediaType: "image/jpeg", Width: 30, Height: 20}}, // more of it is read than of a text
		"a.pdf":     {"%PDF-1.7\n", Picture{MediaType: "application/pdf"}},
		"most.pdf":  {"%PDF-" + strings.Repeat("x", PictureMax-5), Picture{MediaType: "application/pdf"}},
	} {
		tt.want.Path, tt.want.Bytes = put(t, dir, name, tt.content), int64(len(tt.content))
		call := Call{Tool: Read, Root: dir, Input: args{"path": name}.input()}
		direct, err := doRead(t.Context(), dir, call.Input)
		zinotest.Must(t, err)
		helped, err := h.Do(t.Context(), 0, call, func(Plan) error { return nil })
		zinotest.Must(t, err)
		for _, got := range []Reply{direct, helped} {
			if got.Data != tt.want || string(got.Picture) != tt.content {
				t.Errorf("%s: got %+v and %d bytes, want %+v", name, got.Data, len(got.Picture), tt.want)
			}
		}
	}
	zinotest.Equal(t, "a text", read(t, dir, put(t, dir, "gif.txt", "GIF89a is a format\n")).Content, "GIF89a is a format\n")
	for _, tt := range []struct{ content, code, message string }{
		{claiming(12000, 9000, 0), ReadError, "x has 12000x9000 pixels; at most 50 million are taken"},
		{"\x89PNG\r\n\x1a\n", ReadError, "x is damaged: its header names no width and height"},
		{claiming(30, 20, PictureMax+1), TooLarge, dir + "/x has 10485761 bytes; read takes images and PDF files of up to 10485760. Make it smaller with bash."},
	} {
		put(t, dir, "x", tt.content)
		zinotest.Equal(t, "message", refused(t, doRead, dir, args{"path": "x"}, tt.code), tt.message)
	}
}

func TestReadWithoutRights(t *testing.T) {
	dir := newDir(t)
	path := put(t, dir, "secret", "x")
	zinotest.Must(t, os.Chmod(path, 0))
	zinotest.Unprivileged(t, func() {
		if got, err := doRead(t.Context(), dir, args{"path": "secret"}.input()); errorCode(err) != "EACCES" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// A file that is removed between stat and open is not found.
func TestReadVanished(t *testing.T) {
	dir := newDir(t)
	stop, done := make(chan struct{}), make(chan struct{})
	path := filepath.Join(dir, "file")
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = os.WriteFile(path, []byte("whole"), 0o600)
				_ = os.Remove(path)
			}
		}
	}()
	for range 2000 {
		reply, err := doRead(context.Background(), dir, []byte(`{"path":"file"}`))
		if err != nil && errorCode(err) != "ENOENT" {
			t.Fatalf("got %v", err)
		}
		if c, ok := reply.Data.(Content); err == nil && (!ok || c.Content != "whole" && c.Content != "") {
			t.Fatalf("got %+v", reply)
		}
	}
	close(stop)
	<-done
}
