// Command zino-mcp is the client of MCP servers. It has their programs run by zino-exc.
// With --serve it is a server instead, on standard input and output: see zino mcp serve.
package main

import (
	"os"

	"zino/pkg/audit"
	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/services/mcp"
	"zino/services/mcp/server"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "--serve" {
		os.Exit(server.Main(os.Args[2:]))
	}
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
