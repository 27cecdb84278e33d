// Command zino-repl keeps a Markdown file for every live page, in which people,
// editors and models run code in it. Pages connect to it over HTTP, from this
// host only; it depends on no other service.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/proto"
	"zino/services/repl"
	"zino/services/repl/web"
)

// drainLimit is how long code may go on running after SIGTERM. It is less than
// what the requests on the socket have: those of realms end with it.
const drainLimit = 15 * time.Second

func main() {
	cfg, log := service.Start("repl")
	r, err := repl.New(cfg.Repl, log)
	service.Fail("repl", err)
	pages, err := web.New(cfg.Repl, r, log)
	service.Fail("repl", err)
	l, handed, err := listen(cfg.Repl.HTTP)
	service.Fail("repl", err)
	log.Info("listening", "http", "http://"+l.Addr().String()+"/")
	go func() { service.Fail("repl", pages.Serve(l)) }()
	s := rpc.NewServer("repl", log)
	r.Register(s)
	s.BeforeShutdown(func(ctx context.Context) { drain(ctx, r, log) })
	// A page that comes later finds nobody, unless its address outlives this process.
	s.KeepWhile(func() bool { return !handed || pages.Connected() })
	s.OnStats(func(stats *proto.Stats) { stats.Info["http"] = l.Addr().String() })
	err = service.Serve(s, "repl", cfg.Repl.Socket, log)
	service.Fail("repl", errors.Join(err, pages.Close(), r.Close()))
}

// listen returns the listener for pages: the one that was handed over under the
// name http, which outlives this process, or a new one.
func listen(address string) (l net.Listener, handed bool, err error) {
	if l, err := service.Inherited("http"); l != nil || err != nil {
		return l, true, err
	}
	l, err = net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w; set another port in ZINO.toml under [repl] http", err)
	}
	return l, false, err
}

// drain ends the service as soon as nothing runs any more: realms would stay for
// as long as they are let. Until then their answers are taken.
func drain(ctx context.Context, r *repl.Service, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	if err := r.Drain(ctx); err != nil {
		log.Error("the REPL could not be closed", "error", err)
	}
}
