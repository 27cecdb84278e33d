// Command grpc is gRPC on a Unix socket, with messages of one string.
package main

import (
	"context"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"zino/services/constellation/peers/peer"
)

func main() { peer.Main(serve, dial) }

// service is what protoc would generate.
var service = grpc.ServiceDesc{
	ServiceName: "peer",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Ping", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var in wrapperspb.StringValue
		return wrapperspb.String("exc 0123456 1 0"), decode(&in)
	}}},
	Streams: []grpc.StreamDesc{{StreamName: "Infer", ServerStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
		var in wrapperspb.StringValue
		if err := s.RecvMsg(&in); err != nil {
			return err
		}
		for range peer.Chunks {
			if err := s.SendMsg(wrapperspb.String(peer.Chunk)); err != nil {
				return err
			}
		}
		return nil
	}}},
}

func serve(l net.Listener) error {
	s := grpc.NewServer()
	s.RegisterService(&service, struct{}{})
	return s.Serve(l)
}

func dial(path string) (peer.Conn, error) {
	c, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	return conn{c}, err
}

type conn struct{ *grpc.ClientConn }

func (c conn) Ping() error {
	var out wrapperspb.StringValue
	return c.Invoke(context.Background(), "/peer/Ping", wrapperspb.String("ping"), &out)
}

func (c conn) Stream(how string) (n int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := c.NewStream(ctx, &service.Streams[0], "/peer/Infer")
	if err != nil {
		return 0, err
	}
	if err := s.SendMsg(wrapperspb.String(how)); err != nil {
		return 0, err
	}
	if err := s.CloseSend(); err != nil {
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
