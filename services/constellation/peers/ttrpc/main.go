// Command ttrpc is containerd's ttrpc on a Unix socket, with messages of one string.
package main

import (
	"context"
	"io"
	"net"

	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"zino/services/constellation/peers/peer"
)

func main() { peer.Main(serve, dial) }

func serve(l net.Listener) error {
	s, err := ttrpc.NewServer()
	if err != nil {
		return err
	}
	s.RegisterService("peer", &ttrpc.ServiceDesc{
		Methods: map[string]ttrpc.Method{"Ping": func(_ context.Context, decode func(any) error) (any, error) {
			var in wrapperspb.StringValue
			return wrapperspb.String("exc 0123456 1 0"), decode(&in)
		}},
		Streams: map[string]ttrpc.Stream{"Infer": {StreamingServer: true, Handler: func(_ context.Context, s ttrpc.StreamServer) (any, error) {
			var in wrapperspb.StringValue
			if err := s.RecvMsg(&in); err != nil {
				return nil, err
			}
			for range peer.Chunks {
				if err := s.SendMsg(wrapperspb.String(peer.Chunk)); err != nil {
					return nil, err
				}
			}
			return nil, nil
		}}},
	})
	return s.Serve(context.Background(), l)
}

func dial(path string) (peer.Conn, error) {
	nc, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	return conn{ttrpc.NewClient(nc)}, nil
}

type conn struct{ *ttrpc.Client }

func (c conn) Ping() error {
	var out wrapperspb.StringValue
	return c.Call(context.Background(), "peer", "Ping", wrapperspb.String("ping"), &out)
}

func (c conn) Stream(how string) (n int, err error) {
	s, err := c.NewStream(context.Background(), &ttrpc.StreamDesc{StreamingServer: true}, "peer", "Infer", wrapperspb.String(how))
	if err != nil {
		return 0, err
	}
	for {
		var out wrapperspb.StringValue
		if err := s.RecvMsg(&out); err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, err
		}
		n += len(out.Value)
	}
}
