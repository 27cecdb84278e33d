package command

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"zino/services/cli/render"
)

// UntilSignal returns a context that ends at SIGINT, SIGTERM or SIGHUP. A second
// signal ends the process at once.
func UntilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctx, _, stop := CancelOn(ctx, signals)
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		stop()
	})
}

// CancelOn returns a context that the first signal from signals cancels. The second
// ends the process at once, with the exit status of an interrupted run; services
// that this run started end with it. stop, called once, waits until signals is no
// longer read; then received returns the first signal, or nil.
func CancelOn(ctx context.Context, signals <-chan os.Signal) (_ context.Context, received func() os.Signal, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	var first os.Signal
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case first = <-signals:
			cancel()
		case <-over:
			return
		}
		select {
		case <-signals:
			os.Exit(exitInterrupted)
		case <-over:
		}
	})
	return ctx, func() os.Signal { return first }, func() {
		close(over)
		cancel()
		watching.Wait()
	}
}

// Await calls next in the background and returns its result, or ErrInterrupted if
// ctx ends or an interrupt arrives before.
func Await(ctx context.Context, next func() (string, error), interrupts <-chan os.Signal) (string, error) {
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := next()
		read <- result{line, err}
	}()
	select {
	case r := <-read:
		return r.line, r.err
	case <-interrupts:
	case <-ctx.Done():
	}
	return "", render.ErrInterrupted
}

// CatchPipe makes a write to a closed pipe return an error. By default SIGPIPE
// would end the process before it could stop its services.
func CatchPipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
