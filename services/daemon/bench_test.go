package daemon

import (
	"context"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// BenchmarkDelta measures a delta sent from agr through the daemon to a caller.
func BenchmarkDelta(b *testing.B) {
	agr, _ := rpctest.New(b, "agr", "", func(s *rpc.Server) {
		rpc.HandleText(s, proto.AgrRun, func(_ context.Context, _ proto.Run, out *rpc.Out) (proto.Text, error) {
			for range b.N {
				if err := out.Frame([]byte(deltaA)); err != nil {
					return proto.Text{}, err
				}
			}
			return proto.Text{}, nil
		})
	})
	client := rpctest.Client(b, "agr", agr)
	daemon, _ := rpctest.New(b, "daemon", "", func(s *rpc.Server) {
		rpc.HandleText(s, proto.DaemonChat, func(ctx context.Context, _ proto.Chat, out *rpc.Out) (proto.Text, error) {
			return rpc.CallText(ctx, client, proto.AgrRun, proto.Run{Events: true}, &relay{out: out, events: true})
		})
	})
	front := rpctest.Client(b, "daemon", daemon)
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

// BenchmarkRelay measures the daemon's part of BenchmarkDelta.
func BenchmarkRelay(b *testing.B) {
	delta := []byte(deltaA)
	r := &relay{}
	b.ReportAllocs()
	for b.Loop() {
		r.gather(delta)
		r.text = r.text[:0]
	}
}
