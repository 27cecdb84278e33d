package undo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"maps"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// depthMax is how deep a scan goes: each level has a directory open.
	depthMax = 200
	// tick is the granularity of the times of files: a file that changed so short a
	// time before it was read is read again.
	tick = 20 * time.Millisecond
	// every is how many names are read between two looks at the clock.
	every = 256
)

// scan reads what is below a root.
type scan struct {
	s        *Store
	ctx      context.Context
	root     *root
	dev      uint64
	old      map[string]*entry // of the index
	now      map[string]*entry
	own      map[string]bool // directories that are left out
	exclude  map[string]bool // likewise, by name
	deadline time.Time
	names    int
	files    int
	unread   []unread
	changed  bool // something differs from the index
}

// unread is a file whose content must be read.
type unread struct {
	path string
	e    *entry
	repo *repo
	attr bool // attributes of its repository may convert it
}

// limitError says that a scan reached a limit.
type limitError struct{ why string }

func (e *limitError) Error() string { return e.why }

// scan reads what is below the root, as far as the limits allow. old is what the
// index has. The error is a *limitError if a limit was reached.
func (s *Store) scan(ctx context.Context, root *root, old map[string]*entry) (*scan, error) {
	st, err := fstat(root.dir)
	if err != nil {
		return nil, err
	}
	w := &scan{
		s: s, ctx: ctx, root: root, dev: st.Dev, old: old, now: make(map[string]*entry, len(old)+64),
		own: s.ownBelow(root.path), exclude: map[string]bool{}, deadline: time.Now().Add(time.Duration(s.cfg.ScanMS) * time.Millisecond),
	}
	for _, name := range s.cfg.Exclude {
		w.exclude[name] = true
	}
	if w.own["."] {
		return w, &limitError{uncovered("the directory is Zino's own")}
	}
	return w, w.run()
}

// save updates the index. With an incomplete scan it keeps what is known of the rest.
func (w *scan) save(x *index, complete bool) error {
	if complete {
		if !w.changed && len(w.now) == len(w.old) {
			return nil
		}
		return x.save(w.root.path, w.now)
	}
	if !w.changed {
		return nil
	}
	all := maps.Clone(w.old)
	maps.Copy(all, w.now)
	for path, e := range all { // content that was not read is found again
		if e.kind == kindFile && e.sum == "" && e.blob == "" && e.size <= w.s.cfg.FileBytes {
			delete(all, path)
		}
	}
	return x.save(w.root.path, all)
}

func (w *scan) run() error {
	dir, err := w.root.open(".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	var above *repo
	if _, err := os.Lstat(w.root.path + "/.git"); err != nil {
		above = repoAbove(w.ctx, w.root.path)
	}
	if err := w.walk(dir, "", above, above != nil && above.verify, 0); err != nil {
		return err
	}
	total := int64(0)
	for _, e := range w.now {
		if e.sum != "" && e.blob == "" {
			total += e.size
		}
	}
	for _, u := range w.unread {
		if err := w.pause(); err != nil {
			return err
		}
		image, err := w.read(u)
		if err != nil {
			return err
		}
		if image {
			total += u.e.size
		}
		if total > w.s.cfg.Bytes {
			return &limitError{uncovered("more than %s of files", bytesText(w.s.cfg.Bytes))}
		}
	}
	return nil
}

// pause returns an error when the time of the scan is up.
func (w *scan) pause() error {
	if time.Now().After(w.deadline) {
		return &limitError{uncovered("a scan takes more than %d ms", w.s.cfg.ScanMS)}
	}
	return w.ctx.Err()
}

// walk reads a directory and those below it, and closes it.
func (w *scan) walk(dir *os.File, path string, above *repo, attr bool, depth int) error {
	names, err := dir.Readdirnames(-1)
	defer dir.Close()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	in := above
	for _, name := range names {
		switch name {
		case ".git":
			in = openRepo(w.ctx, strings.TrimSuffix(w.root.path+"/"+path, "/"))
			if attr = in != nil && in.verify; in != nil {
				in.below = path
			}
		}
	}
	for _, name := range names {
		if name == ".gitattributes" && in != nil && !attr {
			attr = convertsIn(w.root.path + "/" + path + name)
		}
	}
	for _, name := range names {
		if w.names++; w.names%every == 0 {
			if err := w.pause(); err != nil {
				return err
			}
		}
		st, err := lstat(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "stat", Path: path + name, Err: err}
		}
		e := entryOf(&st)
		if e == nil || e.kind == kindDir && w.exclude[name] || name == ".git" && w.exclude[name] || w.own[path+name] {
			continue
		}
		if err := w.add(dir, path+name, name, e, &st, in, attr, depth); err != nil {
			return err
		}
	}
	return nil
}

// add adds what is at a path.
func (w *scan) add(dir *os.File, path, name string, e *entry, st *unix.Stat_t, in *repo, attr bool, depth int) error {
	old := w.old[path]
	switch e.kind {
	case kindDir:
		e.size, e.mtime, e.ctime = 0, 0, 0 // they change with every entry
		w.now[path] = e
		fd, err := -1, error(nil)
		if st.Dev == w.dev && depth < depthMax {
			fd, err = unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		}
		e.racy = fd < 0
		w.changed = w.changed || old == nil || *old != *e
		if fd < 0 {
			if err != nil && !errorIs(err, unix.EACCES, unix.ENOENT, unix.ENOTDIR, unix.ELOOP) {
				return &os.PathError{Op: "open", Path: path, Err: err}
			}
			return nil
		}
		return w.walk(os.NewFile(uintptr(fd), path), path+"/", in, attr, depth+1)
	case kindSymlink:
		text, err := readLink(dir, name)
		if err != nil {
			return nil // replaced meanwhile
		}
		e.text = text
	}
	if w.files++; w.files > w.s.cfg.Files {
		return &limitError{uncovered("more than %d files (limit %[1]d)", w.s.cfg.Files)}
	}
	if old != nil && old.sameStat(e) && !old.racy {
		e.sum, e.blob, e.git = old.sum, old.blob, old.git
		w.changed = w.changed || *old != *e
		w.now[path] = e
		return nil
	}
	w.changed = true
	w.now[path] = e
	if e.kind == kindFile {
		if blob := in.blobOf(path, e); blob != "" && !attr {
			e.blob, e.git = blob, in.dir
		} else if e.size <= w.s.cfg.FileBytes {
			w.unread = append(w.unread, unread{path, e, in, attr})
		}
	}
	return nil
}

// read reads the content of a file, and makes an image of it if git has none. A file
// that cannot be read, or is written meanwhile, gets none.
func (w *scan) read(u unread) (image bool, err error) {
	f, err := w.root.openRegular(u.path)
	if errorIs(err, unix.EACCES, unix.ENOENT, unix.ELOOP, unix.ENXIO, unix.ENOTDIR) || errors.Is(err, errChanging) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	blob := u.repo.blobOf(u.path, u.e)
	var git hash.Hash
	isBlob := func() bool { return hex.EncodeToString(git.Sum(nil)) == blob }
	start := time.Now()
	for range 3 {
		st, err := fstat(f)
		if err != nil {
			return false, err
		}
		*u.e = *entryOf(&st)
		u.e.racy = start.Add(-tick).UnixNano() < max(u.e.ctime, u.e.mtime)
		if u.e.size > w.s.cfg.FileBytes {
			return false, nil
		}
		if blob != "" {
			git = u.repo.blobHash(u.e.size)
			u.e.sum, err = w.s.objects.put(f, git, isBlob)
		} else {
			u.e.sum, err = w.s.objects.put(f, nil, nil)
		}
		if err == nil {
			if blob != "" && isBlob() {
				u.e.blob, u.e.git = blob, u.repo.dir
			}
			return u.e.blob == "", nil
		}
		u.e.sum = ""
		if !errors.Is(err, errChanging) {
			return false, fmt.Errorf("cannot keep an image of %s: %w", u.path, err)
		}
		if _, err := f.Seek(0, 0); err != nil {
			return false, err
		}
	}
	return false, nil
}
