package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// untilSignal is ctx until somebody wants the run to end. A second signal ends
// it at once.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	over := make(chan struct{})
	go func() {
		if struck(signals, over) != nil {
			cancel()
			leaveAtOnce(signals, over)
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(over)
		cancel()
	})
}

// struck waits for a signal, which is nil if it is over before.
func struck(signals <-chan os.Signal, over <-chan struct{}) os.Signal {
	select {
	case s := <-signals:
		return s
	case <-over:
		return nil
	}
}

// leaveAtOnce ends the process at the next signal, unless it is over before.
// What this run brought along goes with it, and the status says what happened,
// which a death by the signal would not.
func leaveAtOnce(signals <-chan os.Signal, over <-chan struct{}) {
	if struck(signals, over) != nil {
		os.Exit(exitInterrupted)
	}
}
