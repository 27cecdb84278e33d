// Command zino-sys serves the system prompt. It depends on its template, the
// directories of tools and skills, and mem for the soft memory.
package main

import (
	"zino/pkg/catalog"
	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/services/sys"
)

func main() {
	cfg, log := service.Start("sys")
	cat, err := catalog.Open(cfg.Tools.Dir, cfg.Skills.Dir, log)
	service.Fail("sys", err)
	p := sys.New(cfg, cat, &rpc.Client{Service: "mem", Path: cfg.Mem.Socket}, log)
	s := rpc.NewServer("sys", log)
	p.Register(s)
	err = service.Serve(s, "sys", cfg.Sys.Socket, log)
	service.Fail("sys", err)
	service.Fail("sys", p.Close())
}
