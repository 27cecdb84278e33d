package exc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
)

// withTool makes a directory with a program zt in it that prints its argument.
func withTool(t *testing.T) (dir string) {
	t.Helper()
	dir = zinotest.Dir(t)
	if err := os.WriteFile(filepath.Join(dir, "zt"), []byte("#!/bin/sh\necho tool $1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestClientEnvironment: commands run with the client's environment, directory
// and umask, and without its secrets.
func TestClientEnvironment(t *testing.T) {
	t.Setenv("OWN", "own")
	t.Setenv("PASSED_TOKEN", "passed")
	s := newService(t, func(cfg *config.Exc) { cfg.PassEnv = []string{"PASSED_TOKEN"} }, nil)
	c := s.dial(t)
	bin, work := withTool(t), zinotest.Dir(t)
	env := map[string]string{"FOO": "bar", "MY_TOKEN": "secret", "ZINO_CONFIG": "x", "PATH": bin + ":" + os.Getenv("PATH"), "PWD": "/nowhere", "ODD": "a=b\nc"}
	code := `echo "$FOO-$OWN-$MY_TOKEN-$ZINO_CONFIG-$PASSED_TOKEN-$ODD"; pwd; echo $PWD; zt 1; umask; umask 0; : >made`
	want := "bar----passed-a=b\nc\n" + work + "\n" + work + "\ntool 1\n0027\n"
	r, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: code, Env: env, Cwd: work, Umask: new(0o27)})
	if err != nil || plain(t, r) != (proto.Result{Stdout: want}) {
		t.Errorf("execute: %+v, %v\nwant %q", r, err, want)
	}
	req := call("bash", "", in{"command": code})
	req.Env, req.Cwd, req.Umask = env, work, new(0o27)
	if got := ask(t, c, req); !got.OK || got.Data.Stdout != want {
		t.Errorf("bash: %+v, want %q", got, want)
	}
	req.Root = bin // it wins over the directory
	if got := ask(t, c, req); !strings.Contains(got.Data.Stdout, "\n"+bin+"\n") {
		t.Errorf("with a root: %+v", got)
	}
	r, err = s.execute(t.Context(), proto.Execute{Executor: "bash", Code: `echo "$OWN-$PASSED_TOKEN"`})
	if err != nil || r.Stdout != "own-passed\n" {
		t.Errorf("without an environment: %+v, %v", r, err)
	}
}

// TestClientProgram: an executor is found as the client would find it, from its
// directory too, and one that only exc has is not.
func TestClientProgram(t *testing.T) {
	s := newService(t, nil, map[string]string{"zt.json": `{"meta":{"executor":"zt"}}`})
	bin := withTool(t)
	for path, want := range map[string]int{bin: 0, "bin": 0, "": -1} {
		r, err := s.execute(t.Context(), proto.Execute{Executor: "zt", Env: map[string]string{"PATH": path + ":/bin"}, Cwd: filepath.Dir(bin), Root: map[bool]string{true: linkedTo(t, bin)}[path == "bin"]})
		if err != nil || r.ExitCode != want || (want == 0) != strings.HasPrefix(r.Stdout, "tool ") {
			t.Errorf("PATH=%q: %+v, %v", path, r, err)
		}
	}
}

// linkedTo makes a directory whose bin leads to dir.
func linkedTo(t *testing.T, dir string) string {
	t.Helper()
	above := zinotest.Dir(t)
	if err := os.Symlink(dir, filepath.Join(above, "bin")); err != nil {
		t.Fatal(err)
	}
	return above
}

// TestClientUmask: files and directories that write makes, and no others.
func TestClientUmask(t *testing.T) {
	s := newService(t, nil, nil)
	c, dir := s.dial(t), zinotest.Dir(t)
	req := call("write", dir, in{"path": "sub/file", "content": "x"})
	req.Umask = new(0o77)
	if got := ask(t, c, req); !got.OK {
		t.Fatalf("got %+v", got)
	}
	if got := ask(t, c, call("write", dir, in{"path": "other", "content": "x"})); !got.OK {
		t.Fatalf("got %+v", got)
	}
	for name, want := range map[string]os.FileMode{"sub": 0o700 | os.ModeDir, "sub/file": 0o600, "other": 0o666 &^ os.FileMode(ownUmask(t))} {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil || fi.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", name, fi.Mode(), err, want)
		}
	}
}

// ownUmask is that of this process.
func ownUmask(t *testing.T) (mask int) {
	t.Helper()
	dir := zinotest.Dir(t)
	file := filepath.Join(dir, "f")
	f, err := os.OpenFile(file, os.O_CREATE, 0o777)
	if err != nil {
		t.Fatal(err)
	}
	fi, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return 0o777 &^ int(fi.Mode().Perm())
}

// TestClientConfined: the client's environment reaches confined code, without
// what leads out of the confinement.
func TestClientConfined(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	bin := withTool(t)
	for _, level := range []proto.Level{proto.LevelReadOnly, proto.LevelWorkspaceWrite} {
		if a.levelProblem(t.Context(), level) != nil {
			continue
		}
		env := map[string]string{"FOO": "bar", "PATH": bin + ":" + os.Getenv("PATH"), "XDG_RUNTIME_DIR": "/run/x", "DISPLAY": ":0"}
		r, err := a.execute(t.Context(), proto.Execute{
			Executor: "bash", Code: `echo "$FOO-$XDG_RUNTIME_DIR$DISPLAY"; zt 1; umask; pwd`, Sandbox: level, Cwd: a.root, Env: env, Umask: new(0o77),
		})
		if want := "bar-\ntool 1\n0077\n" + a.root + "\n"; err != nil || r.Stdout != want {
			t.Errorf("%s: %+v, %v, want %q", level, r, err, want)
		}
	}
}

func TestClientInvalid(t *testing.T) {
	s := newService(t, nil, nil)
	c := s.dial(t)
	for name, bad := range map[string]proto.Execute{
		"variable": {Env: map[string]string{"A=B": "x"}},
		"value":    {Env: map[string]string{"A": "x\x00"}},
		"umask":    {Umask: new(0o1000)},
		"negative": {Umask: new(-1)},
	} {
		bad.Executor = "bash"
		_, err := s.execute(t.Context(), bad)
		if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeInvalid {
			t.Errorf("%s: execute answers %v", name, err)
		}
		for _, tool := range []string{"bash", "read"} {
			req := call(tool, "", in{"command": "true", "path": "x"})
			req.Env, req.Umask = bad.Env, bad.Umask
			if got := ask(t, c, req); got.OK || got.Error.Code != "invalid_input" {
				t.Errorf("%s: %s answers %+v", name, tool, got)
			}
		}
	}
}
