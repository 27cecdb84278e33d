package exc

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
)

// protectedIn are the protected paths below a root, relative to it.
func protectedIn(t *testing.T, b *sandbox, root string) (names []string) {
	t.Helper()
	paths, err := b.protectedBelow(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name, err := filepath.Rel(root, path)
		if err != nil || !filepath.IsLocal(name) {
			t.Errorf("%s does not lie below %s", path, root)
		}
		names = append(names, name)
	}
	return names
}

func TestProtect(t *testing.T) {
	s := newService(t, nil, nil)
	s.sandbox.protected = nil
	s.Protect("/etc/zino", "", "tools")
	tools, err := filepath.Abs("tools")
	if want := []string{"/etc/zino", tools}; err != nil || !slices.Equal(s.sandbox.protected, want) {
		t.Errorf("got %q, %v", s.sandbox.protected, err)
	}
	got := protectedIn(t, s.sandbox, "/etc") // and what is secret there, for those who could read it
	for _, want := range []string{".git", "AGENTS.md", "ZINO.toml", "zino"} {
		if !slices.Contains(got, want) {
			t.Errorf("below /etc: %s is not among %q", want, got)
		}
	}
}

// A protected directory stays one when something in it is protected as well, and
// what cannot be looked at elsewhere is no hindrance.
func TestProtectWithin(t *testing.T) {
	dir := shortDir(t)
	b := &sandbox{protected: []string{dir + "/own", dir + "/own/deep/file", dir + "/own-not", "/" + strings.Repeat("x", 300)}}
	if got, want := protectedIn(t, b, dir), []string{".git", "AGENTS.md", "ZINO.toml", "own", "own-not", "own/deep/file"}; !slices.Equal(got, want) {
		t.Errorf("while it is not there: %q", got)
	}
	asUserIn(t, dir, "mkdir -p own/deep; touch own-not")
	if got, want := protectedIn(t, b, dir), []string{".git", "AGENTS.md", "ZINO.toml", "own", "own-not"}; !slices.Equal(got, want) {
		t.Errorf("as a whole: %q", got)
	}
}

// All that a configuration names is protected, by whatever name it is reached,
// and what Zino writes to once it is there.
func TestProtectConfig(t *testing.T) {
	s := newService(t, nil, nil)
	s.sandbox.protected = nil
	dir := shortDir(t)
	if err := os.Symlink(dir, s.dir+"/link"); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse([]byte("system_prompt_file = 'mine.md'\n[mem]\nsessions_dir = 'talk'\n[api]\nkey_file = 'key'\n"), s.dir+"/link/my.toml", s.dir+"/link", "exc")
	if err != nil {
		t.Fatal(err)
	}
	s.ProtectConfig(cfg)
	want := []string{".git", "AGENTS.md", "SYSTEM.md", "ZINO.toml", "key", "mine.md", "my.toml", "skills", "tools"}
	if got := protectedIn(t, s.sandbox, dir); !slices.Equal(got, want) {
		t.Errorf("without data: %q", got)
	}
	for _, name := range []string{"data/mem/soft_memory.txt", "data/rtr/usage.jsonl", "talk/x"} {
		mustWrite(t, filepath.Join(dir, name), "x")
	}
	want = append(want, "data/mem", "data/rtr", "talk")
	slices.Sort(want)
	if got := protectedIn(t, s.sandbox, dir); !slices.Equal(got, want) {
		t.Errorf("with data: %q", got)
	}
}

// repositoryNames are the names of gitDirectory with a prefix.
func repositoryNames(prefixes ...string) (names []string) {
	for _, prefix := range prefixes {
		for _, name := range protectedGit {
			names = append(names, prefix+name)
		}
	}
	return names
}

// What a repository is comes from its directory, wherever that is, and from
// those in it.
func TestProtectedRepository(t *testing.T) {
	tests := map[string]struct {
		before string
		want   []string
	}{
		"none":        {"true", []string{".git"}},
		"a directory": {"mkdir .git", repositoryNames(".git/")},
		"a link":      {"mkdir -p g.git; ln -s g.git .git", append(repositoryNames("g.git/"), ".git")},
		"a dead link": {"ln -s g.git .git", []string{".git", "g.git"}},
		"a file":      {"mkdir -p g.git; echo gitdir: g.git >.git", append(repositoryNames("g.git/"), ".git")},
		"other file":  {"echo x >.git", []string{".git"}},
		"a pipe":      {"mkfifo .git", []string{".git"}},
		"far file":    {"echo gitdir: /elsewhere >.git", []string{".git"}},
		"hooks away":  {"mkdir .git h; ln -s ../h .git/hooks", append(repositoryNames(".git/"), "h")},
		"modules": {
			"mkdir -p .git/modules/a/b/modules/c .git/worktrees/w .git/modules/none; for d in modules/a/b modules/a/b/modules/c worktrees/w; do :>.git/$d/HEAD; done; ln -s . .git/modules/round",
			repositoryNames(".git/", ".git/modules/a/b/", ".git/modules/a/b/modules/c/", ".git/worktrees/w/"),
		},
	}
	for name, tt := range tests {
		dir := shortDir(t)
		asUserIn(t, dir, tt.before)
		got := slices.DeleteFunc(protectedIn(t, &sandbox{}, dir), func(name string) bool { return slices.Contains(protectedNames, name) })
		slices.Sort(tt.want)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// More than can be watched is an error, and so is what cannot be looked at.
func TestTooManyPlaces(t *testing.T) {
	dir := shortDir(t)
	asUserIn(t, dir, "for i in $(seq 1000); do mkdir -p .git/modules/$i; :>.git/modules/$i/HEAD; done")
	if _, err := new(sandbox).placesBelow(dir); err == nil || !strings.Contains(err.Error(), "places to protect") {
		t.Errorf("got %v", err)
	}
	other := shortDir(t)
	if err := os.Symlink(strings.Repeat("x", 300), other+"/AGENTS.md"); err != nil {
		t.Fatal(err)
	}
	if _, err := new(sandbox).placesBelow(other); err == nil || !strings.Contains(err.Error(), "cannot be looked at") {
		t.Errorf("got %v", err)
	}
}

// The tools that work on files protect what commands may not change either.
func TestToolsProtectPlaces(t *testing.T) {
	t.Parallel()
	s := newService(t, nil, nil)
	s.sandbox.protected = nil
	for _, tt := range []struct{ before, path, harm string }{
		{"mkdir docs; echo good >docs/A.md; ln -s docs/A.md AGENTS.md", "AGENTS.md", "! grep -q good docs/A.md"},
		{"mkdir docs; echo good >docs/A.md; ln -s docs/A.md AGENTS.md", "docs/A.md", "! grep -q good docs/A.md"},
		{"ln -s docs/A.md AGENTS.md", "AGENTS.md", "[ -e AGENTS.md ]"},
		{"ln -s docs/A.md AGENTS.md", "docs/A.md", "[ -e AGENTS.md ]"},
		{"mkdir g.git; ln -s g.git .git", ".git/config", "[ -e .git/config ]"},
		{"mkdir g.git; ln -s g.git .git", "g.git/config", "[ -e .git/config ]"},
		{"mkdir .git githooks; ln -s ../githooks .git/hooks", ".git/hooks/pre-commit", "[ -e githooks/pre-commit ]"},
		{"mkdir .git githooks; ln -s ../githooks .git/hooks", "githooks/pre-commit", "[ -e githooks/pre-commit ]"},
		{"mkdir -p .git/modules/a; :>.git/modules/a/HEAD", ".git/modules/a/config", "[ -e .git/modules/a/config ]"},
		{"true", ".git/hooks/pre-commit", "[ -e .git ]"},
		{"ln -s . here", "here/.git/hooks/pre-commit", "[ -e .git ]"},
		{"mkdir a; ln -s a b", "b/../.git/x/y", "[ -e .git ]"},
		{"true", ".git", "[ -e .git ]"},
	} {
		dir := shortDir(t)
		asUserIn(t, dir, tt.before)
		req := call("write", dir, in{"path": tt.path, "content": "evil\n"})
		req.Sandbox = levelWorkspace
		got, err := s.call(t.Context(), req, nil)
		if harmed := asUserIn(t, dir, tt.harm+" && echo harmed || true"); err != nil || !strings.Contains(string(got.Result), `"code":"denied"`) || harmed != "" {
			t.Errorf("%s: write %s: %s, %v %s", tt.before, tt.path, got.Result, err, harmed)
		}
	}
}
