package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
)

// in runs a command of a world with further variables.
func (w world) in(t *testing.T, env []string, args ...string) (status int, out, said string) {
	t.Helper()
	cmd := w.command(args...)
	cmd.Env = append(cmd.Env, env...)
	return run(t, cmd, "")
}

// TestConfigPath follows the variables in their order.
func TestConfigPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, test := range []struct {
		env  []string
		want string
	}{
		{nil, w.home + "/.config/zino/config.toml"},
		{[]string{"XDG_CONFIG_HOME=/x"}, "/x/zino/config.toml"},
		{[]string{"XDG_CONFIG_HOME=/x", "ZDX_HOME=/d"}, "/d/config.toml"},
		{[]string{"XDG_CONFIG_HOME=/x", "ZDX_HOME=/d", "ZINO_HOME=/z"}, "/z/config.toml"},
		{[]string{"ZDX_HOME=/d", "ZINO_HOME="}, "/d/config.toml"},
		{[]string{"ZINO_HOME=rel"}, w.cwd + "/rel/config.toml"},
	} {
		if status, out, said := w.in(t, test.env, "config", "path"); status != 0 || out != test.want+"\n" || said != "" {
			t.Errorf("%q: status %d, printed %q, said %q, want %s", test.env, status, out, said, test.want)
		}
	}
	if left, err := os.ReadDir(w.home); err != nil || len(left) > 0 {
		t.Errorf("made: %v, %v", left, err)
	}
}

func TestConfigInit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := filepath.Join(w.home, ".config", "zino")
	path := filepath.Join(base, "config.toml")
	if status, out, said := w.in(t, nil, "config", "init"); status != 0 || out != path+"\n" || said != "" {
		t.Fatalf("status %d, printed %q, said %q", status, out, said)
	}
	holds(t, path, configText(config.Default()), 0o600)
	if info, err := os.Stat(base); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
	if status, out, said := w.in(t, nil, "config", "check"); status != 0 || out != path+" is fine.\n" || said != "" {
		t.Errorf("check: status %d, printed %q, said %q", status, out, said)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, out, said := w.in(t, nil, "config", "init"); status != 1 || out != "" || said != "zino: "+path+" is there already and was not changed\n" {
		t.Errorf("again: status %d, printed %q, said %q", status, out, said)
	}
	holds(t, path, "mine", 0o600)
	if left, err := os.ReadDir(base); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestConfigText sets three keys to what holds without them.
func TestConfigText(t *testing.T) {
	t.Parallel()
	text := configText(config.Default())
	c, err := config.Parse([]byte(text), "f", "/d", "cli")
	if err != nil || len(c.Warnings) > 0 {
		t.Fatalf("%v, warnings %q", err, c.Warnings)
	}
	d := config.Default()
	if c.Model != d.Model || c.MaxTokens != d.MaxTokens || c.ToolTimeoutSecs != d.ToolTimeoutSecs || c.Exc.Timeout != d.Exc.Timeout {
		t.Errorf("not the defaults:\n%s", text)
	}
	var keys []string
	remarked := false
	for line := range strings.Lines(text) {
		if key, _, is := strings.Cut(line, " = "); is {
			keys = append(keys, key)
			if !remarked {
				t.Errorf("%s has no remark", key)
			}
		}
		remarked = strings.HasPrefix(line, "# ")
	}
	if !slices.Equal(keys, []string{"model", "max_tokens", "tool_timeout_secs"}) {
		t.Errorf("it sets %q", keys)
	}
}

// TestConfigInitFails where no directory can be made.
func TestConfigInitFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, home := range []string{"/proc/none", os.Args[0]} {
		status, out, said := w.in(t, []string{"ZINO_HOME=" + home}, "config", "init")
		if status != 1 || out != "" || !strings.HasPrefix(said, "zino: mkdir "+home) || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: status %d, printed %q, said %q", home, status, out, said)
		}
	}
}

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(w.home, "f.toml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	none := w.home + "/.config/zino/config.toml"
	if status, out, said := w.in(t, nil, "config", "check"); status != 0 || out != "There is no configuration at "+none+": the defaults hold. To begin with one: zino config init\n" || said != "" {
		t.Errorf("no file: status %d, printed %q, said %q", status, out, said)
	}
	write("modle = 1\n[exc]\ntimeout = \"x\"\n[ctx]\nhistory_tokens = -1\n\"\x1b\" = 2")
	const syntax = ":6:2: "
	if status, out, said := w.in(t, nil, "config", "check", "-c", file); status != 1 || out != "" || !strings.HasPrefix(said, file+syntax) || strings.Count(said, "\n") != 1 || strings.Contains(said, "\x1b") {
		t.Errorf("syntax: status %d, printed %q, said %q", status, out, said)
	}
	write("modle = 1\n[exc]\ntimeout = \"x\"\n[ctx]\nhistory_tokens = -1\n")
	want := strings.ReplaceAll(`F:1:1: unknown key "modle": the nearest one is "model"
F:3:11: exc.timeout must be a number
F:5:1: ctx.history_tokens must be 0 (no limit) or more
`, "F", file)
	for _, env := range [][]string{nil, {"ZINO_CONFIG=" + file}} {
		args := []string{"config", "check"}
		if env == nil {
			args = append(args, "--config", file)
		}
		if status, out, said := w.in(t, env, args...); status != 1 || out != "" || said != want {
			t.Errorf("%q: status %d, printed %q, said %q, want %q", env, status, out, said, want)
		}
	}
	write("[agent]\nmax_iterations = 3\n[agr]\nmax_iterations = 4\n")
	if status, out, said := w.in(t, nil, "config", "check", "-c", file); status != 0 || out != file+" is fine.\n" || !strings.HasPrefix(said, "Warning: ") {
		t.Errorf("warning: status %d, printed %q, said %q", status, out, said)
	}
	if status, out, said := w.in(t, nil, "config", "check", "-c", file+"none"); status != 1 || out != "" || !strings.HasPrefix(said, "zino: cannot read the configuration: open ") {
		t.Errorf("missing: status %d, printed %q, said %q", status, out, said)
	}
}

// TestConfigMistakes ends with status 2.
func TestConfigMistakes(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"config":         "zino config: name one of: check, init, path; try zino config --help",
		"config chek":    `zino config: there is no command "chek": the nearest one is "check"; try zino config --help`,
		"config path x":  `zino config path: it takes no arguments, but was given "x"; try zino config path --help`,
		"config init x":  `zino config init: it takes no arguments, but was given "x"; try zino config init --help`,
		"config check x": `zino config check: it takes no arguments, but was given "x"; try zino config check --help`,
	} {
		status, out, said := run(t, newWorld(t).command(strings.Fields(args)...), "")
		if status != exitUsage || out != "" || said != "zino: "+want+"\n" {
			t.Errorf("%s: status %d, printed %q, said %q", args, status, out, said)
		}
	}
}
