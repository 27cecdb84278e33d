package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// marks is how many places of the shared file a rival changes.
const marks = 60

func init() {
	children["a"] = func(dir string) error { return rival(dir, "a") }
	children["b"] = func(dir string) error { return rival(dir, "b") }
}

// rival changes all places of its own in the shared file, one after the other,
// as soon as it is told to.
func rival(dir, own string) error {
	fmt.Println("ready")
	if _, err := io.ReadAll(os.Stdin); err != nil {
		return err
	}
	f := New()
	for i := range marks {
		a := args{"path": "file", "old": fmt.Sprintf("%s%d.", own, i), "new": fmt.Sprintf("%s%d!", own, i)}
		if _, err := f.Edit(context.Background(), dir, a.input()); err != nil {
			return err
		}
	}
	return nil
}

// Edits of one file by two processes all land, and leave nothing else behind.
func TestEditsOfTwoProcesses(t *testing.T) {
	dir := place(t)
	var content strings.Builder
	for i := range marks {
		fmt.Fprintf(&content, "a%d.\nb%d.\n", i, i)
	}
	path := put(t, dir, "file", content.String())
	beginA, endA := startRival(t, dir, "a")
	beginB, endB := startRival(t, dir, "b")
	beginA()
	beginB()
	endA()
	endB()
	if got := holds(t, path); got != strings.ReplaceAll(content.String(), ".", "!") {
		t.Errorf("%d edits of %d are lost", strings.Count(got, "."), 2*marks)
	}
	if got := names(t, dir); got != "file" {
		t.Errorf("left in the directory: %s", got)
	}
}

// startRival starts one that waits for begin. end waits for it.
func startRival(t *testing.T, dir, role string) (begin, end func()) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"="+role, dirEnv+"="+dir, "GORACE=atexit_sleep_ms=0")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Error(err)
	}
	return func() { in.Close() }, func() {
		said, _ := io.ReadAll(out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v, %s", role, err, said)
		}
	}
}

// lockAs locks a file as another process does.
func lockAs(t *testing.T, path string, access int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, access, 0)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Whoever waits too long for another process changes nothing, also where the
// file can only be written.
func TestWaitForProcess(t *testing.T) {
	dir := place(t)
	path := put(t, dir, "file", "old")
	give(t, path)
	lock := lockAs(t, path, os.O_RDWR)
	if err := os.Chmod(path, 0o200); err != nil {
		t.Fatal(err)
	}
	f := New()
	write := args{"path": "file", "content": "new"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	asOther(t, func() {
		reply, err := f.Write(ctx, dir, write.input())
		expect(t, reply, err, Timeout)
	})
	lock.Close()
	if err := os.Chmod(dir, 0o777); err != nil { // so that it can be replaced
		t.Fatal(err)
	}
	asOther(t, func() { must(t, f.Write, dir, write) })
	if len(f.locks.held) > 0 {
		t.Errorf("%d locks are left", len(f.locks.held))
	}
}

// An edit that waited for another process starts from what that has left: the
// lock was on a file that no longer bears the name.
func TestWaitForReplacement(t *testing.T) {
	dir := place(t)
	path := put(t, dir, "file", "one two")
	first := lockAs(t, path, os.O_RDONLY)
	next := put(t, dir, "next", "ONE two")
	second := lockAs(t, next, os.O_RDONLY)
	f := New()
	done := make(chan error)
	go func() {
		_, err := f.Edit(t.Context(), dir, args{"path": "file", "old": "two", "new": "TWO"}.input())
		done <- err
	}()
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
	first.Close()
	select {
	case err := <-done:
		t.Errorf("the second lock was not waited for: %v", err)
	default:
	}
	second.Close()
	if err := <-done; err != nil || holds(t, path) != "ONE TWO" {
		t.Errorf("%v, the file holds %q", err, holds(t, path))
	}
}

// What cannot be locked is not replaced if it is no longer what was read, nor
// overwritten, and a new file takes nobody's name.
func TestNothingIsReplacedUnseen(t *testing.T) {
	dir := place(t)
	path := put(t, dir, "file", "theirs")
	was, err := resolve(path, asTheyAre)
	if err != nil {
		t.Fatal(err)
	}
	was.read = was.info
	if err := os.WriteFile(path, []byte("theirs, longer"), 0o644); err != nil {
		t.Fatal(err)
	}
	created := target{path: path, at: path}
	for name, change := range map[string]func([]byte) error{"swap": was.swap, "overwrite": was.overwrite, "new": created.swap} {
		if err := change([]byte("ours")); !errors.Is(err, errReplaced) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := holds(t, path) + " in " + names(t, dir); got != "theirs, longer in file" {
		t.Errorf("there is %s", got)
	}
}

// A file in whose directory none can be made is not said to be missing.
func TestNoFileBeside(t *testing.T) {
	message := refused(t, New().Write, "/proc", args{"path": "version", "content": "x"}, WriteError)
	if os.Geteuid() == 0 && message != "/proc/version cannot be replaced: no file can be made beside it" || strings.Contains(message, "not found") {
		t.Errorf("got %q", message)
	}
}
