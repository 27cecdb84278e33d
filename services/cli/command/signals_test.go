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
// status of an interrupted run. A second SIGHUP does not: it is sent twice.
func TestSecondSignal(t *testing.T) {
	for _, test := range []struct {
		role    string
		signals []syscall.Signal
	}{
		{"until-signal", []syscall.Signal{syscall.SIGINT, syscall.SIGINT}},
		{"until-signal", []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}},
		{"until-signal", []syscall.Signal{syscall.SIGHUP, syscall.SIGHUP, syscall.SIGTERM}},
		{"cancel-on", []syscall.Signal{syscall.SIGINT, syscall.SIGINT}},
	} {
		t.Run(test.role+" "+test.signals[0].String(), func(t *testing.T) {
			p := zinotest.Start(t, zinotest.Command(t, test.role))
			p.WaitFor("ready")
			p.Signal(test.signals[0])
			p.WaitFor("interrupted")
			for _, s := range test.signals[1:] {
				p.Signal(s)
			}
			zinotest.Equal(t, "status", p.Exit(), exitInterrupted)
		})
	}
}
