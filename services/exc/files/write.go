package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Written is what write brings.
type Written struct {
	Path    string `json:"path"`    // absolute, without symbolic links
	Bytes   int64  `json:"bytes"`   // the size of what was written
	Created bool   `json:"created"` // there was no such file
}

// Write carries out a call of write, {path, content}: it makes the file and the
// directories above it, or replaces what is in it. If another change of the file
// is waited for, ctx limits that; a change that has begun is brought to its end.
func (f *Files) Write(ctx context.Context, root string, input []byte) (Reply, error) {
	var in struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	if err := Decode(input, &in); err != nil {
		return Reply{}, err
	}
	path, err := locate(root, in.Path)
	if err != nil {
		return Reply{}, err
	}
	if strings.HasSuffix(path, "/") {
		return Reply{}, fail(WriteError, "%s names a directory, not a file", path)
	}
	return persist(path, func() (Reply, error) { return f.write(ctx, root, path, in.Content) })
}

// write is one attempt. errReplaced asks for another one.
func (f *Files) write(ctx context.Context, root, path, content string) (Reply, error) {
	t, release, err := f.claim(ctx, func() (target, error) { return f.find(path, true) })
	if err != nil {
		return Reply{}, unwritable(err, path)
	}
	defer release()
	before, err := t.replace(content)
	if err != nil {
		return Reply{}, unwritable(err, t.path)
	}
	return Reply{
		Data: Written{t.path, int64(len(content)), t.info == nil},
		Diff: compare(t.label(root), before, content),
	}, nil
}

// unwritable is the error for what the system said about path.
func unwritable(err error, path string) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if errors.Is(err, errReplaced) {
		return err
	}
	return fail(WriteError, "%s", describe(err, path))
}

// former is the text of a file before a change.
type former struct {
	text  string
	none  bool // there was no file
	known bool // text is all of it
}

// replace puts content in the file's place and returns what was there.
func (t target) replace(content string) (former, error) {
	if err := t.writable(); err != nil {
		return former{}, err
	}
	before := t.former()
	return before, t.put([]byte(content))
}

// writable is the error for a file that is no file, or that is protected: an
// atomic replacement would not ask.
func (t target) writable() error {
	if t.info == nil {
		return nil
	}
	if !t.info.Mode().IsRegular() {
		return fail(WriteError, "%s: only regular files can be written", irregular(t.path, t.info))
	}
	return syscall.Access(t.at, 2) // W_OK
}

// former reads what a diff is made of. What cannot be read is not compared:
// permission to write is all that a change needs.
func (t target) former() former {
	if t.info == nil {
		return former{none: true, known: true}
	}
	if t.info.Size() > compareMax {
		return former{}
	}
	text, _, err := t.readAll(compareMax)
	return former{text: text, known: err == nil}
}

// errTooLarge says that a file is larger than its reader takes.
var errTooLarge = errors.New("the file is too large")

// readAll reads a regular file of up to limit bytes.
func (t target) readAll(limit int64) (string, fs.FileInfo, error) {
	flags := 0
	if t.dir != nil {
		flags = syscall.O_NOFOLLOW // it was no symbolic link: one that is there now was put there
	}
	f, fi, err := openRegularAs(t.at, flags)
	if err != nil {
		return "", fi, err
	}
	if f == nil {
		return "", fi, fail(ReadError, "%s", irregular(t.path, fi))
	}
	defer f.Close()
	if fi.Size() > limit {
		return "", fi, errTooLarge
	}
	var text strings.Builder
	text.Grow(int(fi.Size()))
	n, err := io.Copy(&text, io.LimitReader(f, limit+1))
	if n > limit {
		return "", fi, errTooLarge
	}
	return text.String(), fi, err
}

// disturbed is errReplaced if the file is no longer what was read.
func (t target) disturbed() error {
	if t.read == nil || same(t.at, t.read) {
		return nil
	}
	return errReplaced
}

// same reports whether a file is still as it was when was described it.
func same(path string, was fs.FileInfo) bool {
	now, err := os.Lstat(path)
	if err != nil {
		return false
	}
	a, b := was.Sys().(*syscall.Stat_t), now.Sys().(*syscall.Stat_t)
	return a.Dev == b.Dev && a.Ino == b.Ino && a.Size == b.Size && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}
