// Command zino-mcp is the client of MCP servers. It has their programs run by zino-exc.
package main

import (
	"zino/pkg/audit"
	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/services/mcp"
)

func main() {
	cfg, log := service.Start("mcp")
	m, err := mcp.New(cfg, log)
	service.Fail("mcp", err)
	trail := audit.Open(cfg, "mcp", log)
	m.UseAudit(trail)
	service.OnReload(m.Apply)
	s := rpc.NewServer("mcp", log)
	m.Register(s)
	err = service.Serve(s, "mcp", cfg.MCP.Socket, log)
	service.Fail("mcp", err)
	service.Fail("mcp", m.Close())
	service.Fail("mcp", trail.Close())
}
