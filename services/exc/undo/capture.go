package undo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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

// scanned scans a root, and calls use with what the index had and what was found
// before it updates the index: after a crash between the two use is called again with
// the same changes. No other scan of the root runs meanwhile.
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
	w, err := s.scan(ctx, root, x.entries)
	if w == nil {
		return err
	}
	complete := err == nil
	if complete {
		if err := use(w.old, w.now, root); err != nil {
			return err
		}
	}
	s.at("recorded")
	return errors.Join(err, w.save(x, complete))
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
			before, by.again = old, true
		}
		changes, err := changesOf(ctx, root, before, now, by)
		if err != nil {
			return err
		}
		return s.append(at, changes, by)
	})
	return s.reason(at, snap.root, err)
}

// MadeFile returns a file that write or edit has changed before a crash, as BeforeFile
// did then: sum is the SHA-256 of its content before, of which there is an image, or
// "". Owner and mode were kept by the change. Directories that it made are not known.
func (s *Store) MadeFile(at At, path, sum string) *File {
	if !s.covered(at) {
		return nil
	}
	f := s.fileAt(at, path)
	f.again = true
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

// Image returns the content with that SHA-256, or nil if there is no image of it, as of
// a content above FileMax.
func (s *Store) Image(sum string) []byte {
	if s == nil || sum == "" {
		return nil
	}
	data, err := s.objects.read(sum, FileMax)
	if err != nil {
		s.log.Warn("undo: cannot read an image", "error", err)
	}
	return data
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
