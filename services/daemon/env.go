package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"zino/pkg/durable"
	"zino/proto"
)

// callerEnv is what tools of a turn get from the caller's process, and the MCP servers that
// the caller brings: both can hold secrets. It is kept in a file of the daemon, and not in
// the session log, as long as the turn is open.
type callerEnv struct {
	Env   map[string]string `json:"env,omitempty"`
	Cwd   string            `json:"cwd,omitempty"`
	Umask *int              `json:"umask,omitempty"`

	Servers proto.Raw `json:"mcp_servers,omitempty"`
}

// envOf returns the environment of a request; ok is false if it has none.
func envOf(req proto.Chat) (e callerEnv, ok bool) {
	return callerEnv{req.Env, req.Cwd, req.Umask, req.MCPServers}, req.Env != nil || req.Cwd != "" || req.Umask != nil || len(req.MCPServers) > 0
}

// envDir is the directory of the files, named after turns.
func (s *Service) envDir() string { return filepath.Join(s.cfg.Daemon.DataDir, "env") }

// keepEnv stores the environment of a turn that has one. It must be called before the
// turn is stored. The file is not synced: after a power failure it may be gone, which a
// resumed turn reports.
func (s *Service) keepEnv(turn string, req proto.Chat) error {
	e, ok := envOf(req)
	if !ok {
		return nil
	}
	data, err := json.Marshal(e)
	if err == nil {
		err = os.MkdirAll(s.envDir(), durable.DirMode)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(s.envDir(), turn+".json"), data, durable.FileMode)
	}
	if err != nil {
		s.dropEnv(turn)
		return fmt.Errorf("cannot store the environment of turn %s: %w", turn, err)
	}
	return nil
}

// envGone is the notice of a turn that is resumed without its environment.
const envGone = "The environment of this turn is gone (%s): its tools run with that of the services, and without MCP servers of the client."

// restoreEnv adds the environment of a turn to its request. Without it the tools run
// with the daemon's own, and the notice says so.
func (s *Service) restoreEnv(turn string, req *proto.Chat) (notice string) {
	path := filepath.Join(s.envDir(), turn+".json")
	data, err := os.ReadFile(path)
	var e callerEnv
	if err == nil {
		err = json.Unmarshal(data, &e)
	}
	if err != nil {
		return fmt.Sprintf(envGone, path)
	}
	req.Env, req.Cwd, req.Umask, req.MCPServers = e.Env, e.Cwd, e.Umask, e.Servers
	return ""
}

// dropEnv removes the environment of a turn that has ended.
func (s *Service) dropEnv(turn string) {
	err := os.Remove(filepath.Join(s.envDir(), turn+".json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("the environment of an ended turn could not be removed", "turn", turn, "error", err)
	}
}
