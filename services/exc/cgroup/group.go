package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// removeLimit is how long removing waits for a group to become empty.
const removeLimit = 2 * time.Second

// period is the period of cpu.max in microseconds: the kernel's default.
const period = 100_000

// Group is the group of one run.
type Group struct {
	dir  string
	file *os.File
}

// Usage is what a group has used.
type Usage struct {
	CPU         time.Duration
	Peak        int64 // bytes of memory at a time; -1: unknown
	OutOfMemory int64 // processes that the kernel killed at the limit of memory
	TasksDenied int64 // processes and threads that the limit of tasks prevented
}

// Exceeded names the limit that ended or hindered the processes, of which one
// failed; empty: none.
func (u Usage) Exceeded(failed bool) string {
	switch {
	case u.OutOfMemory > 0:
		return Memory
	case u.TasksDenied > 0 && failed:
		return Tasks
	}
	return ""
}

// PeakBytes is Peak; nil: unknown.
func (u Usage) PeakBytes() *int64 {
	if u.Peak < 0 {
		return nil
	}
	return &u.Peak
}

func open(dir string) (*Group, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	return &Group{dir, f}, nil
}

// At is the group whose directory is open as f. It must not be removed.
func At(f *os.File) *Group {
	return &Group{"/proc/self/fd/" + strconv.Itoa(int(f.Fd())), f}
}

// File is the group's directory, for SysProcAttr.CgroupFD, with which a process
// starts in the group. It stays open until Remove.
func (g *Group) File() *os.File { return g.file }

// Here is the group of this process itself, to read only: it has no File and must
// not be removed. A process in the root has no group of its own.
func Here() (*Group, error) {
	dir, err := locate()
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "cgroup.events")) // every group but the root has this file
	}
	return &Group{dir: dir}, err
}

// Limited reports whether the group itself has the limit of that name.
func (g *Group) Limited(name string) bool {
	file := map[string]string{Memory: "memory.max", Tasks: "pids.max", CPU: "cpu.max"}[name]
	set := words(g.dir, file)
	return file != "" && len(set) > 0 && set[0] != "max"
}

// limit sets the limits that are enforced here.
func (g *Group) limit(l Limits, enforced map[string]bool) error {
	var errs []error
	set := func(name string, wanted bool, file, value string) {
		if wanted && enforced[name] {
			errs = append(errs, write(g.dir, file, value))
		}
	}
	set(Memory, l.Memory > 0, "memory.max", strconv.FormatInt(l.Memory, 10))
	set(Tasks, l.Tasks > 0, "pids.max", strconv.Itoa(l.Tasks))
	set(CPU, l.CPU > 0, "cpu.max", fmt.Sprintf("%d %d", max(1000, int64(l.CPU*period)), period))
	if l.Memory > 0 && enforced[Memory] {
		// Without swap the file is not there.
		if err := write(g.dir, "memory.swap.max", "0"); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Kill kills all processes of the group, those that are being forked included.
func (g *Group) Kill() error { return write(g.dir, "cgroup.kill", "1") }

// KillAt is Kill for a process that has only the descriptor of a group's
// directory.
func KillAt(dir int) error {
	file, err := unix.Openat(dir, "cgroup.kill", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(file, []byte("1"))
	return errors.Join(err, unix.Close(file))
}

// Usage reads what the group has used so far.
func (g *Group) Usage() Usage {
	stat, memory, tasks := g.numbers("cpu.stat"), g.numbers("memory.events"), g.numbers("pids.events")
	u := Usage{
		CPU:  time.Duration(stat["usage_usec"]) * time.Microsecond,
		Peak: -1, OutOfMemory: memory["oom_kill"], TasksDenied: tasks["max"],
	}
	if peak := words(g.dir, "memory.peak"); len(peak) == 1 {
		if n, err := strconv.ParseInt(peak[0], 10, 64); err == nil {
			u.Peak = n
		}
	}
	return u
}

// MemoryBytes is the memory that the group uses now; nil: unknown.
func (g *Group) MemoryBytes() *int64 {
	if now := words(g.dir, "memory.current"); len(now) == 1 {
		if n, err := strconv.ParseInt(now[0], 10, 64); err == nil {
			return &n
		}
	}
	return nil
}

// numbers reads a file of the group; empty if it does not exist.
func (g *Group) numbers(file string) map[string]int64 {
	text, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		return nil
	}
	return parseNumbers(string(text))
}

// parseNumbers parses lines of a name and a number each.
func parseNumbers(text string) map[string]int64 {
	numbers := map[string]int64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= 0 && name != "" {
			numbers[name] = n
		}
	}
	return numbers
}

// Remove kills what is left in the group and removes it.
func (g *Group) Remove() error {
	return errors.Join(remove(g.dir), g.file.Close())
}

// remove kills and removes a group with all groups in it.
func remove(dir string) error {
	err := os.Remove(dir)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := write(dir, "cgroup.kill", "1"); err != nil {
		return err
	}
	if err := awaitEmpty(dir, removeLimit); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	errs := []error{err}
	for _, e := range entries {
		if e.IsDir() { // code that is not confined can make groups
			errs = append(errs, remove(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(append(errs, os.Remove(dir))...)
}

// awaitEmpty waits until a group holds no process.
func awaitEmpty(dir string, limit time.Duration) error {
	events, err := os.Open(filepath.Join(dir, "cgroup.events"))
	if err != nil {
		return err
	}
	defer events.Close()
	for end := time.Now().Add(limit); ; {
		var text [256]byte
		n, err := events.ReadAt(text[:], 0)
		if n == 0 {
			return err
		}
		if parseNumbers(string(text[:n]))["populated"] == 0 {
			return nil
		}
		if !time.Now().Before(end) {
			return fmt.Errorf("%s: its processes cannot be killed: look for those in state D", dir)
		}
		change := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}
		// POLLPRI: the file has changed. It is read again in any case.
		_, _ = unix.Poll(change, int(time.Until(end).Milliseconds())+1)
	}
}

// words are the words of a group's file; none if it cannot be read.
func words(group, file string) []string {
	text, err := os.ReadFile(filepath.Join(group, file))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

func write(group, file, text string) error {
	f, err := os.OpenFile(filepath.Join(group, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
