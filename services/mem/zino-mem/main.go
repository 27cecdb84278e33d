// Command zino-mem stores histories, memories and sessions. It depends on no other
// service, except on rtr if [mem] embed names a model for the vectors of memories.
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
	m.UseMask(cfg.Mask)
	m.Embed(&rpc.Client{Service: "rtr", Path: cfg.Rtr.Socket})
	s := rpc.NewServer("mem", log)
	m.Register(s)
	err = service.Serve(s, "mem", cfg.Mem.Socket, log)
	service.Fail("mem", err)
	service.Fail("mem", m.Close())
}
