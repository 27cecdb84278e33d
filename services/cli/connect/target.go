// Package connect finds the daemon of a run and the configuration that goes with
// it, and starts services where none run: for one run (Spawn), or for all
// terminals of a user (Up).
package connect

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"zino/pkg/config"
	"zino/pkg/keys"
	"zino/pkg/text"
)

// Target is the choice of configuration and daemon on the command line.
type Target struct {
	Err      *os.File          // messages for the user
	Note     func(line string) // receives the messages of Say in place of Err; nil: none
	File     string            // --config
	Socket   string            // --socket
	Host     bool              // --host: the host's daemon and no other
	Provider string            // --provider
}

// Say prints a line on standard error, with control characters escaped.
func (t *Target) Say(format string, args ...any) {
	line := text.Visible(fmt.Sprintf(format, args...))
	if t.Note != nil {
		t.Note(line)
		return
	}
	fmt.Fprintln(t.Err, line)
}

// Named reports whether the user named a configuration file.
func (t *Target) Named() bool { return t.File != "" || os.Getenv("ZINO_CONFIG") != "" }

// BaseDir returns the directory of the user's files.
func BaseDir() (string, error) { return keys.Base(os.Getenv) }

// RuntimeDir returns the directory of the sockets of the user's own services.
func RuntimeDir() (string, error) { return keys.RuntimeDir() }

// UserFile returns the path of the user's own configuration, which need not exist.
func UserFile() (string, error) {
	base, err := BaseDir()
	return filepath.Join(base, "config.toml"), err
}

// ConfigFile returns the path of the configuration that the user named, or of the
// user's own, which need not exist.
func (t *Target) ConfigFile() (string, error) {
	if t.Named() {
		return config.Find(t.File)
	}
	return UserFile()
}

// Config returns the configuration of this run. If the file is invalid and zino up is
// running, it returns the configuration of zino up, with a warning.
func (t *Target) Config() (*config.Config, error) {
	cfg, err := t.read()
	if err == nil {
		return cfg, nil
	}
	dir, dirErr := RuntimeDir()
	if dirErr != nil || t.Named() || !Answers(filepath.Join(dir, "daemon.sock")) {
		return nil, err
	}
	former, loadErr := config.Load(filepath.Join(dir, upFile), "cli")
	if loadErr != nil {
		return nil, err
	}
	t.Say("Warning: %v; zino up continues with its earlier configuration", err)
	return former, nil
}

// read returns the configuration of services that zino starts: the file that the
// user named, trusted whole; else the user's own file.
func (t *Target) read() (*config.Config, error) {
	if t.Named() {
		path, err := config.Find(t.File)
		if err != nil {
			return nil, err
		}
		cfg, err := config.Load(path, "cli")
		if err != nil {
			return nil, err
		}
		dirs := []string{cfg.Dir}
		if base, err := BaseDir(); err == nil {
			dirs = append(dirs, base)
		}
		cfg.Locate(dirs...)
		locateRepl(cfg)
		return cfg, nil
	}
	base, err := BaseDir()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(base, "config.toml")
	if _, err := os.Stat(path); err != nil {
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			t.Say("Warning: your configuration cannot be reached and is not used: %v", err)
		}
		path = ""
	}
	cfg, err := load(path, base)
	if err != nil {
		return nil, err
	}
	return cfg, t.borrow(cfg)
}

// Defaults returns the configuration of a user without a file.
func Defaults(base string) (*config.Config, error) { return load("", base) }

// load reads a user's configuration. Data lies below base; tools, skills and
// templates come from there or from the installation, never from the current
// directory.
func load(path, base string) (*config.Config, error) {
	cfg, err := config.Load(path, "cli")
	if err != nil {
		return nil, err
	}
	if !cfg.IsSet("daemon.data_dir") {
		cfg.Daemon.DataDir = filepath.Join(base, "data", "daemon")
	}
	if !cfg.IsSet("audit.data_dir") {
		cfg.Audit.DataDir = filepath.Join(base, "data", "audit")
	}
	if !cfg.IsSet("mem.data_dir") {
		cfg.Mem.DataDir = filepath.Join(base, "data", "mem")
	}
	if !cfg.IsSet("rtr.data_dir") {
		cfg.Rtr.DataDir = filepath.Join(base, "data", "rtr")
	}
	if !cfg.IsSet("exc.data_dir") {
		cfg.Exc.DataDir = filepath.Join(base, "data", "exc")
	}
	if !cfg.IsSet("mcp.data_dir") {
		cfg.MCP.DataDir = filepath.Join(base, "data", "mcp")
	}
	if !cfg.IsSet("mem.sessions_dir") {
		cfg.Mem.SessionsDir = filepath.Join(base, "sessions")
	}
	cfg.Locate(base)
	locateRepl(cfg)
	return cfg, nil
}

// borrow applies the few keys that a ZINO.toml in the current directory may set: a
// cloned repository must not be able to collect keys or to add executors.
func (t *Target) borrow(cfg *config.Config) error {
	dir, err := os.Getwd()
	if err != nil {
		return nil // the current directory was removed
	}
	local, err := ReadLocal(dir)
	if err != nil {
		t.Say("Warning: %s here is not used: %v", config.FileName, err)
	}
	if local == nil {
		return nil
	}
	if !cfg.IsSet("model") && !cfg.IsSet("service.model") && local.Service.Model != "" {
		cfg.Service.Model = local.Service.Model
	}
	if !cfg.IsSet("sys.personality") && local.IsSet("sys.personality") {
		cfg.Sys.Personality = local.Sys.Personality
	}
	if !cfg.IsSet("sys.template") && local.IsSet("sys.template") {
		if template, ok := inside(dir, local.Sys.Template); ok {
			cfg.Sys.Template = template
		} else {
			t.Say("Warning: [sys] template of %s here is not used: %s is not a file inside this directory", config.FileName, local.Sys.Template)
		}
	}
	return nil
}

// ReadLocal reads the ZINO.toml in dir, nil if it does not exist. It rejects FIFOs and
// huge files, which would block the run.
func ReadLocal(dir string) (*config.Config, error) {
	const limit = 1 << 20
	path := filepath.Join(dir, config.FileName)
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("it is not a file of at most %d bytes", limit)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return config.Parse(data, path, dir, "cli")
}

// inside resolves symbolic links in path and reports whether it is a file below dir.
func inside(dir, path string) (string, bool) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", false
	}
	path, err = filepath.EvalSymlinks(path)
	if err != nil || !isFile(path) {
		return "", false
	}
	rel, err := filepath.Rel(dir, path)
	return path, err == nil && filepath.IsLocal(rel)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// IsDir reports whether path is a directory.
func IsDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Absolute returns path as an absolute path where that is possible.
func Absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// DefaultSockets places the sockets that the configuration does not name in dir. A user's
// services have no zino-audit unless it names one.
func DefaultSockets(cfg *config.Config, dir string) {
	plainAudit(cfg)
	for _, name := range supervised() {
		if !cfg.IsSet(name + ".socket") {
			*cfg.SocketOf(name) = filepath.Join(dir, name+".sock")
		}
	}
}

// plainAudit has the services write a plain log, unless the configuration names the socket of
// a zino-audit.
func plainAudit(cfg *config.Config) {
	if !cfg.IsSet("audit.socket") {
		cfg.Audit.Socket = ""
	}
}
