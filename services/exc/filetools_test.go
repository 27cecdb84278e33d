package exc

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/exc/files"
	"zino/services/exc/sandbox"
)

// toolIn calls a tool at a level in a root and returns the envelope.
func (s *service) toolIn(t testing.TB, level proto.Level, root, tool string, input in) string {
	t.Helper()
	req := call(tool, root, input)
	req.Sandbox = level
	got, err := s.call(t.Context(), req, nil)
	if err != nil {
		t.Errorf("%s at %s: %v", tool, level, err)
	}
	return string(got.Result)
}

// processes lists the pids of the helpers.
func (s *service) processes() (list []int) {
	s.helpers.mu.Lock()
	defer s.helpers.mu.Unlock()
	for h := range maps.Values(s.helpers.open) {
		list = append(list, h.cmd.Process.Pid)
	}
	return list
}

// One helper serves the calls of a batch, at the same time as well. It ends when
// it is idle, and with the service.
func TestHelperServesBatch(t *testing.T) {
	s := newService(t, nil, nil)
	root := zinotest.Dir(t)
	zinotest.Write(t, root+"/file", "0 1 2 3 4 5 6 7 ")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for tool, input := range map[string]in{"read": {"path": "file"}, "edit": {"path": "file", "old": fmt.Sprint(i, " "), "new": fmt.Sprint("<", i, ">")}} {
				if got := s.toolIn(t, proto.LevelWorkspaceWrite, root, tool, input); !strings.HasPrefix(got, `{"ok":true`) {
					t.Errorf("%s: %s", tool, got)
				}
			}
		})
	}
	all.Wait()
	zinotest.Equal(t, "the file", zinotest.Read(t, root+"/file"), "<0><1><2><3><4><5><6><7>")
	first := s.processes()
	if len(first) != 1 {
		t.Fatalf("%d helpers", len(first))
	}
	zinotest.Eventually(t, "the idle helper ends", func() bool { return len(s.processes()) == 0 && zinotest.Gone(first[0]) })
	s.toolIn(t, proto.LevelWorkspaceWrite, root, "read", in{"path": "file"})
	second := s.processes()
	zinotest.Must(t, s.Close())
	if len(second) != 1 || !zinotest.Gone(second[0]) {
		t.Errorf("left: %v", second)
	}
	s.mustLeaveNothing(t, nil)
}

// A helper does not serve another root, level or umask, nor a root that was
// replaced.
func TestHelperFitsCall(t *testing.T) {
	s := newService(t, nil, nil)
	root := zinotest.Dir(t)
	zinotest.Write(t, root+"/sub/file", "old")
	write := func(dir string, umask *int) {
		req := call("write", dir, in{"path": "new", "content": "x"})
		req.Sandbox, req.Umask = proto.LevelWorkspaceWrite, umask
		if got, err := s.call(t.Context(), req, nil); err != nil || !strings.HasPrefix(string(got.Result), `{"ok":true`) {
			t.Errorf("%s: %s, %v", dir, got.Result, err)
		}
	}
	write(root+"/sub", nil)
	zinotest.Must(t, os.RemoveAll(root+"/sub"))
	zinotest.Write(t, root+"/sub/file", "new")
	write(root+"/sub", nil)
	write(root, new(0o077))
	if got := s.toolIn(t, proto.LevelReadOnly, root+"/sub", "read", in{"path": "../new"}); !strings.Contains(got, files.Denied) {
		t.Errorf("out of the root: %s", got)
	}
	info, err := os.Stat(root + "/new")
	if err != nil || info.Mode().Perm() != 0o600 || !exists(root+"/sub/new") {
		t.Errorf("%v, %v", info, err)
	}
}

// A helper that is killed or hangs costs a call, or nothing, and the next one gets
// another helper.
func TestHelperKilled(t *testing.T) {
	s := newService(t, nil, nil)
	root := zinotest.Dir(t)
	zinotest.Write(t, root+"/file", "old")
	read := func() string { return s.toolIn(t, proto.LevelWorkspaceWrite, root, "read", in{"path": "file"}) }
	read()
	zinotest.Must(t, syscall.Kill(s.processes()[0], syscall.SIGKILL))
	zinotest.Eventually(t, "the helper is dead", func() bool { return zinotest.Gone(s.processes()[0]) })
	if got := read(); !strings.Contains(got, `"content":"old"`) {
		t.Errorf("after its death: %s", got)
	}
	s.limit = 10 * time.Millisecond
	zinotest.Must(t, syscall.Kill(s.processes()[0], syscall.SIGSTOP))
	hung := s.processes()[0]
	large := in{"path": "file", "content": strings.Repeat("x", 4<<20)} // more than the connection buffers
	if got := s.toolIn(t, proto.LevelWorkspaceWrite, root, "write", large); !strings.Contains(got, `"code":"timeout"`) || !strings.Contains(got, "did not answer within 10ms") {
		t.Errorf("while it hangs: %s", got)
	}
	s.limit = 0
	if got := read(); !strings.Contains(got, `"content":"old"`) {
		t.Errorf("after the timeout: %s", got)
	}
	zinotest.Eventually(t, "the hung helper is gone", func() bool { return zinotest.Gone(hung) })
}

// A helper that ends before it answers, again and again, is a result.
func TestHelperCrashes(t *testing.T) {
	s := newService(t, nil, nil)
	s.host.kernel = &sandbox.Kernel{NoNamespaces: errors.New("none"), Landlock: 1000} // which has no rules
	got := s.toolIn(t, proto.LevelReadOnly, zinotest.Dir(t), "read", in{"path": "file"})
	if !strings.Contains(got, `"code":"exec_error"`) || !strings.Contains(got, "the process for files has ended") {
		t.Errorf("got %s", got)
	}
}

// What the paths of a call lead to, at each level.
// TestReadPictures checks that read returns an image at each level, and of another
// directory none.
func TestReadPictures(t *testing.T) {
	a := newHarness(t, nil)
	a.host.unit, _ = unitHost(t)
	const image = "GIF89a\x1e\x00\x14\x00\x80\x00\x00"
	outside := filepath.Join(filepath.Dir(a.root), "outside.gif")
	zinotest.Write(t, filepath.Join(a.root, "shot.png"), image)
	zinotest.Write(t, outside, image)
	a.each(t, append(confinedLevels, proto.LevelUnit, proto.LevelOff), func(t *testing.T, level proto.Level) {
		for path, allowed := range map[string]bool{"shot.png": true, outside: level == proto.LevelOff} {
			req := call("read", a.root, in{"path": path})
			req.Sandbox = a.at(level)
			got, err := a.call(t.Context(), req, nil)
			zinotest.Must(t, err)
			if !allowed {
				zinotest.Contains(t, "result", string(got.Result), `"code":"denied"`)
				zinotest.Equal(t, "attachments", len(got.Attachments), 0)
				continue
			}
			zinotest.Contains(t, "result", string(got.Result), `{"ok":true,"data":{"path":`, `"media_type":"image/gif","bytes":13,"width":30,"height":20}}`)
			if len(got.Attachments) != 1 || got.Attachments[0].Name != filepath.Base(path) || string(got.Attachments[0].Data) != image {
				t.Errorf("%+v", got.Attachments)
			}
		}
	})
}

func TestConfinedPaths(t *testing.T) {
	a := newHarness(t, nil)
	a.host.unit, _ = unitHost(t)
	base, err := filepath.EvalSymlinks(zinotest.Dir(t))
	zinotest.Must(t, err)
	a.each(t, append(confinedLevels, proto.LevelUnit), func(t *testing.T, level proto.Level) {
		readOnly := level == proto.LevelReadOnly
		root, outside := filepath.Join(base, string(level), "root"), filepath.Join(base, string(level), "outside")
		denied := []string{root + "/AGENTS.md", root + "/.claude/file", root + "/own/deep/file", root + "/.git/config", outside + "/file"}
		keys := []string{root + "/conf/keys/openai", root + "/conf/keys/sub/more"}
		for _, path := range slices.Concat(denied, []string{root + "/dir/file"}) {
			zinotest.Write(t, path, "old\n")
		}
		a.host.protected, a.host.secrets = []string{root + "/own/deep"}, nil
		if level != levelLandlock { // else keys below the root make it unusable: see TestKeysBelowRoot
			for _, path := range keys {
				zinotest.Write(t, path, "old\n")
			}
			a.host.secrets = []string{root + "/conf/keys"}
		}
		for link, to := range map[string]string{
			"out": outside, "outfile": outside + "/file", "in": root + "/dir", "near": "dir/file", "up": "../outside/file", "round": "dir/../dir/../near",
			"loop": "loop", "dangling": outside + "/new", "dir/back": "../..", "agents": "AGENTS.md", "id": a.home + "/.ssh/id", "keys": "conf/keys",
		} {
			zinotest.Must(t, os.Symlink(to, filepath.Join(root, link)))
		}
		mustDeny := func(tool string, input in) {
			if got := a.toolIn(t, a.at(level), root, tool, input); !strings.Contains(got, `"code":"denied"`) {
				t.Errorf("%s %s: %s", tool, input["path"], got)
			}
		}
		for path, want := range map[string]string{ // the path that is written; empty: denied, "-": likewise, of a file that is not there to edit
			"new": "new", "dir/new/new": "dir/new/new", "dir/../dir/file": "dir/file", "near": "dir/file", "round": "dir/file",
			root + "/dir/file": "dir/file", root + "//dir//file": "dir/file", "in/file": "dir/file", root + "/in/newer": "dir/newer",
			"out/file": "", "out/new/er": "", "outfile": "", "up": "", "dangling": "", "dir/back/outside/file": "", "../outside/file": "", "../x": "",
			outside + "/file": "", "/etc/zino-new": "", "/tmp/zino-new": "", "AGENTS.md": "", "agents": "", ".claude/file": "", "dir/../.claude/file": "",
			".claude/new": "-", ".git/config": "", ".git/hooks/new": "-", "ZINO.toml": "-", "own/deep/file": "", "own/deep/new": "-", "id": "", a.home + "/.ssh/id": "",
		} {
			write, edit := in{"path": path, "content": "old\n"}, in{"path": path, "old": "old", "new": "new"}
			if want == "" || want == "-" || readOnly {
				mustDeny("write", write)
				if want != "-" {
					mustDeny("edit", edit)
				}
				continue
			}
			wrote, edited := a.toolIn(t, a.at(level), root, "write", write), a.toolIn(t, a.at(level), root, "edit", edit)
			real := filepath.Join(root, want)
			if path := fmt.Sprintf(`{"path":%q,`, real); !strings.Contains(wrote, path) || !strings.Contains(edited, path) || zinotest.Read(t, real) != "new\n" {
				t.Errorf("%s: %s %s", path, wrote, edited)
			}
		}
		for path, code := range map[string]string{"loop": files.WriteError, "dir": files.WriteError, ".": files.WriteError, "dir/..": files.WriteError, "dir/file/new": files.MkdirError, "": files.InvalidInput} {
			if got := a.toolIn(t, a.at(level), root, "write", in{"path": path, "content": "x"}); !readOnly && !strings.Contains(got, `"code":"`+code+`"`) || strings.Contains(got, `"ok":true`) {
				t.Errorf("%q: %s", path, got)
			}
		}
		for path, readable := range map[string]bool{
			"dir/file": true, "near": true, "in/file": true, "AGENTS.md": true, root + "/dir/file": true, "/etc/passwd": true,
			"outfile": false, "out/file": false, "up": false, outside + "/file": false, "../outside/file": false, "id": false, a.home + "/.ssh/id": false,
		} {
			if !readable {
				mustDeny("read", in{"path": path})
			} else if got := a.toolIn(t, a.at(level), root, "read", in{"path": path}); !strings.HasPrefix(got, `{"ok":true`) {
				t.Errorf("read %s: %s", path, got)
			}
		}
		if len(a.host.secrets) > 0 {
			for _, path := range []string{keys[0], "conf/keys/openai", "keys/openai", "conf/../conf/keys/sub/more"} {
				for tool, input := range map[string]in{"read": {"path": path}, "write": {"path": path, "content": "x"}, "edit": {"path": path, "old": "old", "new": "x"}} {
					mustDeny(tool, input)
				}
			}
			denied = append(denied, keys...)
		}
		t.Setenv("SECRET_OF_EXC", secret)
		for _, path := range []string{"/proc/self/environ", "/proc/1/environ", fmt.Sprintf("/proc/%d/environ", os.Getpid())} {
			if got := a.toolIn(t, a.at(level), root, "read", in{"path": path}); !strings.HasPrefix(got, `{"ok":false`) || strings.Contains(got, secret) {
				t.Errorf("%s: %s", path, got)
			}
		}
		for _, path := range denied {
			zinotest.Equal(t, path, zinotest.Read(t, path), "old\n")
		}
		if left := zinotest.Names(t, root); exists(outside+"/new") || exists(root+"/../x") || strings.Contains(left, ".zino-") {
			t.Errorf("a file was made; in the root: %s", left)
		}
	})
}

// Roots that cannot be given to confined code are refused, and say why.
func TestRefusedRoots(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	link := filepath.Join(a.outside, "link")
	zinotest.Must(t, os.Symlink(a.root, link))
	for root, why := range map[string]string{
		"/": "whole file system", a.home: "home directory", filepath.Dir(a.home): "home directory", link: "symbolic link", "/proc": "belong to the system",
	} {
		a.mustRefuseRoot(t, proto.LevelWorkspaceWrite, root, why)
	}
}

// swap exchanges a directory for a symbolic link and back, again and again, until
// stop.
func swap(dir, to string) (stop func()) {
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default: // each of these may fail because the one before did
			}
			os.Rename(dir, dir+".moved")
			os.Symlink(to, dir)
			os.Remove(dir)
			os.Rename(dir+".moved", dir)
		}
	}()
	return func() { close(done); <-stopped }
}

// A root, or a directory below it, that is exchanged for a symbolic link while calls
// begin lets no change out, and no text in.
func TestRaces(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	d := filepath.Join(a.root, "d")
	zinotest.Must(t, os.Mkdir(d, 0o700))
	stop := swap(d, a.outside)
	for i := range 116 {
		req := call("write", a.root, in{"path": "d/victim", "content": "x"})
		switch {
		case i%2 == 1 && i > 16:
			req = call("edit", a.root, in{"path": "d/victim", "old": "intact", "new": "x"})
		case i%2 == 1:
			req = call("write", d, in{"path": "new", "content": "x"})
		case i <= 16:
			req = call("bash", d, in{"command": "echo x >victim; echo x >new"})
		}
		req.Sandbox = proto.LevelWorkspaceWrite
		if got, err := a.call(t.Context(), req, nil); err != nil || strings.Contains(got.Diff, "intact") {
			t.Errorf("%s: %s, %v", req.Tool, got.Diff, err)
		}
	}
	stop()
	if !intact(a.outside+"/victim") || exists(a.outside+"/new") {
		t.Error("a call got out of its root")
	}
}
