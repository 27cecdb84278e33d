package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

func TestMain(m *testing.M) {
	ignore := func(ctx context.Context) error { // the cancellation
		fmt.Fprintln(os.Stderr, "ready")
		<-ctx.Done()
		fmt.Fprintln(os.Stderr, "interrupted")
		select {}
	}
	zinotest.Child(zinotest.Roles{
		"until-signal": func([]string) error {
			ctx, stop := UntilSignal(context.Background())
			defer stop()
			return ignore(ctx)
		},
		"cancel-on": func([]string) error {
			interrupts := make(chan os.Signal, 1)
			signal.Notify(interrupts, os.Interrupt)
			ctx, _, stop := CancelOn(context.Background(), interrupts)
			defer stop()
			return ignore(ctx)
		},
	})
	m.Run()
}

// TestSecondSignal checks that a second signal ends the process at once, with the
// status of an interrupted run.
func TestSecondSignal(t *testing.T) {
	for _, test := range []struct {
		role   string
		signal syscall.Signal
	}{
		{"until-signal", syscall.SIGINT},
		{"until-signal", syscall.SIGTERM},
		{"until-signal", syscall.SIGHUP},
		{"cancel-on", syscall.SIGINT},
	} {
		t.Run(test.role+" "+test.signal.String(), func(t *testing.T) {
			p := zinotest.Start(t, zinotest.Command(t, test.role))
			p.WaitFor("ready")
			p.Signal(test.signal)
			p.WaitFor("interrupted")
			p.Signal(test.signal)
			zinotest.Equal(t, "status", p.Exit(), exitInterrupted)
		})
	}
}
