package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"zino/pkg/config"
	"zino/pkg/mask"
	"zino/pkg/zinotest"
	"zino/proto"
)

// newOffline returns a service without exc, for a bubble of synctest, and a server that never
// starts: its secret is not stored.
func newOffline(t *testing.T) (*Service, *definition) {
	t.Helper()
	dir := zinotest.Dir(t)
	t.Setenv("ZINO_HOME", filepath.Join(dir, "home"))
	cfg, err := config.Parse([]byte("[mcp.servers.test]\ncommand = [\"none\"]\nsecrets = { A = \"none\" }\n"), filepath.Join(dir, "ZINO.toml"), dir, "mcp")
	zinotest.Must(t, err)
	s, err := New(cfg, slog.New(slog.NewTextHandler(io.Discard, nil)))
	zinotest.Must(t, err)
	s.wg.Wait() // what New started is not of the bubble, whose goroutines s.wg counts next
	d, err := s.find(scope{}, "test")
	zinotest.Must(t, err)
	return s, d
}

// TestBackOff checks when a server that always fails is started: after 1, 2, 4 … 60 seconds,
// and not any more after five failures in five minutes.
func TestBackOff(t *testing.T) {
	s, d := newOffline(t)
	synctest.Test(t, func(t *testing.T) {
		starts := func(n int, rest time.Duration) (waits []string, last error) {
			for range n {
				began := time.Now()
				if _, last = s.acquire(t.Context(), d, ""); last == nil {
					t.Fatal("the server was started")
				}
				waits = append(waits, time.Since(began).String())
				time.Sleep(rest)
			}
			return waits, last
		}
		waits, err := starts(6, 0)
		zinotest.Equal(t, "waits", strings.Join(waits, " "), "0s 1s 2s 4s 8s 0s")
		zinotest.Error(t, err, proto.ErrUnavailable, "test: it failed 5 times in 5 minutes: ", "; try: zino mcp test test")
		time.Sleep(24 * time.Hour)
		waits, _ = starts(1, 0)
		zinotest.Equal(t, "a day later", fmt.Sprint(waits, len(s.pool.history[d.key()].failures)), "[0s] 5")

		clear(s.pool.history) // as for another definition
		_, err = starts(12, 75*time.Second)
		zinotest.Error(t, err, proto.ErrUnavailable, "is not stored")
		zinotest.Equal(t, "longest pause", s.pool.history[d.key()].delay, time.Minute)
		starts(1, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // a call does not wait for longer than it may
		defer cancel()
		_, err = s.acquire(ctx, d, "")
		zinotest.Equal(t, "a call that ends before the next start", errors.Is(err, context.DeadlineExceeded), true)
		zinotest.Must(t, s.Close())
	})
}

// newSilent adds a running instance to the pool of s, whose server answers nothing but
// initialize.
func newSilent(t *testing.T, s *Service, d *definition) *instance {
	t.Helper()
	near, far := mcp.NewInMemoryTransports()
	server, err := far.Connect(t.Context())
	zinotest.Must(t, err)
	hide, err := mask.New(mask.Config{Salt: s.salt, NoShapes: true})
	zinotest.Must(t, err)
	go func() {
		for {
			m, err := server.Read(t.Context())
			if err != nil {
				return
			}
			if req, ok := m.(*jsonrpc.Request); ok && req.Method == "initialize" {
				_ = server.Write(t.Context(), &jsonrpc.Response{ID: req.ID, Result: []byte(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"silent","version":"1"}}`)})
			}
		}
	}()
	in := &instance{
		s: s, d: d, program: &program{done: make(chan struct{}), hide: hide}, cancel: func() {}, ready: make(chan struct{}), gone: make(chan struct{}),
		slots: make(chan struct{}, callsMax), progress: map[string]*call{}, abandoned: map[string]bool{},
	}
	in.program.cancel = func() {
		close(in.program.done)
		server.Close()
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	in.session, err = client.Connect(t.Context(), near, &mcp.ClientSessionOptions{ProtocolVersion: legacyVersion})
	zinotest.Must(t, err)
	close(in.ready)
	s.pool.instances[d.key()] = in
	s.wg.Go(func() {
		in.watch()
		in.remove()
	})
	return in
}

// TestSilentServer checks that a server is ended that writes nothing for 30 seconds after a
// call was given up while another one waits, and only then.
func TestSilentServer(t *testing.T) {
	for name, test := range map[string]struct{ speaks, waits, ended bool }{
		"silent, a call waits":    {false, true, true},
		"it speaks, a call waits": {true, true, false},
		"silent, no call waits":   {false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, d := newOffline(t)
			synctest.Test(t, func(t *testing.T) {
				in := newSilent(t, s, d)
				ask := func(limit time.Duration) error {
					return in.do(t.Context(), &call{limit: limit}, func(ctx context.Context, _ string) error {
						_, err := in.session.CallTool(ctx, &mcp.CallToolParams{Name: "hang"})
						return err
					})
				}
				waiting := make(chan error, 1)
				if test.waits {
					go func() { waiting <- ask(time.Hour) }()
				}
				began := time.Now()
				if err := ask(time.Second); !errors.Is(err, errTimeout) {
					t.Errorf("error %v", err)
				}
				time.Sleep(silentMax - time.Second)
				if test.speaks {
					in.program.heard.Store(time.Now().UnixNano())
				}
				synctest.Wait()
				select {
				case <-in.gone:
					t.Errorf("ended after %v", time.Since(began))
				default:
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				select {
				case <-in.gone:
					if !test.ended {
						t.Error("it was ended")
					}
				default:
					if test.ended {
						t.Error("it was not ended")
					}
					in.end()
				}
				if test.waits {
					if err := <-waiting; !errors.Is(err, errEnded) {
						t.Errorf("the call that waited: %v", err)
					}
				}
				zinotest.Equal(t, "instances", len(s.pool.instances), 0)
				zinotest.Must(t, s.Close())
			})
		})
	}
}
