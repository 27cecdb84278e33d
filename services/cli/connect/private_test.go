package connect

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
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

// TestEditServers edits the servers of a configuration: units that run with it as it was get
// the new one, those that wait for a restart keep theirs, and no unit is added.
func TestEditServers(t *testing.T) {
	base, dir := t.TempDir(), zinotest.Dir(t)
	t.Setenv("ZINO_HOME", base)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Setenv("ZINO_CONFIG", "")
	t.Chdir(t.TempDir())
	runtimeDir, err := RuntimeDir()
	zinotest.Must(t, err)
	zinotest.Must(t, os.MkdirAll(runtimeDir, 0o700))
	file := filepath.Join(base, "config.toml")
	unit := func(name string) string { return filepath.Join(runtimeDir, name+".toml") }
	const before, server = "[logging]\nlevel = \"WARN\"\n", "[mcp.servers.pg]\ncommand = [\"pg-mcp\"]\n"
	target := &Target{Err: os.Stderr}
	edit := func(content string) func() error {
		return func() error { return os.WriteFile(file, []byte(content), 0o600) }
	}
	prepare := func() {
		t.Helper()
		zinotest.Must(t, edit(before)())
		now := time.Now()
		zinotest.Must(t, os.Chtimes(file, now, now.Add(-time.Minute)))
		for name, age := range map[string]time.Duration{"mcp": 0, "agr": 0, "daemon": 0, "rtr": time.Hour} {
			zinotest.Write(t, unit(name), "# made before\n")
			zinotest.Must(t, os.Chtimes(unit(name), now, now.Add(-age)))
		}
	}

	prepare()
	zinotest.Must(t, target.EditServers(edit(before+server)))
	for _, name := range []string{"mcp", "agr", "daemon"} {
		cfg, err := config.Load(unit(name), name)
		zinotest.Must(t, err)
		if len(cfg.MCP.Servers["pg"].Command) != 1 || cfg.Logging.Level != "WARN" || cfg.MCP.Socket != filepath.Join(runtimeDir, "mcp.sock") {
			t.Errorf("%s: %s", name, zinotest.Read(t, unit(name)))
		}
		info, err := os.Stat(unit(name))
		zinotest.Must(t, err)
		zinotest.Equal(t, "mode of "+name, info.Mode().Perm(), 0o600)
	}
	zinotest.Equal(t, "a unit that waits for a restart", zinotest.Read(t, unit("rtr")), "# made before\n")
	for _, name := range []string{"mem", "exc", "sys", "ctx"} {
		if _, err := os.Stat(unit(name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var warned bool
	for _, name := range []string{"mcp", "agr", "daemon"} {
		warned = warned || isStale(file, unit(name))
	}
	zinotest.Equal(t, "the units wait for a restart", warned, false)

	prepare()
	broken := errors.New("the disk is full")
	if err := target.EditServers(func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	zinotest.Equal(t, "after an edit that failed", zinotest.Read(t, unit("mcp")), "# made before\n")
	if err := target.EditServers(edit("[mcp.servers.pg]\ncommnad = []\n")); err == nil || !strings.Contains(err.Error(), "config.toml:2:1: ") {
		t.Errorf("an edit with a mistake: %v", err)
	}
	zinotest.Equal(t, "after an edit with a mistake", zinotest.Read(t, unit("mcp")), "# made before\n")
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

// TestOnDemand checks that mcp starts with the services if there are servers, for the first
// turn needs it then, and with the first request to it if there are none.
func TestOnDemand(t *testing.T) {
	const server = "[mcp.servers.pg]\ncommand = [\"pg-mcp\"]\n"
	for text, want := range map[string]bool{"": true, server: false} {
		cfg, err := config.Parse([]byte(text), filepath.Join(t.TempDir(), "ZINO.toml"), "/", "cli")
		zinotest.Must(t, err)
		zinotest.Equal(t, "mcp with "+text, onDemand("mcp", cfg), want)
		zinotest.Equal(t, "agr with "+text, onDemand("agr", cfg), false)
	}
}
