package undo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/durable"
	"zino/proto"
	"zino/services/exc/files"
)

// lockLimit is how long an undo waits for another change of a file.
const lockLimit = 5 * time.Second

// Undo takes back the file changes of a turn. With redo it takes back an undo.
func (s *Store) Undo(ctx context.Context, req proto.Undo, redo bool) (proto.Undone, error) {
	if err := s.problem(); err != nil {
		return proto.Undone{}, err
	}
	lock, err := s.lockSession(ctx, req.SessionID)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = s.find(req, redo) // which says that there is nothing
	}
	if err != nil {
		return proto.Undone{}, err
	}
	defer lock.Close()
	s.objects.exclude.RLock()
	defer s.objects.exclude.RUnlock()
	u := &undo{s: s, ctx: ctx, roots: map[string]*root{}}
	defer u.close()
	if u.dir, err = s.openSession(req.SessionID, false); err != nil {
		return proto.Undone{}, err
	}
	if err := u.finish(); err != nil {
		return proto.Undone{}, err
	}
	sel, err := s.find(req, redo)
	if err != nil {
		return proto.Undone{}, err
	}
	u.restoring = sel.changes
	reply := proto.Undone{Turn: sel.turn, Restored: []string{}, Removed: []string{}, Refused: []proto.UndoRefused{}}
	p := &plan{Turn: sel.turn, Redo: redo, Whole: len(req.Paths) == 0, State: planPrepare, TS: time.Now().UTC().Format(timeFormat), n: sel.next}
	for _, c := range sel.changes {
		reason := proto.UndoChanged
		if !sel.gaps[c.id()] {
			if reason, err = u.refusal(c); err != nil {
				return proto.Undone{}, err
			}
		}
		if reason != "" {
			reply.Refused = append(reply.Refused, proto.UndoRefused{Path: c.name(), Reason: reason})
			continue
		}
		p.add(c)
	}
	if len(reply.Refused) > 0 && !req.Partial {
		return reply, nil
	}
	if !req.DryRun && len(p.Steps) > 0 {
		if err := u.carryOut(p); err != nil {
			return proto.Undone{}, err
		}
	}
	p.report(&reply)
	return reply, nil
}

// report adds what a plan has changed to a reply.
func (p *plan) report(reply *proto.Undone) {
	for i, t := range p.Steps {
		c := t.change()
		c.Kind = cmp.Or(t.To, t.From).Kind
		switch {
		case t.Skipped != "":
			reply.Refused = append(reply.Refused, proto.UndoRefused{Path: c.name(), Reason: t.Skipped})
		case t.To != nil:
			reply.Restored = append(reply.Restored, c.name())
		case !slices.ContainsFunc(p.Steps[i+1:], func(o step) bool { return o.Root == t.Root && o.Path == t.Path }): // not replaced by another kind
			reply.Removed = append(reply.Removed, c.name())
		}
	}
	slices.Sort(reply.Restored)
	slices.Sort(reply.Removed)
	reply.Restored = slices.Compact(reply.Restored) // a directory that gets its mode in a second step
}

// add adds the steps that take back a change. Removals come first, what is below
// before its directory; then directories, the upper ones first; then the rest.
func (p *plan) add(c Change) {
	first := step{Root: c.Root, Path: c.Path, From: c.After, To: c.Before}
	if c.Before != nil && c.After != nil && (c.Before.Kind == kindDir) != (c.After.Kind == kindDir) { // no rename replaces one by the other
		p.Steps = append(p.Steps, step{Root: c.Root, Path: c.Path, From: c.After})
		first.From = nil
	}
	if to := first.To; to != nil && to.Kind == kindDir && first.From == nil && to.Mode&0o300 != 0o300 { // what was in it must get in first
		open := *to
		open.Mode |= 0o700
		p.Steps = append(p.Steps, step{Root: c.Root, Path: c.Path, From: &open, To: to})
		first.To = &open
	}
	p.Steps = append(p.Steps, first)
	rank := func(t step) int {
		switch {
		case t.To == nil:
			return 0
		case t.To.Kind == kindDir && t.From == nil:
			return 1
		case t.To.Kind == kindDir:
			return 3
		}
		return 2
	}
	slices.SortStableFunc(p.Steps, func(a, b step) int {
		order := strings.Compare(a.change().id(), b.change().id())
		if r := rank(a); r == rank(b) && (r == 0 || r == 3) {
			order = -order
		}
		return cmp.Or(rank(a)-rank(b), order)
	})
}

// undo is an undo that is carried out, or finished.
type undo struct {
	s         *Store
	ctx       context.Context
	dir       *os.Root // of the session's records
	roots     map[string]*root
	restoring []Change
}

func (u *undo) close() {
	for _, r := range u.roots {
		r.close()
	}
	if u.dir != nil {
		_ = u.dir.Close() // nothing was written to it
	}
}

// open returns the root of a path, and the path below it.
func (u *undo) open(rootPath, path string) (*root, string, error) {
	rootPath, path = below(rootPath, path)
	if r := u.roots[rootPath]; r != nil {
		return r, path, nil
	}
	r, err := openRoot(rootPath)
	if err != nil {
		return nil, "", err
	}
	u.roots[rootPath] = r
	return r, path, nil
}

// present is what is at a path now.
type present struct {
	*State
	links uint64
	file  *os.File // a regular file, open and locked
	dir   *os.File // its directory
}

func (p *present) close() { closeAll(p.file, p.dir) }

// errParent says that the directory of a path is gone, or a symbolic link now.
var errParent = errors.New("the directory is gone")

// look returns what is at a path. A missing path has no State. The hash of a file is
// computed if hashed is true.
func (u *undo) look(rootPath, path string, hashed bool) (*present, error) {
	root, path, err := u.open(rootPath, path)
	if err == nil {
		var dir *os.File
		if dir, err = root.parent(path); err == nil {
			return u.lookIn(dir, root, path, hashed)
		}
	}
	if errorIs(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV) {
		return nil, fmt.Errorf("%w: %w", errParent, err)
	}
	return nil, err
}

func (u *undo) lookIn(dir *os.File, root *root, path string, hashed bool) (p *present, err error) {
	p = &present{dir: dir}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	st, err := lstat(dir, filepath.Base(path))
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	e := entryOf(&st)
	if e == nil {
		p.State = &State{Kind: "other"}
		return p, nil
	}
	switch e.kind {
	case kindSymlink:
		if e.text, err = readLink(dir, filepath.Base(path)); err != nil {
			return p, err
		}
	case kindFile:
		if !hashed {
			break
		}
		if p.file, err = root.openRegular(path); err != nil {
			return p, err
		}
		ctx, cancel := context.WithTimeout(u.ctx, lockLimit)
		err = durable.Lock(ctx, p.file) // write and edit lock what they change
		cancel()
		if err != nil {
			return p, err
		}
		if e.sum, err = sumOf(p.file); err != nil {
			return p, err
		}
		open, err := fstat(p.file)
		if err != nil {
			return p, err
		}
		if now, err := lstat(dir, filepath.Base(path)); err != nil || !sameStat(open, now) {
			return p, errors.Join(errChanging, err)
		}
		st = open
	}
	p.State, p.links = e.state(), uint64(st.Nlink)
	return p, nil
}

// refusal returns why a change cannot be taken back, or "".
func (u *undo) refusal(c Change) (string, error) {
	now, err := u.look(c.Root, c.Path, c.After != nil && c.After.SHA256 != "")
	switch {
	case errors.Is(err, errParent):
		if c.After == nil && u.parentReturns(c) {
			return u.unrestorable(c)
		}
		return proto.UndoParent, nil
	case errors.Is(err, errChanging), errors.Is(err, context.DeadlineExceeded) && u.ctx.Err() == nil:
		return proto.UndoChanged, nil
	case errors.Is(err, fs.ErrPermission):
		return proto.UndoOwner, nil
	case err != nil:
		return "", err
	}
	defer now.close()
	is := now.State
	switch after := c.After; {
	case is == nil && after != nil:
		return proto.UndoMissing, nil
	case is != nil && after == nil && !(is.Kind == kindDir && c.Before.Kind == kindDir):
		return proto.UndoChanged, nil
	case is == nil || after == nil:
	case is.Kind != after.Kind:
		return proto.UndoChanged, nil
	case is.Kind == kindFile && now.links > 1:
		return proto.UndoHardLink, nil
	case is.UID != after.UID || is.GID != after.GID:
		return proto.UndoOwner, nil
	case is.Kind == kindFile && after.SHA256 == "":
		return proto.UndoNoImage, nil
	case is.Mode != after.Mode || !is.sameContent(after):
		return proto.UndoChanged, nil
	}
	return u.unrestorable(c)
}

// parentReturns reports whether the directory of a path is restored as well.
func (u *undo) parentReturns(c Change) bool {
	return slices.ContainsFunc(u.restoring, func(o Change) bool {
		return o.Root == c.Root && o.Path == filepath.Dir(c.Path) && o.returnsDir()
	})
}

// unrestorable returns why what was before a change cannot be restored, or "".
func (u *undo) unrestorable(c Change) (string, error) {
	before := c.Before
	if before == nil {
		return "", nil
	}
	if uid := os.Geteuid(); uid != 0 && (int(before.UID) != uid || !inGroup(int(before.GID))) {
		return proto.UndoOwner, nil
	}
	if before.Kind != kindFile || c.After != nil && c.After.Kind == kindFile && before.SHA256 != "" && before.sameContent(c.After) {
		return "", nil
	}
	switch {
	case before.SHA256 == "":
		return proto.UndoNoImage, nil
	case u.s.objects.has(before.SHA256):
		return "", nil
	case before.Blob == "":
		return proto.UndoNoImage, nil
	}
	sums, err := blobSums(u.ctx, before.Git, []string{before.Blob})
	if err := u.ctx.Err(); err != nil {
		return "", err
	}
	if err != nil || sums[before.Blob] != before.SHA256 {
		return proto.UndoNoImage, nil
	}
	return "", nil
}

// inGroup reports whether this process can give its files to a group.
func inGroup(gid int) bool {
	groups, err := os.Getgroups()
	return gid == os.Getegid() || err == nil && slices.Contains(groups, gid)
}

// carryOut makes temporary files beside the files of a plan, writes the plan, and
// makes the changes. After an error nothing is changed.
func (u *undo) carryOut(p *plan) error {
	err := u.keepPresent(p)
	if err == nil {
		for i := range p.Steps {
			if err = u.nameTemp(&p.Steps[i]); err != nil {
				break
			}
		}
	}
	if err != nil {
		return u.unchanged(err)
	}
	if err := p.save(u.dir); err != nil {
		return u.unchanged(errors.Join(err, u.drop(p)))
	}
	u.s.at("prepared")
	for _, t := range p.Steps {
		if err = u.makeTemp(t); err != nil {
			break
		}
		u.s.at("temporary")
	}
	if err == nil {
		p.State = planGo
		if err = p.save(u.dir); err != nil {
			p.State = planPrepare
		}
	}
	if err != nil {
		return u.unchanged(errors.Join(err, u.drop(p)))
	}
	u.s.at("planned")
	return u.apply(p)
}

func (u *undo) unchanged(err error) error {
	if durable.IsFull(err) {
		return proto.Errorf(proto.CodeUnavailable, "the undo was not carried out, and no file was changed: %v: free some disk space and try again", err)
	}
	return fmt.Errorf("the undo was not carried out, and no file was changed: %w", err)
}

// keepPresent makes images of what the plan replaces or removes, for redo.
func (u *undo) keepPresent(p *plan) error {
	sums := map[string]bool{}
	for i, t := range p.Steps {
		if t.From == nil || t.From.Kind != kindFile {
			continue
		}
		root, path, err := u.open(t.Root, t.Path)
		if err != nil {
			return err
		}
		f, err := root.openRegular(path)
		if err != nil {
			return err
		}
		sum, err := u.s.objects.put(f, nil, nil)
		closeAll(f)
		if err != nil {
			return err
		}
		if sum != t.From.SHA256 {
			return fmt.Errorf("%s: %w", t.Path, errChanging)
		}
		from := *t.From
		from.Blob, from.Git = "", ""
		p.Steps[i].From, sums[sum] = &from, true
	}
	return u.s.objects.sync(sums)
}

// inPlace reports whether a step changes only permissions and owner.
func (t step) inPlace() bool {
	return t.From != nil && t.To != nil && t.From.sameContent(t.To) && t.To.Kind != kindSymlink && (t.To.Kind == kindDir || t.From.UID == t.To.UID && t.From.GID == t.To.GID)
}

// nameTemp chooses the temporary file of a step: in the directory of its path, or in
// the nearest one above that exists.
func (u *undo) nameTemp(t *step) error {
	if t.To == nil || t.inPlace() {
		return nil
	}
	root, path, err := u.open(t.Root, t.Path)
	if err != nil {
		return err
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		parent, err := root.open(dir, unix.O_PATH|unix.O_DIRECTORY)
		if err == nil {
			closeAll(parent)
			t.Temp = filepath.Join(dir, tempPrefix+randomName())
			return nil
		}
		if dir == "." || !errorIs(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP) {
			return err
		}
	}
}

// makeTemp makes the temporary file of a step and returns when it is on disk.
func (u *undo) makeTemp(t step) (err error) {
	if t.Temp == "" {
		return nil
	}
	root, path, err := u.open(t.Root, t.Path)
	if err != nil {
		return err
	}
	dir, err := root.parent(t.Temp)
	if err != nil {
		return err
	}
	defer dir.Close()
	name := filepath.Base(t.Temp)
	switch t.To.Kind {
	case kindSymlink:
		if err := unix.Symlinkat(t.To.Text, int(dir.Fd()), name); err != nil {
			return &os.PathError{Op: "symlink", Path: t.Path, Err: err}
		}
		if err := unix.Fchownat(int(dir.Fd()), name, int(t.To.UID), int(t.To.GID), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return &os.PathError{Op: "chown", Path: t.Path, Err: err}
		}
		return syncDir(dir)
	case kindDir:
		if err := unix.Mkdirat(int(dir.Fd()), name, 0o700); err != nil {
			return &os.PathError{Op: "mkdir", Path: t.Path, Err: err}
		}
		f, err := root.open(t.Temp, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer f.Close()
		return errors.Join(t.To.give(f), syncDir(dir))
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "create a file beside", Path: t.Path, Err: err}
	}
	f := os.NewFile(uintptr(fd), t.Path)
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := u.content(f, t.To); err != nil {
		return err
	}
	if t.From != nil && t.From.Kind == kindFile { // keep the attributes that users set
		old, err := root.openRegular(path)
		if err != nil {
			return err
		}
		err = files.CopyAttributes(through(old), through(f))
		closeAll(old)
		if err != nil {
			return err
		}
	}
	if err := t.To.give(f); err != nil {
		return err
	}
	return errors.Join(f.Sync(), syncDir(dir))
}

// content writes the content of a state from its image.
func (u *undo) content(f *os.File, state *State) error {
	if state.Blob == "" || u.s.objects.has(state.SHA256) {
		return u.s.objects.restore(f, state.SHA256)
	}
	err := blobs(u.ctx, state.Git, []string{state.Blob}, func(_ int, content io.Reader) error {
		if content == nil {
			return fmt.Errorf("git does not have the object %s any more", state.Blob)
		}
		_, err := io.Copy(f, content)
		return err
	})
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if sum, err := sumOf(f); err != nil || sum != state.SHA256 {
		return errors.Join(fmt.Errorf("the git object %s has another content than the file had", state.Blob), err)
	}
	return nil
}

// give gives a file its owner and permissions.
func (s *State) give(f *os.File) error {
	st, err := fstat(f)
	if err != nil {
		return err
	}
	if st.Uid != s.UID || st.Gid != s.GID {
		if err := f.Chown(int(s.UID), int(s.GID)); err != nil {
			return err
		}
	}
	return unix.Fchmod(int(f.Fd()), s.Mode)
}

// apply makes the changes of a plan. Each step is decided by what is there, so that
// a plan can be applied again after a crash. A path that was changed meanwhile is
// left alone.
func (u *undo) apply(p *plan) error {
	for i := range p.Steps {
		t := &p.Steps[i]
		if t.Skipped != "" {
			continue
		}
		if err := u.step(*t); errors.Is(err, errParent) {
			t.Skipped = proto.UndoParent
		} else if errors.Is(err, errChanging) {
			t.Skipped = proto.UndoChanged
		} else if err != nil {
			t.Skipped = err.Error()
		}
		u.s.at("step")
	}
	for _, t := range p.Steps {
		if t.Skipped != "" {
			u.s.log.Warn("undo: a path was left as it is", "path", t.Path, "reason", t.Skipped)
		}
		if err := u.dropTemp(t); err != nil {
			u.s.log.Warn("undo: cannot remove a temporary file", "path", t.Temp, "error", err)
		}
	}
	p.State = planDone
	if err := p.save(u.dir); err != nil {
		return fmt.Errorf("the changes were made, but this could not be stored: %w", err)
	}
	u.s.at("done")
	return nil
}

// step makes one change.
func (u *undo) step(t step) error {
	now, err := u.look(t.Root, t.Path, true)
	if errors.Is(err, fs.ErrNotExist) && t.To == nil {
		return nil // an earlier attempt has removed the directory as well
	}
	if err != nil {
		return err
	}
	defer now.close()
	isDir := now.State != nil && now.Kind == kindDir
	switch {
	case now.State.same(t.To), isDir && t.From == nil && t.To != nil && t.To.Kind == kindDir:
		return nil // an earlier attempt has done it
	case !now.State.same(t.From) || now.links > 1 && now.Kind == kindFile:
		return errChanging
	}
	name := filepath.Base(t.Path)
	switch {
	case t.To == nil && t.From.Kind == kindDir:
		if err := unix.Unlinkat(int(now.dir.Fd()), name, unix.AT_REMOVEDIR); err != nil && !errorIs(err, unix.ENOTEMPTY, unix.EEXIST) {
			return &os.PathError{Op: "rmdir", Path: t.Path, Err: err}
		}
	case t.To == nil:
		if err := unix.Unlinkat(int(now.dir.Fd()), name, 0); err != nil {
			return &os.PathError{Op: "unlink", Path: t.Path, Err: err}
		}
	case t.inPlace():
		if err := u.changeMode(t, now); err != nil {
			return err
		}
	default:
		if err := u.rename(t, now); err != nil {
			return err
		}
	}
	return syncDir(now.dir)
}

// changeMode restores permissions and owner of a path whose content is right.
func (u *undo) changeMode(t step, now *present) error {
	f := now.file
	if t.To.Kind == kindDir {
		root, path, err := u.open(t.Root, t.Path)
		if err != nil {
			return err
		}
		if f, err = root.open(path, unix.O_PATH|unix.O_DIRECTORY); err != nil {
			return err
		}
		defer f.Close()
	}
	if t.From.UID != t.To.UID || t.From.GID != t.To.GID {
		if err := os.Chown(through(f), int(t.To.UID), int(t.To.GID)); err != nil {
			return err
		}
	}
	return os.NewSyscallError("chmod", unix.Chmod(through(f), t.To.Mode))
}

// rename puts the temporary file of a step in its place.
func (u *undo) rename(t step, now *present) error {
	root, path, err := u.open(t.Root, t.Path)
	if err != nil {
		return err
	}
	from, err := root.parent(t.Temp)
	if err != nil {
		return err
	}
	defer from.Close()
	flags := uint(0)
	if t.From == nil {
		flags = unix.RENAME_NOREPLACE
	}
	err = unix.Renameat2(int(from.Fd()), filepath.Base(t.Temp), int(now.dir.Fd()), filepath.Base(path), flags)
	if errorIs(err, unix.EINVAL, unix.ENOSYS) && flags != 0 { // not on this file system
		err = unix.Renameat(int(from.Fd()), filepath.Base(t.Temp), int(now.dir.Fd()), filepath.Base(path))
	}
	if errors.Is(err, fs.ErrExist) {
		return errChanging
	}
	if err != nil {
		return &os.PathError{Op: "rename", Path: t.Path, Err: err}
	}
	return nil
}

// drop removes a plan that has changed nothing, with its temporary files.
func (u *undo) drop(p *plan) error {
	var failed error
	for _, t := range p.Steps {
		failed = errors.Join(failed, u.dropTemp(t))
	}
	if failed != nil {
		return failed // the next start tries again
	}
	if err := u.dir.Remove(planName(p.n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.SyncDir(u.dir)
}

// dropTemp removes the temporary file of a step, if it is there.
func (u *undo) dropTemp(t step) error {
	if t.Temp == "" {
		return nil
	}
	root, _, err := u.open(t.Root, t.Path)
	if err == nil {
		var dir *os.File
		if dir, err = root.parent(t.Temp); err == nil {
			defer dir.Close()
			flags := 0
			if t.To.Kind == kindDir {
				flags = unix.AT_REMOVEDIR
			}
			err = unix.Unlinkat(int(dir.Fd()), filepath.Base(t.Temp), flags)
		}
	}
	if errorIs(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP) {
		return nil
	}
	return err
}

// finish ends the plans of a session that were cut off: one that has changed
// nothing is dropped, another one is completed. The session is locked.
func (u *undo) finish() error {
	entries, err := fs.ReadDir(u.dir.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		n, ok := planNumber(e.Name())
		if !ok {
			continue
		}
		data, err := u.dir.ReadFile(e.Name())
		if err != nil {
			return err
		}
		p, err := parsePlan(data)
		if err != nil || p.State == planDone {
			continue // records reports a damaged one
		}
		p.n = n
		if p.State == planPrepare {
			err = u.drop(&p)
		} else {
			err = u.apply(&p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Recover finishes the undos that were cut off when a process was killed.
func (s *Store) Recover(ctx context.Context) error {
	sessions, err := os.ReadDir(s.turnsDir())
	if err != nil {
		return err
	}
	var failed []error
	for _, e := range sessions {
		plans, err := filepath.Glob(filepath.Join(s.turnsDir(), e.Name(), "undo-*.json"))
		if err != nil || len(plans) == 0 || supported() != nil {
			continue
		}
		failed = append(failed, s.recoverSession(ctx, e.Name()))
	}
	return errors.Join(failed...)
}

func (s *Store) recoverSession(ctx context.Context, session string) error {
	dir, err := s.openSession(session, false)
	if err != nil {
		return err
	}
	u := &undo{s: s, ctx: ctx, dir: dir, roots: map[string]*root{}}
	defer u.close()
	lock, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := durable.TryLock(lock); err != nil {
		if errors.Is(err, durable.ErrLocked) {
			return nil // another process is at work on it
		}
		return err
	}
	s.objects.exclude.RLock()
	defer s.objects.exclude.RUnlock()
	return u.finish()
}
