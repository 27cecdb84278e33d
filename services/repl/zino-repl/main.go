// Command zino-repl maintains a Markdown file for every connected page. Code that a
// person, an editor or a model adds to the file is run in the page. Pages connect over
// HTTP, only from this host. It depends on no other service.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"zino/pkg/audit"
	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/proto"
	"zino/services/repl"
	"zino/services/repl/web"
)

// drainLimit limits how long code may run after SIGTERM. It is shorter than the
// shutdown limit of requests on the socket, because the requests of attached programs
// end only after draining.
const drainLimit = 15 * time.Second

func main() {
	var proxy proxyOptions
	cfg, log := service.Start("repl", proxy.flags())
	r, err := repl.New(cfg.Repl, gate.NewUsersGuard(cfg), log)
	service.Fail("repl", err)
	trail := audit.Open(cfg, "repl", log)
	r.UseAudit(trail)
	pages, err := web.New(cfg.Repl, r, log)
	service.Fail("repl", err)
	l, inherited, err := listen(cfg.Repl.HTTP)
	service.Fail("repl", err)
	log.Info("listening", "http", "http://"+l.Addr().String()+"/")
	go func() { service.Fail("repl", pages.Serve(l)) }()
	proxied := ""
	if proxy.url != "" {
		upstream, l, err := proxy.listen()
		service.Fail("repl", err)
		proxied = l.Addr().String()
		log.Info("listening", "proxy", "http://"+proxied+"/", "upstream", upstream.String())
		go func() { service.Fail("repl", pages.ServeProxy(l, upstream, proxy.remote)) }()
	}
	s := rpc.NewServer("repl", log)
	r.Register(s)
	s.BeforeShutdown(func(ctx context.Context) { drain(ctx, r, log) })
	// With an own listener pages cannot start the service again after it has exited.
	s.KeepWhile(func() bool { return !inherited || pages.Connected() })
	s.OnStats(func(stats *proto.Stats) {
		stats.Info["http"] = l.Addr().String()
		if proxied != "" {
			stats.Info["proxy"] = proxied
		}
	})
	err = service.Serve(s, "repl", cfg.Repl.Socket, log)
	service.Fail("repl", errors.Join(err, pages.Close(), r.Close(), trail.Close()))
}

// listen returns the listener for pages: the inherited socket named http, or a new
// one.
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

// drain waits until no code is running, accepting results meanwhile, and closes the
// service, which disconnects attached programs.
func drain(ctx context.Context, r *repl.Service, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	if err := r.Drain(ctx); err != nil {
		log.Error("cannot close the REPL", "error", err)
	}
}
