package agents

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"zino/proto"
)

// TestLeftOut checks that a file that cannot be read is a warning, and that the others
// are read.
func TestLeftOut(t *testing.T) {
	for want, spoil := range map[string]func(t *testing.T, path string){
		"is a directory":                   func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) },
		"too many levels of symbolic link": func(t *testing.T, path string) { must(t, os.Symlink(name, path)) },
		"is a link to nothing":             func(t *testing.T, path string) { must(t, os.Symlink("gone", path)) },
		"is not UTF-8":                     func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte("\xff"), 0o600)) },
		"is not a regular file":            func(t *testing.T, path string) { must(t, syscall.Mkfifo(path, 0o600)) },
	} {
		t.Run(want, func(t *testing.T) {
			tr := newTree(t, "home/AGENTS.md", "h", "home/p/q/AGENTS.md", "q", "home/l", "-> p")
			spoil(t, tr.at("home/p/AGENTS.md"))
			found := tr.gather("home/p/q")
			if got := tr.names(found); !slices.Equal(got, []string{"home/AGENTS.md", "home/p/q/AGENTS.md"}) {
				t.Errorf("got %q", got)
			}
			if len(found.Warnings) != 1 || !strings.HasPrefix(found.Warnings[0], tr.at("home/p/AGENTS.md")+": left out, "+want) || !strings.HasSuffix(found.Warnings[0], ": fix or remove it") {
				t.Errorf("got %q", found.Warnings)
			}
		})
	}
}

// TestEscapingLinks checks that a link that leaves the file's directory, directly or
// through other links, is left out with a warning: it may have been planted by the
// project's author or by confined code.
func TestEscapingLinks(t *testing.T) {
	const secret = "SECRET=1"
	for _, tt := range []struct {
		name  string
		files []string
	}{
		{"the environment", []string{"home/p/sub/AGENTS.md", "-> /proc/self/environ"}},
		{"a thread's root", []string{"home/p/sub/AGENTS.md", "-> /proc/thread-self/root/etc/passwd"}},
		{"a key", []string{"home/p/sub/AGENTS.md", "-> ../../.ssh/id"}},
		{"an absolute link", []string{"home/p/sub/AGENTS.md", "-> HOME/.ssh/id"}},
		{"an absolute link into the directory", []string{"home/p/sub/AGENTS.md", "-> HOME/p/sub/x", "home/p/sub/x", secret}},
		{"a chain", []string{"home/p/sub/AGENTS.md", "-> a", "home/p/sub/a", "-> d/b", "home/p/sub/d/b", "-> ../../../.ssh/id"}},
		{"a directory that is a link", []string{"home/p/sub/AGENTS.md", "-> d/id", "home/p/sub/d", "-> ../../.ssh"}},
		{"the parent's file", []string{"home/p/sub/AGENTS.md", "-> ../notes", "home/p/notes", secret}},
		{"a device", []string{"home/p/sub/AGENTS.md", "-> /dev/zero"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := newTree(t, "home/.ssh/id", secret, "home/p/AGENTS.md", "p")
			for i := 0; i < len(tt.files); i += 2 {
				tr.make(tt.files[i], strings.Replace(tt.files[i+1], "HOME", tr.at("home"), 1))
			}
			t.Setenv("SECRET", "1")
			found := tr.gather("home/p/sub")
			if got := tr.names(found); !slices.Equal(got, []string{"home/p/AGENTS.md"}) || strings.Contains(found.Text, "SECRET") {
				t.Errorf("got %q: %q", got, found.Text)
			}
			want := tr.at("home/p/sub/AGENTS.md") + ": left out, is a link that leads out of its directory: fix or remove it"
			if !slices.Equal(found.Warnings, []string{want}) {
				t.Errorf("got %q, want %q", found.Warnings, want)
			}
		})
	}
}

// TestLinkedPipe checks that a link within the directory to a named pipe does not
// block.
func TestLinkedPipe(t *testing.T) {
	tr := newTree(t, "home/p/AGENTS.md", "-> pipe")
	must(t, syscall.Mkfifo(tr.at("home/p/pipe"), 0o600))
	if found := tr.gather("home/p"); len(found.Warnings) != 1 || !strings.Contains(found.Warnings[0], "is not a regular file") {
		t.Errorf("got %+v", found)
	}
}

// TestTrustedLink checks that the file in the user's base may be a link to any place.
func TestTrustedLink(t *testing.T) {
	tr := newTree(t, "home/dotfiles/agents.md", "mine", "base/AGENTS.md", "-> ../home/dotfiles/agents.md", "home/p/", "")
	if found := tr.gather("home/p"); !slices.Equal(tr.names(found), []string{"base/AGENTS.md"}) || len(found.Warnings) > 0 {
		t.Errorf("got %+v", found)
	}
}

// TestUnlistedDirectory checks that a directory that can be entered but not listed
// causes a warning only if it has the file.
func TestUnlistedDirectory(t *testing.T) {
	tr := newTree(t, "home/p/", "")
	for _, dir := range []string{".", "..", "home"} {
		must(t, os.Chmod(tr.at(dir), 0o755))
	}
	must(t, os.Chmod(tr.at("home/p"), 0o711))
	asNobody(t, func() {
		if found := tr.gather("home/p"); len(found.Warnings) > 0 {
			t.Errorf("got %q", found.Warnings)
		}
	})
}

// asNobody calls f as the user nobody.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() == 0 {
		runtime.LockOSThread() // the file system uid belongs to the thread
		defer runtime.UnlockOSThread()
		must(t, syscall.Setfsuid(65534))
		defer func() { must(t, syscall.Setfsuid(0)) }()
	}
	f()
}

// TestDenied checks that a file without read permission, or in a directory without
// access, is a warning.
func TestDenied(t *testing.T) {
	tr := newTree(t, "home/AGENTS.md", "h", "home/p/AGENTS.md", "secret", "base/AGENTS.md", "hidden")
	for _, dir := range []string{".", "..", "home", "home/p"} {
		must(t, os.Chmod(tr.at(dir), 0o755))
	}
	must(t, os.Chmod(tr.at("home/p/AGENTS.md"), 0))
	must(t, os.Chmod(tr.at("base"), 0))
	t.Cleanup(func() { must(t, os.Chmod(tr.at("base"), 0o700)) })
	var found Context
	var err error
	asNobody(t, func() { found, err = Gather(Places{Base: tr.at("base"), Home: tr.at("home"), Root: tr.at("home/p")}) })
	must(t, err)
	tr.check(found)
	if got := tr.names(found); !slices.Equal(got, []string{"home/AGENTS.md"}) {
		t.Errorf("got %q", got)
	}
	if len(found.Warnings) != 2 || !strings.Contains(found.Warnings[0], "base/AGENTS.md: left out, permission denied") || !strings.Contains(found.Warnings[1], "p/AGENTS.md: left out, permission denied") {
		t.Errorf("got %q", found.Warnings)
	}
}

// TestHarmlessPaths checks that the name of a directory cannot add a line to the text.
func TestHarmlessPaths(t *testing.T) {
	const evil = "home/a\n## b\x1b[31m\u202e\u2028\xff"
	tr := newTree(t, evil+"/q/AGENTS.md", "q", evil+"/AGENTS.md/", "", "home/字 \u3000é/AGENTS.md", "fine")
	found := tr.gather(evil + "/q")
	want := filepath.Join(tr.dir, `home/a^J## b^[[31m\u202e\u2028`+"\uFFFD/AGENTS.md") + ": left out, is a directory: fix or remove it"
	if len(found.Warnings) != 1 || found.Warnings[0] != want {
		t.Errorf("got %q, want %q", found.Warnings, want)
	}
	if len(found.Files) != 1 || strings.ContainsAny(found.Files[0].Path, "\n\x1b\u202e\u2028") || strings.Count(found.Text, "\n## ") != 1 {
		t.Errorf("got %q, %+v", found.Text, found.Files)
	}
	if got := tr.names(tr.gather("home/字 \u3000é")); !slices.Equal(got, []string{"home/字 \u3000é/AGENTS.md"}) {
		t.Errorf("got %q", got)
	}
}

// TestBadRoot checks that a root that cannot be used as working directory is an error
// that names it.
func TestBadRoot(t *testing.T) {
	tr := newTree(t, "file", "x", "loop", "-> loop", "dangling", "-> gone", "base/AGENTS.md", "b")
	for root, want := range map[string]string{
		tr.at("gone"):      tr.at("gone") + ": no such file or directory",
		tr.at("file"):      tr.at("file") + ": not a directory",
		tr.at("loop"):      tr.at("loop") + ": ",
		tr.at("dangling"):  tr.at("dangling") + ": no such file or directory",
		"home":             "home: not an absolute path",
		tr.at("a\x00b"):    "a^@b: invalid argument",
		tr.at("a\x1b[31m"): "a^[[31m: no such file or directory",
	} {
		found, err := Gather(Places{Base: tr.at("base"), Home: tr.at("home"), Root: root})
		e, ok := errors.AsType[*proto.Error](err)
		if !ok || e.Code != proto.CodeInvalid || !strings.Contains(e.Message, want) || found.Text != "" {
			t.Errorf("%q: got %v, %+v", root, err, found)
		}
	}
}

// TestNoPlaces checks that the root's file is read without a base or a home, and with a
// home that is not a directory.
func TestNoPlaces(t *testing.T) {
	tr := newTree(t, "p/AGENTS.md", "p", "file", "x")
	for _, p := range []Places{
		{},
		{Base: tr.at("gone"), Home: tr.at("gone")},
		{Home: "p"},
		{Home: tr.at("p/q")},
	} {
		p.Root = tr.at("p")
		found, err := Gather(p)
		must(t, err)
		if got := tr.names(found); !slices.Equal(got, []string{"p/AGENTS.md"}) || len(found.Warnings) > 0 {
			t.Errorf("%+v: got %q, %q", p, got, found.Warnings)
		}
	}
	found, err := Gather(Places{Base: tr.at("file"), Root: tr.at("p")})
	if err != nil || len(found.Warnings) != 1 || !strings.Contains(found.Warnings[0], "not a directory") {
		t.Errorf("a base that is a file: got %+v, %v", found, err)
	}
}
