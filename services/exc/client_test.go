package exc

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
)

// withTool makes a directory with a program zt in it that prints its argument.
func withTool(t *testing.T) (dir string) {
	t.Helper()
	dir = zinotest.Dir(t)
	zinotest.Must(t, os.WriteFile(filepath.Join(dir, "zt"), []byte("#!/bin/sh\necho tool $1\n"), 0o755))
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
	env := map[string]string{"FOO": "bar", "MY_TOKEN": "secret", "ZINO_CONFIG": "x", "ZINO_JOB": "", "PATH": bin + ":" + os.Getenv("PATH"), "PWD": "/nowhere", "ODD": "a=b\nc"}
	code := `echo "$FOO-$OWN-$MY_TOKEN-$ZINO_CONFIG-$ZINO_JOB-$PASSED_TOKEN-$ODD"; pwd; echo $PWD; zt 1; umask; umask 0; : >made`
	want := "bar----1-passed-a=b\nc\n" + work + "\n" + work + "\ntool 1\n0027\n"
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
}

// TestClientProgram: an executor is found as the client would find it, from its
// directory too, and one that only exc has is not.
func TestClientProgram(t *testing.T) {
	s := newService(t, nil, map[string]string{"zt.json": `{"meta":{"executor":"zt"}}`})
	bin := withTool(t)
	above := zinotest.Dir(t)
	zinotest.Must(t, os.Symlink(bin, filepath.Join(above, "bin")))
	for path, want := range map[string]int{bin: 0, "bin": 0, "": -1} {
		r, err := s.execute(t.Context(), proto.Execute{Executor: "zt", Env: map[string]string{"PATH": path + ":/bin"}, Cwd: above})
		if err != nil || r.ExitCode != want || (want == 0) != strings.HasPrefix(r.Stdout, "tool ") {
			t.Errorf("PATH=%q: %+v, %v", path, r, err)
		}
	}
}

// TestClientUmask: files and directories that write makes, and no others.
func TestClientUmask(t *testing.T) {
	s := newService(t, nil, nil)
	c, dir := s.dial(t), zinotest.Dir(t)
	req := call("write", dir, in{"path": "sub/file", "content": "x"})
	req.Umask = new(0o77)
	for _, req := range []proto.Call{req, call("write", dir, in{"path": "other", "content": "x"})} {
		if got := ask(t, c, req); !got.OK {
			t.Fatalf("got %+v", got)
		}
	}
	own := syscall.Umask(0)
	syscall.Umask(own)
	for name, want := range map[string]os.FileMode{"sub": 0o700 | os.ModeDir, "sub/file": 0o600, "other": 0o666 &^ os.FileMode(own)} {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil || fi.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", name, fi.Mode(), err, want)
		}
	}
}

// TestClientConfined: the client's environment reaches confined code, without
// what leads out of the confinement.
func TestClientConfined(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	bin := withTool(t)
	a.each(t, confinedLevels, func(t *testing.T, level proto.Level) {
		env := map[string]string{"FOO": "bar", "PATH": bin + ":" + os.Getenv("PATH"), "XDG_RUNTIME_DIR": "/run/x", "DISPLAY": ":0"}
		r, err := a.execute(t.Context(), proto.Execute{
			Executor: "bash", Code: `echo "$FOO-$XDG_RUNTIME_DIR$DISPLAY"; zt 1; umask; pwd`, Sandbox: a.at(level), Cwd: a.root, Env: env, Umask: new(0o77),
		})
		if want := "bar-\ntool 1\n0077\n" + a.root + "\n"; err != nil || r.Stdout != want {
			t.Errorf("%+v, %v, want %q", r, err, want)
		}
	})
}
