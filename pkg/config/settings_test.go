package config

import (
	"strings"
	"testing"
)

// TestSettings checks that every key is listed once, as TOML that is read back equal.
func TestSettings(t *testing.T) {
	c, err := Parse([]byte(`model = "top"
temperature = 1.5
[agent]
temperature = 0.5
[api]
base_url = "http://h/v1"
[agr]
max_iterations = 9
[[rtr.model]]
name = "a*"
refuses = []
[[rtr.model]]
name = "b"
input = 0.5
[mcp.servers.github]
command = ["github-mcp-server", "stdio"]
env = { LOG = "${LOG:-info}" }
network = false
`), "f", "/d", "cli")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]struct {
		toml string
		line int
	}{
		"model": {"'top'", 1}, "service.model": {"'top'", 1}, "temperature": {"0.5", 4}, "agent.temperature": {"0.5", 4},
		"api.base_url": {"'http://h/v1'", 6}, "agr.max_iterations": {"9", 8}, "agent.max_iterations": {"9", 8},
		"exc.timeout": {"30.0", 0}, "mem.data_dir": {"'/d/data/mem'", 0}, "exc.pass_env": {"[]", 0},
	}
	var text strings.Builder
	seen := map[string]bool{}
	for _, s := range c.Settings() {
		value, err := s.TOML()
		if err != nil || seen[s.Key] || strings.Contains(value, "\n") {
			t.Fatalf("%s: %q, %v", s.Key, value, err)
		}
		seen[s.Key] = true
		if w, ok := want[s.Key]; ok && (value != w.toml || s.Line != w.line) {
			t.Errorf("%s = %s, line %d, want %s, line %d", s.Key, value, s.Line, w.toml, w.line)
		}
		if s.Key == "rtr.model" && s.Line == 0 {
			t.Error("rtr.model has no line")
		}
		text.WriteString(s.Key + " = " + value + "\n")
	}
	for _, key := range known() {
		parts := strings.Split(key, ".")
		if !seen[key] && !(len(parts) >= 3 && seen[parts[0]+"."+parts[1]]) {
			t.Errorf("%s is not listed", key)
		}
	}
	again, err := Parse([]byte(text.String()), "f", "/d", "cli")
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	c.Model, c.Temperature = again.Model, again.Temperature // now explicit, too
	c.ToolTimeoutSecs = again.ToolTimeoutSecs
	if dump(t, again) != dump(t, c) {
		t.Errorf("read back as\n%s\nwant\n%s", dump(t, again), dump(t, c))
	}
}
