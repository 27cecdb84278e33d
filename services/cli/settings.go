package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"zino/pkg/config"
)

// settings is the configuration of this run. Of a file with a mistake the user is
// warned while zino up works with the former one.
func (a *app) settings() (*config.Config, error) {
	cfg, err := a.readSettings()
	if err == nil {
		return cfg, nil
	}
	former := a.former()
	if former == nil {
		return nil, err
	}
	a.say("Warning: %v; zino up goes on with the configuration that it had", err)
	return former, nil
}

// readSettings is the configuration of a constellation that zino starts itself:
// the file that the user named, trusted whole; else the user's own file.
func (a *app) readSettings() (*config.Config, error) {
	if a.named() {
		path, err := config.Find(a.config)
		if err != nil {
			return nil, err
		}
		cfg, err := config.Load(path, "cli")
		if err != nil {
			return nil, err
		}
		dirs := []string{cfg.Dir}
		if base, err := baseDir(); err == nil {
			dirs = append(dirs, base)
		}
		cfg.Locate(dirs...)
		settleRepl(cfg)
		return cfg, nil
	}
	base, err := baseDir()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(base, "config.toml")
	if _, err := os.Stat(path); err != nil {
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			a.say("Warning: your configuration cannot be reached and is not used: %v", err)
		}
		path = ""
	}
	cfg, err := config.Load(path, "cli")
	if err != nil {
		return nil, err
	}
	a.settle(cfg, base)
	settleRepl(cfg)
	return cfg, a.borrow(cfg)
}

// settle puts the user's data below base, and finds tools, skills and templates
// there or in the installation, never in the current directory.
func (a *app) settle(cfg *config.Config, base string) {
	if !cfg.IsSet("mem.data_dir") {
		cfg.Mem.DataDir = filepath.Join(base, "data", "mem")
	}
	if !cfg.IsSet("rtr.data_dir") {
		cfg.Rtr.DataDir = filepath.Join(base, "data", "rtr")
	}
	if !cfg.IsSet("mem.sessions_dir") {
		cfg.Mem.SessionsDir = filepath.Join(base, "sessions")
	}
	cfg.Locate(base)
}

// borrow takes the little that a ZINO.toml which merely lies in the current
// directory may say: a repository that was cloned must not be able to collect
// keys or add executors.
func (a *app) borrow(cfg *config.Config) error {
	dir, err := os.Getwd()
	if err != nil {
		return nil // without a current directory nothing lies in it
	}
	local, err := readLocal(dir)
	if err != nil {
		a.say("Warning: %s here is not used: %v", config.FileName, err)
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
			a.say("Warning: [sys] template of %s here is not used: %s is not a file inside this directory", config.FileName, local.Sys.Template)
		}
	}
	return nil
}

// readLocal reads the ZINO.toml in dir, nil if there is none. Whoever can put a
// file there must not be able to stop the run with a pipe or a giant.
func readLocal(dir string) (*config.Config, error) {
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

// inside returns path with its links followed, if that is a file below dir.
func inside(dir, path string) (string, bool) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", false
	}
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return "", false
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	rel, err := filepath.Rel(dir, path)
	return path, err == nil && filepath.IsLocal(rel)
}
