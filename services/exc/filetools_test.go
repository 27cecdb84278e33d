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

// fileCall calls a tool at a level and returns the envelope.
func (s *service) fileCall(t *testing.T, level proto.Level, root, tool string, input in) string {
	t.Helper()
	req := call(tool, root, input)
	req.Sandbox = level
	got, err := s.call(t.Context(), req, nil)
	zinotest.Must(t, err)
	return string(got.Result)
}

// processes are the process numbers of the helpers.
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
				if got := s.fileCall(t, proto.LevelWorkspaceWrite, root, tool, input); !strings.HasPrefix(got, `{"ok":true`) {
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
	s.fileCall(t, proto.LevelWorkspaceWrite, root, "read", in{"path": "file"})
	second := s.processes()
	zinotest.Must(t, s.Close())
	if len(second) != 1 || !zinotest.Gone(second[0]) || len(s.workspaces()) > 0 {
		t.Errorf("left: %v, %v", second, s.workspaces())
	}
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
	if got := s.fileCall(t, proto.LevelReadOnly, root+"/sub", "read", in{"path": "../new"}); !strings.Contains(got, files.Denied) {
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
	read := func() string { return s.fileCall(t, proto.LevelWorkspaceWrite, root, "read", in{"path": "file"}) }
	read()
	zinotest.Must(t, syscall.Kill(s.processes()[0], syscall.SIGKILL))
	zinotest.Eventually(t, "it is dead", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.processes()[0]))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
	if got := read(); !strings.Contains(got, `"content":"old"`) {
		t.Errorf("after its death: %s", got)
	}
	s.limit = 10 * time.Millisecond
	zinotest.Must(t, syscall.Kill(s.processes()[0], syscall.SIGSTOP))
	hung := s.processes()[0]
	large := in{"path": "file", "content": strings.Repeat("x", 4<<20)} // more than the connection buffers
	if got := s.fileCall(t, proto.LevelWorkspaceWrite, root, "write", large); !strings.Contains(got, `"code":"timeout"`) || !strings.Contains(got, "did not answer within 10ms") {
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
	got := s.fileCall(t, proto.LevelReadOnly, zinotest.Dir(t), "read", in{"path": "file"})
	if !strings.Contains(got, `"code":"exec_error"`) || !strings.Contains(got, "the process for files has ended") {
		t.Errorf("got %s", got)
	}
}

// What the paths of a call lead to, at each level that confines writing.
func TestConfinedPaths(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	a.each(t, func(t *testing.T, level, name proto.Level) {
		if level == proto.LevelReadOnly {
			return
		}
		base, err := filepath.EvalSymlinks(zinotest.Dir(t))
		zinotest.Must(t, err)
		root, outside := base+"/root", base+"/outside"
		for _, path := range []string{root + "/dir/file", root + "/AGENTS.md", root + "/.claude/file", outside + "/file"} {
			zinotest.Write(t, path, "old\n")
		}
		for link, to := range map[string]string{
			"out": outside, "outfile": outside + "/file", "in": root + "/dir", "near": "dir/file", "up": "../outside/file", "round": "dir/../dir/../near",
			"loop": "loop", "dangling": outside + "/new", "dir/back": "../..", "agents": "AGENTS.md",
		} {
			zinotest.Must(t, os.Symlink(to, filepath.Join(root, link)))
		}
		for path, want := range map[string]string{ // the path that is written; empty: denied
			"new": "new", "dir/new/new": "dir/new/new", "dir/../dir/file": "dir/file", "near": "dir/file", "round": "dir/file",
			root + "/dir/file": "dir/file", root + "//dir//file": "dir/file", "in/file": "dir/file", root + "/in/newer": "dir/newer",
			"out/file": "", "out/new/er": "", "outfile": "", "up": "", "dangling": "", "dir/back/outside/file": "", "../outside/file": "",
			outside + "/file": "", "/etc/zino-new": "", "/tmp/zino-new": "", "AGENTS.md": "", "agents": "", ".claude/file": "", "dir/../.claude/file": "",
		} {
			wrote := a.fileCall(t, name, root, "write", in{"path": path, "content": "old\n"})
			edited := a.fileCall(t, name, root, "edit", in{"path": path, "old": "old", "new": "new"})
			if want == "" {
				if !strings.Contains(wrote, `"code":"denied"`) || !strings.Contains(edited, `"code":"denied"`) {
					t.Errorf("%s: %s %s", path, wrote, edited)
				}
				continue
			}
			real := filepath.Join(root, want)
			if path := fmt.Sprintf(`{"path":%q,`, real); !strings.Contains(wrote, path) || !strings.Contains(edited, path) || zinotest.Read(t, real) != "new\n" {
				t.Errorf("%s: %s %s", path, wrote, edited)
			}
		}
		if got := a.fileCall(t, name, root, "write", in{"path": ".claude/new", "content": "x"}); !strings.Contains(got, `"code":"denied"`) {
			t.Errorf(".claude/new: %s", got)
		}
		for path, code := range map[string]string{"loop": files.WriteError, "dir": files.WriteError, ".": files.WriteError, "dir/..": files.WriteError, "dir/file/new": files.MkdirError, "": files.InvalidInput} {
			if got := a.fileCall(t, name, root, "write", in{"path": path, "content": "x"}); !strings.Contains(got, `"code":"`+code+`"`) {
				t.Errorf("%q: %s", path, got)
			}
		}
		for path, readable := range map[string]bool{
			"dir/file": true, "near": true, "in/file": true, "AGENTS.md": true, root + "/dir/file": true, "/etc/passwd": true,
			"outfile": false, "out/file": false, "up": false, outside + "/file": false, "../outside/file": false,
		} {
			got := a.fileCall(t, name, root, "read", in{"path": path})
			if strings.HasPrefix(got, `{"ok":true`) != readable || !readable && !strings.Contains(got, `"code":"denied"`) {
				t.Errorf("read %s: %s", path, got)
			}
		}
		if zinotest.Read(t, outside+"/file") != "old\n" || exists(outside+"/new") || zinotest.Read(t, root+"/AGENTS.md") != "old\n" {
			t.Error("a file was damaged")
		}
		left, err := os.ReadDir(root)
		zinotest.Must(t, err)
		if slices.ContainsFunc(left, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".zino-") }) {
			t.Errorf("left: %v", left)
		}
	})
}
