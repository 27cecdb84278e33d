package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"zino/pkg/config"
)

// settings is the configuration of a constellation that zino starts itself:
// the file that the user named, trusted whole; else the user's own file.
func (a *app) settings() (*config.Config, error) {
	if a.named() {
		path, err := config.Find(a.config)
		if err != nil {
			return nil, err
		}
		cfg, err := config.Load(path, "cli")
		if err != nil {
			return nil, err
		}
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

// settle puts what belongs to the user below base: data, tools, skills and
// prompt come from there or from the installation, never from the current
// directory.
func (a *app) settle(cfg *config.Config, base string) {
	for key, path := range map[string]*string{
		"mem.data_dir": &cfg.Mem.DataDir, "rtr.data_dir": &cfg.Rtr.DataDir, "mem.sessions_dir": &cfg.Mem.SessionsDir, "tools.dir": &cfg.Tools.Dir, "skills.dir": &cfg.Skills.Dir, "sys.template": &cfg.Sys.Template,
	} {
		if cfg.IsSet(key) {
			continue
		}
		switch key {
		case "mem.data_dir", "rtr.data_dir":
			*path = filepath.Join(base, "data", strings.TrimSuffix(key, ".data_dir"))
		case "mem.sessions_dir":
			*path = filepath.Join(base, "sessions")
		case "sys.template":
			*path = filepath.Join(base, "SYSTEM.md")
		default:
			*path = installed(base, strings.TrimSuffix(key, ".dir"))
		}
	}
}

// installed finds a directory of the user's, or the one that was installed
// beside the program.
func installed(base, name string) string {
	candidates := []string{filepath.Join(base, name)}
	if exe, err := os.Executable(); err == nil {
		bin := filepath.Dir(exe)
		candidates = append(candidates, filepath.Join(bin, name), filepath.Join(bin, "..", "share", "zino", name), filepath.Join(bin, "..", name))
	}
	for _, dir := range candidates {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return filepath.Clean(dir)
		}
	}
	return candidates[0]
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
