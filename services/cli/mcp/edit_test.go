package mcp

import (
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
)

// TestWithout checks that comments of other tables stay when a server is removed.
func TestWithout(t *testing.T) {
	const before = `# Mine.
[agent]
temperature = 0.5 # warm

# The repository's server.
[mcp.servers.github]
command = ["a", "b"]
# inside
timeout_secs = 5
[mcp.servers.github.env]
A = "]"

# Of pg.
[mcp.servers.pg]
command = ["pg"]

# About the log.
[logging]
level = "WARN"
# the end
`
	for name, want := range map[string]string{
		"github": `# Mine.
[agent]
temperature = 0.5 # warm

# Of pg.
[mcp.servers.pg]
command = ["pg"]

# About the log.
[logging]
level = "WARN"
# the end
`,
		"pg": `# Mine.
[agent]
temperature = 0.5 # warm

# The repository's server.
[mcp.servers.github]
command = ["a", "b"]
# inside
timeout_secs = 5
[mcp.servers.github.env]
A = "]"

# About the log.
[logging]
level = "WARN"
# the end
`,
	} {
		got := without([]byte(before), name)
		zinotest.Equal(t, "without "+name, string(got), want)
		cfg, err := parse([]byte(before), "/f")
		zinotest.Must(t, err)
		next, err := parse(got, "/f")
		zinotest.Must(t, err)
		if !sameWithout(cfg, next, name) || sameWithout(cfg, cfg, name) {
			t.Errorf("without %s: other keys differ", name)
		}
	}
}

// TestSection checks that any words come back from the section that is written.
func TestSection(t *testing.T) {
	a := addition{env: []string{"A=x=\"y\"\\\n"}, secrets: []string{"TOKEN"}}
	words := []string{"sh", "-c", "echo \"$A\" \\ é\t\x01", ""}
	text, err := a.section("s1", words)
	zinotest.Must(t, err)
	cfg, err := parse([]byte(text), "/f")
	zinotest.Must(t, err)
	s := cfg.MCP.Servers["s1"]
	if strings.Join(s.Command, "|") != strings.Join(words, "|") || s.Env["A"] != "x=\"y\"\\\n" || s.Secrets["TOKEN"] != "s1.TOKEN" {
		t.Errorf("%s\n%+v", text, s)
	}
	text, err = addition{headers: []string{"X-Team=a b"}}.section("s2", []string{"https://x.example/mcp"})
	zinotest.Must(t, err)
	if cfg, err = parse([]byte(text), "/f"); err != nil || cfg.MCP.Servers["s2"].URL != "https://x.example/mcp" || cfg.MCP.Servers["s2"].Headers["X-Team"] != "a b" {
		t.Errorf("%s\n%v", text, err)
	}
	if _, err := (addition{env: []string{"A"}}).section("s", words); err == nil {
		t.Error("a variable without a value was accepted")
	}
}

// FuzzWithout checks that the edit changes nothing but the server, or is refused.
func FuzzWithout(f *testing.F) {
	for _, seed := range []string{"", "[mcp.servers.a]\ncommand = [\"x\"]\n", "[mcp.servers]\na = { command = [\"x\"] }\n", "x = '''\n[mcp.servers.a]\n'''\n", "mcp.servers.a.command = [\"x\"]\n[ mcp . servers . \"a\" ]\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		before, err := config.Parse([]byte(data), "/f", "/", "cli")
		if err != nil {
			return
		}
		if _, ok := before.MCP.Servers["a"]; ok {
			return // remove compares the result
		}
		if after := without([]byte(data), "a"); !strings.Contains(data, "[") && strings.TrimSpace(string(after)) != strings.TrimSpace(data) {
			t.Errorf("%q became %q", data, after)
		}
	})
}
