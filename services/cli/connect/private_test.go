package connect

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
)

// TestBaseOutOfReach uses a home that is a file: the services must not be given paths
// below it, because ENOTDIR is an error for them and ENOENT is not.
func TestBaseOutOfReach(t *testing.T) {
	cfg, _, w, err := readConfig(t, nil, func(w world) {
		zinotest.Must(t, errors.Join(os.Remove(w.home), os.WriteFile(w.home, nil, 0o600)))
	})
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := os.Create(filepath.Join(w.cwd, "stderr"))
	zinotest.Must(t, err)
	defer stderr.Close()
	if (&Target{Err: stderr}).checkStorage(cfg, w.runtime) {
		t.Error("checkStorage = true")
	}
	if printed := zinotest.Read(t, stderr.Name()); !strings.HasPrefix(printed, "Warning: nothing is kept of this run: ") || strings.Count(printed, "\n") != 1 {
		t.Errorf("printed %q", printed)
	}
	for name, path := range map[string]string{"data": cfg.Mem.DataDir, "data/exc": cfg.Exc.DataDir, "data/daemon": cfg.Daemon.DataDir, "data/mcp": cfg.MCP.DataDir, "tools": cfg.Tools.Dir, "skills": cfg.Skills.Dir, "SYSTEM.md": cfg.Sys.Template} {
		if path != filepath.Join(w.runtime, name) {
			t.Errorf("%s is at %s", name, path)
		}
	}
}

// TestBaseReadOnly checks that tools and templates of a base directory that cannot be
// written are used.
func TestBaseReadOnly(t *testing.T) {
	cfg, _, w, err := readConfig(t, map[string]string{"h/.config/zino/tools/x": "", "h/.config/zino/data": "a file"}, nil)
	zinotest.Must(t, err)
	stderr, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	base := filepath.Join(w.home, ".config/zino")
	if (&Target{Err: stderr}).checkStorage(cfg, w.runtime) || cfg.Tools.Dir != filepath.Join(base, "tools") || cfg.Sys.Template != filepath.Join(base, "SYSTEM.md") {
		t.Errorf("tools in %s, template %s", cfg.Tools.Dir, cfg.Sys.Template)
	}
}

// TestStaleUnits checks the warning about an edit that running units have not read.
func TestStaleUnits(t *testing.T) {
	base, dir := t.TempDir(), zinotest.Dir(t)
	t.Setenv("ZINO_HOME", base)
	made, file := filepath.Join(dir, "rtr.toml"), filepath.Join(base, "config.toml")
	for _, path := range []string{made, file} {
		zinotest.Write(t, path, "")
	}
	now := time.Now()
	for _, test := range []struct {
		edited time.Time
		want   string
	}{{now.Add(-time.Hour), ""}, {now.Add(time.Hour), "systemctl --user restart"}} {
		zinotest.Must(t, os.Chtimes(file, test.edited, test.edited))
		stderr, err := os.Create(filepath.Join(base, "stderr"))
		zinotest.Must(t, err)
		target := &Target{Err: stderr}
		target.awaitReload(t.Context(), Place{Socket: filepath.Join(dir, "daemon.sock")})
		text, err := os.ReadFile(stderr.Name())
		zinotest.Must(t, errors.Join(err, stderr.Close()))
		if got := string(text); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("edited at %v: printed %q", test.edited, got)
		}
	}
}

// TestServiceEnvironment checks that keys go to rtr only, and that no service gets
// the variables of this process's supervisor.
func TestServiceEnvironment(t *testing.T) {
	for _, name := range append(slices.Clone(providerKeys), "ANTHROPIC_CUSTOM_HEADERS") {
		t.Setenv(name, "sk-secret")
	}
	for _, name := range []string{"NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "WATCHDOG_USEC", "ZINO_CONFIG", "ZINO_CONSTELLATION"} {
		t.Setenv(name, "1")
	}
	t.Setenv("OWN_VARIABLE", "kept")
	t.Setenv("DB_PW", "hidden")
	for _, service := range []string{"mem", "rtr", "repl", "exc", "mcp", "daemon", "agr", "sys", "ctx"} {
		env := serviceEnvironment(service, cfgOf(t, ""))
		if got, want := slices.Contains(env, "DB_PW=hidden"), service == "rtr" || service == "exc" || service == "mcp"; got != want {
			t.Errorf("%s: has the secret of another program: %v", service, got)
		}
		secrets := slices.ContainsFunc(env, func(v string) bool { return strings.Contains(v, "sk-secret") })
		if secrets != (service == "rtr") {
			t.Errorf("%s: has keys: %v", service, secrets)
		}
		if !slices.Contains(env, "OWN_VARIABLE=kept") {
			t.Errorf("%s: the caller's variable is missing", service)
		}
		for _, v := range env {
			for _, prefix := range []string{"NOTIFY_", "LISTEN_", "WATCHDOG_", "ZINO_CONFIG=", "ZINO_CONSTELLATION="} {
				if strings.HasPrefix(v, prefix) {
					t.Errorf("%s: %s", service, v)
				}
			}
		}
	}
	if env := serviceEnvironment("rtr", cfgOf(t, "[api]\nkey = \"from the file\"\n")); env[len(env)-1] != "ZINO_API_KEY=from the file" {
		t.Errorf("the last is %s", env[len(env)-1])
	}
}

// TestLocateRepl checks that the REPL's default directory is the current directory
// with every configuration file, and that [repl] overrides it.
func TestLocateRepl(t *testing.T) {
	const own = "[repl]\nsocket = \"s\"\ndir = \"d\"\n"
	for _, named := range []bool{false, true} {
		for _, text := range []string{"", own} {
			file := "h/.config/zino/config.toml"
			if named {
				file = "w/own.toml"
			}
			_, _, w, err := readConfig(t, map[string]string{file: text}, nil)
			zinotest.Must(t, err)
			target := &Target{}
			dir := filepath.Join(w.home, ".config", "zino")
			if named {
				target.File, dir = filepath.Join(w.cwd, "own.toml"), w.cwd
			}
			wants := []string{filepath.Join(dir, "s"), filepath.Join(dir, "d")}
			if text == "" {
				wants = []string{filepath.Join(w.runtime, "zino", "repl.sock"), w.cwd}
			}
			if cfg, err := target.Config(); err != nil || cfg.Repl.Socket != wants[0] || cfg.Repl.Dir != wants[1] {
				t.Errorf("named %v, %q: %s and %s, %v", named, text, cfg.Repl.Socket, cfg.Repl.Dir, err)
			}
		}
	}
}
