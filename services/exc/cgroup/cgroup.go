// Package cgroup gives each run of code a control group of its own (cgroup v2),
// which limits it, counts its resources, and kills all of it at once.
//
// The hierarchy is found in the table of mounts, because it may lie elsewhere than
// at /sys/fs/cgroup. Only the group of this process is used. Which limits are
// enforced depends on the controllers that the host delegates.
package cgroup

import (
	"context"
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

	"zino/pkg/durable"
)

// prefix begins the names of the directories that hold the groups of a process.
const prefix = "zino-exc-"

// Limits are the limits of a group. Zero means unlimited.
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

// controllers are the kernel's names of the controllers that the limits need.
var controllers = map[string]string{Memory: "memory", Tasks: "pids", CPU: "cpu"}

// Tree is where a process keeps its groups. It is safe for concurrent use.
type Tree struct {
	home string // this process's own group

	mu       sync.Mutex
	dir      string   // contains the groups; empty until the first
	lock     *os.File // locks dir: who can lock it knows that its owner is dead
	enforced map[string]bool
	next     int
}

// Open finds the group of this process and removes what dead processes left there.
// The error says why this host gives no groups.
func Open() (*Tree, error) {
	home, err := locate()
	if err != nil {
		return nil, err
	}
	if filepath.Base(home) == leaf { // this process moved there before
		home = filepath.Dir(home)
	}
	if err := unix.Access(home, unix.W_OK); err != nil {
		return nil, fmt.Errorf("the control group %s cannot be written: %w (systemd: Delegate=yes)", home, err)
	}
	return &Tree{home: home}, sweep(home)
}

// New makes a group with those limits, as far as the host enforces them. It must be
// removed.
func (t *Tree) New(l Limits) (*Group, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ensure(); err != nil {
		return nil, err
	}
	t.next++
	return create(filepath.Join(t.dir, strconv.Itoa(t.next)), l, t.enforced)
}

// NewNamed is New for a group that outlives this process: it lies beside the tree,
// and Named finds it again.
func (t *Tree) NewNamed(name string, l Limits) (*Group, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ensure(); err != nil {
		return nil, err
	}
	return create(filepath.Join(t.home, name), l, t.enforced)
}

// Named opens the group of that name. The error is fs.ErrNotExist if it does not exist.
func (t *Tree) Named(name string) (*Group, error) { return open(filepath.Join(t.home, name)) }

// create makes the group dir with those limits.
func create(dir string, l Limits, enforced map[string]bool) (*Group, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	g, err := open(dir)
	if err == nil {
		err = g.limit(l, enforced)
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
	err := t.ensure()
	return slices.DeleteFunc(l.Names(), func(name string) bool { return err == nil && t.enforced[name] })
}

// Names names what l limits.
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

// Close removes the tree, and kills the groups that are left in it.
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

// ensure makes the directory of the groups for the first group, and again if it was
// removed: until it is locked, a sweep of another process takes it for a dead one.
func (t *Tree) ensure() error {
	for t.dir == "" || !alive(t.dir) {
		dir, lock, err := claim(t.home)
		if err != nil {
			return err
		}
		if t.lock != nil {
			err = t.lock.Close()
		}
		t.dir, t.lock, t.next = dir, lock, 0
		t.enforced = delegate(t.home, dir)
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
		err = durable.Lock(context.Background(), lock)
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

// sweep kills and removes the groups of dead processes.
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

// sweepOne removes dir unless its owner has locked it. A new one that is not locked
// yet looks dead: then its owner makes another.
func sweepOne(dir string) error {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // removed, or another user's
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := durable.TryLock(f); errors.Is(err, durable.ErrLocked) {
		return nil // its owner lives
	} else if err != nil {
		return err
	}
	return remove(dir)
}

// leaf is the group that this process moves to if its own must be empty to delegate
// controllers.
const leaf = "zino-exc-self"

// delegate has home delegate the controllers to dir, and dir to its groups, and
// reports for which limits that worked.
func delegate(home, dir string) map[string]bool {
	enforced := map[string]bool{}
	for limit, controller := range controllers {
		if !slices.Contains(words(home, "cgroup.controllers"), controller) {
			continue
		}
		enforced[limit] = pass(home, controller) && pass(dir, controller)
	}
	return enforced
}

// pass has a group delegate a controller to those below it. A group with processes
// cannot, except for the root: this process first leaves one in which it is alone.
// The kernel does not refuse it for the controllers of tasks and CPU, but then the
// groups below accept no process any more.
func pass(group, controller string) bool {
	if slices.Contains(words(group, "cgroup.subtree_control"), controller) {
		return true
	}
	if !root(group) && len(words(group, "cgroup.procs")) > 0 && !moveToLeaf(group) {
		return false
	}
	return write(group, "cgroup.subtree_control", "+"+controller) == nil
}

// root reports whether a group is the root of the hierarchy: only that has no type.
func root(group string) bool {
	_, err := os.Stat(filepath.Join(group, "cgroup.type"))
	return os.IsNotExist(err)
}

// moveToLeaf moves this process into a group below its own, if it is alone there.
func moveToLeaf(group string) bool {
	self := strconv.Itoa(os.Getpid())
	if !slices.Equal(words(group, "cgroup.procs"), []string{self}) {
		return false
	}
	dir := filepath.Join(group, leaf)
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return false
	}
	return write(dir, "cgroup.procs", self) == nil
}

// locate is the directory of this process's group.
func locate() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	own, ok := ownGroup(string(groups))
	if !ok {
		return "", errors.New("this host has no control groups of version 2")
	}
	for _, m := range parseMounts(string(mounts)) {
		if below, ok := m.below(own); ok {
			return filepath.Join(m.point, below), nil
		}
	}
	return "", fmt.Errorf("the control groups of version 2 are not mounted here")
}

// ownGroup parses /proc/self/cgroup, whose line for version 2 is "0::/path".
func ownGroup(text string) (string, bool) {
	for line := range strings.Lines(text) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok && strings.HasPrefix(path, "/") {
			return path, true
		}
	}
	return "", false
}

// mount is a mount of the hierarchy, or of a part of it.
type mount struct {
	root  string // the group that is mounted there
	point string
}

// below is the path of a group below the mount's point, if it is there.
func (m mount) below(group string) (string, bool) {
	if m.root == "/" {
		return group, !strings.Contains(group, "/../") && !strings.HasPrefix(group, "/..")
	}
	rest, ok := strings.CutPrefix(group, m.root)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// parseMounts parses the mounts of version 2 in /proc/self/mountinfo: "id parent dev root point options [tags] - type …".
func parseMounts(text string) (list []mount) {
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 6 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		list = append(list, mount{unescape(fields[3]), unescape(fields[4])})
	}
	return list
}

// unescape decodes the kernel's octal escapes of blanks and backslashes.
func unescape(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '\\' && i+3 < len(path) {
			if c, ok := octal(path[i+1 : i+4]); ok {
				b.WriteByte(c)
				i += 3
				continue
			}
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

func octal(digits string) (byte, bool) {
	n := 0
	for _, d := range []byte(digits) {
		if d < '0' || d > '7' {
			return 0, false
		}
		n = 8*n + int(d-'0')
	}
	return byte(n), n < 256
}
