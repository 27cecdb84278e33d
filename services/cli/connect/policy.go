package connect

import (
	"path/filepath"

	"zino/pkg/config"
	"zino/pkg/gate"
)

// PolicyFile returns the path of the user's own policy, which need not exist.
func PolicyFile() (string, error) {
	base, err := BaseDir()
	return filepath.Join(base, "policy.toml"), err
}

// Policy returns the rules of the host and of the user.
func Policy(cfg *config.Config) (*gate.Policy, error) {
	file, err := PolicyFile()
	return gate.New(gate.Places{Host: gate.HostFile, User: file, DataDir: cfg.Daemon.DataDir, Env: cfg.Gate.Env}), err
}
