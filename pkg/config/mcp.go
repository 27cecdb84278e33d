package config

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"zino/proto"
)

// MCP configures the client of MCP servers.
type MCP struct {
	Socket       string               `toml:"socket"`
	DataDir      string               `toml:"data_dir"`      // directory of the catalogue and the homes of servers
	DirectTokens int                  `toml:"direct_tokens"` // of the definitions of all tools, up to which they are offered directly
	IdleSecs     float64              `toml:"idle_secs"`     // without calls until a server is ended; 0: never
	ProjectEnv   []string             `toml:"project_env"`   // variables that .mcp.json may use
	Servers      map[string]MCPServer `toml:"servers"`
}

// MCPServer is the definition of a server. A zero value stands for the default.
type MCPServer struct {
	Command     []string          `toml:"command"`      // program and arguments
	URL         string            `toml:"url"`          // in place of command
	Env         map[string]string `toml:"env"`          // of the command
	Secrets     map[string]string `toml:"secrets"`      // variable, with url header, to name in the secret store
	Headers     map[string]string `toml:"headers"`      // with url
	Cwd         string            `toml:"cwd"`          // {root}: one instance per root; empty: a private directory
	Sandbox     proto.Level       `toml:"sandbox"`      // empty: [exc] sandbox
	Network     *bool             `toml:"network"`      // nil: true
	TimeoutSecs float64           `toml:"timeout_secs"` // of a call, without progress; 0: 60
	MaxSecs     float64           `toml:"max_secs"`     // of a call with progress; 0: 600
	StartSecs   float64           `toml:"start_secs"`   // of a start; 0: 30
	ResultBytes int               `toml:"result_bytes"` // of a message; 0: 12582912
	Tools       []string          `toml:"tools"`        // patterns of names that may be used; none: all
	Enabled     *bool             `toml:"enabled"`      // nil: true
	Protocol    string            `toml:"protocol"`     // revision; empty: as agreed on
}

// MCPProtocols are the revisions of MCP that a server can be held to.
var MCPProtocols = []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

func defaultMCP() MCP {
	return MCP{Socket: "/run/zino/mcp.sock", DataDir: "data/mcp", DirectTokens: 1500, IdleSecs: 600, ProjectEnv: []string{}}
}

const mcpServers = "mcp.servers."

// mcpName is compiled on first use: every program of Zino reads a configuration, and few name
// a server.
var mcpName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`) })

// generic returns the name of a key with * for the names that the user chooses.
func generic(name string) string {
	rest, ok := strings.CutPrefix(name, mcpServers)
	if !ok {
		return name
	}
	_, key, more := strings.Cut(rest, ".")
	if !more {
		return mcpServers + "*"
	}
	if table, inner, ok := strings.Cut(key, "."); ok && inner != "" && slices.Contains([]string{"env", "secrets", "headers"}, table) {
		key = table + ".*"
	}
	return mcpServers + "*." + key
}

// mcpRules returns the rules of the definitions of servers.
func (c *Config) mcpRules() (rules []rule) {
	for _, name := range slices.Sorted(maps.Keys(c.MCP.Servers)) {
		s := c.MCP.Servers[name]
		for _, r := range s.rules() {
			rules = append(rules, rule{mcpServers + name + r.key, r.ok, r.want})
		}
		rules = append(rules, rule{mcpServers + name, mcpName().MatchString(name), "called by at most 32 small letters, digits, _ and -, a letter or digit first"})
	}
	return rules
}

// Problem returns what is wrong with a definition, empty if nothing is.
func (s *MCPServer) Problem() string {
	for _, r := range s.rules() {
		if !r.ok {
			return strings.TrimPrefix(r.key+" must be "+r.want, ".")
		}
	}
	return ""
}

// rules returns the rules of the keys of a definition, whose names begin with a point.
func (s *MCPServer) rules() []rule {
	seconds := "a number of seconds, up to 86400"
	rules := []rule{
		{"", (len(s.Command) > 0) != (s.URL != ""), "a server with command or url, not both"},
		{".command", !slices.Contains(s.Command, "") || len(s.Command) > 0 && s.Command[0] != "", "a program with its arguments"},
		{".url", s.URL == "" || strings.Contains(s.URL, "${") || CheckMCPURL(s.URL) == nil, "an https URL, or an http URL of a loopback address"},
		{".headers", len(s.Headers) == 0 || s.URL != "", "given with url only"},
		{".env", len(s.Env) == 0 || s.URL == "", "given with command only"},
		{".cwd", s.Cwd == "" || s.URL == "" && (s.Cwd == "{root}" || path.IsAbs(s.Cwd)), `"{root}" or an absolute path, with command only`},
		{".sandbox", s.Sandbox == "" || slices.Contains(proto.Levels, s.Sandbox), quoted(proto.Levels)},
		{".timeout_secs", within(s.TimeoutSecs, 0, 86400), seconds},
		{".max_secs", within(s.MaxSecs, 0, 86400), seconds},
		{".start_secs", within(s.StartSecs, 0, 86400), seconds},
		{".result_bytes", s.ResultBytes == 0 || s.ResultBytes >= 64<<10 && s.ResultBytes <= 15<<20, "from 65536 to 15728640 bytes"},
		{".protocol", s.Protocol == "" || slices.Contains(MCPProtocols, s.Protocol), quoted(MCPProtocols) + ", or empty"},
	}
	for _, pattern := range s.Tools {
		_, err := path.Match(pattern, "")
		rules = append(rules, rule{".tools", err == nil, "patterns of names, such as get_*"})
	}
	return rules
}

// CheckMCPURL returns an error if an MCP server cannot have that address.
func CheckMCPURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return fmt.Errorf("%q is not a URL", address)
	case u.User != nil:
		return fmt.Errorf("the URL of %s has a user or a password: use headers or secrets", u.Host)
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http":
		port := u.Port()
		if port == "" {
			port = "80"
		}
		host := u.Hostname()
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		if IsLoopback(host + ":" + port) {
			return nil
		}
	}
	return fmt.Errorf("%s: want https, or http to a loopback address", address)
}
