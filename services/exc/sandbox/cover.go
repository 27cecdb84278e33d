package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// cover hides what is hidden, and keeps from changes what is protected.
func (p *Plan) cover() error {
	for _, path := range p.Hidden {
		if err := hide(path); err != nil {
			return err
		}
	}
	if !p.Writable {
		return nil
	}
	fixed := map[string]bool{p.Root: true}
	for _, dir := range p.Held {
		if err := p.fix(dir, readable, fixed); err != nil {
			return err
		}
	}
	for _, path := range p.Protected {
		if err := p.protect(path, fixed); err != nil {
			return err
		}
	}
	return nil
}

// hide shows nothing in the place of what is at path.
func hide(path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	with := emptyFile
	if fi.IsDir() {
		with = emptyDir
	}
	mount, err := clone(with, readOnly)
	if err != nil {
		return err
	}
	return attach(mount, path)
}

// protect makes what is at path read-only, and the directories between it and
// the root mounts of their own: a mount cannot be renamed, and so nothing else
// be put in the place of what is protected.
func (p *Plan) protect(path string, fixed map[string]bool) error {
	if dir := filepath.Dir(path); !fixed[dir] && strings.HasPrefix(dir, p.Root+"/") {
		if err := p.fix(dir, readable, fixed); err != nil {
			return err
		}
	}
	return onto(path, readOnly)
}

// fix mounts a directory on itself, and those above it, unless that was done.
func (p *Plan) fix(dir string, attributes uint64, fixed map[string]bool) error {
	if fixed[dir] {
		return nil
	}
	if above := filepath.Dir(dir); !fixed[above] && strings.HasPrefix(above, p.Root+"/") {
		if err := p.fix(above, attributes, fixed); err != nil {
			return err
		}
	}
	fixed[dir] = true
	return onto(dir, attributes)
}

// onto mounts what is at path on itself.
func onto(path string, attributes uint64) error {
	at, err := look(path)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	mount, err := cloneAt(at, path, attributes)
	if err != nil {
		return err
	}
	return attachAt(mount, at, path)
}
