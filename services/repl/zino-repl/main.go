// Command zino-repl keeps a Markdown file for every live page, in which people,
// editors and models run code in the page. Pages connect to it over HTTP, from this
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

// drainLimit is how long code may run after SIGTERM. It is less than what requests
// on the socket have, since those of attached programs end with it.
const drainLimit = 15 * time.Second

func main() {
	cfg, log := service.Start("repl")
	r, err := repl.New(cfg.Repl, log)
	service.Fail("repl", err)
	pages, err := web.New(cfg.Repl, r, log)
	service.Fail("repl", err)
	l, inherited, err := listen(cfg.Repl.HTTP)
	service.Fail("repl", err)
	log.Info("listening", "http", "http://"+l.Addr().String()+"/")
	go func() { service.Fail("repl", pages.Serve(l)) }()
	s := rpc.NewServer("repl", log)
	r.Register(s)
	s.BeforeShutdown(func(ctx context.Context) { drain(ctx, r, log) })
	// Pages can start the service again only if its address outlives this process.
	s.KeepWhile(func() bool { return !inherited || pages.Connected() })
	s.OnStats(func(stats *proto.Stats) { stats.Info["http"] = l.Addr().String() })
	err = service.Serve(s, "repl", cfg.Repl.Socket, log)
	service.Fail("repl", errors.Join(err, pages.Close(), r.Close()))
}

// listen returns the listener for pages: the inherited one of the name http, or a
// new one.
func listen(address string) (l net.Listener, inherited bool, err error) {
	if l, err := service.Inherited("http"); l != nil || err != nil {
		return l, true, err
	}
	l, err = net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w; set another port in ZINO.toml under [repl] http", err)
	}
	return l, false, err
}

// drain waits until no code runs any more, and closes the service: attached programs
// would stay connected as long as they can. Until then their results are accepted.
func drain(ctx context.Context, r *repl.Service, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	if err := r.Drain(ctx); err != nil {
		log.Error("cannot close the REPL", "error", err)
	}
}
