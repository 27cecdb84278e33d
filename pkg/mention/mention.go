// Package mention finds the files that a message names with @, and reads them as they are
// sent with it: a text as a block behind the message, an image as an attachment.
package mention

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"zino/pkg/attach/kind"
	"zino/pkg/text"
)

const (
	textMax    = 64 << 10  // bytes of a file that is appended to a message
	allMax     = 256 << 10 // of all files of a message
	attachList = 20_000    // names of a directory that are read
)

// NamesMax is how many names of a directory are listed.
const NamesMax = 200

// Head begins the block of a file behind a message.
const Head = "\n\nContents of "

// Read is a message with the files that it names.
type Read struct {
	// Text is the message with the contents of text files and directories.
	Text string
	// Images are the paths of images and PDF files.
	Images []string
	// Notes has a line for each file that is named only.
	Notes []string
}

// Files reads the files that a message names with @, relative to a directory or to home.
// A name that does not exist stays as it is typed.
func Files(message, dir, home string) Read {
	r := Read{Text: message}
	var b strings.Builder
	b.WriteString(message)
	seen, room := map[string]bool{}, allMax
	for _, names := range Names(message) {
		for _, name := range names {
			path := Resolve(name, dir, home)
			if seen[path] {
				break
			}
			content, err := contentOf(path, room)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENAMETOOLONG) || errors.Is(err, unix.EINVAL) {
				continue // it stays as typed
			}
			seen[path] = true
			switch {
			case errors.Is(err, errImage):
				r.Images = append(r.Images, path)
			case err != nil:
				r.Notes = append(r.Notes, text.VisibleLine(name)+refusal(err))
			default:
				room -= len(content)
				b.WriteString(Head + name + ":\n" + text.Fenced("", content))
			}
			break
		}
	}
	r.Text = b.String()
	return r
}

// Resolve returns the path of a name as it is typed.
func Resolve(name, dir, home string) string {
	if rest, ok := strings.CutPrefix(name, "~"); ok && (rest == "" || rest[0] == '/') {
		return filepath.Join(home, rest)
	}
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(dir, name)
}

// Image returns how the path of an image or PDF file is written behind @, for a text that
// is just that path, or a file:// URL of it. ok is false for any other text.
func Image(pasted, dir, home string) (mention string, ok bool) {
	name := strings.TrimSpace(pasted)
	if name == "" || strings.ContainsAny(name, "\n\r\x00\"") {
		return "", false
	}
	if u, err := url.Parse(name); err == nil && u.Scheme == "file" && (u.Host == "" || u.Host == "localhost") {
		name = u.Path
	} else if len(name) > 1 && name[0] == '\'' && name[len(name)-1] == '\'' { // as a terminal quotes what is dropped
		name = name[1 : len(name)-1]
	}
	if _, err := contentOf(Resolve(name, dir, home), allMax); !errors.Is(err, errImage) {
		return "", false
	}
	if strings.ContainsFunc(name, unicode.IsSpace) {
		return `@"` + name + `"`, true
	}
	return "@" + name, true
}

// Names returns the names behind @ in a message. Of a name that ends in punctuation,
// which may be that of the sentence, the shorter forms follow.
func Names(message string) (list [][]string) {
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

// Reasons why a file is named only.
var (
	errNotText = errors.New("not text")
	errNotFile = errors.New("not a file")
	errImage   = errors.New("an image")
)

// errTooLong is the size of a file that is too long.
type errTooLong int64

func (e errTooLong) Error() string { return Size(int64(e)) }

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
	return ": " + text.VisibleLine(err.Error()) + ", named only"
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
	}
	file, err := os.Open("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return "", err
	}
	defer file.Close()
	if !info.IsDir() {
		begin := make([]byte, 16)
		n, _ := file.ReadAt(begin, 0) // what cannot be read now cannot be read below
		if _, ok := kind.Of(begin[:n]); ok {
			return "", errImage
		}
		if info.Size() > int64(min(room, textMax)) {
			return "", errTooLong(info.Size())
		}
	}
	if info.IsDir() {
		names, err := namesIn(file)
		if err == nil && len(names) > room {
			err = errTooLong(len(names))
		}
		return names, err
	}
	data, err := io.ReadAll(io.LimitReader(file, int64(min(room, textMax))+1))
	switch {
	case err != nil:
		return "", err
	case len(data) > min(room, textMax): // it has grown
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
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return Listing(names[:min(len(names), NamesMax)], len(names)), nil
}

// Listing returns the block of a directory with a number of names.
func Listing(names []string, all int) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteString(text.VisibleLine(name) + "\n")
	}
	if over := all - len(names); over > 0 {
		fmt.Fprintf(&b, "… %d more\n", over)
	}
	return b.String()
}

// Size formats a number of bytes as files are listed.
func Size(n int64) string {
	switch {
	case n < 1000:
		return text.Count(int(n), "byte")
	case n >= 1_000_000:
		return fmt.Sprintf("%d MB", (n+500_000)/1_000_000)
	}
	return fmt.Sprintf("%d KB", (n+500)/1000)
}
