// Command zino-audit records what the other services do. It depends on no other
// service.
package main

import (
	"os"

	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/proto"
	"zino/services/audit"
)

func main() {
	cfg, log := service.Start("audit")
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" && !cfg.IsSet("audit.data_dir") {
		cfg.Audit.DataDir = dir // a host whose configuration is older than the audit
	}
	a, err := audit.Open(cfg.Audit, log)
	service.Fail("audit", err)
	for _, reader := range cfg.Audit.Readers {
		service.AddCaller(reader + "=" + proto.AuditRead.Type)
	}
	s := rpc.NewServer("audit", log)
	a.Register(s)
	err = service.Serve(s, "audit", cfg.Audit.Socket, log)
	service.Fail("audit", err)
	service.Fail("audit", a.Close())
}
