// Package constellation runs all services in one process, on the sockets of a
// configuration, for tests without building and supervising programs.
package constellation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/services/agr"
	assemble "zino/services/ctx"
	"zino/services/daemon"
	"zino/services/exc"
	"zino/services/mem"
	"zino/services/rtr"
	"zino/services/sys"
)

// drainLimit is how long Close waits for requests in flight.
const drainLimit = 2 * time.Second

// Constellation is a set of running services.
type Constellation struct {
	cfg     *config.Config
	log     *slog.Logger
	catalog *catalog.Catalog
	mem     *rpc.Client // shared by the services that need one
	closers []func() error

	lifeline, jobs *os.File // the ends of the pipe that exc's jobs live by
}

// member is the interface that a service's main uses.
type member interface {
	Register(*rpc.Server)
	Close() error
}

// Start starts every service on the socket that cfg names for it. The
// program's main, or TestMain, must have called exc.Supervise.
func Start(cfg *config.Config, log *slog.Logger) (*Constellation, error) {
	cat, err := catalog.Open(cfg.Tools.Dir, cfg.Skills.Dir, log)
	if err != nil {
		return nil, err
	}
	c := &Constellation{cfg: cfg, log: log, catalog: cat, mem: &rpc.Client{Service: "mem", Path: cfg.Mem.Socket}}
	c.onClose(cat.Close)
	c.onClose(func() error { c.mem.Close(); return nil })
	// Services that others call start first, and stop last.
	for _, name := range []string{"mem", "exc", "rtr", "sys", "ctx", "agr", "daemon"} {
		m, err := c.open(name)
		if err == nil {
			err = c.serve(name, m)
		}
		if err == nil && name == "exc" {
			c.onClose(func() error { return errors.Join(c.jobs.Close(), c.lifeline.Close()) })
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", name, err), c.Close())
		}
	}
	return c, nil
}

// open creates the service of that name like its main.
func (c *Constellation) open(name string) (member, error) {
	log := c.logger(name)
	switch name {
	case "mem":
		m, err := mem.Open(c.cfg.Mem, log)
		if err != nil {
			return nil, err
		}
		m.UseMask(c.cfg.Mask)
		m.Embed(&rpc.Client{Service: "rtr", Path: c.cfg.Rtr.Socket})
		return m, nil
	case "exc":
		x, err := exc.New(c.cfg.Exc, gate.NewGuard(c.cfg), c.catalog, log)
		if err != nil {
			return nil, err
		}
		x.ProtectConfig(c.cfg)
		x.UseMask(c.cfg.Mask)
		if err := x.OpenUndo(c.cfg.Undo); err != nil {
			return nil, errors.Join(err, x.Close())
		}
		if c.lifeline, c.jobs, err = os.Pipe(); err != nil {
			return nil, errors.Join(err, x.Close())
		}
		x.EndWith(c.lifeline)
		return x, nil
	case "rtr":
		return rtr.New(c.cfg, log)
	case "sys":
		return sys.New(c.cfg, c.catalog, c.mem, log), nil
	case "ctx":
		return assemble.New(c.cfg, c.catalog, c.mem, log), nil
	case "agr":
		return agr.New(c.cfg, c.catalog, log), nil
	}
	d := daemon.New(c.cfg, log)
	d.Resume()
	return d, nil
}

func (c *Constellation) logger(name string) *slog.Logger { return c.log.With("service", name) }

// serve serves a service on its socket until Close.
func (c *Constellation) serve(name string, m member) error {
	c.onClose(m.Close)
	s := rpc.NewServer(name, c.logger(name))
	m.Register(s)
	if _, err := service.ListenAndServe(s, name, c.cfg.Socket(name)); err != nil {
		return err
	}
	c.onClose(func() error { return shutDown(s) })
	return nil
}

// shutDown drains a server. Cancelled requests are not an error.
func shutDown(s *rpc.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

func (c *Constellation) onClose(f func() error) { c.closers = append(c.closers, f) }

// Close stops the services in reverse order. Their sockets are removed.
func (c *Constellation) Close() error {
	var err error
	for _, f := range slices.Backward(c.closers) {
		err = errors.Join(err, f())
	}
	c.closers = nil
	return err
}
