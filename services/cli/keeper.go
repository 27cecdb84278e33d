package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"zino/pkg/config"
	"zino/pkg/service"
	"zino/pkg/supervise"
)

// keepPrivate is the keeper of a constellation that another process brought
// along: it ends when that process does, and leaves nothing behind.
func (a *app) keepPrivate(ctx context.Context) error {
	// Who brought us may be gone when we say something: that is no reason to
	// die before everything has been taken down.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if err := os.Mkdir(a.private, 0o700); err != nil {
		return fmt.Errorf("no place for the sockets of this run: %w", err)
	}
	defer os.RemoveAll(a.private)
	lifeline := bufio.NewReader(a.in)
	fmt.Fprintln(a.out, "made")
	if _, err := lifeline.ReadString('\n'); err != nil {
		return nil // who brought us is gone
	}
	return a.serve(ctx, lifeline)
}

// serve runs the services until the lifeline or ctx ends.
func (a *app) serve(ctx context.Context, lifeline io.Reader) error {
	cfg, err := config.Load(filepath.Join(a.private, config.FileName), "cli")
	if err != nil {
		return err
	}
	logs, closeLogs := a.privateLog()
	defer closeLogs()
	c, err := open(cfg, cfg.File, config.Services)
	if err != nil {
		return err
	}
	set := supervise.Start(c.programs, logs, service.Logger(logs, "up", cfg.Logging.Level))
	fmt.Fprintln(a.out, "ready")
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, lifeline) // an error is an end as well
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	set.Stop()
	return c.close()
}

// privateLog is where the services of a private constellation log. Where there
// is no place for a log there is none.
func (a *app) privateLog() (io.Writer, func() error) {
	const limit = 1 << 20
	nothing := func() error { return nil }
	base, err := baseDir()
	if err != nil {
		return io.Discard, nothing
	}
	f, err := supervise.OpenLog(filepath.Join(base, "log", "zino.log"), limit)
	if err != nil {
		return io.Discard, nothing
	}
	return f, f.Close
}
