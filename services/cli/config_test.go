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
	holds(t, path, initialConfig(config.Default()), 0o600)
	if info, err := os.Stat(base); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
	if status, out, said := w.in(t, nil, "config", "check"); status != 0 || out != path+" is fine.\n" || said != "" {
		t.Errorf("check: status %d, printed %q, said %q", status, out, said)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, out, said := w.in(t, nil, "config", "init"); status != 1 || out != "" || said != "Error [internal]: "+path+" is there already and was not changed\n" {
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
	text := initialConfig(config.Default())
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
		if status != 1 || out != "" || !strings.HasPrefix(said, "Error [internal]: mkdir "+home) || strings.Count(said, "\n") != 1 {
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
	if status, out, said := w.in(t, nil, "config", "check", file); status != 1 || out != "" || said != want {
		t.Errorf("as an argument: status %d, printed %q, said %q, want %q", status, out, said, want)
	}
	write("[agent]\nmax_iterations = 3\n[agr]\nmax_iterations = 4\n")
	if status, out, said := w.in(t, nil, "config", "check", "-c", file); status != 0 || out != file+" is fine.\n" || !strings.HasPrefix(said, "Warning: ") {
		t.Errorf("warning: status %d, printed %q, said %q", status, out, said)
	}
	if status, out, said := w.in(t, nil, "config", "check", "-c", file+"none"); status != 1 || out != "" || !strings.HasPrefix(said, "Error [internal]: cannot read the configuration: open ") {
		t.Errorf("missing: status %d, printed %q, said %q", status, out, said)
	}
}

// TestConfigShow says of each key what holds and where that comes from, and of
// a secret that there is one.
func TestConfigShow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := filepath.Join(w.home, ".config", "zino")
	path := filepath.Join(base, "config.toml")
	if err := os.MkdirAll(base, 0o700); err != nil {
		t.Fatal(err)
	}
	text := "model = \"m\"\nopenai_base_url = \"http://ann:" + secretKey + "@h/v1\"\n[api]\nkey = \"" + secretKey + "\"\n[exc]\ntimeout = 5\n[[rtr.model]]\nname = \"a\"\ncontext = 7\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	local := filepath.Join(w.cwd, "ZINO.toml")
	if err := os.WriteFile(local, []byte("[sys]\npersonality = \"kind\"\n[exc]\ntimeout = 9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"ZINO_LOG_LEVEL=DEBUG", "GEMINI_BASE_URL=http://g"}
	status, out, said := w.in(t, env, "config", "show")
	if status != 0 || said != "" || strings.Contains(out, secretKey) {
		t.Errorf("status %d, printed %s, said %q", status, out, said)
	}
	for _, line := range []string{
		"model = 'm'  # " + path + ":1", "service.model = 'm'  # " + path + ":1", "exc.timeout = 5.0  # " + path + ":6",
		"openai_base_url = 'http://(hidden)@h/v1'  # " + path + ":2", "api.key = '(hidden)'  # " + path + ":4",
		"gemini_base_url = 'http://g'  # $GEMINI_BASE_URL", "logging.level = 'DEBUG'  # $ZINO_LOG_LEVEL",
		"sys.personality = 'kind'  # " + local, "ctx.history_limit = 50  # default",
		"daemon.socket = '" + w.runtime + "/zino/daemon.sock'  # default", "mem.data_dir = '" + base + "/data/mem'  # default",
	} {
		if !strings.Contains("\n"+out, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, out)
		}
	}
	if c, err := config.Parse([]byte(out), "f", "/", "cli"); err != nil || len(c.Warnings) > 0 || c.Exc.Timeout != 5 || len(c.Rtr.Model) != 1 || c.Rtr.Model[0].Context != 7 {
		t.Errorf("it is not TOML that reads back: %v", err)
	}
	for args, want := range map[string]string{
		"exc.timeout": "5.0\n", "model": "m\n", "daemon.socket": w.runtime + "/zino/daemon.sock\n", "exc.pass_env": "[]\n",
		"exc.timeout --json": `{"key":"exc.timeout","value":5,"from":"` + path + `:6"}` + "\n",
		"logging":            "logging.level = 'DEBUG'  # $ZINO_LOG_LEVEL\n",
	} {
		if status, out, said := w.in(t, env, append([]string{"config", "get"}, strings.Fields(args)...)...); status != 0 || out != want || said != "" {
			t.Errorf("get %s: status %d, printed %q, said %q, want %q", args, status, out, said, want)
		}
	}
	for _, args := range [][]string{{"config", "get", "api.key"}, {"config", "get", "api.key", "--json"}} {
		if status, out, said := w.in(t, env, args...); status != 1 || out != "" || !strings.Contains(said, "zino auth list") || strings.Contains(said, secretKey) {
			t.Errorf("%q: status %d, printed %q, said %q", args, status, out, said)
		}
	}
	if _, out, _ := w.in(t, env, "config", "show", "--json"); !strings.Contains(out, `{"key":"rtr.model","value":[{`) || !strings.Contains(out, `"context":7`) || strings.Contains(out, secretKey) {
		t.Errorf("as JSON: %s", out)
	}
}

// TestConfigEdit opens the file, which is written first if it does not exist, and
// checks what the editor left.
func TestConfigEdit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := filepath.Join(w.home, ".config", "zino", "config.toml")
	editor := func(line string) []string { return []string{"EDITOR=" + line, "VISUAL="} }
	if status, out, said := w.in(t, editor("true"), "config", "edit"); status != 0 || out != path+" is fine.\n" || said != "" {
		t.Errorf("new: status %d, printed %q, said %q", status, out, said)
	}
	holds(t, path, initialConfig(config.Default()), 0o600)
	if status, out, said := w.in(t, editor(`printf 'modle = 1\n' >`), "config", "edit"); status != 1 || out != "" || !strings.HasPrefix(said, path+`:1:1: unknown key "modle"`) {
		t.Errorf("a mistake: status %d, printed %q, said %q", status, out, said)
	}
	holds(t, path, "modle = 1\n", 0o600)
	if status, out, said := w.in(t, editor("false"), "config", "edit"); status != 1 || out != "" || !strings.Contains(said, `the editor "false" failed`) {
		t.Errorf("an editor that fails: status %d, printed %q, said %q", status, out, said)
	}
	other := filepath.Join(w.cwd, "other.toml")
	if status, out, said := w.in(t, editor("true"), "config", "edit", "-c", other); status != 0 || out != other+" is fine.\n" || said != "" {
		t.Errorf("a named file: status %d, printed %q, said %q", status, out, said)
	}
}
