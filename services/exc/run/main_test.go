package run

import (
	"context"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"

	"zino/pkg/zinotest"
)

func TestMain(m *testing.M) {
	Supervise()
	os.Exit(m.Run())
}

// exists reports whether a file is there.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// unitHost serves a socket as the host's zino-run.socket does: with a process for
// each connection, here a goroutine. errs receives the error of each.
func unitHost(t *testing.T) (socket string, errs chan error) {
	t.Helper()
	l := zinotest.Listen(t, "")
	errs = make(chan error, 100)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { errs <- ServeConn(context.Background(), c.(*net.UnixConn), slog.New(slog.DiscardHandler)) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return l.Addr().String(), errs
}
