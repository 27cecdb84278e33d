package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"zino/pkg/attach/kind"
)

// read returns the beginning of a text file, or of the text that an editor has of it, or an
// image or PDF file. A read of a file that gives nothing yet, as some in /proc, ends with
// o.ctx.
func (o *operation) read(path string, edited *string) (Reply, error) {
	file, info, err := openRegular(path, 0)
	if err != nil {
		return Reply{}, unreadable(err, path)
	}
	if file == nil && info.IsDir() {
		return Reply{}, fail("EISDIR", "%s: list it with bash: ls -la %s", irregular(path, info), shellWord(path))
	}
	if file == nil {
		return Reply{}, fail(NotRegular, "%s: only regular files can be read", irregular(path, info))
	}
	defer file.Close()
	defer context.AfterFunc(o.ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })() // most files have no deadlines
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Reply{}, unreadable(err, path)
	}
	buf := make([]byte, ReadMax+1)
	n, err := io.ReadFull(file, buf)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Reply{}, unreadable(err, real)
	}
	if isPicture(buf[:n]) {
		return o.picture(io.MultiReader(bytes.NewReader(buf[:n]), file), real, info)
	}
	size, unsaved := int64(n), ""
	if n > ReadMax {
		size = max(size, info.Size())
	}
	if edited != nil && (int64(len(*edited)) != size || !strings.HasPrefix(*edited, string(buf[:n]))) {
		unsaved = "This is the text in the user's editor, with changes that are not saved. The file on disk, which edit, write and bash use, has another text."
		size, n = int64(len(*edited)), copy(buf, *edited)
	}
	c := Content{Path: real, Bytes: size, Truncated: n > ReadMax, Notice: unsaved}
	if c.Truncated {
		n = wholeText(buf[:ReadMax])
		left := fmt.Sprintf("Left out: the last %d bytes.", size-int64(n))
		if unsaved == "" {
			left += fmt.Sprintf(" Read the rest with bash: tail -c +%d %s", n+1, shellWord(real))
		}
		c.Notice = strings.TrimSpace(left + " " + unsaved)
	}
	c.Content = string(buf[:n])
	if err := checkText(c.Content, real); err != nil {
		return Reply{}, err
	}
	return Reply{Data: c}, o.approve(Plan{Path: real, File: fileOf(info), Content: &c})
}

// isPicture reports whether a file that begins so is an image or a PDF file. A text may
// begin as a GIF does.
func isPicture(begin []byte) bool {
	info, ok := kind.Of(begin)
	return ok && (!info.IsImage() || checkText(string(begin[:wholeCharacters(begin)]), "") != nil)
}

// picture returns an image or PDF file as it is. exc has the rights of the caller, so it
// looks at the header alone; agr decodes the image.
func (o *operation) picture(file io.Reader, path string, info fs.FileInfo) (Reply, error) {
	data, err := io.ReadAll(io.LimitReader(file, PictureMax+1))
	if err != nil {
		return Reply{}, unreadable(err, path)
	}
	if len(data) > PictureMax {
		return Reply{}, fail(TooLarge, "%s has %d bytes; read takes images and PDF files of up to %d. Make it smaller with bash.", path, max(info.Size(), int64(len(data))), PictureMax)
	}
	is, err := kind.Check(path, data)
	if err != nil {
		return Reply{}, fail(ReadError, "%v", err)
	}
	p := Picture{Path: path, MediaType: is.MediaType, Bytes: int64(len(data)), Width: is.Width, Height: is.Height}
	return Reply{Data: p, Picture: data}, o.approve(Plan{Path: path, File: fileOf(info)})
}

// unreadable is the error of read for an error of the system.
func unreadable(err error, path string) error {
	code := ReadError
	if errors.Is(err, os.ErrDeadlineExceeded) {
		code = Timeout
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok && errnoNames[errno] != "" {
		code = errnoNames[errno]
	}
	return fail(code, "%s", describe(err, path))
}

// wholeText is the length of the text that is shown of p: up to its last line, so that a
// secret at the end is recognized, or character if that line is long.
func wholeText(p []byte) int {
	const most = 4 << 10
	if i := bytes.LastIndexByte(p[len(p)-most:], '\n'); i >= 0 {
		return len(p) - most + i + 1
	}
	return wholeCharacters(p)
}

// wholeCharacters is the length of p without an incomplete character at its end.
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

// checkText is the error for text that a model cannot read.
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

// badByte is the offset of the first byte that is not UTF-8, -1 if text is UTF-8.
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
