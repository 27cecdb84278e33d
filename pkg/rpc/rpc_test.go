package rpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

// start serves what register adds on a socket of its own and returns its path.
func start(t *testing.T, service string, register func(*rpc.Server)) (path string, s *rpc.Server) {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s = rpc.NewServer(service, slog.New(slog.DiscardHandler))
	register(s)
	path = filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return path, s
}

// dial connects to path for a test that speaks bytes.
func dial(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	nc, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	return nc.(*net.UnixConn)
}

func frame(payload string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

func send(t *testing.T, nc net.Conn, payload string) {
	t.Helper()
	if _, err := nc.Write(frame(payload)); err != nil {
		t.Fatal(err)
	}
}

// receive reads one frame; at the end of the stream it returns "".
func receive(t *testing.T, nc net.Conn) string {
	t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(nc, head[:]); err == io.EOF {
		return ""
	} else if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(nc, body); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// sink collects streamed text.
type sink struct{ bytes.Buffer }

func (s *sink) Text(delta []byte) error { s.Write(delta); return nil }
func (s *sink) Flush() error            { return nil }

func infer(ctx context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
	for _, delta := range []string{"one ", "two ", "<tool_call>"} {
		if err := out.Text([]byte(delta)); err != nil {
			return proto.Text{}, err
		}
	}
	return proto.Text{Content: "one two <tool_call>"}, nil
}

func TestCall(t *testing.T) {
	path, _ := start(t, "mem", func(s *rpc.Server) {
		rpc.Handle(s, proto.MemGetHistory, func(_ context.Context, req proto.GetHistory) (proto.History, error) {
			if req.ChannelID == "" {
				return proto.History{}, &proto.Error{Code: proto.CodeInvalid, Message: "channel_id required"}
			}
			return proto.History{Messages: proto.Raw(`[{"role":"user","content":"` + strings.Repeat("x", req.Limit) + `"}]`)}, nil
		})
	})
	c := &rpc.Client{Service: "mem", Path: path}
	defer c.Close()
	for _, size := range []int{1, 5000, 3 << 20} {
		h, err := rpc.Call(t.Context(), c, proto.MemGetHistory, proto.GetHistory{ChannelID: "a", Limit: size})
		if err != nil || len(h.Messages) != size+30 {
			t.Fatalf("size %d: got %d bytes, error %v", size, len(h.Messages), err)
		}
	}
	_, err := rpc.Call(t.Context(), c, proto.MemGetHistory, proto.GetHistory{})
	if !errors.Is(err, proto.ErrInvalid) || err.Error() != "channel_id required" {
		t.Errorf("error = %v", err)
	}
	_, err = rpc.Call(t.Context(), c, proto.MemGetHistory, proto.GetHistory{ChannelID: "a", Limit: 17 << 20})
	if !errors.Is(err, proto.ErrTooLarge) {
		t.Errorf("an answer above the limit: error = %v", err)
	}
}

func TestCallText(t *testing.T) {
	path, _ := start(t, "rtr", func(s *rpc.Server) { rpc.HandleText(s, proto.RtrInfer, infer) })
	c := &rpc.Client{Service: "rtr", Path: path}
	defer c.Close()
	for _, stream := range []bool{true, false} {
		var got sink
		text, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Stream: stream}, &got)
		if err != nil || text.Content != "one two <tool_call>" {
			t.Fatalf("stream %v: %q, %v", stream, text.Content, err)
		}
		if stream != (got.String() == text.Content) {
			t.Errorf("stream %v: streamed %q", stream, got.String())
		}
	}
}

func TestPing(t *testing.T) {
	path, _ := start(t, "sys", func(*rpc.Server) {})
	nc := dial(t, path)
	for _, ping := range []string{`{"type":"ping"}`, ` { "type" : "ping" } `, `{"type":"ping","meta":{"trace":"a"}}`} {
		send(t, nc, ping)
		if got := receive(t, nc); !strings.HasPrefix(got, `{"type":"pong","service":"sys","version":`) {
			t.Errorf("%s: %s", ping, got)
		}
	}
}

// serveOn serves s on a socket of its own until the test ends.
func serveOn(t *testing.T, s *rpc.Server) (path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path = filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	return path
}

// until waits for a condition.
func until(t *testing.T, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(20 * time.Second); !condition(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("waited in vain")
		}
	}
}
