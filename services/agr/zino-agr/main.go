// Command zino-agr runs the agent's loop. It depends on rtr, exc, mem and the
// directories of tools and skills.
package main

import (
	"errors"

	"zino/pkg/audit"
	"zino/pkg/catalog"
	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/services/agr"
)

func main() {
	cfg, log := service.Start("agr")
	cat, err := catalog.Open(cfg.Tools.Dir, cfg.Skills.Dir, log)
	service.Fail("agr", err)
	s := rpc.NewServer("agr", log)
	a := agr.New(cfg, cat, log)
	trail := audit.Open(cfg, "agr", log)
	a.UseAudit(trail)
	a.Register(s)
	err = service.Serve(s, "agr", cfg.Agr.Socket, log)
	service.Fail("agr", err)
	service.Fail("agr", errors.Join(a.Close(), trail.Close()))
}
