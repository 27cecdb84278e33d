package command

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"zino/services/cli/render"
)

// UntilSignal returns a context that ends at SIGINT, SIGTERM or SIGHUP, or at one of
// signals if some are given. See CancelOn.
func UntilSignal(ctx context.Context, signals ...os.Signal) (context.Context, context.CancelFunc) {
	if len(signals) == 0 {
		signals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	}
	received := make(chan os.Signal, 2)
	signal.Notify(received, signals...)
	ctx, _, stop := CancelOn(ctx, received)
	return ctx, sync.OnceFunc(func() {
		signal.Stop(received)
		stop()
	})
}

// CancelOn returns a context that the first signal from signals cancels; Signal
// returns it. The second ends the process at once, with the exit status of an
// interrupted run; services that this run started end with it. A second SIGHUP does
// not: shells send it twice. stop, called once, waits until signals is no longer
// read; then received returns the first signal, or nil.
func CancelOn(ctx context.Context, signals <-chan os.Signal) (_ context.Context, received func() os.Signal, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	var first os.Signal
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case first = <-signals:
			cancel(signalError{first})
		case <-over:
			return
		}
		for {
			select {
			case s := <-signals:
				if s != syscall.SIGHUP {
					os.Exit(exitInterrupted)
				}
			case <-over:
				return
			}
		}
	})
	return ctx, func() os.Signal { return first }, func() {
		close(over)
		cancel(nil)
		watching.Wait()
	}
}

// signalError is the cause of a context that a signal canceled.
type signalError struct{ os.Signal }

func (s signalError) Error() string { return "received the signal " + s.String() }

// Signal returns the signal that canceled ctx, or nil.
func Signal(ctx context.Context) os.Signal {
	if s, ok := errors.AsType[signalError](context.Cause(ctx)); ok {
		return s.Signal
	}
	return nil
}

// Interruption returns the error of a run that ended with ctx: ErrHangup after SIGHUP,
// else ErrInterrupted.
func Interruption(ctx context.Context) error {
	if Signal(ctx) == syscall.SIGHUP {
		return render.ErrHangup
	}
	return render.ErrInterrupted
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
		return "", Interruption(ctx)
	}
	return "", render.ErrInterrupted
}

// CatchPipe makes a write to a closed pipe return an error. By default SIGPIPE
// would end the process before it could stop its services.
func CatchPipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
