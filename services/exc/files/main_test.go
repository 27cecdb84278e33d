package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// childEnv makes the test binary do the work of that name in the place of
// another process, in the directory that dirEnv names.
const (
	childEnv = "FILES_TEST_CHILD"
	dirEnv   = "FILES_TEST_DIR"
)

func TestMain(m *testing.M) {
	role := os.Getenv(childEnv)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := children[role](os.Getenv(dirEnv)); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// args are the input of a call.
type args map[string]any

// input is a as JSON.
func (a args) input() []byte {
	b, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	return b
}

// tool is one of the tools.
type tool func(context.Context, string, []byte) (Reply, error)

// must calls a tool and expects success.
func must(t testing.TB, call tool, root string, a args) Reply {
	t.Helper()
	reply, err := call(context.Background(), root, a.input())
	if err != nil {
		t.Fatalf("%v: %v", a, err)
	}
	return reply
}

// refused calls a tool and expects an error of that code, whose message it
// returns.
func refused(t testing.TB, call tool, root string, a args, code string) string {
	t.Helper()
	reply, err := call(context.Background(), root, a.input())
	return expect(t, reply, err, code)
}

func expect(t testing.TB, reply Reply, err error, code string) string {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != code {
		t.Fatalf("got %+v, %#v, want the code %s", reply, err, code)
	}
	return e.Message
}

// place is a directory that everybody can look into, by its canonical path.
func place(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(os.Chmod(dir, 0o755), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// put writes a file and returns its path.
func put(t testing.TB, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// holds is what a file holds.
func holds(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// names lists a directory.
func names(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}

// stat is what the system knows of a file.
func stat(t testing.TB, path string) *syscall.Stat_t {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Sys().(*syscall.Stat_t)
}

// nobody is a user without rights.
const nobody = 65534

// asOther runs work with the rights of a user who is not root: root may do
// everything, so his thread becomes nobody's as far as files go.
func asOther(t *testing.T, work func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		work()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0)
		work()
	}()
	<-done
}

// give makes a file that of the user of asOther.
func give(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(path, nobody, -1); err != nil {
		t.Fatal(err)
	}
}
