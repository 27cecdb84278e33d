package config

import (
	"os"
	"sync"
	"time"
)

// Servers are the MCP servers of a configuration file, as the file is now: a server that is
// added while services run can be used without a restart. It is safe for concurrent use.
type Servers struct {
	file string

	mu    sync.Mutex
	size  int64
	mtime time.Time
	cfg   *Config
}

// ServersOf returns the servers of a configuration.
func ServersOf(cfg *Config) *Servers {
	s := &Servers{file: cfg.File, cfg: cfg}
	if info, err := os.Stat(s.file); err == nil {
		s.size, s.mtime = info.Size(), info.ModTime()
	}
	return s
}

// ServersIn returns the servers of a file, none if it cannot be read.
func ServersIn(file string) *Servers { return &Servers{file: file, cfg: &Config{}} }

// Get returns the servers. If the file has changed it is read again; one with a mistake
// changes nothing.
func (s *Servers) Get() map[string]MCPServer {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := os.Stat(s.file)
	if err != nil || info.Size() == s.size && info.ModTime().Equal(s.mtime) {
		return s.cfg.MCP.Servers
	}
	s.size, s.mtime = info.Size(), info.ModTime()
	if cfg, err := Load(s.file, "cli"); err == nil {
		s.cfg = cfg
	}
	return s.cfg.MCP.Servers
}
