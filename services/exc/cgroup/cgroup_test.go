package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"zino/pkg/zinotest"
)

// openTree opens this host's tree. On a host without control groups only the error
// is tested: it must give a reason.
func openTree(t *testing.T) (*Tree, bool) {
	t.Helper()
	tree, err := Open()
	if err != nil {
		if err.Error() == "" {
			t.Error("no reason is given")
		}
		t.Logf("NO CONTROL GROUPS HERE: %v", err)
		return nil, false
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
	return tree, true
}

// newGroup makes a group that the test removes.
func newGroup(t *testing.T, tree *Tree, l Limits) *Group {
	t.Helper()
	g, err := tree.New(l)
	zinotest.Must(t, err)
	return g
}

// in starts a command in a group.
func in(t *testing.T, g *Group, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(g.File().Fd())}
	zinotest.Must(t, cmd.Start())
	return cmd
}

func TestGroupEndsAll(t *testing.T) {
	tree, ok := openTree(t)
	if !ok {
		return
	}
	for name, end := range map[string]func(g *Group) error{
		"kill":    (*Group).Kill,
		"kill at": func(g *Group) error { return KillAt(int(g.File().Fd())) },
		"remove":  func(g *Group) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, tree, Limits{})
			cmd := in(t, g, "trap '' TERM HUP INT; setsid sleep 1000 & (setsid sleep 1000 &) ; sleep 1000; :")
			dir := g.dir
			killed := make(chan error, 1)
			go func() {
				err := end(g)
				if name == "remove" {
					err = g.Remove()
				}
				killed <- err
			}()
			_ = cmd.Wait() // it was killed
			zinotest.Must(t, <-killed)
			if name != "remove" {
				zinotest.Must(t, g.Remove())
			}
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is still there: %v", dir, err)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	tree, ok := openTree(t)
	if !ok {
		return
	}
	g := newGroup(t, tree, Limits{})
	zinotest.Must(t, in(t, g, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done").Wait())
	if u := g.Usage(); u.CPU <= 0 || u.OutOfMemory != 0 || u.TasksDenied != 0 {
		t.Errorf("got %+v", u)
	}
	zinotest.Must(t, g.Remove())
	if u := g.Usage(); u != (Usage{Peak: -1}) {
		t.Errorf("of a group that is gone: %+v", u)
	}
}

// Each limit is enforced, or it is named as one that is not.
func TestLimits(t *testing.T) {
	tree, ok := openTree(t)
	if !ok {
		return
	}
	all := Limits{Memory: 32 << 20, Tasks: 8, CPU: 0.5}
	unlimited := tree.Unlimited(all)
	t.Logf("NOT ENFORCED HERE: %q", unlimited)
	g := newGroup(t, tree, all)
	defer func() {
		zinotest.Must(t, g.Remove())
	}()
	for name, file := range map[string]string{Memory: "memory.max", Tasks: "pids.max", CPU: "cpu.max"} {
		set := words(g.dir, file)
		if enforced := !slices.Contains(unlimited, name); enforced != (len(set) > 0 && set[0] != "max") {
			t.Errorf("%s: enforced %v, %s is %q", name, enforced, file, set)
		}
	}
	cmd := in(t, g, "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.2 & done 2>/dev/null; wait")
	_ = cmd.Wait() // a shell that cannot fork fails
	if denied := g.Usage().TasksDenied > 0; denied == slices.Contains(unlimited, Tasks) {
		t.Errorf("12 processes were denied: %v, not enforced: %q", denied, unlimited)
	}
}

func TestUnlimitedNamesOnlyWhatIsAskedFor(t *testing.T) {
	tree, ok := openTree(t)
	if !ok {
		return
	}
	if got := tree.Unlimited(Limits{}); len(got) > 0 {
		t.Errorf("got %q", got)
	}
	if got := (Limits{Memory: 1, Tasks: 1, CPU: 1}).Names(); !slices.Equal(got, []string{Memory, Tasks, CPU}) {
		t.Errorf("got %q", got)
	}
}

// The processes and groups of a killed service are killed and removed; those of a
// running one stay.
func TestSweep(t *testing.T) {
	tree, ok := openTree(t)
	if !ok {
		return
	}
	living := newGroup(t, tree, Limits{})
	dead, err := Open()
	zinotest.Must(t, err)
	left := newGroup(t, dead, Limits{})
	cmd := in(t, left, "setsid sleep 1000; :")
	if err := errors.Join(left.File().Close(), dead.lock.Close()); err != nil { // as if it had been killed
		t.Fatal(err)
	}
	swept := make(chan error, 1)
	go func() {
		_, err := Open()
		swept <- err
	}()
	_ = cmd.Wait() // it was killed
	zinotest.Must(t, <-swept)
	if alive(dead.dir) || !alive(living.dir) {
		t.Errorf("of the killed service: %v, of the running one: %v", alive(dead.dir), alive(living.dir))
	}
	zinotest.Must(t, living.Remove())
}

// A removed tree is made again; groups in groups are removed.
func TestTreeRemovedMeanwhile(t *testing.T) {
	tree, ok := openTree(t)
	if !ok {
		return
	}
	g := newGroup(t, tree, Limits{})
	zinotest.Must(t, os.Mkdir(filepath.Join(g.dir, "inner"), 0o700))
	zinotest.Must(t, errors.Join(g.Remove(), os.Remove(tree.dir)))
	zinotest.Must(t, newGroup(t, tree, Limits{}).Remove())
	if err := errors.Join(tree.Close(), tree.Close()); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

func TestSweepLeavesWhatIsLocked(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, prefix+"1-x")
	zinotest.Must(t, os.Mkdir(dir, 0o700))
	f, err := os.Open(dir)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	zinotest.Must(t, err)
	if err := sweep(home); err != nil || !alive(dir) {
		t.Errorf("locked: %v, there: %v", err, alive(dir))
	}
	f.Close()
	if err := sweep(home); err != nil || alive(dir) {
		t.Errorf("free: %v, there: %v", err, alive(dir))
	}
	if err := sweep(filepath.Join(home, "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no home: %v", err)
	}
}

// A process in a group of its own sees its usage and its limits; the root of the
// hierarchy is not a group of its own.
func TestHere(t *testing.T) {
	home, err := locate()
	if err != nil {
		t.Logf("NO CONTROL GROUPS HERE: %v", err)
		return
	}
	here, err := Here()
	if isRoot := len(words(home, "cgroup.events")) == 0; isRoot != (err != nil) {
		t.Errorf("the root: %v, got %v", isRoot, err)
	}
	if here.Limited("no such limit") {
		t.Error("an unknown limit is reported as set")
	}
	tree, ok := openTree(t)
	if !ok {
		return
	}
	g := newGroup(t, tree, Limits{Tasks: 10})
	if g.Limited(Tasks) == slices.Contains(tree.Unlimited(Limits{Tasks: 10}), Tasks) || g.Limited(Memory) {
		t.Errorf("tasks %v, memory %v", g.Limited(Tasks), g.Limited(Memory))
	}
	zinotest.Must(t, g.Remove())
}
