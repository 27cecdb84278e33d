// Command rpc is Zino's protocol with zino/pkg/rpc at both ends.
package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/constellation/peers/peer"
)

func main() { peer.Main(serve, dial) }

func serve(l net.Listener) error {
	s := rpc.NewServer("rtr", slog.New(slog.DiscardHandler))
	rpc.HandleText(s, proto.RtrInfer, func(_ context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
		flushed := bytes.Contains(req.Messages, []byte(peer.Flushed))
		for range peer.Chunks {
			if err := out.Text([]byte(peer.Chunk)); err != nil {
				return proto.Text{}, err
			}
			if flushed {
				if err := out.Flush(); err != nil {
					return proto.Text{}, err
				}
			}
		}
		return proto.Text{}, nil
	})
	return s.Serve(l)
}

func dial(path string) (peer.Conn, error) {
	return &conn{Client: &rpc.Client{Service: "rtr", Path: path}}, nil
}

type conn struct {
	*rpc.Client
	n int // bytes of text received
}

func (c *conn) Close() error {
	c.Client.Close()
	return nil
}

func (c *conn) Ping() error {
	_, err := rpc.Call(context.Background(), c.Client, proto.Ping, proto.PingRequest{})
	return err
}

func (c *conn) Stream(how string) (int, error) {
	c.n = 0
	_, err := rpc.CallText(context.Background(), c.Client, proto.RtrInfer, proto.Infer{Messages: proto.Raw(`[{"role":"user","content":"` + how + `"}]`), Stream: true}, c)
	return c.n, err
}

// Text receives a chunk.
func (c *conn) Text(delta []byte) error {
	c.n += len(delta)
	return nil
}

// Flush does nothing.
func (c *conn) Flush() error { return nil }
