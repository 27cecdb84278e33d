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
	"os/signal"
	"syscall"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/proto"
	"zino/services/repl"
	"zino/services/repl/web"
)

// drainLimit is how long code may go on running after SIGTERM. It is less than
// what the connections of the socket have: those of realms end with it.
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
	go drain(r, log)
	s := rpc.NewServer("repl", log)
	r.Register(s)
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

// drain ends the service when the process is told to end, as soon as nothing
// runs any more: realms would stay for as long as they are let.
func drain(r *repl.Service, log *slog.Logger) {
	signals, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	<-signals.Done()
	stop() // a second signal ends the process at once
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	if err := r.Drain(ctx); err != nil {
		log.Error("the REPL could not be closed", "error", err)
	}
}
