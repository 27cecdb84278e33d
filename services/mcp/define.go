package mcp

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"zino/pkg/config"
	"zino/pkg/text"
	"zino/proto"
)

const (
	serversMax = 32      // of a turn
	fileMax    = 1 << 20 // bytes of a .mcp.json
	valueMax   = 64 << 10
)

// definition is a server that a turn can use, resolved for its root.
type definition struct {
	name, source string
	config.MCPServer
	root    string // of the instance; empty: one instance serves all roots
	hash    string // of what is started: key of the catalogue, and name of the home
	problem string // why it cannot be used
}

// key identifies an instance.
func (d *definition) key() string { return d.hash + d.root }

// transport returns "stdio" or "http".
func (d *definition) transport() string {
	if d.URL != "" {
		return "http"
	}
	return "stdio"
}

func (d *definition) enabled() bool { return d.Enabled == nil || *d.Enabled }

func (d *definition) timeout() time.Duration { return seconds(d.TimeoutSecs, 60) }
func (d *definition) max() time.Duration     { return max(seconds(d.MaxSecs, 600), d.timeout()) }
func (d *definition) start() time.Duration   { return seconds(d.StartSecs, 30) }
func (d *definition) resultBytes() int       { return cmp.Or(d.ResultBytes, 12<<20) }

func seconds(n, usual float64) time.Duration {
	return max(time.Duration(cmp.Or(n, usual)*float64(time.Second)), time.Millisecond)
}

// allows reports whether a tool may be used.
func (d *definition) allows(tool string) bool {
	return len(d.Tools) == 0 || slices.ContainsFunc(d.Tools, func(pattern string) bool {
		ok, err := filepath.Match(pattern, tool)
		return ok && err == nil
	})
}

// scope is what a request says about where its turn runs.
type scope struct {
	root            string
	project, client proto.Raw
}

// definitions returns the servers of a turn by name.
func (s *Service) definitions(in scope) (list []*definition, notices []string) {
	cfg := s.config()
	byName := map[string]*definition{}
	add := func(d *definition) {
		switch first := byName[d.name]; {
		case first != nil:
			notices = append(notices, fmt.Sprintf("MCP server %s is defined twice: that of the %s counts, not that of the %s", d.name, first.source, d.source))
		case len(byName) == serversMax:
			notices = append(notices, fmt.Sprintf("MCP server %s is left out: at most %d servers are used", d.name, serversMax))
		default:
			byName[d.name] = d
		}
	}
	if s.personal {
		for _, d := range parseFile(in.client, proto.MCPClient) {
			add(d)
		}
	}
	for _, set := range cfg.sets {
		for _, name := range slices.Sorted(maps.Keys(set.servers)) {
			d := &definition{name: name, source: set.source, MCPServer: set.servers[name]}
			d.Env, d.Headers = maps.Clone(d.Env), maps.Clone(d.Headers)
			add(d)
		}
	}
	if s.personal {
		for _, d := range parseFile(in.project, proto.MCPProject) {
			add(d)
		}
	}
	list = slices.SortedFunc(maps.Values(byName), func(a, b *definition) int { return strings.Compare(a.name, b.name) })
	for _, d := range list {
		d.resolve(in.root, s.getenv, cfg.ProjectEnv)
	}
	return list, notices
}

// find returns the server of that name.
func (s *Service) find(in scope, name string) (*definition, error) {
	list, _ := s.definitions(in)
	var names []string
	for _, d := range list {
		if d.name == name {
			return d, nil
		}
		names = append(names, d.name)
	}
	err := proto.Errorf(proto.CodeNotFound, "no MCP server %s", text.Quote(text.Clip(name, 80)))
	err.Kind = "usage"
	if similar := config.Similar(name, names); similar != "" {
		err.Message += fmt.Sprintf("; did you mean %q?", similar)
	}
	return nil, err
}

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

// resolve replaces variables, checks the definition and sets its hash. A server of a
// project or a client runs in the root, has an instance of its own for it, and sees
// only variables that [mcp] project_env lists.
func (d *definition) resolve(root string, getenv func(string) (string, bool), projectEnv []string) {
	foreign := d.source == proto.MCPProject || d.source == proto.MCPClient
	roots := map[string]string{}
	if foreign {
		roots["CLAUDE_PROJECT_DIR"], roots["ZINO_ROOT"] = root, root
	}
	var problem error
	expand := func(s string) string {
		return variable.ReplaceAllStringFunc(s, func(match string) string {
			parts := variable.FindStringSubmatch(match)
			name, hasDefault := parts[1], parts[2] != ""
			if value, ok := roots[name]; ok {
				return value
			}
			value, ok := "", false
			listed := d.source != proto.MCPProject || slices.Contains(projectEnv, name)
			if listed {
				value, ok = getenv(name)
			}
			switch {
			case ok && (value != "" || !hasDefault):
				return value
			case hasDefault:
				return parts[3]
			case !listed:
				problem = cmp.Or(problem, fmt.Errorf("${%s} is not given to project files; list it in [mcp] project_env", name))
			default:
				problem = cmp.Or(problem, fmt.Errorf("${%s} is not set", name))
			}
			return ""
		})
	}
	all := func(m map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			m[key] = expand(m[key])
		}
	}
	d.Command = slices.Clone(d.Command)
	for i, arg := range d.Command {
		d.Command[i] = expand(arg)
	}
	d.URL = expand(d.URL)
	all(d.Env)
	all(d.Headers)
	if d.Cwd != "{root}" {
		d.Cwd = expand(d.Cwd)
	}
	if foreign && d.URL == "" {
		if d.Env == nil {
			d.Env = map[string]string{}
		}
		maps.Copy(d.Env, roots)
		d.root = root
		if !filepath.IsAbs(d.Cwd) && d.Cwd != "{root}" {
			d.Cwd = filepath.Join(root, d.Cwd)
		}
		if root == "" {
			problem = cmp.Or(problem, errors.New("it needs the directory of a turn"))
		}
	}
	if d.Cwd == "{root}" {
		d.root, d.Cwd = root, root
		if root == "" && problem == nil {
			problem = errors.New(`cwd = "{root}" needs the directory of a turn`)
		}
	}
	if problem == nil && d.problem == "" {
		problem = d.check()
	}
	if problem != nil && d.problem == "" {
		d.problem = problem.Error()
	}
	if d.problem != "" && d.source == proto.MCPProject && !strings.HasPrefix(d.problem, "server ") {
		d.problem = fmt.Sprintf(".mcp.json: %s: %s", d.name, d.problem)
	}
	d.hash = d.digest()
}

// check returns what the rules of the configuration say about a resolved definition.
func (d *definition) check() error {
	if d.URL != "" {
		if err := config.CheckMCPURL(d.URL); err != nil {
			return err
		}
	}
	if problem := d.Problem(); problem != "" {
		return errors.New(strings.TrimSpace(problem))
	}
	for name, value := range d.Headers {
		if !isHeader(name, value) {
			return fmt.Errorf("the header %s is not valid", text.Quote(text.Clip(name, 80)))
		}
	}
	for name, value := range d.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return fmt.Errorf("the variable %s is not valid", text.Quote(text.Clip(name, 80)))
		}
	}
	return nil
}

func isHeader(name, value string) bool {
	const token = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return name != "" && strings.Trim(name, token) == "" && !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// digest returns the hash of what is started.
func (d *definition) digest() string {
	cwd := d.Cwd
	if d.root != "" && cwd == d.root { // the root is not part of what is started, but of the key
		cwd = "{root}"
	}
	level := string(d.Sandbox)
	network := d.Network == nil || *d.Network
	data, _ := json.Marshal([]any{1, d.Command, d.URL, d.Env, d.Secrets, d.Headers, cwd, level, network, d.resultBytes(), d.Protocol})
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

var foreignName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// foreignServer is an entry of .mcp.json. Unknown keys are ignored.
type foreignServer struct {
	kind, command, cwd, url string
	args                    []string
	env, headers            map[string]string
	timeout                 float64 // milliseconds
}

// parseFile returns the servers of a file in the form of .mcp.json. What is wrong with
// one is its problem; a file that is no such file has none.
func parseFile(data proto.Raw, source string) (list []*definition) {
	if len(data) == 0 || len(data) > fileMax {
		return nil
	}
	var file map[string]json.RawMessage
	var servers map[string]json.RawMessage
	if json.Unmarshal(data, &file) != nil || json.Unmarshal(file["mcpServers"], &servers) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		d := &definition{name: name, source: source}
		if !foreignName.MatchString(name) {
			d.name = text.Clip(text.VisibleLine(name), 64)
			d.problem = "a name has at most 64 letters, digits, _ and -"
		} else if err := d.parse(servers[name]); err != nil {
			d.problem = err.Error()
		}
		list = append(list, d)
	}
	return list
}

// parse reads an entry of .mcp.json.
func (d *definition) parse(data []byte) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil || keys == nil {
		return errors.New("want an object")
	}
	var s foreignServer
	for _, field := range []struct {
		key  string
		into any
		want string
	}{
		{"type", &s.kind, "a text"},
		{"command", &s.command, "a text"},
		{"args", &s.args, "a list of texts"},
		{"env", &s.env, "an object of texts"},
		{"cwd", &s.cwd, "a text"},
		{"url", &s.url, "a text"},
		{"headers", &s.headers, "an object of texts"},
		{"timeout", &s.timeout, "a number of milliseconds"},
	} {
		value := keys[field.key]
		if value != nil && (len(value) > valueMax || json.Unmarshal(value, field.into) != nil) {
			return fmt.Errorf("%s: want %s", field.key, field.want)
		}
	}
	if s.kind == "" {
		s.kind = "stdio"
		if s.command == "" && s.url != "" {
			s.kind = "http"
		}
	}
	switch s.kind {
	case "stdio":
		d.Command, d.Env, d.Cwd = append([]string{s.command}, s.args...), s.env, s.cwd
		if s.command == "" {
			return errors.New("command is missing")
		}
	case "http", "streamable-http":
		d.URL, d.Headers = s.url, s.headers
		if s.url == "" {
			return errors.New("url is missing")
		}
	case "sse":
		return fmt.Errorf(`server %s: transport "sse" was removed from MCP; use its streamable HTTP URL`, d.name)
	default:
		return fmt.Errorf("type %s: want stdio or http", text.Quote(text.Clip(s.kind, 40)))
	}
	if helper := bytes.TrimSpace(keys["headersHelper"]); helper != nil && !bytes.Equal(helper, []byte("null")) {
		return errors.New("headersHelper runs a program to get headers, which is not supported; use headers")
	}
	if s.timeout != 0 {
		d.TimeoutSecs = s.timeout / 1000
	}
	return nil
}
