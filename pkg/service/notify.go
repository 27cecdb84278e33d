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

// ready is set once READY=1 was sent.
var ready atomic.Bool

// notify sends a state to the supervisor (sd_notify), if there is one.
func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("cannot notify the supervisor", "state", state, "error", err)
	}
}

// watchdog pings the service and notifies the supervisor's watchdog.
type watchdog struct {
	service, socket string
	interval        time.Duration // WATCHDOG_USEC; 0: no watchdog
	log             *slog.Logger
}

func newWatchdog(service, socket string, log *slog.Logger) watchdog {
	interval, err := daemon.SdWatchdogEnabled(true)
	if err != nil {
		log.Warn("watchdog disabled", "error", err)
	}
	return watchdog{service, socket, max(0, interval), log}
}

// watch notifies the watchdog while the service answers on its own socket.
func (w watchdog) watch(ctx context.Context) {
	w.repeat(ctx, func() {
		if err := w.ask(ctx); err == nil {
			notify(w.log, daemon.SdNotifyWatchdog)
		} else if ctx.Err() == nil {
			w.log.Error("no answer on the service's own socket", "error", err)
		}
	})
}

// repeat calls fn twice per watchdog interval.
func (w watchdog) repeat(ctx context.Context, fn func()) {
	if w.interval == 0 {
		return
	}
	tick := time.NewTicker(w.interval / 2)
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

// ask makes two requests on a new connection, as a kept one would not show that the
// server accepts connections. The ping shows that requests are read, the stats that
// the service's state is not locked up.
func (w watchdog) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.interval/2)
	defer cancel()
	self := &rpc.Client{Service: w.service, Path: w.socket}
	defer self.Close()
	if _, err := rpc.Call(ctx, self, proto.Ping, proto.PingRequest{}); err != nil {
		return err
	}
	_, err := rpc.Call(ctx, self, proto.GetStats, proto.StatsRequest{})
	if answer, ok := errors.AsType[*proto.Error](err); ok && answer.Code != proto.CodeTimeout && answer.Code != proto.CodeUnavailable {
		return nil // an error is an answer, too
	}
	return err
}
