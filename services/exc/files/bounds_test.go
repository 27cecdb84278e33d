package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// bounded are tools that may write below a new directory, with something
// outside of it that they must leave alone.
func bounded(t *testing.T) (f *Files, root, outside string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, outside = base+"/root", base+"/outside"
	for _, path := range []string{root + "/dir/file", root + "/kept", root + "/keep/file", outside + "/file"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("old\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"out": outside, "outfile": outside + "/file", "in": root + "/dir", "near": "dir/file", "up": "../outside/file", "round": "dir/../dir/../near",
		"loop": "loop", "dangling": outside + "/new", "dir/back": "../..", "kept2": "kept",
	} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	f = New().Within(Bounds{
		Root: root, Write: true,
		Refuse: func(path string, _ os.FileInfo) string {
			if path == root+"/kept" || strings.HasPrefix(path+"/", root+"/keep/") {
				return path + " is kept"
			}
			return ""
		},
		Readable: func(path string) bool { return strings.HasPrefix(path, root+"/") },
	})
	return f, root, outside
}

func TestBoundsOfWrite(t *testing.T) {
	f, root, outside := bounded(t)
	for path, want := range map[string]string{ // the path that is written; empty: denied
		"new":                   "new",
		"dir/new/new":           "dir/new/new",
		"dir/../dir/file":       "dir/file",
		"near":                  "dir/file",
		"round":                 "dir/file",
		root + "/dir/file":      "dir/file",
		root + "//dir//file":    "dir/file",
		"in/file":               "", // an absolute link, even to the inside
		root + "/in/file":       "",
		"out/file":              "",
		"out/new/er":            "",
		"outfile":               "",
		"up":                    "",
		"dangling":              "",
		"dir/back/outside/file": "",
		"../outside/file":       "",
		outside + "/file":       "",
		"/etc/zino-new":         "",
		"kept":                  "",
		"kept2":                 "",
		"keep/new":              "",
		"dir/../keep/file":      "",
	} {
		if want == "" {
			refused(t, f.Write, root, args{"path": path, "content": "new\n"}, Denied)
			refused(t, f.Edit, root, args{"path": path, "old": "old", "new": "new"}, Denied)
			continue
		}
		got := must(t, f.Write, root, args{"path": path, "content": "old\n"}).Data.(Written)
		if got.Path != filepath.Join(root, want) || holds(t, got.Path) != "old\n" {
			t.Errorf("%s: wrote %+v", path, got)
		}
		edited := must(t, f.Edit, root, args{"path": path, "old": "old", "new": "new"})
		if edited.Data.(Edited).Path != got.Path || holds(t, got.Path) != "new\n" || !strings.Contains(edited.Diff, "--- "+want+"\n") {
			t.Errorf("%s: edited %+v", path, edited)
		}
	}
	if holds(t, outside+"/file") != "old\n" || holds(t, root+"/kept") != "old\n" {
		t.Error("something was damaged")
	}
	if left, err := filepath.Glob(root + "/" + temporaryPrefix + "*"); len(left) > 0 || err != nil {
		t.Errorf("left: %q, %v", left, err)
	}
}

func TestBoundsOfOddPaths(t *testing.T) {
	f, root, _ := bounded(t)
	for path, code := range map[string]string{"loop": WriteError, "dir": WriteError, ".": WriteError, "dir/..": WriteError, "dir/file/new": WriteError, "": InvalidInput} {
		refused(t, f.Write, root, args{"path": path, "content": "x"}, code)
	}
	refused(t, f.Edit, root, args{"path": "gone", "old": "x", "new": "y"}, PathError)
	refused(t, f.Edit, root, args{"path": "gone/gone", "old": "x", "new": "y"}, PathError)
}

func TestBoundsOfRead(t *testing.T) {
	f, root, outside := bounded(t)
	for path, want := range map[string]bool{
		"dir/file": true, "near": true, "in/file": true, "kept": true, root + "/dir/file": true,
		"outfile": false, "out/file": false, "up": false, outside + "/file": false, "../outside/file": false, "/etc/passwd": false,
	} {
		if !want {
			refused(t, f.Read, root, args{"path": path}, Denied)
		} else if got := must(t, f.Read, root, args{"path": path}).Data.(Content); got.Content != "old\n" {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

// Where nothing may be written, nothing is, nor where there is no root.
func TestBoundsWithoutWriting(t *testing.T) {
	_, root, _ := bounded(t)
	for _, b := range []Bounds{{Root: root}, {Write: true}} {
		f := New().Within(b)
		refused(t, f.Write, root, args{"path": "sub/new", "content": "x"}, Denied)
		refused(t, f.Edit, root, args{"path": "dir/file", "old": "old", "new": "new"}, Denied)
	}
	if _, err := os.Stat(root + "/sub"); err == nil {
		t.Error("a directory was made")
	}
}

// A root in whose place a link is now is another one.
func TestOpenRoot(t *testing.T) {
	f, root, outside := bounded(t)
	if err := os.Rename(root, root+"2"); err != nil {
		t.Fatal(err)
	}
	refused(t, f.Write, root+"2", args{"path": root + "/new", "content": "x"}, WriteError)
	if err := os.Symlink(outside, root); err != nil {
		t.Fatal(err)
	}
	refused(t, f.Write, root, args{"path": "new", "content": "x"}, Denied)
	if _, err := os.Stat(outside + "/new"); err == nil {
		t.Error("it was written to where the link leads")
	}
}
