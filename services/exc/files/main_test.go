package files

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

func TestMain(m *testing.M) {
	zinotest.Child(zinotest.Roles{
		"edit a": func(args []string) error { return editMarks(args[0], "a") },
		"edit b": func(args []string) error { return editMarks(args[0], "b") },
		"full":   func(args []string) error { return onFullDisk(args[0]) }, "mounted": func(args []string) error { return onMountedFile(args[0]) },
		"readonly": func(args []string) error { return onReadOnlyDisk(args[0]) },
	})
	os.Exit(m.Run())
}

// tool is one of the tools, without a sandbox.
type tool func(ctx context.Context, root string, input []byte) (Reply, error)

func toolOf(name string) tool {
	return func(ctx context.Context, root string, input []byte) (Reply, error) {
		return Do(ctx, Call{Tool: name, Root: root, Input: input}, nil, func(Plan) error { return nil })
	}
}

var doRead, doWrite, doEdit = toolOf(Read), toolOf(Write), toolOf(Edit)

// args are the input of a call.
type args map[string]any

func (a args) input() []byte {
	b, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	return b
}

// must calls a tool and expects success.
func must(t testing.TB, call tool, root string, a args) Reply {
	t.Helper()
	reply, err := call(context.Background(), root, a.input())
	if err != nil {
		t.Fatalf("%v: %v", a, err)
	}
	return reply
}

// refused calls a tool and expects an error of that code, whose message it returns.
func refused(t testing.TB, call tool, root string, a args, code string) string {
	t.Helper()
	reply, err := call(context.Background(), root, a.input())
	return expect(t, reply, err, code)
}

func expect(t testing.TB, reply Reply, err error, code string) string {
	t.Helper()
	if errorCode(err) != code {
		t.Fatalf("got %+v, %#v, want the code %s", reply, err, code)
	}
	return err.Error()
}

// errorCode returns the code of an error; empty: not an *Error.
func errorCode(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// newDir makes a directory that every user can list, without symbolic links.
func newDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(zinotest.Dir(t))
	zinotest.Must(t, err)
	zinotest.Must(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { os.Chmod(dir, 0o755) }) // before it is removed
	return dir
}

// put writes a file and returns its path.
func put(t testing.TB, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	zinotest.Must(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

// link makes symbolic links in dir.
func link(t testing.TB, dir string, links map[string]string) {
	t.Helper()
	for name, to := range links {
		zinotest.Must(t, os.Symlink(to, filepath.Join(dir, name)))
	}
}

// addOddFiles makes a pipe, a socket and links in a circle, pool and loop, in dir.
func addOddFiles(t *testing.T, dir string) {
	t.Helper()
	zinotest.Must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	zinotest.Listen(t, filepath.Join(dir, "socket"))
	link(t, dir, map[string]string{"loop": "pool", "pool": "loop"})
}

func stat(t testing.TB, path string) *syscall.Stat_t {
	t.Helper()
	info, err := os.Stat(path)
	zinotest.Must(t, err)
	return info.Sys().(*syscall.Stat_t)
}

// give makes the user of zinotest.Unprivileged the owner of a file.
func give(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() == 0 {
		zinotest.Must(t, os.Chown(path, zinotest.Nobody, -1))
	}
}
