package mcp

import (
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// TestServers: definitions of the configuration and of .mcp.json, and what is wrong with
// them.
func TestServers(t *testing.T) {
	t.Setenv("LOG", "debug")
	t.Setenv("LISTED", "listed")
	e := newEnv(t, `
[mcp]
project_env = ["LISTED"]
[mcp.servers.here]
command = ["server", "${LOG}", "${UNSET_HERE:-usual}"]
[mcp.servers.unset]
command = ["server", "${UNSET_HERE}"]
[mcp.servers.off]
command = ["server"]
enabled = false
[mcp.servers.remote]
url = "https://example.com/mcp"
[mcp.servers.rooted]
command = ["server"]
cwd = "{root}"
`)
	list := e.servers(proto.ListServers{Root: "/home/ada/src", Project: proto.Raw(`{"mcpServers":{
		"here":{"command":"other"},"pg":{"command":"pg","args":["${LISTED}"],"env":{"A":"${CLAUDE_PROJECT_DIR}/x"},"timeout":2500},
		"secret":{"command":"pg","env":{"A":"${LOG}"}},"old":{"type":"sse","url":"https://example.com/sse"},
		"http":{"type":"http","url":"http://example.com/mcp"},"run":{"type":"http","url":"https://example.com/mcp","headersHelper":"run"},
		"none":{},"bad\u001bname":{"command":"x"},"number":{"command":1},"list":[]},"more":1}`)})
	var got []string
	for _, s := range list.Servers {
		got = append(got, strings.TrimSpace(strings.Join([]string{s.Name, s.Source, s.Transport, s.State, s.Problem}, " ")))
	}
	zinotest.Equal(t, "servers", strings.Join(got, "\n"), strings.TrimSpace(`
bad^[name project stdio unavailable .mcp.json: bad^[name: a name has at most 64 letters, digits, _ and -
here user stdio new
http project http unavailable .mcp.json: http: http://example.com/mcp: want https, or http to a loopback address
list project stdio unavailable .mcp.json: list: want an object
none project stdio unavailable .mcp.json: none: command is missing
number project stdio unavailable .mcp.json: number: command: want a text
off user stdio disabled
old project stdio unavailable server old: transport "sse" was removed from MCP; use its streamable HTTP URL
pg project stdio new
remote user http new
rooted user stdio new
run project http unavailable .mcp.json: run: headersHelper runs a program to get headers, which is not supported; use headers
secret project stdio unavailable .mcp.json: secret: ${LOG} is not given to project files; list it in [mcp] project_env
unset user stdio unavailable ${UNSET_HERE} is not set`))
	zinotest.Equal(t, "notices", strings.Join(list.Notices, "\n"), "MCP server here is defined twice: that of the user counts, not that of the project")
	d, err := e.find(scope{root: "/home/ada/src"}, "here")
	zinotest.Must(t, err)
	zinotest.Equal(t, "command", strings.Join(d.Command, " "), "server debug usual")
	if _, err := e.find(scope{}, "remot"); err == nil || err.Error() != `no MCP server "remot"; did you mean "remote"?` {
		t.Errorf("an unknown name: %v", err)
	}
}

// TestInstanceKeys: equal definitions have one instance, for each root where the root matters.
func TestInstanceKeys(t *testing.T) {
	e := newEnv(t, "[mcp.servers.shared]\ncommand = [\"a\"]\n[mcp.servers.rooted]\ncommand = [\"a\"]\ncwd = \"{root}\"\n")
	key := func(name, root, project string) string {
		d, err := e.find(scope{root: root, project: proto.Raw(project)}, name)
		zinotest.Must(t, err)
		return d.key()
	}
	if key("shared", "/a", "") != key("shared", "/b", "") || key("rooted", "/a", "") == key("rooted", "/b", "") {
		t.Error("the root counts where cwd needs it, and only there")
	}
	file, other := `{"mcpServers":{"p":{"command":"a"}}}`, `{"mcpServers":{"q":{"args":[],"command":"a"}}}`
	if key("p", "/a", file) == key("p", "/b", file) || key("p", "/a", file) != key("q", "/a", other) {
		t.Error("equal definitions of a root have one instance")
	}
}

// FuzzParseFile: a .mcp.json of any content gives definitions that can be resolved.
func FuzzParseFile(f *testing.F) {
	for _, seed := range []string{
		`{"mcpServers":{"a":{"command":"x","args":["${A:-b}"],"env":{"B":"${C}"}}}}`, `{"mcpServers":{"a":{"type":"http","url":"https://h/${A}","headers":{"X":"y"}}}}`,
		`{"mcpServers":{"":{},"b":null,"c":{"timeout":-1,"command":"x"}}}`, `{"mcpServers":[]}`, `[]`, `{"mcpServers":{"a":{"command":"x","cwd":"{root}"}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, d := range parseFile(data, proto.MCPProject) {
			d.resolve("/root", func(string) (string, bool) { return "secret-value", true }, nil)
			if d.problem != "" {
				continue
			}
			if (len(d.Command) == 0) == (d.URL == "") || d.hash == "" || d.timeout() <= 0 {
				t.Errorf("%+v", d)
			}
			if all := strings.Join(append(d.Command, d.URL), " "); strings.Contains(all, "secret-value") && !strings.Contains(string(data), "secret-value") {
				t.Errorf("a variable that is not listed: %s", all)
			}
		}
	})
}
