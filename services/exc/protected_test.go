package exc

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
)

// refuses reports whether the file tools must not write a path below a root.
func (h *host) refuses(t *testing.T, root, name string) bool {
	t.Helper()
	set, err := h.protectedIn(root, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	return set.Refusal(filepath.Join(root, name), nil) != ""
}

func TestProtect(t *testing.T) {
	s := newService(t, nil, nil)
	s.host.protected = nil
	s.Protect("/etc/zino", "", "tools")
	tools, err := filepath.Abs("tools")
	if want := []string{"/etc/zino", tools}; err != nil || !slices.Equal(s.host.protected, want) {
		t.Errorf("got %q, %v", s.host.protected, err)
	}
	for name, want := range map[string]bool{"zino": true, "zino/zino.toml": true, "ZINO.toml": true, "AGENTS.md": true, ".git/x": true, "hosts": false} {
		if s.host.refuses(t, "/etc", name) != want {
			t.Errorf("/etc/%s: want %v", name, want)
		}
	}
}

// All that a configuration names is protected, by whatever name it is reached,
// and what Zino writes to once it is there.
func TestProtectConfig(t *testing.T) {
	s := newService(t, nil, nil)
	s.host.protected = nil
	dir := shortDir(t)
	if err := os.Symlink(dir, s.dir+"/link"); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse([]byte("system_prompt_file = 'mine.md'\n[mem]\nsessions_dir = 'talk'\n[api]\nkey_file = 'key'\n"), s.dir+"/link/my.toml", s.dir+"/link", "exc")
	if err != nil {
		t.Fatal(err)
	}
	s.ProtectConfig(cfg)
	for _, name := range []string{".git", "AGENTS.md", "SYSTEM.md", "ZINO.toml", "key", "mine.md", "my.toml", "skills", "tools/x"} {
		if !s.host.refuses(t, dir, name) {
			t.Errorf("%s may be written", name)
		}
	}
	for _, name := range []string{"data/mem/soft_memory.txt", "data/rtr/usage.jsonl", "talk/x"} {
		if s.host.refuses(t, dir, name) {
			t.Errorf("%s is protected before it is there", name)
		}
		mustWrite(t, filepath.Join(dir, name), "x")
		if !s.host.refuses(t, dir, name) {
			t.Errorf("%s may be written", name)
		}
	}
}

// The tools that work on files protect what commands may not change either.
func TestToolsProtectPlaces(t *testing.T) {
	t.Parallel()
	s := newService(t, nil, nil)
	s.host.protected = nil
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
