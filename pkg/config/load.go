package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/pelletier/go-toml/v2"
)

// FileName is the configuration's name where nobody names one.
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

// Load reads the file at path for a service; with an empty path the defaults
// are all there is. An unknown key in a section of the service's own is an
// error, elsewhere a warning. Every error is one line with its place.
func Load(path, service string) (*Config, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("the working directory is gone: %w", err)
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

// Parse is Load for a text that has been read: file is its name in messages,
// and relative paths are relative to dir.
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
	c.settle(set)
	if err := c.check(file, set); err != nil {
		return nil, err
	}
	c.absolute()
	return c, nil
}

// read takes what a text sets, and tells which keys that are. For none the
// parser need not look at all that there could be: a client's start is short.
func (c *Config) read(data []byte) (keys, error) {
	if len(data) == 0 {
		return nil, nil
	}
	set, err := keysOf(data)
	if err == nil {
		err = toml.Unmarshal(data, c)
	}
	return set, err
}

// place puts file, line and column in front of a parser's error. set are the
// keys of a file that could be taken apart: then it is a value that does not fit.
func place(file string, set keys, err error) error {
	if e, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, column := e.Position()
		return fmt.Errorf("%s:%d:%d: %s", file, line, column, set.misfit(e))
	}
	return fmt.Errorf("%s: %w", file, err)
}

// settle gives effect to keys that mean the same: a section's key wins over
// the top-level one, and either limit of iterations stands for both.
func (c *Config) settle(set keys) {
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

// absolute makes every path absolute. The defaults are relative as well.
func (c *Config) absolute() {
	for _, path := range []*string{
		&c.Daemon.Socket, &c.Rtr.Socket, &c.Agr.Socket, &c.Sys.Socket, &c.Exc.Socket,
		&c.Mem.Socket, &c.Ctx.Socket, &c.Tools.Dir, &c.Skills.Dir, &c.Sys.Template, &c.Sys.SessionTemplate, &c.Mem.DataDir, &c.Mem.SessionsDir, &c.Rtr.DataDir, &c.API.KeyFile, &c.SystemPromptFile, &c.Repl.Socket, &c.Repl.Dir, &c.Repl.Serve,
	} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(c.Dir, *path)
		}
	}
}

// warnOfReaders says so if others can read a key that stands in the file.
func (c *Config) warnOfReaders(path string) {
	info, err := os.Stat(path)
	if err == nil && c.API.Key != "" && info.Mode().Perm()&0o044 != 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s holds [api] key and can be read by others: chmod 600 %s", path, path))
	}
}

// IsSet reports whether the file sets the key of that dotted name.
func (c *Config) IsSet(name string) bool { return c.set.has(name) }

// written begins the first line of a file that Write wrote. The quoted Source
// follows.
const written = "# made from "

// sourceIn returns the Source of a configuration that was read from file.
func sourceIn(data []byte, file string) string {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	if quoted, ok := bytes.CutPrefix(line, []byte(written)); ok {
		if source, err := strconv.Unquote(string(quoted)); err == nil {
			return source
		}
	}
	return file
}

// Write writes the configuration, all keys at their values, to a new file at
// path that only its owner can read. The provider's key is left out: it belongs
// into rtr's environment.
func (c *Config) Write(path string) error {
	public := *c
	public.API.Key = ""
	text, err := toml.Marshal(&public)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append([]byte(written+strconv.Quote(c.Source)+"\n"), text...), 0o600)
}

// Socket returns the socket of the service of that short name.
func (c *Config) Socket(service string) string { return *c.SocketOf(service) }

// SocketOf returns the place of a service's socket, for a constellation that
// has its own directory.
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
	}
	panic("config: no service " + service)
}

// Services are the short names of the services, in the order in which a
// message meets them.
var Services = []string{"daemon", "sys", "ctx", "mem", "agr", "rtr", "exc"}
