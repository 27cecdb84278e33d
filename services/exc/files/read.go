package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

// Content is what read brings.
type Content struct {
	Path      string `json:"path"`            // absolute, without symbolic links
	Content   string `json:"content"`         // the file's text, up to ReadMax bytes of it
	Truncated bool   `json:"truncated"`       // there is more in the file
	Bytes     int64  `json:"bytes"`           // the file's size
	Notice    string `json:"notice,omitzero"` // what was left out and how to get at it
}

// Read carries out a call of read, {path}. A relative path starts from root. A
// read that waits for a file that has nothing to say ends with ctx.
func (f *Files) Read(ctx context.Context, root string, input []byte) (Reply, error) {
	var in struct {
		Path string `json:"path"`
	}
	if err := Decode(input, &in); err != nil {
		return Reply{}, err
	}
	path, err := locate(root, in.Path)
	if err != nil {
		return Reply{}, err
	}
	file, fi, err := openRegular(path)
	if err != nil {
		return Reply{}, unreadable(err, path)
	}
	if file == nil {
		return Reply{}, unreadableKind(path, fi)
	}
	defer file.Close()
	if err := f.mayRead(file, path); err != nil {
		return Reply{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })() // most files have none
	content, err := contentOf(file, path)
	return Reply{Data: content}, err
}

// unreadableKind is the error of read for what is no regular file.
func unreadableKind(path string, fi fs.FileInfo) error {
	if fi.IsDir() {
		return fail("EISDIR", "%s: list it with bash: ls -la %s", irregular(path, fi), shellWord(path))
	}
	return fail(NotRegular, "%s: only regular files can be read", irregular(path, fi))
}

// contentOf reads the beginning of an open file.
func contentOf(f *os.File, path string) (Content, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Content{}, unreadable(err, f.Name())
	}
	buf := make([]byte, ReadMax+1)
	n, err := io.ReadFull(f, buf)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Content{}, unreadable(err, path)
	}
	c := Content{Path: path, Bytes: int64(n), Truncated: n > ReadMax}
	if c.Truncated {
		n = wholeCharacters(buf[:ReadMax])
		if fi, err := f.Stat(); err == nil { // else all that is known is that there is more
			c.Bytes = max(c.Bytes, fi.Size())
		}
		c.Notice = fmt.Sprintf("Left out: the last %d bytes. Read the rest with bash: tail -c +%d %s", c.Bytes-int64(n), n+1, shellWord(path))
	}
	c.Content = string(buf[:n])
	return c, checkText(c.Content, path)
}

// wholeCharacters is the length of p without a character at its end that p
// holds only the beginning of.
func wholeCharacters(p []byte) int {
	for i := len(p) - 1; i >= 0 && i > len(p)-utf8.UTFMax; i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				return i
			}
			break
		}
	}
	return len(p)
}

// checkText is the error for what a model cannot read.
func checkText(text, path string) error {
	problem := ""
	if i := strings.IndexByte(text, 0); i >= 0 {
		problem = fmt.Sprintf("a NUL byte at offset %d", i)
	} else if i := badByte(text); i >= 0 {
		problem = fmt.Sprintf("byte 0x%02x at offset %d is not UTF-8", text[i], i)
	} else {
		return nil
	}
	return fail(NotText, "%s is not text: %s. Look at it with bash: od -c %s | head", path, problem, shellWord(path))
}

// badByte is the offset of the first byte that is not part of a character, -1
// if there is none.
func badByte(text string) int {
	if utf8.ValidString(text) {
		return -1
	}
	for i, r := range text {
		if r != utf8.RuneError {
			continue
		}
		if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
			return i
		}
	}
	return -1
}
