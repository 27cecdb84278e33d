package chat

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"zino/pkg/text"
)

const (
	attachMax    = 64 << 10  // bytes of a file that is appended to a message
	attachAllMax = 256 << 10 // of all files of a message
	attachNames  = 200       // of a directory
	attachList   = 20_000    // names of a directory that are read
)

// attach appends the files that a message names with @. notes has a line for each file
// that is named only.
func (c *chat) attach(message string) (whole string, notes []string) {
	var b strings.Builder
	b.WriteString(message)
	seen, room := map[string]bool{}, attachAllMax
	for _, names := range mentions(message) {
		for _, name := range names {
			path := c.resolve(name)
			if seen[path] {
				break
			}
			content, err := contentOf(path, room)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENAMETOOLONG) || errors.Is(err, unix.EINVAL) {
				continue // it stays as typed
			}
			seen[path] = true
			if err != nil {
				notes = append(notes, safe(name)+refusal(err))
				break
			}
			room -= len(content)
			b.WriteString(attachment(name, content))
			break
		}
	}
	return b.String(), notes
}

const attachmentHead = "\n\nContents of "

func attachment(name, content string) string {
	return attachmentHead + name + ":\n" + text.Fenced("", content)
}

// unattached splits a message into what was typed and what attach has appended: a line
// for each file.
func unattached(message string) (typed string, files []string) {
	for at := 0; ; {
		i := strings.Index(message[at:], attachmentHead)
		if i < 0 {
			return message, nil
		}
		at += i
		if files, ok := attachments(message[at:], mentions(message[:at])); ok {
			return message[:at], files
		}
		at += len(attachmentHead)
	}
}

// attachments describes the files that a text consists of; ok is false if there is
// something else in it, or a name that was not mentioned.
func attachments(s string, mentioned [][]string) (files []string, ok bool) {
	for s != "" {
		rest, ok := strings.CutPrefix(s, attachmentHead)
		if !ok {
			return nil, false
		}
		name, rest, ok := strings.Cut(rest, ":\n")
		if !ok || !slices.ContainsFunc(mentioned, func(names []string) bool { return slices.Contains(names, name) }) {
			return nil, false
		}
		fence := rest[:len(rest)-len(strings.TrimLeft(rest, "`"))]
		content, rest, ok := strings.Cut(rest[len(fence):], fence)
		if len(fence) < 3 || !ok || !strings.HasPrefix(content, "\n") || !strings.HasSuffix(content, "\n") {
			return nil, false
		}
		files = append(files, fmt.Sprintf("attached %s, %s", safe(name), text.Count(strings.Count(content, "\n")-1, "line")))
		s = rest
	}
	return files, true
}

// mentions returns the names behind @ in a message. Of a name that ends in punctuation,
// which may be that of the sentence, the shorter forms follow.
func mentions(message string) (list [][]string) {
	before := ' '
	for i, r := range message {
		boundary := unicode.IsSpace(before) || unicode.In(before, unicode.Ps, unicode.Pi) || before == '"' || before == '\''
		before = r
		if r != '@' || !boundary {
			continue
		}
		name := message[i+1:]
		if quoted, ok := strings.CutPrefix(name, `"`); ok {
			if end := strings.IndexAny(quoted, "\"\n"); end > 0 && quoted[end] == '"' {
				list = append(list, []string{quoted[:end]})
			}
			continue
		}
		if end := strings.IndexFunc(name, unicode.IsSpace); end >= 0 {
			name = name[:end]
		}
		var names []string
		for name != "" && (strings.ContainsFunc(name, alphanumeric) || strings.HasSuffix(name, "/")) {
			names = append(names, name)
			last, size := utf8.DecodeLastRuneInString(name)
			if !unicode.IsPunct(last) || strings.ContainsRune("/_-~#%&*", last) {
				break
			}
			name = name[:len(name)-size]
		}
		if names != nil {
			list = append(list, names)
		}
	}
	return list
}

func alphanumeric(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// resolve returns the path of a name as it is typed.
func (c *chat) resolve(name string) string {
	if rest, ok := strings.CutPrefix(name, "~"); ok && (rest == "" || rest[0] == '/') {
		return filepath.Join(homeDir(), rest)
	}
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(c.root, name)
}

// Reasons why a file is named only.
var (
	errNotText = errors.New("not text")
	errNotFile = errors.New("not a file")
)

// errTooLong is the size of a file that is too long.
type errTooLong int64

func (e errTooLong) Error() string { return size(int64(e)) }

// refusal says why a file is not attached, behind its name.
func refusal(err error) string {
	var long errTooLong
	switch {
	case errors.As(err, &long):
		return ": " + long.Error() + ", named only"
	case errors.Is(err, errNotText):
		return " is not text: not attached"
	case errors.Is(err, errNotFile):
		return " is not a file: not attached"
	}
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		err = cause.Err
	}
	return ": " + safe(err.Error()) + ", named only"
}

// contentOf returns the text of a file of at most room bytes, or the names in a directory.
// The path is opened with O_PATH first, so that no FIFO, device or socket is ever opened,
// also if it takes the place of a file meanwhile.
func contentOf(path string, room int) (string, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	place := os.NewFile(uintptr(fd), path)
	defer place.Close()
	info, err := place.Stat()
	switch {
	case err != nil:
		return "", err
	case !info.IsDir() && !info.Mode().IsRegular():
		return "", errNotFile
	case info.Size() > int64(min(room, attachMax)) && !info.IsDir():
		return "", errTooLong(info.Size())
	}
	file, err := os.Open("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return "", err
	}
	defer file.Close()
	if info.IsDir() {
		names, err := namesIn(file)
		if err == nil && len(names) > room {
			err = errTooLong(len(names))
		}
		return names, err
	}
	data, err := io.ReadAll(io.LimitReader(file, int64(min(room, attachMax))+1))
	switch {
	case err != nil:
		return "", err
	case len(data) > min(room, attachMax): // it has grown
		return "", errTooLong(len(data))
	case !utf8.Valid(data) || slices.Contains(data, 0):
		return "", errNotText
	}
	return string(data), nil
}

// namesIn lists a directory.
func namesIn(dir *os.File) (string, error) {
	entries, err := dir.ReadDir(attachList)
	if err != nil && err != io.EOF {
		return "", err
	}
	var names []string
	for _, e := range entries {
		name := text.VisibleLine(e.Name())
		if e.IsDir() {
			name += "/"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	if over := len(names) - attachNames; over > 0 {
		names = append(names[:attachNames], fmt.Sprintf("… %d more", over))
	}
	return strings.Join(names, "\n") + "\n", nil
}

// size formats a number of bytes as files are listed.
func size(n int64) string {
	switch {
	case n < 1000:
		return text.Count(int(n), "byte")
	case n >= 1_000_000:
		return fmt.Sprintf("%d MB", (n+500_000)/1_000_000)
	}
	return fmt.Sprintf("%d KB", (n+500)/1000)
}
