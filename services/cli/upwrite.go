package cli

import (
	"os"
	"path/filepath"

	"zino/pkg/config"
)

// ownConstellation is the configuration of the user's own constellation, and
// the directory of its sockets, which is there afterwards. The files of its REPL
// belong to no project: where no directory is configured, they are in the user's
// base directory.
func (a *app) ownConstellation() (cfg *config.Config, dir string, err error) {
	if cfg, err = a.readSettings(); err != nil {
		return nil, "", err
	}
	if dir, err = runtimeDir(); err != nil {
		return nil, "", err
	}
	settleSockets(cfg, dir)
	if err := makeRuntimeDir(dir); err != nil {
		return nil, "", err
	}
	if base, err := baseDir(); err == nil && !cfg.IsSet("repl.dir") {
		cfg.Repl.Dir = filepath.Join(base, "repl")
		if err := os.MkdirAll(cfg.Repl.Dir, 0o700); err != nil {
			a.say("Warning: no directory for the file REPL: %v", err)
		}
	}
	if cfg.Provider == "" && a.modelSet(cfg) != nil {
		cfg.Provider = "auto"
	}
	return cfg, dir, nil
}

// settleSockets puts the sockets that the configuration does not name into dir.
func settleSockets(cfg *config.Config, dir string) {
	for _, name := range config.Services {
		if !cfg.IsSet(name + ".socket") {
			*cfg.SocketOf(name) = filepath.Join(dir, name+".sock")
		}
	}
}

// writeUp writes the configuration that the services of the user's own
// constellation read to a file, for a supervisor that is not zino.
func (a *app) writeUp(file string) error {
	cfg, _, err := a.ownConstellation()
	if err != nil {
		return err
	}
	for _, warning := range cfg.Warnings {
		a.say("Warning: %s", warning)
	}
	if cfg.API.Key != "" {
		a.say("Warning: [api] key is not given to services that systemd starts; keep the key with: zino auth set openai")
	}
	return cfg.Write(file)
}
