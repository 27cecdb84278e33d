// Package cgroup gives each run of code a control group of its own (cgroup v2):
// what limits it, counts what it takes, and ends all of it at once.
//
// The hierarchy is looked for in the table of mounts, because it may lie
// elsewhere than at /sys/fs/cgroup, and only the part of it that this process
// lives in is touched. Which limits are enforced depends on the controllers that
// the host hands down.
package cgroup

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// prefix begins the names of the directories that hold the groups of a process.
const prefix = "zino-exc-"

// Limits are what a group may take. Zero is no limit.
type Limits struct {
	Memory int64   // bytes, swap included
	Tasks  int     // processes and threads
	CPU    float64 // cores kept busy
}

// Names of limits, as Unlimited gives them.
const (
	Memory = "memory"
	Tasks  = "tasks"
	CPU    = "cpu"
)

// controllers are the kernel's names for those that the limits need.
var controllers = map[string]string{Memory: "memory", Tasks: "pids", CPU: "cpu"}

// Tree is where a process keeps its groups. It is safe for concurrent use.
type Tree struct {
	home string // this process's own group

	mu       sync.Mutex
	dir      string   // holds the groups; empty until there is one
	lock     *os.File // held on dir: whoever can take it knows that its owner is dead
	enforced map[string]bool
	next     int
}

// Open finds the process's place in the hierarchy and ends what dead processes
// left there. The error says why the host gives no groups.
func Open() (*Tree, error) {
	home, err := locate()
	if err != nil {
		return nil, err
	}
	if filepath.Base(home) == leaf { // this process stepped aside before
		home = filepath.Dir(home)
	}
	if err := unix.Access(home, unix.W_OK); err != nil {
		return nil, fmt.Errorf("the control group %s cannot be written: %w (systemd: Delegate=yes)", home, err)
	}
	return &Tree{home: home}, sweep(home)
}

// New makes a group with those limits, as far as the host enforces them. It
// must be removed.
func (t *Tree) New(l Limits) (*Group, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.settle(); err != nil {
		return nil, err
	}
	t.next++
	dir := filepath.Join(t.dir, strconv.Itoa(t.next))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	g, err := open(dir)
	if err == nil {
		err = g.limit(l, t.enforced)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return g, nil
}

// Unlimited names what l limits and this host does not enforce.
func (t *Tree) Unlimited(l Limits) (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.settle()
	return slices.DeleteFunc(l.Names(), func(name string) bool { return err == nil && t.enforced[name] })
}

// Names are the names of what l limits.
func (l Limits) Names() (names []string) {
	if l.Memory > 0 {
		names = append(names, Memory)
	}
	if l.Tasks > 0 {
		names = append(names, Tasks)
	}
	if l.CPU > 0 {
		names = append(names, CPU)
	}
	return names
}

// Close removes the tree. Groups that are left in it are ended.
func (t *Tree) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dir == "" {
		return nil
	}
	err := errors.Join(remove(t.dir), t.lock.Close())
	t.dir, t.lock = "", nil
	return err
}

// settle makes the directory of the groups when the first is asked for, and
// anew should somebody have removed it: a sweep may take a new directory for a
// dead one until it is locked.
func (t *Tree) settle() error {
	for t.dir == "" || !alive(t.dir) {
		dir, lock, err := claim(t.home)
		if err != nil {
			return err
		}
		if t.lock != nil {
			err = t.lock.Close()
		}
		t.dir, t.lock, t.next = dir, lock, 0
		t.enforced = handDown(t.home, dir)
		if err != nil {
			return err
		}
	}
	return nil
}

// claim makes a directory for groups and locks it.
func claim(home string) (dir string, lock *os.File, err error) {
	dir = filepath.Join(home, prefix+strconv.Itoa(os.Getpid())+"-"+strings.ToLower(rand.Text()[:8]))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", nil, err
	}
	if lock, err = os.Open(dir); err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, errors.Join(err, os.Remove(dir))
	}
	return dir, lock, nil
}

func alive(dir string) bool {
	fi, err := os.Stat(dir)
	return err == nil && fi.IsDir()
}

// sweep ends and removes what processes left that are no more.
func sweep(home string) error {
	entries, err := os.ReadDir(home)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), prefix) {
			errs = append(errs, sweepOne(filepath.Join(home, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// sweepOne removes dir if the lock on it is free. Between being made and being
// locked it looks dead: then its owner makes another.
func sweepOne(dir string) error {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // gone, or another user's
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil // its owner lives
	}
	return remove(dir)
}
