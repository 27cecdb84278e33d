// Command zino-rtr routes inferences to a model. It alone holds the provider's
// key and speaks to the network.
package main

import (
	"errors"

	"zino/pkg/audit"
	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/services/rtr"
)

func main() {
	service.Fail("rtr", rtr.ProtectMemory())
	cfg, log := service.Start("rtr")
	r, err := rtr.New(cfg, log)
	service.Fail("rtr", err)
	s := rpc.NewServer("rtr", log)
	trail := audit.Open(cfg, "rtr", log)
	r.UseAudit(trail)
	r.Register(s)
	err = service.Serve(s, "rtr", cfg.Rtr.Socket, log)
	service.Fail("rtr", err)
	service.Fail("rtr", errors.Join(r.Close(), trail.Close()))
}
