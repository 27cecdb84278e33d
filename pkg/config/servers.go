package config

import (
	"os"
	"sync"
	"time"
)

// HostFile is the configuration of the host.
const HostFile = "/etc/zino/ZINO.toml"

// Servers are the MCP servers of a configuration file, as the file is now: a server that is
// added while services run can be used without a restart. It is safe for concurrent use.
type Servers struct {
	file string
	host *Servers // those of the host, which users have besides their own; nil in itself

	mu    sync.Mutex
	size  int64
	mtime time.Time
	cfg   *Config
}

// ServersOf returns the servers of a configuration.
func ServersOf(cfg *Config) *Servers {
	s := &Servers{file: cfg.File, cfg: cfg}
	if cfg.Source != HostFile {
		s.host = &Servers{file: HostFile, cfg: &Config{}}
	}
	if info, err := os.Stat(s.file); err == nil {
		s.size, s.mtime = info.Size(), info.ModTime()
	}
	return s
}

// Any reports whether the configuration or the host's has a server: if not, mcp need not be
// asked, which would start it.
func (s *Servers) Any() bool { return len(s.Get()) > 0 || s.host != nil && s.host.Any() }

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
