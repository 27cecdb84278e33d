package exc

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"zino/pkg/config"
)

// What a service keeps from code comes from its environment and its
// configuration.
func TestNewSandbox(t *testing.T) {
	dir := shortDir(t)
	home, link := filepath.Join(dir, "home"), filepath.Join(dir, "link")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(home, link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ZINO_HOME", dir+"/own")
	cfg := config.Default().Exc
	cfg.MemoryMax, cfg.CPUMax = 1<<20, 2
	for env, want := range map[string]string{link: home, home: home, "/": "", "relative": "", "": "", dir + "/gone/": dir + "/gone"} {
		t.Setenv("HOME", env)
		b := newSandbox(cfg)
		if b.home != want || !slices.Contains(b.protected, dir+"/own") || b.level != levelOff || b.limits.Memory != 1<<20 || b.limits.CPU != 2 {
			t.Errorf("HOME=%s: %+v", env, b)
		}
		if (b.tree == nil) == (b.noTree == nil) {
			t.Errorf("groups: %v, %v", b.tree, b.noTree)
		}
		if err := b.close(); err != nil {
			t.Error(err)
		}
	}
}

func TestProtect(t *testing.T) {
	s := newService(t, nil, nil)
	s.sandbox.protected = nil
	s.Protect("/etc/zino", "", "tools")
	tools, err := filepath.Abs("tools")
	if want := []string{"/etc/zino", tools}; err != nil || !slices.Equal(s.sandbox.protected, want) {
		t.Errorf("got %q, %v", s.sandbox.protected, err)
	}
	if got := s.sandbox.protectedBelow("/etc"); !slices.Contains(got, "/etc/zino") || !slices.Contains(got, "/etc/AGENTS.md") || slices.Contains(got, tools) {
		t.Errorf("below /etc: %q", got)
	}
}

// A work tree's .git is a file that says where the rest is.
func TestProtectedRepository(t *testing.T) {
	dir := shortDir(t)
	if got := protectedRepository(dir + "/.git"); got != nil {
		t.Errorf("none: %q", got)
	}
	mustWrite(t, dir+"/.git", "gitdir: /elsewhere\n")
	if got := protectedRepository(dir + "/.git"); !slices.Equal(got, []string{dir + "/.git"}) {
		t.Errorf("a file: %q", got)
	}
	mustWrite(t, dir+"/repo/.git/HEAD", "x")
	if got := protectedRepository(dir + "/repo/.git"); !slices.Contains(got, dir+"/repo/.git/hooks") || len(got) != len(protectedGit) {
		t.Errorf("a directory: %q", got)
	}
}
