package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/replfile"
	"zino/pkg/zinotest"
)

// newRoot makes a root with a script.
func newRoot(t *testing.T, script string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	zinotest.Must(t, err)
	shell(t, dir, script)
	return dir
}

func shell(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

func newProtected(t *testing.T, o ProtectOptions, running ...*Protected) *Protected {
	t.Helper()
	s, err := Protect(o, running)
	zinotest.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// names lists the protected paths below the root.
func (s *Protected) names() (list []string) {
	for _, p := range s.entries {
		rel, _ := filepath.Rel(s.o.Root, p.Path)
		if p.info == nil && slices.Contains(projectNames, rel) {
			continue
		}
		if (p.End || p.Link != "") && !slices.Contains([]string{agentsName, "ZINO.toml", ".gitmodules"}, rel) {
			list = append(list, rel)
		}
	}
	return list
}

// The list comes from the repository, wherever it is, from its configuration,
// and from the files below the root.
func TestEntries(t *testing.T) {
	for name, tt := range map[string]struct {
		before string
		want   []string
	}{
		"none":                {"true", []string{".git"}},
		"a directory":         {"mkdir -p .git/hooks", []string{".git"}},
		"a link":              {"mkdir -p g.git; ln -s g.git .git", []string{".git", "g.git"}},
		"a dead link":         {"ln -s g.git .git", []string{".git", "g.git"}},
		"a file":              {"mkdir -p g.git; echo gitdir: g.git >.git", []string{".git", "g.git"}},
		"a file and more":     {"mkdir -p g.git m; echo gitdir: g.git >.git; echo ../m >g.git/commondir", []string{".git", "g.git", "m"}},
		"other file":          {"echo x >.git", []string{".git"}},
		"a pipe":              {"mkfifo .git", []string{".git"}},
		"far file":            {"echo gitdir: /elsewhere >.git", []string{".git"}},
		"hooks away":          {"mkdir .git h; ln -s ../h .git/hooks", []string{".git", "h"}},
		"a hook away":         {"mkdir -p .git/hooks; ln -s ../../h .git/hooks/x", []string{".git", "h"}},
		"nested":              {"mkdir -p a/b/.git c; echo gitdir: ../d >c/.git", []string{".git", "a/b/.git", "a/b/.gitmodules", "c/.git", "c/.gitmodules", "d"}},
		"nested hooks":        {"mkdir -p a/.git; printf '[core]\nhooksPath = h' >a/.git/config", []string{".git", "a/.git", "a/.gitmodules", "a/h"}},
		"hooks":               {"mkdir .git; printf '[core]\n\thooksPath = .husky/_\n' >.git/config", []string{".git", ".husky"}},
		"hooks of the root":   {"mkdir .git; printf '[core] hooksPath = .\n' >.git/config", append([]string{".git"}, slices.Sorted(slices.Values(hookNames))...)},
		"includes":            {"mkdir .git; printf '[include]\npath = ../a\n[includeIf \"x\"]\npath=../b' >.git/config; printf '[include]\npath = c\n[core]\nhookspath = d' >a", []string{".git", "a", "b", "c", "d"}},
		"a circle":            {"mkdir .git; printf '[include]\npath = config\n' >.git/config", []string{".git"}},
		"programs":            {"mkdir .git; printf '[filter \"x\"]\nclean = \"./x.sh %%f\"\n[alias]\ny = !sub/y --z\n[remote \"o\"]\nurl = ../other\n' >.git/config; mkdir sub; :>x.sh; :>sub/y", []string{".git", "sub/y", "x.sh"}},
		"agents of others":    {"mkdir .claude .agents; :>.mcp.json", []string{".agents", ".claude", ".git", ".mcp.json"}},
		"AGENTS.md below":     {"mkdir -p a/b node_modules/p; :>a/b/AGENTS.md; :>node_modules/p/AGENTS.md", []string{".git", "a/b/AGENTS.md"}},
		"a bare root":         {"mkdir objects refs; :>HEAD; :>config", append([]string{".git"}, slices.Sorted(slices.Values(layoutNames))...)},
		"a REPL":              {"mkdir -p a/debug b/debug; cat >a/debug.md <<'END'\n" + replfile.Head + "END\necho notes >b/debug.md", []string{".git", "a/debug", "a/debug.md"}},
		"a REPL without logs": {"cat >debug.md <<'END'\n" + replfile.Head + "END", []string{".git", "debug", "debug.md"}},
	} {
		root := newRoot(t, tt.before)
		slices.Sort(tt.want)
		if got := newProtected(t, ProtectOptions{Root: root}).names(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// A root below the top of a repository obeys its configuration.
func TestEntriesBelowRepository(t *testing.T) {
	top := newRoot(t, "mkdir -p .git sub/hooks; printf '[core]\nhooksPath = sub/hooks\n' >.git/config")
	if got, want := newProtected(t, ProtectOptions{Root: top + "/sub"}).names(), []string{".git", "hooks"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The user's own configuration names hooks for every repository.
func TestEntriesOfUserConfig(t *testing.T) {
	home := newRoot(t, "mkdir -p p/.git; printf '[core]\nhooksPath = .hooks\n[include]\npath = ~/p/inc\n' >.gitconfig")
	if got, want := newProtected(t, ProtectOptions{Root: home + "/p", Home: home}).names(), []string{".git", ".hooks", "inc"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A protected directory may contain a protected file, and a path outside of the
// root that cannot be inspected is skipped.
func TestEntriesWithin(t *testing.T) {
	root := newRoot(t, "true")
	o := ProtectOptions{Root: root, Own: []string{root + "/own", root + "/own/deep/file", root + "/own-not", "/" + strings.Repeat("x", 300)}}
	if got, want := newProtected(t, o).names(), []string{".git", "own", "own-not", "own/deep/file"}; !slices.Equal(got, want) {
		t.Errorf("before it exists: %q", got)
	}
	shell(t, root, "mkdir -p own/deep; touch own-not")
	if got, want := newProtected(t, o).names(), []string{".git", "own", "own-not"}; !slices.Equal(got, want) {
		t.Errorf("as a whole: %q", got)
	}
}

func TestTooManyMounts(t *testing.T) {
	root := newRoot(t, "for i in $(seq 600); do mkdir -p $i/.git; done")
	if _, err := Protect(ProtectOptions{Root: root}, nil); err == nil || !strings.Contains(err.Error(), "places to protect") {
		t.Errorf("got %v", err)
	}
	other := newRoot(t, "true")
	zinotest.Must(t, os.Symlink(strings.Repeat("x", 300), other+"/AGENTS.md"))
	if _, err := Protect(ProtectOptions{Root: other}, nil); err == nil || !strings.Contains(err.Error(), "cannot be inspected") {
		t.Errorf("got %v", err)
	}
}

// A scan ends at its bound, upper directories first, and this is reported.
func TestScanBound(t *testing.T) {
	root := newRoot(t, "mkdir -p a/.git b/c/d/.git; touch b/c/1 b/c/2 b/c/3")
	dir, err := os.Open(root)
	zinotest.Must(t, err)
	defer dir.Close()
	if f := scan(dir, 4); !f.cut || len(f.git) != 1 {
		t.Errorf("%+v", f)
	}
	if f := scan(dir, 100); f.cut || len(f.git) != 2 {
		t.Errorf("%+v", f)
	}
	s := newProtected(t, ProtectOptions{Root: root})
	if s.Gap() != "" {
		t.Errorf("%q", s.Gap())
	}
	s.cut = true
	if !strings.Contains(s.Gap(), "250000 files of "+root) {
		t.Errorf("%q", s.Gap())
	}
}

// Several workers scan many directories.
func TestScanInParallel(t *testing.T) {
	root := newRoot(t, "for i in $(seq 300); do mkdir -p d$i/e/.git; done")
	dir, err := os.Open(root)
	zinotest.Must(t, err)
	defer dir.Close()
	if f := scan(dir, scanMax); f.cut || len(f.git) != 300 {
		t.Errorf("%v, %d found", f.cut, len(f.git))
	}
}

// Directories whose permissions code has removed are scanned, and keep their mode.
// For root the mode does not matter.
func TestScanWithoutPermission(t *testing.T) {
	root := newRoot(t, "mkdir -p a/b/c")
	s := newProtected(t, ProtectOptions{Root: root, Mounts: true})
	shell(t, root, "mkdir a/b/c/.git; chmod 0 a/b/c a/b a")
	list := s.Check()
	shell(t, root, `[ "$(stat -c %a a)" = 0 ]; chmod 700 a; [ "$(stat -c %a a/b)" = 0 ]; chmod 700 a/b; [ "$(stat -c %a a/b/c)" = 0 ]; chmod 700 a/b/c; ls -d a/b/c/.git.refused-*`)
	if len(list) != 1 || list[0].Err != nil || list[0].Name != "a/b/c/.git" {
		t.Errorf("%v", list)
	}
}

// Files that one run makes while another begins do not count as the user's.
func TestRunsSideBySide(t *testing.T) {
	for name, tt := range map[string]struct{ before, code, after string }{
		"a link":      {"ln -s docs AGENTS.md; echo good >docs; echo evil >evil", "ln -sfn evil AGENTS.md", "grep -q good AGENTS.md"},
		"a file":      {"true", "echo evil >AGENTS.md", "! test -e AGENTS.md"},
		"content":     {"echo good >AGENTS.md", "echo evil >AGENTS.md", "grep -q good AGENTS.md"},
		"repository":  {"mkdir sub", "mkdir sub/.git", "! test -e sub/.git"},
		"layout":      {"mkdir sub", "mkdir sub/objects sub/refs; touch sub/HEAD", "! test -e sub/HEAD"},
		"below":       {"mkdir sub", "echo evil >sub/AGENTS.md", "! test -e sub/AGENTS.md"},
		"below again": {"mkdir sub; echo good >sub/AGENTS.md", "echo evil >sub/AGENTS.md", "grep -q good sub/AGENTS.md"},
	} {
		for _, firstEndsFirst := range []bool{true, false} {
			root := newRoot(t, tt.before)
			first := newProtected(t, ProtectOptions{Root: root})
			shell(t, root, tt.code)
			second := newProtected(t, ProtectOptions{Root: root}, first)
			order := []*Protected{first, second}
			if !firstEndsFirst {
				slices.Reverse(order)
			}
			n := len(order[0].Check()) + len(order[1].Check())
			if err := exec.Command("sh", "-c", "cd "+root+"; "+tt.after).Run(); err != nil || n != 1 {
				t.Errorf("%s: %v, %d violations (first ends first: %v)", name, err, n, firstEndsFirst)
			}
		}
	}
}

// Copies of an AGENTS.md, and moved directories, are not violations.
func TestAgentsMoved(t *testing.T) {
	root := newRoot(t, "mkdir a; echo x >a/AGENTS.md; echo y >AGENTS.md")
	s := newProtected(t, ProtectOptions{Root: root, Mounts: true})
	shell(t, root, "cp -r a c; mv a b; mkdir d; cp AGENTS.md d")
	if list := s.Check(); len(list) != 0 {
		t.Errorf("%v", list)
	}
}

// Without mounts a repository is restored, except for its objects.
func TestRestoreRepository(t *testing.T) {
	for _, code := range []string{
		"echo evil >.git/config", "rm -r .git", "mv .git g", "mv .git g; mkdir .git; echo evil >.git/config", "ln -sf /etc/passwd .git/config",
		"echo evil >.git/refs/heads/new; :>.git/commondir", "rm .git/hooks/x; ln -s /bin/true .git/hooks/x", "rm -r .git; ln -s /etc .git",
	} {
		root := newRoot(t, "mkdir -p .git/hooks .git/refs/heads .git/objects; echo good >.git/config; echo good >.git/hooks/x; echo 1 >.git/refs/heads/main; echo 2 >.git/HEAD")
		s := newProtected(t, ProtectOptions{Root: root})
		shell(t, root, code)
		list := s.Check()
		shell(t, root, `[ "$(cat .git/config .git/hooks/x .git/refs/heads/main .git/HEAD | xargs)" = "good good 1 2" ]; [ ! -L .git ]; [ ! -e .git/commondir ]; [ ! -e .git/refs/heads/new ]`)
		if len(list) != 1 || list[0].Name != ".git" || list[0].Err != nil {
			t.Errorf("%s: %v", code, list)
		}
	}
}

// Git finds no repository in a quarantined directory.
func TestQuarantinedRepository(t *testing.T) {
	root := newRoot(t, "true")
	s := newProtected(t, ProtectOptions{Root: root, Mounts: true})
	shell(t, root, "git init -q .")
	list := s.Check()
	if len(list) != 1 || !strings.Contains(list[0].String(), "--sandbox off") {
		t.Fatalf("%v", list)
	}
	cmd := exec.Command("git", "rev-parse", "--git-dir")
	cmd.Dir = filepath.Join(root, list[0].Quarantine)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(root))
	if out, err := cmd.Output(); err == nil {
		t.Errorf("git finds the repository %s", out)
	}
}

// A refused write is explained if a line names a protected path.
func TestExplain(t *testing.T) {
	root := newRoot(t, "mkdir -p .git debug; :>AGENTS.md; mkdir h; printf '[core]\nhooksPath = h' >.git/config; cat >debug.md <<'END'\n"+replfile.Head+"END")
	s := newProtected(t, ProtectOptions{Root: root, Mounts: true})
	for line, want := range map[string]string{
		"fatal: Unable to create '" + root + "/.git/index.lock': Read-only file system": gitMessage,
		"error: could not lock config file .git/config: Read-only file system":          gitMessage,
		"sh: 1: cannot create sub/.git/x: Read-only file system":                        gitMessage,
		"OSError: [Errno 30] Read-only file system: '.git/config'":                      gitMessage,
		"Error: EROFS: read-only file system, open '.git/config'":                       gitMessage,
		"mv: cannot move '.git' to 'x': Device or resource busy":                        gitMessage,
		"sh: 1: cannot create debug/app-1.md: Read-only file system":                    replMessage,
		"sh: 1: cannot create debug.md: Read-only file system":                          replMessage,
		"rm: cannot remove 'AGENTS.md': Device or resource busy":                        "AGENTS.md is protected: the sandbox does not let it be changed.",
		"cp: cannot create regular file 'h/pre-commit': Read-only file system":          "h is read-only in this sandbox, since git obeys it: only the user can change it, or a run with --sandbox off.",
		"sh: 1: cannot create /usr/x: Read-only file system":                            "",
		"fatal: Unable to create '/other/.git/index.lock': Read-only file system":       "",
		"fatal: Unable to create '" + root + "/.git/index.lock': File exists.":          "",
		"see .git/config": "",
	} {
		zinotest.Equal(t, line, strings.Join(s.Explain("", line, false), "|"), want)
	}
	line := "error: could not lock config file .git/config: Read-only file system"
	if len(s.Explain(line, "", false)) != 0 || len(s.Explain(line+"\n"+line, "", true)) != 1 {
		t.Error("standard output counts only if the run failed, and each reason once")
	}
}

// The refusal for a log of zino repl has the text of the contract.
func TestRefusalOfREPL(t *testing.T) {
	root := newRoot(t, "mkdir -p a/b; cat >a/debug.md <<'END'\n"+replfile.Head+"END")
	s := newProtected(t, ProtectOptions{Root: root, Mounts: true})
	for path, want := range map[string]string{
		"a/debug/x.md": "debug/ belongs to zino repl: use the tool page_eval, or append to the file outside the sandbox",
		"a/debug.md":   "debug/ belongs to zino repl: use the tool page_eval, or append to the file outside the sandbox",
		"debug/x.md":   "", "a/b/debug/x": "", "a/x": "",
	} {
		zinotest.Equal(t, path, s.Refusal(filepath.Join(root, path), nil), want)
	}
}

// A malformed list of open runs is an error.
func TestResumeErrors(t *testing.T) {
	dir := newRoot(t, `echo nonsense >a; echo '{"Root":"/nonexistent/x"}' >b`)
	for _, name := range []string{"a", "b", "c"} {
		if s, err := ResumeRun(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestParseConfig(t *testing.T) {
	for text, want := range map[string][]setting{
		"[core]\n\thooksPath = .husky\n":                        {{"core", "hookspath", ".husky"}},
		"[CORE] HooksPath=a b  # comment\n[x]y=z":               {{"core", "hookspath", "a b"}, {"x", "y", "z"}},
		"[includeIf \"gitdir:a]b\\\"c\"]\npath = \"~/x y\" ; c": {{"includeif", "path", "~/x y"}},
		"[a.b]\nk = 1\n[ c \"d\"]\nk = 2":                       {{"a", "k", "1"}, {"", "k", "2"}},
		"[a]\nk = one\\\n two\\\\\n":                            {{"a", "k", "one two\\"}},
		"[a]\r\nk = \"x#;\"y\r\nflag\r\nm =\r\n":                {{"a", "k", "x#;y"}, {"a", "m", ""}},
		"[a\nk = v\n":                                           {{"", "k", "v"}},
		"\ufeff; c\n# d\n!x\n[a]k=v\\q\\n.":                     {{"a", "k", "vq\n."}},
	} {
		if got := parseConfig(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
}

// Parsing terminates, and a value is not longer than the text.
func FuzzParseConfig(f *testing.F) {
	for _, seed := range []string{"[core]\n\thooksPath = .husky\n", "[include \"a\\\"\"]\npath=\"x\\\ny\" # z", "[a", "[a]b=\\", "k = v", "[a \"b\nc\"]d=e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range parseConfig(text) {
			if s.key == "" || s.key != strings.ToLower(s.key) || len(s.key)+len(s.value) > len(text) {
				t.Errorf("%q: %+v", text, s)
			}
		}
	})
}
