package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// stubbornEnv makes the test binary a run, of that kind, that says when it is
// ready and when it is to end, and does not.
const stubbornEnv = "CLI_TEST_STUBBORN"

func stubborn(kind string) {
	work := func(ctx context.Context) error {
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println("interrupted")
		select {}
	}
	if kind == "chat" {
		c := &chat{interrupts: make(chan os.Signal, 1)}
		signal.Notify(c.interrupts, os.Interrupt)
		c.interruptible(context.Background(), work)
	}
	ctx, stop := untilSignal(context.Background())
	defer stop()
	work(ctx)
}

// TestSecondSignal holds that a second signal ends the process at once, with the
// status of an interruption.
func TestSecondSignal(t *testing.T) {
	for kind, signals := range map[string][]syscall.Signal{
		"one-shot": {syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP},
		"chat":     {syscall.SIGINT},
	} {
		for _, signal := range signals {
			t.Run(kind+" "+signal.String(), func(t *testing.T) { strikeTwice(t, kind, signal) })
		}
	}
}

func strikeTwice(t *testing.T, kind string, signal syscall.Signal) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), stubbornEnv+"="+kind, "GORACE=atexit_sleep_ms=0")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	said := bufio.NewScanner(out)
	for _, want := range []string{"ready", "interrupted"} {
		if !said.Scan() || said.Text() != want {
			t.Fatalf("it says %q, %v; want %q", said.Text(), said.Err(), want)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != exitInterrupted {
		t.Errorf("it ended with %v, want the status 130", cmd.ProcessState)
	}
}
