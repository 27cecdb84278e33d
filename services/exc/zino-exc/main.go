// Command zino-exc is the executor as a process. Copies of it are the supervisors of
// commands. With --run or --pipe it runs one command, in the unit that was started for
// it.
//
// Jobs outlive it where something else ends them: systemd, of which each job is a unit
// (ZINO_JOB_SOCKET), or zino up, which holds the other end of the inherited pipe
// "lifeline". The jobs of a zino-exc that is started without either end with it.
package main

import (
	"errors"

	"zino/pkg/audit"
	"zino/pkg/catalog"
	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/services/exc"
	"zino/services/exc/run"
)

func main() {
	exc.Supervise()
	unit := run.TakeUnitFlag()
	cfg, log := service.Start("exc")
	if unit != "" {
		service.Fail("exc", run.ServeUnit(unit, log))
		return
	}
	cat, err := catalog.Open(cfg.Tools.Dir, "", log)
	service.Fail("exc", err)
	x, err := exc.New(cfg.Exc, gate.NewGuard(cfg), cat, log)
	service.Fail("exc", err)
	x.ProtectConfig(cfg)
	x.UseMask(cfg.Mask)
	trail := audit.Open(cfg, "exc", log)
	x.UseAudit(trail, gate.PlacesOf(cfg))
	service.Fail("exc", x.OpenUndo(cfg.Undo))
	service.Fail("exc", x.EndWith(service.InheritedFile("lifeline")))
	s := rpc.NewServer("exc", log)
	x.Register(s)
	err = service.Serve(s, "exc", cfg.Exc.Socket, log)
	closed := errors.Join(x.Close(), trail.Close()) // also before a failure: no process may be left
	service.Fail("exc", err)
	service.Fail("exc", closed)
	service.Fail("exc", cat.Close())
}
