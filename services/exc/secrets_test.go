package exc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/proto"
)

// keep has an arena's user keep keys below the root.
func (a *arena) keep(t *testing.T) (key string) {
	t.Helper()
	key = filepath.Join(a.root, "conf/keys/openai")
	mustWrite(t, key, secret)
	mustWrite(t, filepath.Dir(key)+"/sub/more", secret)
	a.host.secrets = []string{filepath.Dir(key)}
	return key
}

// mustRefuseRoot checks that nothing runs in a root, and no file of it is read.
func (a *arena) mustRefuseRoot(t *testing.T, level, root, why string) {
	t.Helper()
	_, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: "echo pwned", Sandbox: proto.Level(level), Root: root})
	if err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%s in %s: %v", level, root, err)
	}
}

// Keys that lie in the root are hidden there, or the root is refused.
func TestKeysBelowTheRoot(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	key := a.keep(t)
	a.each(t, func(t *testing.T, level, name string) {
		if level == levelLandlock {
			a.mustRefuseRoot(t, name, a.root, filepath.Dir(key))
			return
		}
		code := a.env() + `cd $ROOT/conf; cat keys/openai keys/sub/more; ls keys; echo x >keys/new; rm -rf keys; mv keys kept && cat kept/openai; mv $ROOT/conf $ROOT/moved && cat $ROOT/moved/keys/openai
cd $ROOT; cat conf/keys/openai conf/kept/openai; echo ran`
		r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: code, Sandbox: proto.Level(name), Root: a.root})
		if err != nil || r.Stdout != "ran\n" {
			t.Errorf("%+v, %v", r, err)
		}
		os.Rename(a.root+"/moved", a.root+"/conf")
		if text, err := os.ReadFile(key); string(text) != secret || exists(filepath.Dir(key)+"/new") {
			t.Errorf("the keys were changed: %q, %v", text, err)
		}
	})
}

// The file tools do not reach them either.
func TestKeysAndFileTools(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	a.host.unit, _ = unitHost(t)
	key := a.keep(t)
	if err := os.Symlink("conf/keys", a.root+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, level := range []string{levelReadOnly, levelWorkspace, levelUnit} {
		for _, path := range []string{key, "conf/keys/openai", "link/openai", "conf/../conf/keys/sub/more"} {
			for tool, input := range map[string]in{"read": {"path": path}, "write": {"path": path, "content": "x"}, "edit": {"path": path, "old": secret[:5], "new": "x"}} {
				req := call(tool, a.root, input)
				req.Sandbox = proto.Level(level)
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

// A file with a key that the configuration names is a secret as well.
func TestConfiguredKey(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	mustWrite(t, a.root+"/my.key", secret)
	a.ProtectConfig(&config.Config{API: config.API{KeyFile: a.root + "/my.key"}})
	if a.levelProblem(t.Context(), levelReadOnly) == nil && a.host.kernel.NoNamespaces == nil {
		r, err := a.run(t, levelReadOnly, "cat $ROOT/my.key; echo ran")
		if err != nil || r.Stdout != "ran\n" {
			t.Errorf("%+v, %v", r, err)
		}
	}
	req := call("read", a.root, in{"path": "my.key"})
	req.Sandbox = levelReadOnly
	if got, err := a.call(t.Context(), req, nil); err != nil || strings.Contains(string(got.Result), secret) {
		t.Errorf("%s, %v", got.Result, err)
	}
}

// A directory of keys is no directory to work in.
func TestKeysAsTheRoot(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	dir := filepath.Dir(a.keep(t))
	a.each(t, func(t *testing.T, _, name string) {
		for _, root := range []string{dir, dir + "/sub"} {
			a.mustRefuseRoot(t, name, root, "code must not read")
			req := call("read", root, in{"path": "openai"})
			req.Sandbox = proto.Level(name)
			if got, err := a.call(t.Context(), req, nil); err != nil || !strings.Contains(string(got.Result), `"code":"sandbox"`) {
				t.Errorf("%s: %s, %v", root, got.Result, err)
			}
		}
	})
}

// The host's secrets are hidden where they lie in the root, too.
func TestSecretsOfTheHost(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	for _, name := range []string{a.at(levelReadOnly), a.at(levelLandlock)} {
		r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: "cat shadow", Sandbox: levelReadOnly, Root: "/etc"})
		if r.Stdout != "" || err == nil && r.Confinement == nil {
			t.Errorf("%s: %d bytes, %v", name, len(r.Stdout), err)
		}
		req := call("read", "/etc", in{"path": "shadow"})
		req.Sandbox = levelReadOnly
		if got, err := a.call(t.Context(), req, nil); err != nil || !strings.HasPrefix(string(got.Result), `{"ok":false`) {
			t.Errorf("%s: it was read, %v", name, err)
		}
	}
}
