package rpc_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

// TestRelay passes a stream through a daemon: the packets arrive as they were
// sent, blanks and escapes included, and end with one terminal packet.
func TestRelay(t *testing.T) {
	packets := []string{
		`{"type":"chunk","delta":"a\u0062"}`, `{"type":"chunk","delta":""}`, `{"type": "chunk", "delta": "c<d"}`,
		`{"type":"done","full_text":"abc<d","iterations":2,"more":1}`,
	}
	far := raw(t, func(_ int, nc *net.UnixConn) {
		if take(nc) == nil {
			for _, p := range packets {
				nc.Write(frame(p))
			}
		}
	})
	c := &rpc.Client{Service: "agr", Path: far}
	defer c.Close()
	near, _ := start(t, "daemon", func(s *rpc.Server) {
		rpc.HandleText(s, proto.DaemonChat, func(ctx context.Context, req proto.Chat, out *rpc.Out) (proto.Text, error) {
			return rpc.CallText(ctx, c, proto.AgrRun, proto.Run{Messages: proto.Raw("[]"), Stream: &req.Stream}, out)
		})
	})
	nc := dial(t, near)
	send(t, nc, `{"message":"x","stream":true}`)
	for _, want := range []string{packets[0], packets[1], `{"type":"chunk","delta":"c<d"}`, `{"type":"done","full_text":"abc<d","iterations":2}`} {
		if got := receive(t, nc); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestWholeAnswerToAStream: a caller that asked for a stream gets chunk and
// done even if the service behind answers in one piece.
func TestWholeAnswerToAStream(t *testing.T) {
	path, _ := start(t, "rtr", func(s *rpc.Server) {
		rpc.HandleText(s, proto.RtrInfer, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			out.Collect()
			return proto.Text{Content: "all at once"}, out.Text([]byte("not seen"))
		})
	})
	nc := dial(t, path)
	send(t, nc, `{"type":"infer","messages":[],"temperature":"0.5","top_p":1,"stream":true}`)
	if got := receive(t, nc); got != `{"type":"response","content":"all at once"}` {
		t.Errorf("got %s", got)
	}
	c := &rpc.Client{Service: "rtr", Path: path}
	defer c.Close()
	var got sink
	text, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Stream: true}, &got)
	if err != nil || text.Content != "all at once" || got.String() != text.Content {
		t.Errorf("%q, streamed %q, %v", text.Content, got.String(), err)
	}
}

// TestDoneWithoutChunks: a peer that sends the text with done only loses none.
func TestDoneWithoutChunks(t *testing.T) {
	path := raw(t, func(_ int, nc *net.UnixConn) {
		if take(nc) == nil {
			nc.Write(frame(`{"type":"done","full_text":"late"}`))
		}
	})
	c := &rpc.Client{Service: "rtr", Path: path}
	defer c.Close()
	var got sink
	text, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Stream: true}, &got)
	if err != nil || text.Content != "late" || got.String() != "late" {
		t.Errorf("%q, streamed %q, %v", text.Content, got.String(), err)
	}
}

func TestErrorAfterChunks(t *testing.T) {
	path, _ := start(t, "rtr", func(s *rpc.Server) {
		rpc.HandleText(s, proto.RtrInfer, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			return proto.Text{}, errors.Join(out.Text([]byte("half")), &proto.Error{Code: proto.CodeBusy, Message: "slow down", Status: 429})
		})
	})
	c := &rpc.Client{Service: "rtr", Path: path}
	defer c.Close()
	var got sink
	_, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Stream: true}, &got)
	e, ok := errors.AsType[*proto.Error](err)
	if got.String() != "half" || !ok || e.Code != proto.CodeBusy || e.Status != 429 {
		t.Errorf("streamed %q, error %#v", got.String(), err)
	}
	if c.Idle() != 1 {
		t.Error("a connection whose answer was an error is as good as any")
	}
}

// TestSinkStops: a sink that fails hangs up, which cancels the work.
func TestSinkStops(t *testing.T) {
	ended := make(chan struct{}, 1)
	path, _ := start(t, "rtr", func(s *rpc.Server) {
		rpc.HandleText(s, proto.RtrInfer, func(ctx context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			out.Text([]byte("one"))
			out.Flush()
			<-ctx.Done()
			ended <- struct{}{}
			return proto.Text{}, ctx.Err()
		})
	})
	c := &rpc.Client{Service: "rtr", Path: path}
	defer c.Close()
	_, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Stream: true}, broken{})
	if !errors.Is(err, errBroken) {
		t.Errorf("error = %v", err)
	}
	within(t, "cancellation", ended)
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Text([]byte) error { return errBroken }
func (broken) Flush() error      { return nil }

// TestBackPressure: a reader that is slow loses nothing.
func TestBackPressure(t *testing.T) {
	const n = 20000
	path, _ := start(t, "rtr", func(s *rpc.Server) {
		rpc.HandleText(s, proto.RtrInfer, func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
			for range n {
				if err := out.Text([]byte("0123456789012345678901234567890")); err != nil {
					return proto.Text{}, err
				}
			}
			return proto.Text{Content: "end"}, nil
		})
	})
	nc := dial(t, path)
	send(t, nc, `{"type":"infer","messages":[],"temperature":1,"top_p":1,"stream":true}`)
	for i := range n {
		if got := receive(t, nc); !strings.HasPrefix(got, `{"type":"chunk"`) {
			t.Fatalf("packet %d: %s", i, got)
		}
	}
	if got := receive(t, nc); got != `{"type":"done","full_text":"end"}` {
		t.Errorf("got %s", got)
	}
}

// TestEvents: typed packets until the caller hangs up.
func TestEvents(t *testing.T) {
	type tick struct {
		N int `json:"n"`
	}
	watch := proto.Method[proto.Empty, proto.Empty]{Service: "mem", Type: "watch", Reply: "end"}
	path, _ := start(t, "mem", func(s *rpc.Server) {
		rpc.HandleEvents(s, watch, func(_ context.Context, _ proto.Empty, out *rpc.Out) (proto.Empty, error) {
			for n := range 3 {
				if err := out.Event("tick", tick{n}); err != nil {
					return proto.Empty{}, err
				}
			}
			return proto.Empty{}, nil
		})
	})
	c := &rpc.Client{Service: "mem", Path: path}
	defer c.Close()
	var got []string
	_, err := rpc.CallEvents(t.Context(), c, watch, proto.Empty{}, func(_ string, payload []byte) error {
		got = append(got, string(payload))
		return nil
	})
	if want := `{"type":"tick","n":0} {"type":"tick","n":1} {"type":"tick","n":2}`; strings.Join(got, " ") != want || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
}
