// Command zino-daemon is the entry point for clients. It uses the sockets of sys, ctx,
// mem, agr and rtr.
package main

import (
	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/services/daemon"
)

func main() {
	cfg, log := service.Start("daemon")
	s := rpc.NewServer("daemon", log)
	d := daemon.New(cfg, log)
	d.Register(s)
	d.Resume()
	err := service.Serve(s, "daemon", cfg.Daemon.Socket, log)
	service.Fail("daemon", err)
	service.Fail("daemon", d.Close())
}
