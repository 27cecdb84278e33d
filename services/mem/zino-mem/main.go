// Command zino-mem stores histories, memories and sessions. It depends on no other
// service.
package main

import (
	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/services/mem"
)

func main() {
	cfg, log := service.Start("mem")
	m, err := mem.Open(cfg.Mem, log)
	service.Fail("mem", err)
	s := rpc.NewServer("mem", log)
	m.Register(s)
	err = service.Serve(s, "mem", cfg.Mem.Socket, log)
	service.Fail("mem", err)
	service.Fail("mem", m.Close())
}
