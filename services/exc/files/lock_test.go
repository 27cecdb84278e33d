package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"zino/pkg/zinotest"
)

// Concurrent edits of one file are all made, by any of its names.
func TestConcurrentEdits(t *testing.T) {
	dir := newDir(t)
	var content strings.Builder
	for i := range 8 {
		fmt.Fprintf(&content, "line %d of the file\n", i)
	}
	path := put(t, dir, "file", content.String())
	for _, name := range []string{"link", "other"} {
		zinotest.Must(t, os.Symlink(path, filepath.Join(dir, name)))
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for round := range 10 {
				a := args{"path": []string{"file", "link", "other"}[i%3], "old": fmt.Sprintf("line %d of", i), "new": fmt.Sprintf("LINE %d of", i)}
				if round%2 == 1 {
					a["old"], a["new"] = a["new"], a["old"]
				}
				if round == 9 {
					a["new"] = fmt.Sprintf("edited %d in", i)
				}
				if _, err := doEdit(context.Background(), dir, a.input()); err != nil {
					t.Errorf("edit %d, round %d: %v", i, round, err)
				}
			}
		})
	}
	all.Wait()
	want := strings.NewReplacer("line ", "edited ", " of", " in").Replace(content.String())
	zinotest.Equal(t, "the file", zinotest.Read(t, path), want)
}

// The same for hard links, which are overwritten.
func TestConcurrentEditsOfHardLinks(t *testing.T) {
	dir := newDir(t)
	put(t, dir, "0", "........")
	for i := 1; i < 8; i++ {
		zinotest.Must(t, os.Link(filepath.Join(dir, "0"), filepath.Join(dir, fmt.Sprint(i))))
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := 8; n > 0; n-- { // each edit changes the number
				a := args{"path": fmt.Sprint(i), "old": ".", "new": "xy", "expected_replacements": n}
				if _, err := doEdit(context.Background(), dir, a.input()); err == nil {
					return
				}
			}
		})
	}
	all.Wait()
	zinotest.Equal(t, "the file", zinotest.Read(t, filepath.Join(dir, "0")), "xyxyxyxyxyxyxyxy")
}

// Of concurrent writers of a new file one creates it, and the last one's content is
// whole.
func TestConcurrentWrites(t *testing.T) {
	dir := newDir(t)
	created := make(chan bool, 16)
	var all sync.WaitGroup
	for i := range cap(created) {
		all.Go(func() {
			content := strings.Repeat(fmt.Sprint(i%10), 100<<10)
			reply, err := doWrite(context.Background(), dir, args{"path": "a/b/file", "content": content}.input())
			if err != nil {
				t.Error(err)
				return
			}
			created <- reply.Data.(Written).Created
		})
	}
	all.Wait()
	close(created)
	makers := 0
	for made := range created {
		if made {
			makers++
		}
	}
	got := zinotest.Read(t, filepath.Join(dir, "a/b/file"))
	if makers != 1 || len(got) != 100<<10 || got != strings.Repeat(got[:1], 100<<10) {
		t.Errorf("%d created it, it holds %d bytes", makers, len(got))
	}
}

// Edits of one file by two processes are all made, and leave no other files.
func TestEditsOfTwoProcesses(t *testing.T) {
	dir := newDir(t)
	var content strings.Builder
	for i := range marks {
		fmt.Fprintf(&content, "a%d.\nb%d.\n", i, i)
	}
	path := put(t, dir, "file", content.String())
	var editors []*zinotest.Process
	var begin []io.Closer
	for _, role := range []string{"edit a", "edit b"} {
		cmd := zinotest.Command(t, role, dir)
		stdin, err := cmd.StdinPipe()
		zinotest.Must(t, err)
		p := zinotest.Start(t, cmd)
		p.WaitFor("ready")
		editors, begin = append(editors, p), append(begin, stdin)
	}
	for _, stdin := range begin {
		stdin.Close()
	}
	for _, p := range editors {
		zinotest.Equal(t, "the status", p.Exit(), 0)
	}
	zinotest.Equal(t, "the file", zinotest.Read(t, path), strings.ReplaceAll(content.String(), ".", "!"))
	zinotest.Equal(t, "the directory", zinotest.Names(t, dir), "file")
}

// marks is how many places of the shared file a process changes.
const marks = 60

// editMarks changes each place of its own in the shared file, when its input ends.
func editMarks(dir, own string) error {
	fmt.Fprintln(os.Stderr, "ready")
	if _, err := io.ReadAll(os.Stdin); err != nil {
		return err
	}
	for i := range marks {
		a := args{"path": "file", "old": fmt.Sprintf("%s%d.", own, i), "new": fmt.Sprintf("%s%d!", own, i)}
		if _, err := doEdit(context.Background(), dir, a.input()); err != nil {
			return err
		}
	}
	return nil
}

// A call that waits for a lock until its time is over changes nothing, also if the
// file can only be written.
func TestWaitForLock(t *testing.T) {
	dir := newDir(t)
	path := put(t, dir, "file", "old")
	give(t, path)
	lock := lockAs(t, path, os.O_RDWR)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	write, edit := args{"path": "file", "content": "new"}, args{"path": "file", "old": "old", "new": "new"}
	reply, err := doWrite(ctx, dir, write.input())
	expect(t, reply, err, Timeout)
	reply, err = doEdit(ctx, dir, edit.input())
	expect(t, reply, err, Timeout)
	zinotest.Equal(t, "the file", zinotest.Read(t, path), "old")
	zinotest.Must(t, os.Chmod(path, 0o200))
	zinotest.Unprivileged(t, func() {
		reply, err := doWrite(ctx, dir, write.input())
		expect(t, reply, err, Timeout)
	})
	lock.Close()
	reply, err = doWrite(ctx, dir, write.input())
	expect(t, reply, err, Timeout)
	zinotest.Must(t, os.Chmod(dir, 0o777)) // so that the file can be replaced
	zinotest.Unprivileged(t, func() { must(t, doWrite, dir, write) })
}

// lockAs locks a file as another process does.
func lockAs(t *testing.T, path string, access int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, access, 0)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	zinotest.Must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// An edit that waited for another process starts from the new content: the lock was
// on a file that no longer has the name.
func TestWaitForReplacement(t *testing.T) {
	dir := newDir(t)
	path := put(t, dir, "file", "one two")
	first := lockAs(t, path, os.O_RDONLY)
	next := put(t, dir, "next", "ONE two")
	second := lockAs(t, next, os.O_RDONLY)
	done := make(chan error)
	go func() {
		_, err := doEdit(t.Context(), dir, args{"path": "file", "old": "two", "new": "TWO"}.input())
		done <- err
	}()
	zinotest.Must(t, os.Rename(next, path))
	first.Close()
	select {
	case err := <-done:
		t.Errorf("the second lock was not waited for: %v", err)
	default:
	}
	second.Close()
	if err := <-done; err != nil || zinotest.Read(t, path) != "ONE TWO" {
		t.Errorf("%v, the file holds %q", err, zinotest.Read(t, path))
	}
}

// A file that other programs change between plan and change is planned again, but
// not for ever. Each plan is approved with its own hashes.
func TestChangedAfterPlan(t *testing.T) {
	dir := newDir(t)
	path := filepath.Join(dir, "file")
	past := time.Unix(1e9, 0)
	for name, disturb := range map[string]func() error{
		"longer":   func() error { return os.WriteFile(path, []byte("old and longer"), 0o600) },
		"touched":  func() error { return os.Chtimes(path, past, past.Add(time.Duration(rand.Int()))) },
		"replaced": func() error { return os.Rename(put(t, dir, "other", "old or other"), path) },
		"linked":   func() error { return errors.Join(os.Link(path, path+"2"), os.Remove(path+"2"), os.Chmod(path, 0o640)) },
	} {
		for _, times := range []int{1, attempts - 1, attempts} {
			for tool, a := range map[string]args{Write: {"path": "file", "content": "new"}, Edit: {"path": "file", "old": "old", "new": "new"}} {
				put(t, dir, "file", "old")
				n := 0
				var before string
				_, err := Do(t.Context(), Call{Tool: tool, Root: dir, Input: a.input()}, nil, func(p Plan) error {
					before = p.Before
					if text := zinotest.Read(t, path); p.Before != sum([]byte(text)) {
						t.Errorf("%s: the hash is not that of %q", name, text)
					}
					if n++; n <= times {
						return disturb()
					}
					return nil
				})
				if times < attempts {
					if err != nil || n != times+1 || before == "" {
						t.Errorf("%s, %s: %v after %d plans", tool, name, err, n)
					}
				} else if errorCode(err) != WriteError || !strings.Contains(err.Error(), path+" keeps being changed") || n != attempts {
					t.Errorf("%s, %s: %v after %d plans", tool, name, err, n)
				}
			}
		}
	}
	os.Remove(path)
	n := 0
	_, err := Do(t.Context(), Call{Tool: Write, Root: dir, Input: args{"path": "file", "content": "ours"}.input()}, nil, func(p Plan) error {
		if n++; n == 1 {
			put(t, dir, "file", "theirs")
		}
		if (p.File == nil) != (n == 1) || (p.Before == "") != (n == 1) {
			t.Errorf("plan %d of a new file: %+v", n, p)
		}
		return nil
	})
	if err != nil || n != 2 || zinotest.Names(t, dir) != "file" {
		t.Errorf("a new file: %v after %d plans, there are %s", err, n, zinotest.Names(t, dir))
	}
}

// A file beside which no file can be made is not reported as missing.
func TestNoFileBeside(t *testing.T) {
	message := refused(t, doWrite, "/proc", args{"path": "version", "content": "x"}, WriteError)
	if os.Geteuid() == 0 && message != "/proc/version cannot be replaced: no file can be made beside it" || strings.Contains(message, "not found") {
		t.Errorf("got %q", message)
	}
}
