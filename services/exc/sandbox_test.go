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
		b := newHost(cfg)
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
