// Command zino-ctx assembles the context of a message. It depends on the directory of
// skills, and on mem for memories and histories.
package main

import (
	"runtime/debug"

	"zino/pkg/catalog"
	"zino/pkg/rpc"
	"zino/pkg/service"
	assemble "zino/services/ctx"
)

func main() {
	// Almost nothing stays alive between requests: collect at 1.6 MB, not at Go's minimum of 4 MB.
	debug.SetGCPercent(40)
	cfg, log := service.Start("ctx")
	cat, err := catalog.Open("", cfg.Skills.Dir, log)
	service.Fail("ctx", err)
	c := assemble.New(cfg, cat, &rpc.Client{Service: "mem", Path: cfg.Mem.Socket}, log)
	s := rpc.NewServer("ctx", log)
	c.Register(s)
	err = service.Serve(s, "ctx", cfg.Ctx.Socket, log)
	service.Fail("ctx", err)
	service.Fail("ctx", c.Close())
}
