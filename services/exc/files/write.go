package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"zino/pkg/durable"
	"zino/pkg/realpath"
)

var (
	// errReplaced: another process has changed the file after the plan.
	errReplaced = errors.New("the file was changed meanwhile: try again")
	// errTooLarge: a file is larger than its reader accepts.
	errTooLarge = errors.New("the file is too large")
)

// writeInput is the input of write.
type writeInput struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// write makes the file and the directories above it, or replaces its content.
func (o *operation) write(path, content string) (Reply, error) {
	if strings.HasSuffix(path, "/") {
		return Reply{}, fail(WriteError, "%s names a directory, not a file", path)
	}
	t, err := o.claim(path)
	if e, ok := errors.AsType[realpath.DirError](err); ok {
		return Reply{}, fail(MkdirError, "Cannot make the directory %s: %v", filepath.Dir(path), reason(e.Err))
	}
	if err != nil {
		return Reply{}, asError(err, WriteError, path)
	}
	defer t.close()
	if err := t.writable(); err != nil {
		return Reply{}, asError(err, WriteError, t.path)
	}
	before := t.former()
	diff := compare(label(o.root, t.path), before, content)
	if err := o.change(t, before.sum, content, diff); err != nil {
		return Reply{}, err
	}
	return Reply{Data: Written{t.path, int64(len(content)), t.info == nil}, Diff: diff}, nil
}

// change puts content in the place of the target once that is approved.
func (o *operation) change(t *target, before, content, diff string) error {
	p := Plan{Path: t.path, Before: before, After: sum([]byte(content)), Diff: diff}
	if t.info != nil {
		p.File = fileOf(t.info)
	}
	if err := o.approve(p); err != nil {
		return err
	}
	if err := t.mkdirs(); err != nil {
		return fail(MkdirError, "Cannot make the directory %s: %v", filepath.Dir(t.path), reason(err))
	}
	if err := t.put([]byte(content)); err != nil {
		return asError(err, WriteError, t.path)
	}
	return nil
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

func fileOf(info fs.FileInfo) *File {
	st := info.Sys().(*syscall.Stat_t)
	return &File{st.Dev, st.Ino, uint64(st.Nlink)}
}

// claim resolves path and locks the file there, until its target is closed. A
// change replaces the file by another one: the lock is on the wrong file then,
// and the path is resolved again. A file that cannot be locked is compared with
// the plan just before it is replaced, as is any file against programs that lock
// nothing; a new file never replaces another one.
func (o *operation) claim(path string) (*target, error) {
	for {
		t, err := resolve(path)
		if err != nil {
			return nil, err
		}
		t.sandbox = o.sandbox != nil
		if t.info == nil || !t.info.Mode().IsRegular() {
			return t, o.waiting(t)
		}
		for _, access := range []int{os.O_RDONLY, os.O_WRONLY} { // some can only be written, and NFS locks only then
			f, err := os.OpenFile(t.at(), access|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
			if err != nil {
				continue
			}
			if err = durable.Lock(o.ctx, f); err == nil {
				t.lock = f
				break
			}
			_ = f.Close() // nothing was written
			if o.ctx.Err() != nil {
				break
			}
		}
		if err := o.waiting(t); err != nil || t.lock == nil {
			return t, err
		}
		locked, err := t.lock.Stat()
		if err == nil {
			t.info, err = os.Lstat(t.at())
		}
		if err == nil && os.SameFile(locked, t.info) {
			return t, nil
		}
		t.close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// waiting is the error of a wait for other changes that took too long.
func (o *operation) waiting(t *target) error {
	if o.ctx.Err() == nil {
		return nil
	}
	t.close()
	return fail(Timeout, "%s: other changes of this file were waited for in vain. It was not changed: try again", t.path)
}

// writable is the error for a target that is not a regular file, or that is
// read-only: an atomic replacement would not notice that.
func (t *target) writable() error {
	if t.info == nil {
		return nil
	}
	if !t.info.Mode().IsRegular() {
		return fail(WriteError, "%s: only regular files can be written", irregular(t.path, t.info))
	}
	return syscall.Access(t.at(), 2) // W_OK
}

// former is the content of a file before a change.
type former struct {
	text   string
	sum    string // SHA-256 in hex; empty: absent, or it cannot be read
	absent bool
	known  bool // text is all of it
}

// former reads the content for the plan. A change needs only the permission to
// write: a file that cannot be read is neither hashed nor compared.
func (t *target) former() (before former) {
	if t.info == nil {
		return former{absent: true, known: true}
	}
	f, info, err := openRegular(t.at(), syscall.O_NOFOLLOW)
	if err != nil || f == nil {
		return former{}
	}
	defer f.Close()
	t.info = info
	var text strings.Builder
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(hash, &text), io.LimitReader(f, compareMax+1))
	if err != nil {
		return former{}
	}
	if n <= compareMax {
		before.text, before.known = text.String(), true
	} else if _, err := io.Copy(hash, f); err != nil {
		return former{}
	}
	before.sum = hex.EncodeToString(hash.Sum(nil))
	return before
}

// readAll reads a regular file of up to limit bytes.
func (t *target) readAll(limit int64) (string, error) {
	f, info, err := openRegular(t.at(), syscall.O_NOFOLLOW)
	if err != nil {
		return "", err
	}
	if f == nil {
		return "", fail(ReadError, "%s", irregular(t.path, info))
	}
	defer f.Close()
	t.info = info
	if info.Size() > limit {
		return "", errTooLarge
	}
	var text strings.Builder
	text.Grow(int(info.Size()))
	n, err := io.Copy(&text, io.LimitReader(f, limit+1))
	if n > limit {
		return "", errTooLarge
	}
	return text.String(), err
}

// unchanged reports whether the file is still the one that the plan is about. The
// kernel sets the time of its last change.
func (t *target) unchanged() bool {
	now, err := os.Lstat(t.at())
	if err != nil {
		return false
	}
	a, b := t.info.Sys().(*syscall.Stat_t), now.Sys().(*syscall.Stat_t)
	return a.Dev == b.Dev && a.Ino == b.Ino && a.Size == b.Size && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}
