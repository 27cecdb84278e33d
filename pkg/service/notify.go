package service

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"zino/pkg/rpc"
	"zino/proto"
)

// ready is set when the supervisor is told that the service is.
var ready atomic.Bool

// notify tells the supervisor, if there is one.
func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("the supervisor cannot be told", "state", state, "error", err)
	}
}

// watchdog feeds the supervisor's watchdog.
type watchdog struct {
	service, socket string
	every           time.Duration // how often it has to be fed; 0: there is none
	log             *slog.Logger
}

func newWatchdog(service, socket string, log *slog.Logger) watchdog {
	every, err := daemon.SdWatchdogEnabled(true)
	if err != nil {
		log.Warn("the supervisor's watchdog is not fed", "error", err)
	}
	return watchdog{service, socket, max(0, every), log}
}

// watch feeds the watchdog as long as the service answers on its own socket: a
// process that lives but hangs is not fed.
func (w watchdog) watch(ctx context.Context) {
	w.repeat(ctx, func() {
		if err := w.ask(ctx); err == nil {
			notify(w.log, daemon.SdNotifyWatchdog)
		} else if ctx.Err() == nil {
			w.log.Error("no answer on the own socket", "error", err)
		}
	})
}

// drain feeds the watchdog while the process ends, which takes a limited time
// and answers nobody new.
func (w watchdog) drain(ctx context.Context) {
	w.repeat(ctx, func() { notify(w.log, daemon.SdNotifyWatchdog) })
}

// repeat calls fn twice as often as the watchdog has to be fed.
func (w watchdog) repeat(ctx context.Context, fn func()) {
	if w.every == 0 {
		return
	}
	tick := time.NewTicker(w.every / 2)
	defer tick.Stop()
	for {
		fn()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// ask asks as a caller would that comes for the first time: a connection that
// is kept says nothing of a server that accepts no more. The ping shows that
// requests are read, the stats that the service's own state is not stuck: they
// look at whatever its handlers lock.
func (w watchdog) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.every/2)
	defer cancel()
	self := &rpc.Client{Service: w.service, Path: w.socket}
	defer self.Close()
	if _, err := rpc.Call(ctx, self, proto.Ping, proto.PingRequest{}); err != nil {
		return err
	}
	_, err := rpc.Call(ctx, self, proto.GetStats, proto.StatsRequest{})
	if answer, ok := errors.AsType[*proto.Error](err); ok && answer.Code != proto.CodeTimeout && answer.Code != proto.CodeUnavailable {
		return nil // it is an answer
	}
	return err
}
