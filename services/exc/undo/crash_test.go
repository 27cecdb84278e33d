package undo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"zino/pkg/config"
	"zino/pkg/durable"
	"zino/pkg/zinotest"
	"zino/proto"
)

// open opens the store in dir, in a process of its own.
func open(dir string) (*Store, error) {
	return Open(dir, config.Default().Undo, slog.New(slog.DiscardHandler))
}

// killed takes back the last turn of a store, or makes its changes again, and is killed
// at the point with that number. Its arguments are the store, "undo" or "redo", and the
// number.
func killed(args []string) error {
	s, err := open(args[0])
	if err != nil {
		return err
	}
	left, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	s.at = func(string) {
		if left--; left == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	reply, err := s.Undo(context.Background(), proto.Undo{SessionID: session, ID: "u1"}, args[1] == "redo")
	if err == nil && len(reply.Refused) > 0 {
		err = fmt.Errorf("refused: %v", reply.Refused)
	}
	return err
}

// TestKilledUndo kills an undo, and a redo, at each of its points. The next process
// finishes it or drops it: all files are as before, or all as after.
func TestKilledUndo(t *testing.T) {
	for _, way := range []string{"undo", "redo"} {
		t.Run(way, func(t *testing.T) {
			whole, dropped := 0, 0
			for point := 1; ; point++ {
				e := newEnv(t)
				e.write(map[string]string{"a": "a", "d/b": "b", "d/c": "c", "mode": "m"})
				zinotest.Must(t, os.Symlink("a", e.path("link")))
				trees := []string{tree(t, e.root)}
				e.covered("t-1", "echo x > a; rm -r d; mkdir new; echo n > new/n; ln -sfn b link; chmod 600 mode")
				trees = append([]string{tree(t, e.root)}, trees...) // before the undo, after it
				if way == "redo" {
					e.undo(proto.Undo{})
					trees[0], trees[1] = trees[1], trees[0]
				}
				cmd := zinotest.Command(t, "killed", e.s.dir, way, strconv.Itoa(point))
				out, err := cmd.CombinedOutput()
				if err == nil {
					e.sameTree("after all of it", trees[1])
					if point < 10 || whole == 0 || dropped == 0 {
						t.Errorf("%d points, %d completed, %d dropped", point-1, whole, dropped)
					}
					return
				}
				if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("point %d: %v\n%s", point, err, out)
				}
				next, err := open(e.s.dir)
				zinotest.Must(t, err)
				zinotest.Must(t, next.Recover(t.Context()))
				reply, err := next.Undo(t.Context(), proto.Undo{SessionID: session, ID: "u1", Recover: true}, way == "redo")
				switch tree(t, e.root) {
				case trees[0]:
					zinotest.Error(t, err, proto.ErrNotFound, "no undo u1 was carried out")
					dropped++
					e.all(proto.Undo{}, way == "redo")
				case trees[1]:
					if err != nil || reply.Turn != "t-1" || len(reply.Restored)+len(reply.Removed) != 8 {
						t.Errorf("point %d: recovered %+v, %v", point, reply, err)
					}
					whole++
				default:
					t.Fatalf("point %d left\n%s", point, tree(t, e.root))
				}
				e.sameTree("at the end", trees[1])
				e.all(proto.Undo{}, way == "undo")
				e.sameTree("after the way back", trees[0])
			}
		})
	}
}

// TestChangedDuringCrash leaves a file alone that the user changed while the undo was
// cut off, and finishes the rest.
func TestChangedDuringCrash(t *testing.T) {
	e := newEnv(t)
	e.write(map[string]string{"a": "a", "b": "b"})
	e.covered("t-1", "echo x > a; echo x > b")
	cmd := zinotest.Command(t, "killed", e.s.dir, "undo", "4") // both temporary files are there, and the plan
	if err := cmd.Run(); err == nil {
		t.Fatal("the process was not killed")
	}
	e.write(map[string]string{"b": "mine"})
	zinotest.Must(t, e.s.Recover(t.Context()))
	zinotest.Equal(t, "contents", zinotest.Read(t, e.path("a"))+zinotest.Read(t, e.path("b")), "amine")
	zinotest.Equal(t, "files", zinotest.Names(t, e.root), "a b")
}

// TestConcurrentEdit changes a file between the check and the change: it keeps the new
// content.
func TestConcurrentEdit(t *testing.T) {
	e := newEnv(t)
	e.write(map[string]string{"a": "a", "b": "b"})
	e.covered("t-1", "echo x > a; echo x > b; echo x > new")
	e.s.at = func(point string) {
		if point == "planned" {
			e.write(map[string]string{"b": "mine", "new": "mine too"})
		}
	}
	reply := e.try(proto.Undo{}, false)
	zinotest.Equal(t, "refused", names(reply.Refused), "new: changed, b: changed")
	zinotest.Equal(t, "restored", strings.Join(reply.Restored, " "), "a")
	zinotest.Equal(t, "contents", zinotest.Read(t, e.path("a"))+zinotest.Read(t, e.path("b"))+zinotest.Read(t, e.path("new")), "aminemine too")
	zinotest.Equal(t, "files", zinotest.Names(t, e.root), "a b new")
}

func TestFullDisk(t *testing.T) { zinotest.SmallDisk(t, zinotest.Command(t, "full", zinotest.Dir(t))) }

// fullDisk takes back a change for which the disk has no room, and captures one for
// which the store has none.
func fullDisk(args []string) error {
	dir, err := filepath.EvalSymlinks(args[0])
	if err != nil {
		return err
	}
	for _, sub := range []string{"root", "data", "small"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	root, small, data := filepath.Join(dir, "root"), filepath.Join(dir, "small"), filepath.Join(dir, "data")
	if err := errors.Join(zinotest.Mount(root, "size=96k", 0), zinotest.Mount(small, "size=64k", 0), zinotest.Mount(data, "size=256k", 0)); err != nil {
		return err
	}
	s, err := open(filepath.Join(data, "store"))
	if err != nil {
		return err
	}
	at := At{Root: root, Session: session, Turn: "t-1"}
	put := func(name, text string) error { return os.WriteFile(filepath.Join(root, name), []byte(text), 0o600) }
	large := strings.Repeat("o", 60<<10)
	if err := errors.Join(put("large", large), put("a", "a")); err != nil {
		return err
	}
	snap := s.Before(context.Background(), at)
	if err := errors.Join(put("large", "small"), put("a", "changed")); err != nil {
		return err
	}
	if why := s.After(context.Background(), at, snap, By{Tool: "bash"}); why != "" {
		return errors.New(why)
	}
	if err := put("filler", strings.Repeat("f", 60<<10)); err != nil {
		return err
	}
	_, err = s.Undo(context.Background(), proto.Undo{SessionID: session}, false)
	if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeUnavailable || !strings.Contains(e.Message, "no file was changed") || !strings.Contains(e.Message, "free some disk space") {
		return fmt.Errorf("the undo on a full disk: %w", err)
	}
	if err := expectFiles(root, map[string]string{"large": "small", "a": "changed", "filler": strings.Repeat("f", 60<<10)}); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(root, "filler")); err != nil {
		return err
	}
	if _, err = s.Undo(context.Background(), proto.Undo{SessionID: session}, false); err != nil {
		return err
	}
	if err := expectFiles(root, map[string]string{"large": large, "a": "a"}); err != nil {
		return err
	}
	full, err := open(small)
	if err != nil {
		return err
	}
	if snap = full.Before(context.Background(), at); !strings.Contains(snap.why, "no space left") {
		return fmt.Errorf("a full store: %q", snap.why)
	}
	if _, err = s.Undo(context.Background(), proto.Undo{SessionID: session}, true); err != nil {
		return err
	}
	if err := expectFiles(root, map[string]string{"large": "small", "a": "changed"}); err != nil {
		return err
	}
	return fullStore(s, root, filepath.Join(data, "filler"))
}

// fullStore takes back a change where the store has no room for the plan, and where its
// disk is full when the changes have been made: the next process ends that undo.
func fullStore(s *Store, root, filler string) error {
	before, after := map[string]string{"large": strings.Repeat("o", 60<<10), "a": "a"}, map[string]string{"large": "small", "a": "changed"}
	fill := func() error {
		for size := 64 << 10; size >= 1; {
			f, err := os.OpenFile(filler, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
			if err == nil {
				_, err = f.Write(make([]byte, size))
				err = errors.Join(err, f.Close())
			}
			if err != nil && !durable.IsFull(err) {
				return err
			}
			if err != nil {
				size /= 2
			}
		}
		return nil
	}
	if err := fill(); err != nil {
		return err
	}
	_, err := s.Undo(context.Background(), proto.Undo{SessionID: session}, false)
	if err == nil || !strings.Contains(err.Error(), "no file was changed") {
		return fmt.Errorf("without room for the plan: %w", err)
	}
	if err := errors.Join(expectFiles(root, after), os.Remove(filler)); err != nil {
		return err
	}
	var filled error
	s.at = func(point string) {
		if point == "planned" {
			filled = fill()
		}
	}
	_, err = s.Undo(context.Background(), proto.Undo{SessionID: session, ID: "u2"}, false)
	if err == nil || filled != nil || !strings.Contains(err.Error(), "the changes were made") {
		return fmt.Errorf("without room for the end of the plan: %w, %w", err, filled)
	}
	if err := errors.Join(expectFiles(root, before), os.Remove(filler), s.Recover(context.Background())); err != nil {
		return err
	}
	reply, err := s.Undo(context.Background(), proto.Undo{SessionID: session, ID: "u2", Recover: true}, false)
	if err != nil || len(reply.Restored) != 2 {
		return fmt.Errorf("the finished undo is %+v, %w", reply, err)
	}
	return expectFiles(root, before)
}

// expectFiles expects exactly these files in a directory.
func expectFiles(dir string, want map[string]string) error {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(want) {
		return fmt.Errorf("left: %v, %w", entries, err)
	}
	for name, content := range want {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != content {
			return fmt.Errorf("%s has %d bytes, %w", name, len(text), err)
		}
	}
	return nil
}

func TestOldKernel(t *testing.T) {
	if out, err := zinotest.Command(t, "old kernel", zinotest.Dir(t)).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// oldKernel uses a store where openat2(2) does not exist.
func oldKernel(args []string) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the system call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_OPENAT2, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	s, err := open(args[0])
	if err != nil {
		return err
	}
	at := At{Root: args[0], Session: session, Turn: "t-1"}
	if s.Before(context.Background(), at) != nil || s.BeforeFile(at, args[0]+"/f", "") != nil {
		return errors.New("changes are recorded")
	}
	_, undoErr := s.Undo(context.Background(), proto.Undo{SessionID: session}, false)
	_, diffErr := s.Diff(context.Background(), proto.Undo{SessionID: session})
	for _, err := range []error{undoErr, diffErr} {
		if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeUnavailable || !strings.Contains(e.Message, "Linux 5.6") {
			return fmt.Errorf("got %w", err)
		}
	}
	return nil
}
