package undo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"zino/pkg/durable"
	"zino/proto"
)

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
	if c.Why != "" {
		return proto.UndoNoImage, nil
	}
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
