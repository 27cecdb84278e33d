package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// FileName is the default name of the configuration.
const FileName = "ZINO.toml"

// Find returns the file that a service reads: the one named by its flag, else
// by $ZINO_CONFIG, else ZINO.toml in the working directory if there is one.
func Find(flag string) (path string, err error) {
	if flag == "" {
		flag = os.Getenv("ZINO_CONFIG")
	}
	if flag != "" {
		return flag, nil
	}
	if _, err := os.Stat(FileName); errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return FileName, nil
}

// Load reads the file at path for a service; an empty path gives the defaults. An
// unknown key in a section of the service is an error, elsewhere a warning. Every
// error is one line with its position.
func Load(path, service string) (*Config, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("working directory: %w", err)
	}
	var data []byte
	if path != "" {
		if path, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		if data, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("cannot read the configuration: %w", err)
		}
		dir = filepath.Dir(path)
	}
	c, err := Parse(data, path, dir, service)
	if err == nil && path != "" {
		c.warnOfReaders(path)
	}
	return c, err
}

// Parse is Load for data: file is its name in messages, dir the base of relative
// paths.
func Parse(data []byte, file, dir, service string) (*Config, error) {
	c := Default()
	c.File, c.Dir, c.Source = file, dir, sourceIn(data, file)
	set, err := c.read(data)
	if err != nil {
		return nil, place(file, set, err)
	}
	for _, key := range set {
		if err := key.unknown(); err != nil && key.ownedBy(service) {
			return nil, fmt.Errorf("%s:%d:%d: %w", file, key.line, key.column, err)
		} else if err != nil {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s:%d:%d: %v", file, key.line, key.column, err))
		}
	}
	c.set = set
	c.resolveTwins(set)
	if err := c.check(file, set, data); err != nil {
		return nil, err
	}
	c.absolute()
	return c, nil
}

// read decodes data into c and returns its keys. Without data it does not touch the
// parser, which saves a client start-up time.
func (c *Config) read(data []byte) (keys, error) {
	if len(data) == 0 {
		return nil, nil
	}
	set, err := keysOf(data)
	if err == nil {
		err = toml.Unmarshal(data, c)
	}
	if err != nil {
		if syntax := checkSyntax(data); syntax != nil {
			return nil, syntax
		}
	}
	return set, err
}

// place adds file, line and column to a parser's error. set has the keys if the syntax
// is valid: then the error is a value of the wrong type.
func place(file string, set keys, err error) error {
	if e, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, column := e.Position()
		return fmt.Errorf("%s:%d:%d: %s", file, line, column, set.typeError(e))
	}
	return fmt.Errorf("%s: %w", file, err)
}

// resolveTwins sets both keys of a pair with the same meaning: a section's key takes
// precedence over the top-level one, and either limit of iterations sets both.
func (c *Config) resolveTwins(set keys) {
	if !set.has("service.model") {
		c.Service.Model = c.Model
	}
	if !set.has("agent.temperature") {
		c.Agent.Temperature = c.Temperature
	}
	if !set.has("exc.timeout") {
		c.Exc.Timeout = c.ToolTimeoutSecs
	}
	switch agent, agr := set.has("agent.max_iterations"), set.has("agr.max_iterations"); {
	case agent && !agr:
		c.Agr.MaxIterations = c.Agent.MaxIterations
	case agr && !agent:
		c.Agent.MaxIterations = c.Agr.MaxIterations
	case c.Agent.MaxIterations != c.Agr.MaxIterations:
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s: [agent] max_iterations = %d is what the prompt says, [agr] max_iterations = %d what the loop does: set only one of them",
			c.File, c.Agent.MaxIterations, c.Agr.MaxIterations))
	}
}

// absolute makes every path absolute, also the defaults.
func (c *Config) absolute() {
	for _, path := range []*string{
		&c.Daemon.Socket, &c.Daemon.DataDir, &c.Rtr.Socket, &c.Agr.Socket, &c.Sys.Socket, &c.Exc.Socket,
		&c.Mem.Socket, &c.Ctx.Socket, &c.Tools.Dir, &c.Skills.Dir, &c.Sys.Template, &c.Sys.SessionTemplate, &c.Mem.DataDir, &c.Mem.SessionsDir, &c.Rtr.DataDir, &c.Exc.DataDir, &c.API.KeyFile, &c.SystemPromptFile, &c.Repl.Socket, &c.Repl.Dir, &c.Repl.Serve,
		&c.Audit.Socket, &c.Audit.DataDir, &c.MCP.Socket, &c.MCP.DataDir,
	} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(c.Dir, *path)
		}
	}
	for i, path := range c.Skills.Paths {
		if path != "" && !filepath.IsAbs(path) && !strings.HasPrefix(path, "~/") {
			c.Skills.Paths[i] = filepath.Join(c.Dir, path)
		}
	}
}

// warnOfReaders warns if other users can read a file with a key.
func (c *Config) warnOfReaders(path string) {
	info, err := os.Stat(path)
	if err == nil && c.API.Key != "" && info.Mode().Perm()&0o044 != 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s holds [api] key and can be read by others: chmod 600 %s", path, path))
	}
}

// IsSet reports whether the file has a key, such as "exc.timeout".
func (c *Config) IsSet(name string) bool { return c.set.has(name) }

// written is the start of the first line of a file generated by Write, followed by the
// quoted Source.
const written = "# made from "

// sourceIn returns the Source of a configuration read from file.
func sourceIn(data []byte, file string) string {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	if quoted, ok := bytes.CutPrefix(line, []byte(written)); ok {
		if source, err := strconv.Unquote(string(quoted)); err == nil {
			return source
		}
	}
	return file
}

// Write writes all keys with their values to a file at path, mode 0600. The
// provider's key is left out: it is passed in rtr's environment.
func (c *Config) Write(path string) error {
	public := *c
	public.API.Key = ""
	text, err := toml.Marshal(&public)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append([]byte(written+strconv.Quote(c.Source)+"\n"), text...), 0o600)
}

// Socket returns the socket of a service, such as "mem".
func (c *Config) Socket(service string) string { return *c.SocketOf(service) }

// SocketOf returns the field of a service's socket, for callers that change it.
func (c *Config) SocketOf(service string) *string {
	switch service {
	case "daemon":
		return &c.Daemon.Socket
	case "rtr":
		return &c.Rtr.Socket
	case "agr":
		return &c.Agr.Socket
	case "sys":
		return &c.Sys.Socket
	case "exc":
		return &c.Exc.Socket
	case "mem":
		return &c.Mem.Socket
	case "ctx":
		return &c.Ctx.Socket
	case "repl":
		return &c.Repl.Socket
	case "audit":
		return &c.Audit.Socket
	case "mcp":
		return &c.MCP.Socket
	}
	panic("config: no service " + service)
}

// Services are the names of the services, in the order in which a message reaches
// them.
var Services = []string{"daemon", "sys", "ctx", "mem", "agr", "rtr", "exc"}

// installable returns the keys whose files are installed with the programs.
func (c *Config) installable() map[string]*string {
	return map[string]*string{
		"tools.dir": &c.Tools.Dir, "skills.dir": &c.Skills.Dir,
		"sys.template": &c.Sys.Template, "sys.session_template": &c.Sys.SessionTemplate,
	}
}

// Locate sets the directories of tools and skills and the templates that the file
// does not set: the first that exists in dirs or in the installation, else the one
// in dirs[0].
func (c *Config) Locate(dirs ...string) {
	places := slices.Concat(dirs, installation())
	defaults := Default().installable()
	for key, path := range c.installable() {
		if !c.IsSet(key) {
			*path = locate(*defaults[key], places)
		}
	}
}

func locate(name string, dirs []string) string {
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return filepath.Join(dirs[0], name)
}

// installation lists the directories of installed files: beside the programs,
// share/zino below their prefix, and the source tree whose bin/ they were built
// into. A parent directory counts as a source tree if it has a ZINO.toml (the parent
// of ~/bin lacks it) and others cannot write to it (as they can to that of
// /tmp/bin).
func installation() []string {
	exe, err := os.Executable()
	if err != nil {
		return nil
	}
	bin := filepath.Dir(exe)
	prefix := filepath.Dir(bin)
	list := []string{bin, filepath.Join(prefix, "share", "zino")}
	dir, err := os.Stat(prefix)
	if err != nil || dir.Mode().Perm()&0o002 != 0 {
		return list
	}
	if info, err := os.Stat(filepath.Join(prefix, FileName)); err == nil && info.Mode().IsRegular() {
		list = append(list, prefix)
	}
	return list
}
