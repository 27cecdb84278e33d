package connect

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
)

// cfgOf parses a configuration.
func cfgOf(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse([]byte(text), "own.toml", "/own", "cli")
	zinotest.Must(t, err)
	return cfg
}

// TestPlaces checks the sockets that are tried, and their order.
func TestPlaces(t *testing.T) {
	const socket = "[daemon]\nsocket = \"d.sock\"\n"
	for _, test := range []struct {
		name, flag, config, text string
		host                     bool
		plain, chat              string
	}{
		{"nothing named", "", "", "", false, "/run/user/7/zino/daemon.sock /run/zino/daemon.sock", "/run/user/7/zino/daemon.sock"},
		{"a socket", "/a.sock", "own.toml", socket, false, "/a.sock!?", "/a.sock!?"},
		{"a configuration with a socket", "", "own.toml", socket, false, "/own/d.sock!", "/own/d.sock!"},
		{"a configuration without", "", "own.toml", "", false, "/run/zino/daemon.sock", ""},
		{"the host's", "", "own.toml", socket, true, "/run/zino/daemon.sock?", "/run/zino/daemon.sock?"},
		{"the user's own file with a socket", "", "", socket, false, "/own/d.sock!", "/own/d.sock!"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
			t.Setenv("ZINO_CONFIG", "")
			target := &Target{Socket: test.flag, File: test.config, Host: test.host}
			cfg := cfgOf(t, test.text)
			for plain, want := range map[bool]string{true: test.plain, false: test.chat} {
				places, err := target.Places(cfg, plain)
				zinotest.Must(t, err)
				var got []string
				for _, p := range places {
					if p.Named {
						p.Socket += "!"
					}
					if p.Only {
						p.Socket += "?"
					}
					got = append(got, p.Socket)
				}
				if strings.Join(got, " ") != want {
					t.Errorf("plain %v: %q, want %q", plain, got, want)
				}
			}
		})
	}
}

// TestRuntimeDir checks that a directory that another user could have created, or can
// write to, is refused.
func TestRuntimeDir(t *testing.T) {
	tmp := zinotest.Dir(t)
	t.Setenv("TMPDIR", tmp)
	t.Run("XDG_RUNTIME_DIR", func(t *testing.T) {
		t.Setenv("XDG_RUNTIME_DIR", tmp)
		testRuntimeDir(t, filepath.Join(tmp, "zino"), ": remove it, or set XDG_RUNTIME_DIR to a directory of your own")
	})
	t.Run("fallback", func(t *testing.T) {
		t.Setenv("XDG_RUNTIME_DIR", "")
		testRuntimeDir(t, filepath.Join(tmp, "zino-"+strconv.Itoa(os.Getuid())), ": remove it, or set XDG_RUNTIME_DIR and HOME")
	})
}

func testRuntimeDir(t *testing.T, own, hint string) {
	tmp := filepath.Dir(own)
	for _, test := range []struct {
		name string
		make func() error
		ok   bool
	}{
		{"none yet", func() error { return nil }, true},
		{"a directory", func() error { return os.Mkdir(own, 0o700) }, true},
		{"open to all", func() error { return mkdir(own, 0o777) }, false},
		{"readable by the group", func() error { return mkdir(own, 0o750) }, false},
		{"a file", func() error { return os.WriteFile(own, nil, 0o600) }, false},
		{"a link", func() error { return os.Symlink(zinotest.Dir(t), own) }, false},
		{"a dangling link", func() error { return os.Symlink(filepath.Join(tmp, "none"), own) }, false},
		{"foreign", func() error { return foreign(t, own) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			zinotest.Must(t, test.make())
			defer os.RemoveAll(own)
			dir, err := RuntimeDir()
			if test.ok != (err == nil) {
				t.Fatalf("%v", err)
			}
			if test.ok && dir != own {
				t.Errorf("%s, want %s", dir, own)
			}
			if err != nil && (!strings.HasPrefix(err.Error(), own+" is not a directory that only you can use (mode 0700), it") || !strings.HasSuffix(err.Error(), hint)) {
				t.Errorf("error = %v", err)
			}
			if places, placesErr := (&Target{}).Places(cfgOf(t, ""), false); test.ok != (placesErr == nil) || test.ok && places[0].Socket != filepath.Join(own, "daemon.sock") {
				t.Errorf("places %v, %v", places, placesErr)
			}
			if os.Getenv("XDG_RUNTIME_DIR") != "" {
				return
			}
			t.Setenv("ZINO_HOME", "")
			t.Setenv("ZDX_HOME", "")
			t.Setenv("XDG_CONFIG_HOME", "")
			t.Setenv("HOME", "")
			if base, err := BaseDir(); test.ok != (err == nil) || test.ok && base != filepath.Join(own, "home") {
				t.Errorf("without a home the base is %s, %v", base, err)
			}
		})
	}
}

func mkdir(dir string, mode os.FileMode) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(dir, mode)
}

// foreign creates a directory owned by another user; without root, a link to one.
func foreign(t *testing.T, dir string) error {
	t.Helper()
	if os.Getuid() != 0 {
		return os.Symlink("/", dir)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.Chown(dir, 12345, 12345)
}

func TestBaseDir(t *testing.T) {
	for _, test := range []struct{ home, old, xdg, user, want string }{
		{"/a", "/b", "/c", "/d", "/a"},
		{"", "/b", "/c", "/d", "/b"},
		{"", "", "/c", "/d", "/c/zino"},
		{"", "", "", "/d", "/d/.config/zino"},
	} {
		t.Setenv("ZINO_HOME", test.home)
		t.Setenv("ZDX_HOME", test.old)
		t.Setenv("XDG_CONFIG_HOME", test.xdg)
		t.Setenv("HOME", test.user)
		if got, err := BaseDir(); got != test.want || err != nil {
			t.Errorf("%+v: %s, %v", test, got, err)
		}
	}
}

// TestPrivateDir checks the fallbacks for an unusable runtime directory.
func TestPrivateDir(t *testing.T) {
	tmp := zinotest.Dir(t)
	t.Setenv("TMPDIR", tmp)
	for _, runtime := range []string{"", filepath.Join(tmp, "none"), "/dev/null", filepath.Join(tmp, strings.Repeat("x", 80))} {
		t.Setenv("XDG_RUNTIME_DIR", runtime)
		dir, err := privateDir()
		if err != nil || filepath.Dir(dir) != tmp {
			t.Errorf("%q: %s, %v", runtime, dir, err)
		}
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("created %v, %v", left, err)
	}
}
