package service

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"zino/pkg/rpc"
)

// drainLimit is how long requests in flight may go on after SIGTERM.
const drainLimit = 20 * time.Second

// drain lets requests in flight finish until the limit, or until a second
// signal, and cancels them then. first ends the wait for the first one.
func drain(s *rpc.Server, dog watchdog, first func(), log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	defer onSignal(func() {
		log.Warn("a second signal: requests in flight are cancelled; a third one kills")
		cancel()
	})()
	first() // only now: no signal between the two is to kill
	notify(log, daemon.SdNotifyStopping)
	feeding, enough := context.WithCancel(context.Background())
	defer enough()
	go dog.drain(feeding)
	if err := s.Shutdown(ctx); err != nil && ctx.Err() == context.DeadlineExceeded {
		log.Warn("requests were cancelled at the end of the drain", "limit", drainLimit.String())
	}
	log.Info("stopped")
	return nil
}

// onSignal calls fn at the next SIGTERM or SIGINT, unless stop is called before.
// The one thereafter does what it does to any process.
func onSignal(fn func()) (stop func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		select {
		case <-signals:
			signal.Stop(signals)
			fn()
		case <-done:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}
