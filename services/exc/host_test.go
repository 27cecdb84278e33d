package exc

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
)

// Protected paths and limits come from the environment and the configuration.
func TestNewSandbox(t *testing.T) {
	dir := zinotest.Dir(t)
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
		if b.home != want || !slices.Contains(b.protected, dir+"/own") || b.level != proto.LevelOff || b.limits.Memory != 1<<20 || b.limits.CPU != 2 {
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

// keep puts the user's keys below the root.
func (a *harness) keep(t *testing.T) (key string) {
	t.Helper()
	key = filepath.Join(a.root, "conf/keys/openai")
	zinotest.Write(t, key, secret)
	zinotest.Write(t, filepath.Dir(key)+"/sub/more", secret)
	a.host.secrets = []string{filepath.Dir(key)}
	return key
}

// mustRefuseRoot checks that a root is refused for code.
func (a *harness) mustRefuseRoot(t *testing.T, level proto.Level, root, why string) {
	t.Helper()
	_, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: "echo pwned", Sandbox: level, Root: root})
	if err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%s in %s: %v", level, root, err)
	}
}

// Keys that lie in the root are hidden there, or the root is refused.
func TestKeysBelowTheRoot(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	key := a.keep(t)
	a.each(t, func(t *testing.T, level, name proto.Level) {
		if level == levelLandlock {
			a.mustRefuseRoot(t, name, a.root, filepath.Dir(key))
			return
		}
		code := a.env() + `cd $ROOT/conf; cat keys/openai keys/sub/more; ls keys; echo x >keys/new; rm -rf keys; mv keys kept && cat kept/openai; mv $ROOT/conf $ROOT/moved && cat $ROOT/moved/keys/openai
cd $ROOT; cat conf/keys/openai conf/kept/openai; echo ran`
		r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: code, Sandbox: name, Root: a.root})
		if err != nil || r.Stdout != "ran\n" {
			t.Errorf("%+v, %v", r, err)
		}
		os.Rename(a.root+"/moved", a.root+"/conf")
		if text, err := os.ReadFile(key); string(text) != secret || exists(filepath.Dir(key)+"/new") {
			t.Errorf("the keys were changed: %q, %v", text, err)
		}
	})
}

// The file tools cannot read or write keys.
func TestKeysAndFileTools(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	a.host.unit, _ = unitHost(t)
	key := a.keep(t)
	if err := os.Symlink("conf/keys", a.root+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, level := range []proto.Level{proto.LevelReadOnly, proto.LevelWorkspaceWrite, proto.LevelUnit} {
		for _, path := range []string{key, "conf/keys/openai", "link/openai", "conf/../conf/keys/sub/more"} {
			for tool, input := range map[string]in{"read": {"path": path}, "write": {"path": path, "content": "x"}, "edit": {"path": path, "old": secret[:5], "new": "x"}} {
				req := call(tool, a.root, input)
				req.Sandbox = level
				got, err := a.call(t.Context(), req, nil)
				if text := string(got.Result) + got.Diff; err != nil || !strings.Contains(text, `"code":"denied"`) || strings.Contains(text, secret[5:]) {
					t.Errorf("%s %s at %s: %s, %v", tool, path, level, text, err)
				}
			}
		}
	}
	if text, err := os.ReadFile(key); string(text) != secret {
		t.Errorf("%q, %v", text, err)
	}
}

// A key file of the configuration is a secret.
func TestConfiguredKey(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	zinotest.Write(t, a.root+"/my.key", secret)
	a.ProtectConfig(&config.Config{API: config.API{KeyFile: a.root + "/my.key"}})
	if a.levelProblem(t.Context(), proto.LevelReadOnly) == nil && a.host.kernel.NoNamespaces == nil {
		r, err := a.run(t, proto.LevelReadOnly, "cat $ROOT/my.key; echo ran")
		if err != nil || r.Stdout != "ran\n" {
			t.Errorf("%+v, %v", r, err)
		}
	}
	req := call("read", a.root, in{"path": "my.key"})
	req.Sandbox = proto.LevelReadOnly
	if got, err := a.call(t.Context(), req, nil); err != nil || strings.Contains(string(got.Result), secret) {
		t.Errorf("%s, %v", got.Result, err)
	}
}

// A directory of keys is refused as a root.
func TestKeysAsTheRoot(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	dir := filepath.Dir(a.keep(t))
	a.each(t, func(t *testing.T, _, name proto.Level) {
		for _, root := range []string{dir, dir + "/sub"} {
			a.mustRefuseRoot(t, name, root, "code must not read")
			req := call("read", root, in{"path": "openai"})
			req.Sandbox = name
			if got, err := a.call(t.Context(), req, nil); err != nil || !strings.Contains(string(got.Result), `"code":"sandbox"`) {
				t.Errorf("%s: %s, %v", root, got.Result, err)
			}
		}
	})
}

// The host's secrets are hidden in the root, too.
func TestSecretsOfTheHost(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	for _, name := range []proto.Level{a.at(proto.LevelReadOnly), a.at(levelLandlock)} {
		r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: "cat shadow", Sandbox: proto.LevelReadOnly, Root: "/etc"})
		if r.Stdout != "" || err == nil && r.Confinement == nil {
			t.Errorf("%s: %d bytes, %v", name, len(r.Stdout), err)
		}
		req := call("read", "/etc", in{"path": "shadow"})
		req.Sandbox = proto.LevelReadOnly
		if got, err := a.call(t.Context(), req, nil); err != nil || !strings.HasPrefix(string(got.Result), `{"ok":false`) {
			t.Errorf("%s: it was read, %v", name, err)
		}
	}
}
