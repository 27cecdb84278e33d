package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
)

// TestUpWrite checks the configuration for the services of zino up: the user's
// settings, the sockets in the runtime directory, and no key of a provider.
func TestUpWrite(t *testing.T) {
	t.Parallel()
	const model = "model = \"m1\"\n"
	for _, test := range []struct {
		name, file, stderr string
		check              func(w world, c *config.Config) (got, want string)
	}{
		{
			"sockets", model, "",
			func(w world, c *config.Config) (string, string) {
				return c.Daemon.Socket + " " + c.Mem.Socket + " " + c.Repl.Socket,
					w.runtime + "/zino/daemon.sock " + w.runtime + "/zino/mem.sock " + w.runtime + "/zino/repl.sock"
			},
		},
		{
			"a configured socket", "[mem]\nsocket = \"/nowhere/m.sock\"\n", "",
			func(_ world, c *config.Config) (string, string) { return c.Mem.Socket, "/nowhere/m.sock" },
		},
		{
			"model and data", model, "",
			func(w world, c *config.Config) (string, string) {
				return c.Service.Model + " " + c.Mem.DataDir, "m1 " + w.home + "/.config/zino/data/mem"
			},
		},
		{
			"without a model", "", "",
			func(_ world, c *config.Config) (string, string) { return c.Provider, "auto" },
		},
		{
			"a key in the file", "[api]\nkey = \"sk-1\"\n",
			"Warning: [api] key is not given to services that systemd starts; keep the key with: zino auth set openai\n",
			func(_ world, c *config.Config) (string, string) { return c.API.Key, "" },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			base := filepath.Join(w.home, ".config", "zino")
			zinotest.Must(t, os.MkdirAll(base, 0o700))
			zinotest.Write(t, filepath.Join(base, "config.toml"), test.file)
			file := filepath.Join(w.runtime, "zino", "mem.toml")
			status, out, stderr := run(t, w.command("up", "--write", file), "")
			if status != 0 || out != "" || stderr != test.stderr {
				t.Fatalf("status %d, stderr %q, stdout %q", status, stderr, out)
			}
			cfg, err := config.Load(file, "mem")
			zinotest.Must(t, err)
			if got, want := test.check(w, cfg); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the file: %v, %v", info, err)
			}
		})
	}
}

// TestUpWriteFails checks the one-line error.
func TestUpWriteFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for file, want := range map[string]string{
		"/nowhere/x.toml": "no such file or directory",
		w.cwd:             "is a directory",
	} {
		status, out, stderr := run(t, w.command("up", "--write", file), "")
		if status != 1 || out != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, stderr %q, stdout %q", file, status, stderr, out)
		}
	}
}
