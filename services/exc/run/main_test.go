package run

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
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

// unitHost answers on a socket as the host's zino-run.socket does: with a
// program for each connection, here a goroutine. errs brings how each ended.
func unitHost(t *testing.T) (socket string, errs chan error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		t.Fatal(err)
	}
	socket, errs = filepath.Join(dir, "run"), make(chan error, 100)
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
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
		os.RemoveAll(dir)
	})
	return socket, errs
}
