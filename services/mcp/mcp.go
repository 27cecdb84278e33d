// Package mcp is the client of MCP servers. It alone holds their tokens and secrets;
// programs run in exc, which knows nothing of the protocol.
package mcp

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"

	"zino/pkg/audit"
	"zino/pkg/config"
	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/proto"
)

// HostFile is the configuration of the host, whose servers users have, too.
const HostFile = "/etc/zino/ZINO.toml"

// Service is the client of MCP servers. It is safe for concurrent use.
type Service struct {
	guard    *gate.Guard
	audit    *audit.Log // nil: nothing is recorded
	log      *slog.Logger
	getenv   func(string) (string, bool)
	personal bool // requests may bring servers: not on the host's constellation
	current  atomic.Pointer[settings]
}

// settings are what a reload changes.
type settings struct {
	config.MCP
	sets []serverSet // in the order of precedence
}

// serverSet are the servers of one configuration.
type serverSet struct {
	source  string
	servers map[string]config.MCPServer
}

// New returns the service. It starts no server.
func New(cfg *config.Config, log *slog.Logger) (*Service, error) {
	s := &Service{guard: gate.NewGuard(cfg), log: log, getenv: os.LookupEnv, personal: !cfg.Gate.RequireToken}
	s.Apply(cfg)
	return s, nil
}

// UseAudit has the calls of models recorded in l. It must be called before the first request.
func (s *Service) UseAudit(l *audit.Log) { s.audit = l }

// Apply puts a configuration into force.
func (s *Service) Apply(cfg *config.Config) {
	next := &settings{MCP: cfg.MCP}
	if cfg.Source == HostFile {
		next.sets = []serverSet{{proto.MCPHost, cfg.MCP.Servers}}
	} else {
		next.sets = []serverSet{{proto.MCPUser, cfg.MCP.Servers}}
		if host, err := config.Load(HostFile, "cli"); err == nil {
			next.sets = append(next.sets, serverSet{proto.MCPHost, host.MCP.Servers})
		}
	}
	s.current.Store(next)
}

func (s *Service) config() *settings { return s.current.Load() }

// Register has s answer the methods of mcp.
func (s *Service) Register(srv *rpc.Server) {
	rpc.Handle(srv, proto.MCPServers, s.Servers)
}

// Close ends the servers.
func (s *Service) Close() error { return nil }

// Servers lists the servers of a turn.
func (s *Service) Servers(_ context.Context, req proto.ListServers) (proto.ServerList, error) {
	list, notices := s.definitions(scope{req.Root, req.Project, req.Client})
	reply := proto.ServerList{Servers: []proto.MCPServer{}, Notices: notices}
	for _, d := range list {
		reply.Servers = append(reply.Servers, s.describe(d))
	}
	return reply, nil
}

// describe returns the state of a server.
func (s *Service) describe(d *definition) proto.MCPServer {
	server := proto.MCPServer{Name: d.name, Source: d.source, Transport: d.transport(), State: proto.MCPNew, Problem: d.problem}
	switch {
	case !d.enabled():
		server.State = proto.MCPDisabled
	case d.problem != "":
		server.State = proto.MCPUnavailable
	}
	return server
}
