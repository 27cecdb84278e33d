package undo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"zino/pkg/durable"
)

// Snapshot is what was below a root before a command.
type Snapshot struct {
	root    string
	entries map[string]*entry
	why     string // why the changes of the command are not recorded; empty: they are
}

// Before scans the root of a command that is about to start. It returns nil where
// nothing is recorded.
func (s *Store) Before(ctx context.Context, at At) *Snapshot {
	if !s.covered(at) {
		return nil
	}
	path, err := filepath.EvalSymlinks(at.Root)
	if err != nil {
		return &Snapshot{why: uncovered("%v", err)}
	}
	snap := &Snapshot{root: path}
	if snap.why = s.leftAlone(at, path); snap.why == "" {
		err := s.scanned(ctx, path, func(_, now map[string]*entry, _ *root) error { snap.entries = now; return nil })
		snap.why = s.reason(at, path, err)
	}
	return snap
}

// reason is why a scan that failed with err does not cover the root, or "".
func (s *Store) reason(at At, root string, err error) string {
	if err == nil {
		return ""
	}
	if limit, ok := errors.AsType[*limitError](err); ok {
		s.limited(at, root, limit.why)
		return limit.why
	}
	s.log.Warn("undo: the changes of a command are not recorded", "root", root, "error", err)
	return uncovered("%v", err)
}

// scanned scans a root, and calls use with what the index had and what was found.
// No other scan of the root runs meanwhile.
func (s *Store) scanned(ctx context.Context, path string, use func(old, now map[string]*entry, root *root) error) error {
	s.objects.exclude.RLock()
	defer s.objects.exclude.RUnlock()
	root, err := openRoot(path)
	if err != nil {
		return err
	}
	defer root.close()
	x, err := s.openIndex(ctx, path)
	if err != nil {
		return err
	}
	defer x.close()
	old := x.entries
	now, err := s.scan(ctx, root, x)
	if err != nil {
		return err
	}
	return use(old, now, root)
}

// After scans the root of a command again and records its changes. With a nil
// snapshot those since the last scan of the root are recorded: for commands that
// outlive this process, or their result. It returns why nothing was recorded; ""
// if all is well.
func (s *Store) After(ctx context.Context, at At, snap *Snapshot, by By) (why string) {
	if !s.covered(at) {
		return ""
	}
	if snap == nil {
		path, err := filepath.EvalSymlinks(at.Root)
		if err != nil {
			return uncovered("%v", err)
		}
		snap = &Snapshot{root: path, why: s.leftAlone(at, path)}
	}
	if snap.why != "" {
		return snap.why
	}
	err := s.scanned(ctx, snap.root, func(old, now map[string]*entry, root *root) error {
		before := snap.entries
		if before == nil {
			before = old
		}
		changes, err := changesOf(ctx, root, before, now, by)
		if err != nil {
			return err
		}
		return s.append(at, changes)
	})
	return s.reason(at, snap.root, err)
}

// changesOf returns the changes between two scans of a root, by path.
func changesOf(ctx context.Context, root *root, before, after map[string]*entry, by By) ([]Change, error) {
	var paths []string
	for path, b := range before {
		if a := after[path]; a == nil || !unchanged(b, a) {
			paths = append(paths, path)
		}
	}
	for path := range after {
		if before[path] == nil {
			paths = append(paths, path)
		}
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return hidden(before, path) || hidden(after, path) })
	slices.Sort(paths)
	if err := hashBlobs(ctx, paths, before); err != nil {
		return nil, err
	}
	var changes []Change
	for _, path := range paths {
		b, a := before[path], after[path]
		if a != nil && a.blob != "" && a.sum == "" {
			if err := hashFile(root, path, a); err != nil {
				return nil, err
			}
		}
		if b != nil && a != nil && b.state().same(a.state()) {
			continue
		}
		changes = append(changes, newChange(root.path, path, b.state(), a.state(), by))
	}
	return changes, nil
}

// unchanged reports whether two entries show at first sight that nothing changed.
func unchanged(b, a *entry) bool {
	if b.kind != a.kind || b.mode != a.mode || b.uid != a.uid || b.gid != a.gid || b.text != a.text {
		return false
	}
	switch {
	case b.kind != kindFile:
		return true
	case b.sum != "" && a.sum != "":
		return a.sum == b.sum
	case b.blob != "" && a.blob != "":
		return a.blob == b.blob
	}
	return b.sameStat(a)
}

// hidden reports whether a directory above a path was not read: nothing is known of
// the path.
func hidden(entries map[string]*entry, path string) bool {
	for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path[:i], '/') {
		if e := entries[path[:i]]; e != nil && e.kind == kindDir && e.racy {
			return true
		}
	}
	return false
}

// hashBlobs fills in the hashes of files whose images git has. A blob that git does
// not have any more is no image.
func hashBlobs(ctx context.Context, paths []string, entries map[string]*entry) error {
	byRepo := map[string][]*entry{}
	for _, path := range paths {
		if e := entries[path]; e != nil && e.blob != "" && e.sum == "" {
			byRepo[e.git] = append(byRepo[e.git], e)
		}
	}
	for dir, list := range byRepo {
		var names []string
		for _, e := range list {
			names = append(names, e.blob)
		}
		sums, err := blobSums(ctx, dir, names)
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		for _, e := range list {
			if e.sum = sums[e.blob]; e.sum == "" {
				e.blob, e.git = "", ""
			}
		}
	}
	return nil
}

// hashFile fills in the hash of a file, if it is still as it was scanned.
func hashFile(root *root, path string, e *entry) error {
	f, err := root.openRegular(path)
	if err != nil {
		return nil // it is gone again: without a hash undo refuses
	}
	defer f.Close()
	sum, err := sumOf(f)
	if err != nil {
		return err
	}
	if st, err := fstat(f); err == nil && entryOf(&st).sameStat(e) {
		e.sum = sum
	}
	return nil
}

// File is a file that write or edit is about to change.
type File struct {
	s        *Store
	at       At
	root     string // empty: the path is absolute
	path     string
	before   *State
	dirs     []string // above it, to be made, relative to the root
	why      string
	mustHave string // the hash of the content at the plan; empty: unknown
}

// BeforeFile keeps the content of a file that write or edit is about to change. path
// is absolute, without symbolic links; sum is the SHA-256 of its content at the time
// of the plan, "" if the file does not exist. It returns nil where nothing is
// recorded.
func (s *Store) BeforeFile(at At, path, sum string) *File {
	if !s.covered(at) {
		return nil
	}
	f := s.fileAt(at, path)
	f.mustHave = sum
	err := f.keep()
	switch {
	case errors.Is(err, errTooLarge):
		f.why = TooLarge
	case err != nil:
		f.why = fmt.Sprintf("undo does not cover this change: %v", err)
		s.log.Warn("undo: the change of a file is not recorded", "path", path, "error", err)
	}
	return f
}

// MadeFile returns a file that write or edit has changed before a crash, as BeforeFile
// did then: sum is the SHA-256 of its content before, of which there is an image, or
// "". Owner and mode were kept by the change. Directories that it made are not known.
func (s *Store) MadeFile(at At, path, sum string) *File {
	if !s.covered(at) {
		return nil
	}
	f := s.fileAt(at, path)
	if sum == "" {
		return f
	}
	root, err := f.open()
	if err == nil {
		f.before, err = s.stateOf(root, f.path, FileMax)
		root.close()
	}
	if err != nil {
		f.why = fmt.Sprintf("undo does not cover this change: %v", err)
		return f
	}
	f.before.SHA256 = sum
	return f
}

func (s *Store) fileAt(at At, path string) *File {
	f := &File{s: s, at: at, path: strings.TrimPrefix(path, "/")}
	if real, err := filepath.EvalSymlinks(at.Root); err == nil {
		if rel, err := filepath.Rel(real, path); err == nil && filepath.IsLocal(rel) {
			f.root, f.path = real, rel
		}
	}
	return f
}

var errTooLarge = errors.New("the file is too large")

func (f *File) open() (*root, error) {
	if f.root == "" {
		return openRoot("/")
	}
	return openRoot(f.root)
}

func (f *File) keep() error {
	f.s.objects.exclude.RLock()
	defer f.s.objects.exclude.RUnlock()
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.close()
	for dir := filepath.Dir(f.path); dir != "."; dir = filepath.Dir(dir) {
		parent, err := root.open(dir, unix.O_PATH|unix.O_DIRECTORY)
		if err == nil {
			closeAll(parent)
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f.dirs = append(f.dirs, dir)
	}
	if len(f.dirs) > 0 {
		return nil
	}
	f.before, err = f.s.stateOf(root, f.path, FileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && f.mustHave != "" && f.before.SHA256 != f.mustHave {
		err = errChanging
	}
	return err
}

// stateOf returns what is at a path, and makes an image of a file.
func (s *Store) stateOf(root *root, path string, limit int64) (*State, error) {
	dir, err := root.parent(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	st, err := lstat(dir, filepath.Base(path))
	if err != nil {
		return nil, err
	}
	e := entryOf(&st)
	switch {
	case e == nil:
		return nil, fmt.Errorf("not a file, directory or symbolic link")
	case e.kind == kindSymlink:
		e.text, err = readLink(dir, filepath.Base(path))
		return e.state(), err
	case e.kind == kindDir:
		return e.state(), nil
	case e.size > limit:
		return nil, errTooLarge
	}
	file, err := root.openRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if e.sum, err = s.objects.put(file, nil, nil); err != nil {
		return nil, err
	}
	return e.state(), nil
}

// After records the change of a file that was made. sum is the SHA-256 of the
// content that was written. It returns why nothing was recorded, "" if all is well.
func (f *File) After(by By, sum string) (why string) {
	if f == nil || f.why != "" {
		if f != nil {
			why = f.why
		}
		return why
	}
	err := f.record(by, sum)
	if errors.Is(err, errTooLarge) {
		return TooLarge
	}
	if err != nil {
		f.s.log.Warn("undo: the change of a file is not recorded", "path", filepath.Join("/", f.root, f.path), "error", err)
		return fmt.Sprintf("undo does not cover this change: %v", err)
	}
	return ""
}

func (f *File) record(by By, sum string) error {
	f.s.objects.exclude.RLock()
	defer f.s.objects.exclude.RUnlock()
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.close()
	var changes []Change
	add := func(path string, before, after *State) {
		if f.root == "" {
			path = "/" + path
		}
		changes = append(changes, newChange(f.root, path, before, after, by))
	}
	for _, dir := range slices.Backward(f.dirs) {
		if state, err := f.s.stateOf(root, dir, 0); err == nil && state.Kind == kindDir {
			add(dir, nil, state)
		}
	}
	after, err := f.s.stateOf(root, f.path, FileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the call has failed
	}
	if err != nil {
		return err
	}
	if !f.before.same(after) {
		after.SHA256 = sum // if another program has changed it since, undo refuses
		add(f.path, f.before, after)
	}
	return f.s.append(f.at, changes)
}

// Remove removes the records of a session.
func (s *Store) Remove(session string) error {
	if s == nil {
		return nil
	}
	lock, err := s.lockSession(context.Background(), session)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer closeAll(lock)
	if err := os.RemoveAll(s.sessionDir(session)); err != nil {
		return err
	}
	return syncPath(s.turnsDir())
}

// lockSession locks the directory of a session's records: for undos, and for what
// removes records.
func (s *Store) lockSession(ctx context.Context, session string) (*os.File, error) {
	root, err := s.openSession(session, false)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	if err := durable.Lock(ctx, dir); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}
