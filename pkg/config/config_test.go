package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

func TestParse(t *testing.T) {
	for _, test := range []struct{ name, text, service, want string }{
		{"typo in an own section", "[exc]\ntimeot = 3\n", "exc", `Z:2:1: unknown key "exc.timeot": the nearest one is "exc.timeout"`},
		{"inline table", "exc = { timeot = 3 }\n", "exc", `Z:1:9: unknown key "exc.timeot": the nearest one is "exc.timeout"`},
		{"wrong type", "[exc]\ntimeout = \"x\"\n", "exc", "Z:2:11: "},
		{"broken", "[exc\n", "exc", "Z:1:"},
		{"duplicate", "model = \"a\"\nmodel = \"b\"\n", "rtr", "Z:2:1: "},
		{"range", "\n[agent]\n  temperature = 3\n", "daemon", "Z:3:3: agent.temperature must be from 0 to 2"},
		{"nan", "[exc]\ntimeout = nan\n", "exc", "Z:2:1: exc.timeout must be"},
		{"level", "[logging]\nlevel = \"loud\"\n", "mem", "Z:2:1: logging.level must be"},
		{"durability", "[mem]\ndurability = \"maybe\"\n", "mem", "Z:2:1: mem.durability must be"},
		{"budget of a context", "[ctx]\nhistory_tokens = -1\n", "ctx", "Z:2:1: ctx.history_tokens must be 0 (no limit) or more"},
		{"provider", "provider = \"acme\"\n", "rtr", "Z:1:1: provider must be"},
		{"expression", "[mask]\nallow = [\"(\"]\n", "exc", "Z:2:1: mask.allow must be Go regular expressions (RE2)"},
		{"relative pattern", "[mask]\nfiles = [\"secrets/*\"]\n", "agr", "Z:2:1: mask.files must be absolute patterns"},
		{"broken pattern", "[mask]\nfiles = [\"/etc/[a\"]\n", "agr", "Z:2:1: mask.files must be absolute patterns"},
		{"server's key", "[mcp.servers.a]\ncommand = [\"a\"]\ntimeot_secs = 3\n", "mcp", `Z:3:1: unknown key "mcp.servers.a.timeot_secs": the nearest one is "mcp.servers.*.timeout_secs"`},
		{"server's type", "[mcp.servers.a]\ncommand = \"a\"\n", "mcp", `Z:2:11: mcp.servers.a.command must be a list of texts`},
		{"server's name", "[mcp.servers.A]\ncommand = [\"a\"]\n", "mcp", `Z:2:1: mcp.servers.A must be called by`},
		{"server's address", "[mcp.servers.a]\nurl = \"http://example.com/mcp\"\n", "mcp", `Z:2:1: mcp.servers.a.url must be an https URL`},
		{"server without either", "[mcp.servers.a]\n\nenabled = true\n", "mcp", `Z:3:1: mcp.servers.a must be a server with command or url`},
		{"url", "[api]\nbase_url = \"localhost:80\"\n", "rtr", "Z:2:1: api.base_url must be"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse([]byte(test.text), "Z", "/d", test.service)
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error = %v, want one line that begins with %q", err, test.want)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	for text, want := range map[string]string{
		"[exc]\ntimeot = 3\n":  `Z:2:1: unknown key "exc.timeot"`,
		"[exd]\ntimeout = 3\n": `Z:1:2: unknown section "exd": the nearest one is "exc"`,
		"modle = \"x\"\n":      `Z:1:1: unknown key "modle": the nearest one is "model"`,
		"[agent]\nmax_iterations = 3\n[agr]\nmax_iterations = 4\n": "set only one of them",
	} {
		c, err := Parse([]byte(text), "Z", "/d", "mem")
		if err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], want) {
			t.Errorf("%q: warnings %q, error %v; want one with %q", text, c.Warnings, err, want)
		}
	}
}

func TestSettle(t *testing.T) {
	for _, test := range []struct {
		name, text string
		ok         func(*Config) bool
	}{
		{"defaults", "", func(c *Config) bool {
			return c.Agent.Temperature == 0.7 && c.Exc.Timeout == 30 && c.Agr.MaxIterations == 5 && len(c.Warnings) == 0
		}},
		{"top level", "model = \"m\"\ntemperature = 0\ntool_timeout_secs = 0", func(c *Config) bool {
			return c.Service.Model == "m" && c.Agent.Temperature == 0 && c.Exc.Timeout == 0
		}},
		{"sections win", "model = \"m\"\ntemperature = 1\n[service]\nmodel = \"n\"\n[agent]\ntemperature = 0.5", func(c *Config) bool {
			return c.Service.Model == "n" && c.Agent.Temperature == 0.5
		}},
		{"agent sets both", "[agent]\nmax_iterations = 9", func(c *Config) bool { return c.Agr.MaxIterations == 9 }},
		{"agr sets both", "[agr]\nmax_iterations = 9", func(c *Config) bool { return c.Agent.MaxIterations == 9 }},
		{"paths", "[mem]\ndata_dir = \"x/../y\"\n[sys]\ntemplate = \"/abs\"", func(c *Config) bool {
			return c.Mem.DataDir == "/d/y" && c.Sys.Template == "/abs" && c.Tools.Dir == "/d/tools"
		}},
		{"a fraction", "[exc]\ntimeout = 0.5", func(c *Config) bool { return c.Exc.Timeout == 0.5 }},
	} {
		c, err := Parse([]byte(test.text), "Z", "/d", "mem")
		if err != nil || !test.ok(c) {
			t.Errorf("%s: %+v, error %v", test.name, c, err)
		}
	}
}

// TestShipped compares the shipped file, uncommented, with the defaults: except for the
// provider it has every key at its default. Keys of arrays of tables are in examples,
// indented by two blanks after the '#'.
func TestShipped(t *testing.T) {
	data, err := os.ReadFile("../../ZINO.toml")
	zinotest.Must(t, err)
	var lines []string
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "#"); ok && !strings.HasPrefix(rest, " ") {
			line = rest
		}
		lines = append(lines, line)
	}
	text := strings.Join(lines, "")
	c, err := Parse([]byte(text), "ZINO.toml", "/d", "daemon")
	if err != nil || len(c.Warnings) > 0 {
		t.Fatalf("uncommented: %v, warnings %q", err, c.Warnings)
	}
	set, err := keysOf([]byte(text))
	zinotest.Must(t, err)
	for _, name := range known() {
		if parts := strings.Split(name, "."); parts[0] == "hooks" && len(parts) == 3 {
			name = "hooks.PreToolUse." + parts[2] // the keys of all events are the same
		}
		shown := func(k key) bool { return generic(k.name) == name }
		if !slices.ContainsFunc(set, shown) && !slices.ContainsFunc(examples(t, string(data)), shown) {
			t.Errorf("ZINO.toml does not show %s", name)
		}
	}
	want := Default()
	want.Provider = "auto"
	want.File, want.Dir = "ZINO.toml", "/d"
	want.absolute()
	if got := dump(t, c); got != dump(t, want) {
		t.Errorf("uncommented ZINO.toml differs from the defaults:\n%s\nwant\n%s", got, dump(t, want))
	}
}

// examples returns the keys in the shipped file's examples, and checks that these are
// valid.
func examples(t *testing.T, data string) keys {
	t.Helper()
	var lines []string
	for line := range strings.Lines(data) {
		if rest, ok := strings.CutPrefix(line, "#  "); ok {
			lines = append(lines, rest)
		}
	}
	text := []byte(strings.Join(lines, ""))
	if c, err := Parse(text, "examples", "/d", "rtr"); err != nil || len(c.Warnings) > 0 {
		t.Fatalf("%v in\n%s", err, text)
	}
	set, err := keysOf(text)
	zinotest.Must(t, err)
	return set
}

// TestTables checks the rules of arrays of tables.
func TestTables(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"[[rtr.fallback]]\nprovider = \"gemini\"\n[[rtr.fallback]]\nprovider = \"ollama\"\nmodel = \"m\"\n", ""},
		{"[rtr]\nfallback = []\nlimit = [{provider = \"openai\", concurrent = 3}]\n", ""},
		{"[[rtr.model]]\nname = \"a*\"\ninput = 0\noutput = 1.5\nrefuses = [\"top_p\"]\n", ""},
		{"[[rtr.fallback]]\nprovder = \"gemini\"\n", `f:2:1: unknown key "rtr.fallback.provder": the nearest one is "rtr.fallback.provider"`},
		{"[rtr]\nlimit = [{provider = \"openai\", concurent = 3}]\n", `f:2:32: unknown key "rtr.limit.concurent"`},
		{"[[rtr.falback]]\nprovider = \"gemini\"\n", `f:1:3: unknown section "rtr.falback": the nearest one is "rtr.fallback"`},
		{"[[rtr.fallback]]\nprovider = \"azure\"\n", `f:2:1: rtr.fallback.provider must be "anthropic"`},
		{"[[rtr.limit]]\nprovider = \"openai\"\nconcurrent = -1\n", "f:3:1: rtr.limit.concurrent must be 0"},
		{"[[rtr.model]]\ntools = \"native\"\n", "f:1:3: rtr.model.name must be given"},
		{"[[hooks.PreToolUse]]\nmatcher = \"Bash|mcp__.*\"\ncommand = \"guard\"\n[[hooks.Stop]]\ncommand = \"x\"\ntimeout = 0.1\nnetwork = false\n", ""},
		{"[[hooks.Stop]]\ncommand = \"a\"\n[[hooks.PreToolUse]]\ncommand = \"a\"\n[[hooks.PreToolUse]]\ncommand = \"b\"\nmatcher = \"(\"\n", "f:7:1: hooks.PreToolUse.matcher must be a Go regular expression"},
		{"[[hooks.Stop]]\nmatcher = \"a\"\n", "f:1:3: hooks.Stop.command must be given"},
		{"[[hooks.Stop]]\ncommand = \"a\"\ntimeout = 601\n", "f:3:1: hooks.Stop.timeout must be from 0.1 to 600 seconds"},
		{"[[hooks.Stop]]\ncommand = \"a\"\non_failure = \"ask\"\n", "f:3:1: hooks.Stop.on_failure must be \"allow\" or \"block\""},
		{"[[rtr.model]]\nname = \"a\"\nrefuses = [\"seed\"]\n", "f:3:1: rtr.model.refuses must be of temperature"},
		{"[[rtr.model]]\nname = \"a\"\nwire = \"telex\"\n", "f:3:1: rtr.model.wire must be \"responses\" or \"chat\""},
		{"[agent]\neffort = \"heroic\"\n", "f:2:1: agent.effort must be \"off\", \"low\", \"medium\", \"high\", \"max\", or empty"},
		{"[[rtr.model]]\nname = \"a\"\noutput = -1\n", "f:3:1: rtr.model.output must be US dollars"},
		{"[budget]\nusd_per_day = -1\n", "f:2:1: budget.usd_per_day must be"},
		{"gemini_base_url = \"ftp://x\"\n", "f:1:1: gemini_base_url must be"},
	} {
		c, err := Parse([]byte(test.text), "f", "/d", "rtr")
		if test.want == "" && (err != nil || len(c.Warnings) > 0) || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%q: got %v, want %q", test.text, err, test.want)
		}
	}
}

// TestWriteReadsBackEqual checks that a configuration written for a child process is
// read back equal. Absent keys, zero values and other values must stay distinct where
// absence means "unknown": an empty list in place of an absent one would clear what rtr
// knows of a model.
func TestWriteReadsBackEqual(t *testing.T) {
	models := []Model{{Name: "absent"}}
	for field := range reflect.TypeFor[Model]().Fields() {
		for _, value := range valuesOf(field) {
			m := Model{Name: field.Tag.Get("toml")}
			reflect.ValueOf(&m).Elem().FieldByIndex(field.Index).Set(value)
			models = append(models, m)
		}
	}
	c := Default()
	c.Dir, c.Source = t.TempDir(), "/home/ada/a \"b\"\n.toml"
	c.absolute()
	c.Rtr.Fallback = []Fallback{{Provider: "gemini"}, {Provider: "ollama", Model: "m"}}
	c.Rtr.Limit = []Limit{{Provider: "openai", Concurrent: 3}}
	c.Rtr.Model = models
	path := filepath.Join(c.Dir, "z.toml")
	zinotest.Must(t, c.Write(path))
	back, err := Load(path, "rtr")
	zinotest.Must(t, err)
	if len(back.Warnings) > 0 {
		t.Errorf("warnings %q", back.Warnings)
	}
	if back.Source != c.Source {
		t.Errorf("source %q, want %q", back.Source, c.Source)
	}
	for i, m := range models {
		if !reflect.DeepEqual(back.Rtr.Model[i], m) {
			t.Errorf("entry %q: wrote %#v, read %#v", m.Name, m, back.Rtr.Model[i])
		}
	}
	if got, want := dump(t, back), dump(t, c); got != want {
		t.Errorf("wrote\n%s\nread\n%s", want, got)
	}
}

// valuesOf returns values that a field can be set to besides being absent: for a
// pointer the zero value, too, and any other that the rules accept.
func valuesOf(field reflect.StructField) []reflect.Value {
	switch field.Name {
	case "Provider":
		return []reflect.Value{reflect.ValueOf("openai")}
	case "Schema":
		return []reflect.Value{reflect.ValueOf("prompt")}
	case "Wire":
		return []reflect.Value{reflect.ValueOf("chat")}
	}
	switch field.Type {
	case reflect.TypeFor[string]():
		return []reflect.Value{reflect.ValueOf("text")}
	case reflect.TypeFor[int]():
		return []reflect.Value{reflect.ValueOf(7)}
	case reflect.TypeFor[*bool]():
		return []reflect.Value{reflect.ValueOf(new(false)), reflect.ValueOf(new(true))}
	case reflect.TypeFor[*float64]():
		return []reflect.Value{reflect.ValueOf(new(0.0)), reflect.ValueOf(new(1.5))}
	case reflect.TypeFor[*[]string]():
		return []reflect.Value{reflect.ValueOf(&[]string{}), reflect.ValueOf(&[]string{"top_p"})}
	}
	panic(field.Name + ": no values for a key of type " + field.Type.String() + " whose absence means unknown")
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(filepath.Join(dir, "none.toml"), "mem"); err == nil || !strings.Contains(err.Error(), "none.toml") {
		t.Errorf("missing file: error = %v", err)
	}
	path := filepath.Join(dir, "z.toml")
	zinotest.Must(t, os.WriteFile(path, []byte("[api]\nkey = \"k\"\n"), 0o644))
	c, err := Load(path, "rtr")
	if err != nil || len(c.Warnings) != 1 || strings.Contains(c.Warnings[0], `"k"`) {
		t.Errorf("readable key: warnings %q, error %v", c.Warnings, err)
	}
	if c.Mem.DataDir != filepath.Join(dir, "data/mem") {
		t.Errorf("data_dir = %s, want it beside the file", c.Mem.DataDir)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "[exc]\ntimeout = 3", "a.b.c = {d=[1,{e=2}]}", "[[x]]\ny=1", "\"exc\".timeout=1", "[exc]\ntimeout=1e400"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data, "Z", "/d", "exc")
		if err == nil && (c.Exc.Timeout < 0 || c.Exc.OutputMax < 1024) {
			t.Errorf("accepted %+v", c.Exc)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("an error of several lines: %q", err)
		}
	})
}

func TestSimilar(t *testing.T) {
	commands := []string{"auth", "chat", "config", "eval", "exec", "help", "login", "models", "repl", "sessions", "status", "up"}
	for word, want := range map[string]string{
		"stauts": "status", "stat": "status", "statsu": "status", "hlep": "help", "exce": "exec", "conf": "config", "sesion": "sessions",
		"model": "models", "statuses": "status",
		"hello": "", "hi": "", "ok": "", "x": "", "quit": "", "version": "", "doctor": "", "delete": "", "": "",
	} {
		if got := Similar(word, commands); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := Similar("x", nil); got != "" {
		t.Errorf("without candidates: %q", got)
	}
}
