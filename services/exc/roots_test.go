package exc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// The file tools obey as code does.
func TestConfinedFileTools(t *testing.T) {
	a := newHarness(t, nil)
	a.host.unit, _ = unitHost(t)
	zinotest.Write(t, a.root+"/file", "old")
	if err := errors.Join(os.Symlink(a.outside, a.root+"/out"), os.Symlink(a.home+"/.ssh/id", a.root+"/id"), os.Symlink("sub/../file", a.root+"/here")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		tool  string
		input in
		level proto.Level // the lowest at which it is permitted; empty: none
	}{
		{"write", in{"path": "new", "content": "x"}, proto.LevelWorkspaceWrite},
		{"write", in{"path": a.root + "/sub/new/er", "content": "x"}, proto.LevelWorkspaceWrite},
		{"edit", in{"path": "file", "old": "old", "new": "old"}, proto.LevelWorkspaceWrite},
		{"edit", in{"path": "here", "old": "old", "new": "old"}, proto.LevelWorkspaceWrite},
		{"write", in{"path": a.outside + "/victim", "content": "x"}, ""},
		{"write", in{"path": "../x", "content": "x"}, ""},
		{"write", in{"path": "out/new", "content": "x"}, ""},
		{"edit", in{"path": "out/victim", "old": "intact", "new": "x"}, ""},
		{"write", in{"path": "id", "content": "x"}, ""},
		{"edit", in{"path": "id", "old": "secret", "new": "x"}, ""},
		{"write", in{"path": "AGENTS.md", "content": "x"}, ""},
		{"edit", in{"path": ".git/config", "old": "intact", "new": "x"}, ""},
		{"write", in{"path": ".git/hooks/new", "content": "x"}, ""},
		{"write", in{"path": "ZINO.toml", "content": "x"}, ""},
		{"write", in{"path": "own/deep/new", "content": "x"}, ""},
		{"read", in{"path": "file"}, proto.LevelReadOnly},
		{"read", in{"path": "/etc/passwd"}, proto.LevelReadOnly},
		{"read", in{"path": a.home + "/.ssh/id"}, ""},
		{"read", in{"path": "id"}, ""},
		{"read", in{"path": a.outside + "/victim"}, ""},
	}
	for _, level := range []proto.Level{proto.LevelReadOnly, proto.LevelWorkspaceWrite, proto.LevelUnit} {
		for _, tt := range tests {
			req := call(tt.tool, a.root, tt.input)
			req.Sandbox = level
			got, err := a.call(t.Context(), req, nil)
			permitted := tt.level == proto.LevelReadOnly || tt.level != "" && level != proto.LevelReadOnly
			if ok := strings.HasPrefix(string(got.Result), `{"ok":true`); err != nil || ok != permitted || !ok && !strings.Contains(string(got.Result), `"code":"denied"`) {
				t.Errorf("%s %v at %s: %s, %v", tt.tool, tt.input, level, got.Result, err)
			}
			if got.Confinement == nil || got.Confinement.Sandbox != level {
				t.Errorf("%s at %s: %+v", tt.tool, level, got.Confinement)
			}
		}
	}
	t.Setenv("SECRET_OF_EXC", secret)
	for _, path := range []string{"/proc/self/environ", "/proc/1/environ", fmt.Sprintf("/proc/%d/environ", os.Getpid())} {
		req := call("read", a.root, in{"path": path})
		req.Sandbox = proto.LevelReadOnly
		if got, err := a.call(t.Context(), req, nil); err != nil || !strings.HasPrefix(string(got.Result), `{"ok":false`) || strings.Contains(string(got.Result), secret) {
			t.Errorf("%s: %s, %v", path, got.Result, err)
		}
	}
	if !intact(a.outside+"/victim") || !intact(a.root+"/AGENTS.md") || !intact(a.root+"/.git/config") {
		t.Error("something was damaged")
	}
}

// Roots that cannot be given to confined code are refused, and say why.
func TestRefusedRoots(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	link := filepath.Join(a.outside, "link")
	if err := os.Symlink(a.root, link); err != nil {
		t.Fatal(err)
	}
	for root, why := range map[string]string{
		"/": "whole file system", a.home: "home directory", filepath.Dir(a.home): "home directory", link: "symbolic link", "/proc": "belong to the system",
	} {
		for _, tool := range []string{"bash", "read", "write"} {
			req := call(tool, root, in{"command": "true", "path": "x", "content": "x"})
			req.Sandbox = proto.LevelWorkspaceWrite
			got, err := a.call(t.Context(), req, nil)
			if err != nil || !strings.Contains(string(got.Result), `"code":"sandbox"`) || !strings.Contains(string(got.Result), why) {
				t.Errorf("%s in %s: %s, %v", tool, root, got.Result, err)
			}
		}
	}
}

// swapping exchanges a directory for a symbolic link and back, again and again,
// until the function that it returns is called.
func swapping(dir, to string) (stop func()) {
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default: // each of these may fail because the one before did
			}
			os.Rename(dir, dir+".aside")
			os.Symlink(to, dir)
			os.Remove(dir)
			os.Rename(dir+".aside", dir)
		}
	}()
	return func() { close(done); <-stopped }
}

// A root that is exchanged for a symbolic link while runs begin lets none of
// them out.
func TestRootRace(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	sub := filepath.Join(a.root, "race")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	stop := swapping(sub, a.outside)
	for i := range 16 {
		tool, input := "bash", in{"command": "echo x >victim; echo x >new"}
		if i%2 == 1 {
			tool, input = "write", in{"path": "new", "content": "x"}
		}
		req := call(tool, sub, input)
		req.Sandbox = proto.LevelWorkspaceWrite
		if _, err := a.call(t.Context(), req, nil); err != nil {
			t.Error(err)
		}
	}
	stop()
	if !intact(a.outside+"/victim") || exists(a.outside+"/new") {
		t.Error("a run got out of its root")
	}
}

// A directory below the root that is exchanged for a symbolic link lets no
// change out, and no text in.
func TestFileRace(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	d := filepath.Join(a.root, "d")
	if err := os.Mkdir(d, 0o700); err != nil {
		t.Fatal(err)
	}
	stop := swapping(d, a.outside)
	for i := range 100 {
		tool, input := "write", in{"path": "d/victim", "content": "x"}
		if i%2 == 1 {
			tool, input = "edit", in{"path": "d/victim", "old": "intact", "new": "x"}
		}
		req := call(tool, a.root, input)
		req.Sandbox = proto.LevelWorkspaceWrite
		if got, err := a.call(t.Context(), req, nil); err != nil || strings.Contains(got.Diff, "intact") {
			t.Errorf("%s, %v", got.Diff, err)
		}
	}
	stop()
	if !intact(a.outside + "/victim") {
		t.Error("a file outside was written")
	}
}
