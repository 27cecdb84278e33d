package cli

import (
	"context"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// forward has the daemon pass a request on to another service.
func forward[Req, Rep any](ctx context.Context, d *daemon, service string, m proto.Method[Req, Rep], req Req) (Rep, error) {
	inner, err := wire.AppendObject(nil, m.Type, req)
	if err != nil {
		var none Rep
		return none, err
	}
	through := proto.Method[proto.Forward, Rep]{Service: "daemon", Type: proto.DaemonForward.Type, Reply: m.Reply}
	return rpc.Call(ctx, d.client, through, proto.Forward{Service: service, Request: inner})
}
