package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

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
		return config.Load(path, "cli")
	}
	base := baseDir()
	path := filepath.Join(base, "config.toml")
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		path = ""
	}
	cfg, err := config.Load(path, "cli")
	if err != nil {
		return nil, err
	}
	a.settle(cfg, base)
	return cfg, a.borrow(cfg)
}

// settle puts what belongs to the user below base: data, tools, skills and
// prompt come from there or from the installation, never from the current
// directory.
func (a *app) settle(cfg *config.Config, base string) {
	for key, path := range map[string]*string{
		"mem.data_dir": &cfg.Mem.DataDir, "tools.dir": &cfg.Tools.Dir, "skills.dir": &cfg.Skills.Dir, "sys.template": &cfg.Sys.Template,
	} {
		if cfg.IsSet(key) {
			continue
		}
		switch key {
		case "mem.data_dir":
			*path = filepath.Join(base, "data", "mem")
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
	data, err := os.ReadFile(filepath.Join(dir, config.FileName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	local, err := config.Parse(data, filepath.Join(dir, config.FileName), dir, "cli")
	if err != nil {
		a.say("Warning: not used: %v", err)
		return nil
	}
	if !cfg.IsSet("model") && !cfg.IsSet("service.model") && local.Service.Model != "" {
		cfg.Service.Model = local.Service.Model
	}
	if !cfg.IsSet("sys.personality") && local.IsSet("sys.personality") {
		cfg.Sys.Personality = local.Sys.Personality
	}
	if !cfg.IsSet("sys.template") && local.IsSet("sys.template") && inside(dir, local.Sys.Template) {
		cfg.Sys.Template = local.Sys.Template
	}
	return nil
}

// inside reports whether path, links followed, lies below dir.
func inside(dir, path string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
