package connect

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zino/pkg/config"
	"zino/pkg/service"
	"zino/pkg/supervise"
	"zino/pkg/wire"
	"zino/proto"
)

// constellation is a set of open sockets with the programs to run behind them.
type constellation struct {
	file     string // the configuration of the services
	sockets  []net.Listener
	programs []supervise.Program
	jobs     string   // the directory of the sockets of jobs
	lifeline *os.File // the write end of the pipe that jobs live by; nil: none, or closed
}

// supervised lists the services of a constellation, besides the REPL.
func supervised() []string { return append(slices.Clone(config.Services), "mcp") }

// onDemand reports whether a service starts with the first request to it: mcp, unless it has
// servers. With servers the first turn needs it.
func onDemand(name string, cfg *config.Config) bool {
	return name == "mcp" && !config.ServersOf(cfg).Any()
}

// open listens on the sockets of services and prepares their programs, which read
// file.
func open(cfg *config.Config, file string, services []string) (_ *constellation, err error) {
	c := &constellation{jobs: filepath.Join(filepath.Dir(cfg.Exc.Socket), "j")} // as exc names it
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for _, name := range services {
		path := filepath.Join(filepath.Dir(exe), "zino-"+name)
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("the service zino-%s is missing: it belongs beside %s; build all with: make build", name, exe)
		}
		l, err := service.Listen(cfg.Socket(name))
		if err != nil {
			return nil, err
		}
		c.sockets = append(c.sockets, l)
		p := supervise.Program{
			Name: name, Path: path, Args: []string{"--config", file},
			Env: serviceEnvironment(name, cfg), Socket: l,
			First:    name == "daemon", // mem stores the end of its turns
			OnDemand: onDemand(name, cfg),
			Refuse:   func(l net.Listener, why string) { refuse(l, name, why) },
		}
		if name == "exc" { // its jobs outlive it, and end with the constellation
			if p.Lifeline, c.lifeline, err = os.Pipe(); err != nil {
				return nil, err
			}
		}
		c.programs = append(c.programs, p)
	}
	c.file = file
	return c, cfg.Write(file)
}

// close closes the sockets and removes the configuration of the services.
func (c *constellation) close() error {
	c.endJobs()
	var errs []error
	for _, l := range c.sockets {
		errs = append(errs, l.Close())
	}
	for _, p := range c.programs {
		if p.Lifeline != nil {
			errs = append(errs, p.Lifeline.Close())
		}
	}
	if c.file != "" {
		if err := os.Remove(c.file); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// endJobs stops the jobs of exc and waits until their sockets are gone, which takes
// 100 ms, so that exc can remove the directory.
func (c *constellation) endJobs() {
	const limit = time.Second
	if c.lifeline == nil {
		return
	}
	c.lifeline.Close() // nothing was written
	c.lifeline = nil
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(limit / 100) {
		if left, err := os.ReadDir(c.jobs); err != nil || len(left) == 0 {
			return
		}
	}
}

// reconfigure writes the next configuration for services that are about to start.
// Sockets and the REPL are not changed: clients and pages are connected to them.
func (c *constellation) reconfigure(cfg, next *config.Config, log *slog.Logger) error {
	for _, name := range supervised() {
		if former := cfg.Socket(name); *next.SocketOf(name) != former {
			log.Warn("a changed socket takes effect when zino up is started again", "key", name+".socket")
			*next.SocketOf(name) = former
		}
	}
	next.Repl = cfg.Repl
	for i, p := range c.programs {
		c.programs[i].Env, c.programs[i].OnDemand = serviceEnvironment(p.Name, next), onDemand(p.Name, next)
	}
	return next.Write(c.file)
}

// refuse answers requests to a service that does not start with the reason.
func refuse(l net.Listener, name, why string) {
	why = "the service " + name + " does not start: " + strings.TrimPrefix(why, "zino-"+name+": ")
	for {
		nc, err := l.Accept()
		if err != nil {
			return // closed, or out of descriptors: callers wait for the next attempt
		}
		go refuseOne(nc, name, why)
	}
}

// refuseOne reads one request and answers it with an error. The next connection may
// find the service itself.
func refuseOne(nc net.Conn, name, why string) {
	const limit = 2 * time.Second
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(limit))
	if _, err := wire.NewReader(nc).Next(); err != nil {
		return
	}
	b, err := wire.AppendObject(wire.Begin(nil), "error", &proto.Error{Code: proto.CodeUnavailable, Message: why, Service: name})
	if err == nil && wire.End(b, 0) == nil {
		nc.Write(b) // an error means that the caller is gone
	}
}
