package durable

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

// children are what the test binary does in the place of another process, in
// the directory that it is given.
var children = map[string]func(dir string) error{
	"writer": writeForEver,
	"full":   fillDisk,
	"holder": holdForEver,
}

// swift has a process that was built with the race detector end at once, not
// after a second.
const swift = "GORACE=atexit_sleep_ms=0"

func child(t *testing.T, role, dir string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "DURABLE_CHILD="+role, "DURABLE_DIR="+dir, swift)
	return cmd
}

// writeForEver appends pairs and prints the number of each one that is stored.
func writeForEver(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	a := NewArray(root, name, Options{})
	for i := 0; ; i++ {
		pad := strings.Repeat("x", rand.IntN(9000))
		pair := [][]byte{fmt.Appendf(nil, `{"pid":%d,"i":%d,"pad":%q}`, os.Getpid(), i, pad), fmt.Appendf(nil, `{"pid":%d,"i":%d}`, os.Getpid(), i)}
		if err := a.Append(pair); err != nil {
			return err
		}
		if _, err := fmt.Println(i); err != nil {
			return err
		}
	}
}

// TestKilledWriters kills processes that append to one file, again and again.
// What they had said to be stored must be there, in order and once.
func TestKilledWriters(t *testing.T) {
	dir := t.TempDir()
	acked := map[int]int{} // pid to the last number acknowledged
	for range 20 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for range 2 {
			wg.Go(func() {
				pid, last := killWriter(t, dir, 1+rand.IntN(12))
				mu.Lock()
				defer mu.Unlock()
				acked[pid] = last
			})
		}
		wg.Wait()
		checkAcked(t, dir, acked)
	}
}

// killWriter runs a writer, kills it after it has acknowledged n appends and
// returns its pid and the number of the last one it acknowledged.
func killWriter(t *testing.T, dir string, n int) (pid, last int) {
	cmd := child(t, "writer", dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return 0, -1
	}
	last = -1
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if last, err = strconv.Atoi(lines.Text()); err != nil {
			t.Error(err)
		}
		if n--; n == 0 {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Errorf("the writer ended by itself: %v", err)
	}
	return cmd.Process.Pid, last
}

func checkAcked(t *testing.T, dir string, acked map[int]int) {
	t.Helper()
	a := NewArray(openRoot(t, dir), name, Options{})
	defer a.Close()
	list, err := a.Last(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]int{}
	for _, e := range list {
		var v struct{ Pid, I int }
		if err := json.Unmarshal(e, &v); err != nil {
			t.Fatal(err)
		}
		if n := seen[v.Pid]; v.I != n/2 {
			t.Fatalf("process %d: number %d after %d elements", v.Pid, v.I, n)
		}
		seen[v.Pid]++
	}
	for pid, last := range acked {
		if seen[pid] < 2*(last+1) {
			t.Fatalf("process %d: %d acknowledged, %d elements are there", pid, last+1, seen[pid])
		}
	}
	checkFile(t, filepath.Join(dir, name))
}

// alone runs the test once more in a process of its own and reports whether
// this is the process that started it: what the test does there to the process
// must not hit the rest of this one, such as the files that go test keeps.
func alone(t *testing.T) (done bool) {
	t.Helper()
	const mark = "DURABLE_ALONE"
	if os.Getenv(mark) != "" {
		return false
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), mark+"=1", swift)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
	return true
}

// limitFileSize lets no file of this process grow beyond size, until lift: a
// write beyond it is cut short and fails, as on a full disk.
func limitFileSize(t *testing.T, size uint64) (lift func()) {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	limit := old
	limit.Cur = size
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			t.Error(err)
		}
		signal.Reset(syscall.SIGXFSZ)
	})
}

// TestWriteFails cuts the write of an append short at every byte. The file
// must be as before, and the next append must work.
func TestWriteFails(t *testing.T) {
	if alone(t) {
		return
	}
	for _, stored := range []int{0, 1, 5} {
		a, seen, path := newArray(t, "")
		mustAppend(t, a, elems(0, stored)...)
		before := ""
		if stored > 0 {
			before = readFile(t, path)
		}
		for room := range 20 {
			lift := limitFileSize(t, uint64(len(before)+room))
			err := a.Append(elems(70, 73))
			lift()
			if !errors.Is(err, syscall.EFBIG) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("room for %d bytes: %v", room, err)
			}
			if stored == 0 {
				if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
					t.Fatalf("a file that was not there before: %v", err)
				}
			} else if got := readFile(t, path); got != before {
				t.Fatalf("room for %d bytes: the file became %q", room, got)
			}
		}
		mustAppend(t, a, elem(stored))
		if list, err := a.Last(0, 0); err != nil || len(list) != stored+1 || len(*seen) != 0 {
			t.Errorf("afterwards: %s, %v, %v", list, err, *seen)
		}
		checkFile(t, path)
	}
}

// TestDiskFull runs fillDisk in a mount namespace of its own, where it can
// have a small disk that goes away with it.
func TestDiskFull(t *testing.T) {
	cmd := child(t, "full", t.TempDir())
	zinotest.SmallDisk(t, cmd)
}

func fillDisk(dir string) error {
	if err := zinotest.Mount(dir, "size=64k", 0); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	a := NewArray(root, name, Options{})
	n := 0
	big := []byte(`{"pad":"` + strings.Repeat("x", 10_000) + `"}`)
	for err = a.Append([][]byte{big}); err == nil; err = a.Append([][]byte{big}) {
		n++
	}
	if !errors.Is(err, syscall.ENOSPC) || n == 0 {
		return fmt.Errorf("%d appended, then %w", n, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || !json.Valid(data) {
		return fmt.Errorf("the file is no valid array: %w", err)
	}
	if list, err := a.Last(0, 0); err != nil || len(list) != n {
		return fmt.Errorf("%d elements, %d appended: %w", len(list), n, err)
	}
	if err := Replace(root, "other", make([]byte, 1<<20)); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("replace on a full disk: %w", err)
	}
	return nil
}
