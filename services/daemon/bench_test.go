package daemon

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

// BenchmarkDelta is what a piece of text costs on its way from the agent through
// the daemon to a caller who reads it.
func BenchmarkDelta(b *testing.B) {
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	client := &rpc.Client{Service: "agr", Path: filepath.Join(dir, "agr")}
	defer client.Close()
	front := &rpc.Client{Service: "daemon", Path: filepath.Join(dir, "daemon")}
	defer front.Close()
	defer listen(b, client, func(s *rpc.Server) {
		rpc.HandleText(s, proto.AgrRun, func(_ context.Context, _ proto.Run, out *rpc.Out) (proto.Text, error) {
			for range b.N {
				if err := out.Frame([]byte(deltaA)); err != nil {
					return proto.Text{}, err
				}
			}
			return proto.Text{}, nil
		})
	})()
	defer listen(b, front, func(s *rpc.Server) {
		rpc.HandleText(s, proto.DaemonChat, func(ctx context.Context, _ proto.Chat, out *rpc.Out) (proto.Text, error) {
			return rpc.CallText(ctx, client, proto.AgrRun, proto.Run{Events: true}, &relay{out: out, events: true})
		})
	})()
	b.ReportAllocs()
	b.ResetTimer()
	got := counter(0)
	if _, err := rpc.CallText(b.Context(), front, proto.DaemonChat, proto.Chat{Events: true}, &got); err != nil || int(got) != b.N {
		b.Fatal(got, err)
	}
}

// counter counts events.
type counter int

func (c *counter) Text([]byte) error          { return nil }
func (c *counter) Flush() error               { return nil }
func (c *counter) Event(string, []byte) error { *c++; return nil }

// listen runs a service on a client's path.
func listen(b *testing.B, c *rpc.Client, register func(*rpc.Server)) (stop func()) {
	s := rpc.NewServer(c.Service, slog.New(slog.DiscardHandler))
	register(s)
	l, err := net.Listen("unix", c.Path)
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	return func() {
		c.Close()
		if err := s.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
		if err := <-served; err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkRelay is the daemon's own part of it.
func BenchmarkRelay(b *testing.B) {
	delta := []byte(deltaA)
	r := &relay{}
	b.ReportAllocs()
	for b.Loop() {
		r.gather(delta)
		r.text = r.text[:0]
	}
}
