package undo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/durable"
	"zino/proto"
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
	if req.Recover {
		return s.finished(req)
	}
	sel, err := s.find(req, redo)
	if err != nil {
		return proto.Undone{}, err
	}
	u.restoring = sel.changes
	p := &plan{
		Turn: sel.turn, Redo: redo, Whole: len(req.Paths) == 0, State: planPrepare, TS: time.Now().UTC().Format(timeFormat),
		ID: req.ID, Refused: []proto.UndoRefused{}, n: sel.next,
	}
	for _, c := range sel.changes {
		reason := proto.UndoChanged
		if !sel.gaps[c.id()] {
			if reason, err = u.refusal(c); err != nil {
				return proto.Undone{}, err
			}
		}
		if reason != "" {
			p.Refused = append(p.Refused, proto.UndoRefused{Path: c.name(), Reason: reason})
			continue
		}
		p.add(c)
	}
	if len(p.Refused) > 0 && !req.Partial {
		p.Steps = nil
	}
	if !req.DryRun && len(p.Steps) > 0 {
		if err := u.carryOut(p); err != nil {
			return proto.Undone{}, err
		}
	}
	return p.report(), nil
}

// finished returns the answer of an undo that was carried out.
func (s *Store) finished(req proto.Undo) (proto.Undone, error) {
	_, plans, err := s.records(req.SessionID)
	if err != nil {
		return proto.Undone{}, err
	}
	for _, p := range plans {
		if p.ID == req.ID && p.State == planDone {
			return p.report(), nil
		}
	}
	return proto.Undone{}, proto.Errorf(proto.CodeNotFound, "no undo %.64s was carried out in session %s", req.ID, req.SessionID)
}

// report is what a plan has changed.
func (p *plan) report() proto.Undone {
	reply := proto.Undone{Turn: p.Turn, Restored: []string{}, Removed: []string{}, Refused: slices.Clone(p.Refused)}
	for i, t := range p.Steps {
		c := t.change()
		c.Kind = cmp.Or(t.To, t.From).Kind
		switch {
		case t.Skipped != "":
			reply.Refused = append(reply.Refused, proto.UndoRefused{Path: c.name(), Reason: t.Skipped})
		case t.Kept:
		case t.To != nil:
			reply.Restored = append(reply.Restored, c.name())
		case !slices.ContainsFunc(p.Steps[i+1:], func(o step) bool { return o.Root == t.Root && o.Path == t.Path }): // not replaced by another kind
			reply.Removed = append(reply.Removed, c.name())
		}
	}
	slices.Sort(reply.Restored)
	slices.Sort(reply.Removed)
	reply.Restored = slices.Compact(reply.Restored) // a directory that gets its mode in a second step
	return reply
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

// apply makes the changes of a plan. Each step is decided by what is there, so that
// a plan can be applied again after a crash. A path that was changed meanwhile is
// left alone.
func (u *undo) apply(p *plan) error {
	for i := range p.Steps {
		t := &p.Steps[i]
		if t.Skipped != "" {
			continue
		}
		if err := u.step(*t); errorIs(err, unix.ENOTEMPTY, unix.EEXIST) {
			t.Kept = true
		} else if errors.Is(err, errParent) {
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
		if err := unix.Unlinkat(int(now.dir.Fd()), name, unix.AT_REMOVEDIR); err != nil {
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
