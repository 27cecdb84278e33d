// Command zino-daemon is the entry point for clients. It uses the sockets of sys, ctx,
// mem, agr and rtr.
package main

import (
	"errors"

	"zino/pkg/audit"
	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/services/daemon"
)

func main() {
	cfg, log := service.Start("daemon")
	s := rpc.NewServer("daemon", log)
	d := daemon.New(cfg, log)
	trail := audit.Open(cfg, "daemon", log)
	d.UseAudit(trail)
	d.Register(s)
	d.Resume()
	err := service.Serve(s, "daemon", cfg.Daemon.Socket, log)
	service.Fail("daemon", err)
	service.Fail("daemon", errors.Join(d.Close(), trail.Close()))
}
