package daemon

import (
	"context"
	"fmt"
	"slices"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// forwardable is what clients may ask of other services through the daemon,
// besides what every service answers.
var forwardable = map[string][]string{
	"daemon": {},
	"rtr":    {"capabilities", "usage", "models"},
	"agr":    {},
	"sys":    {"get"},
	"exc":    {"capabilities"},
	"mem": {
		"get_history", "append_history", "clear_history", "list_channels", "get_soft", "set_soft",
		"search_hard", "store_hard", "list_hard", "get_hard", "update_hard", "delete_hard",
		"list_sessions", "find_session", "read_session", "search_sessions", "export_session", "fork_session", "remove_session",
	},
	"ctx": {},
}

// common is what every service answers.
var common = []string{"ping", "describe", "stats"}

// forward passes a request on and the answer back, packet by packet.
func (s *Service) forward(ctx context.Context, req proto.Forward, out *rpc.Out) error {
	types, ok := forwardable[req.Service]
	if !ok {
		return &proto.Error{Code: proto.CodeNotFound, Message: fmt.Sprintf("forward: there is no service %q", req.Service)}
	}
	typ, err := wire.RequestType(req.Request)
	if err != nil {
		return &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf("Invalid request: field %q: %v", "request", err)}
	}
	if !slices.Contains(common, typ) && !slices.Contains(types, typ) {
		return &proto.Error{Code: proto.CodeDenied, Message: fmt.Sprintf("forward: %q of %s is not open to clients", typ, req.Service)}
	}
	return rpc.Relay(ctx, s.others[req.Service], req.Request, out)
}
