package web

import (
	"context"
	"errors"

	"zino/pkg/wire"
	"zino/proto"
)

// take gives the service a page's packet. Its error is the page's to hear.
func (s *Server) take(ctx context.Context, text []byte) error {
	switch typ, _, err := wire.Type(text); {
	case err != nil:
		return err
	case typ == proto.ReplResult.Type:
		return pass(ctx, text, s.service.Result)
	case typ == proto.ReplEvents.Type:
		return pass(ctx, text, s.service.Events)
	case typ == proto.ReplStarted.Type:
		return pass(ctx, text, s.service.Started)
	default:
		return &proto.Error{Code: proto.CodeUnknown, Message: "Unknown message type: " + typ}
	}
}

func pass[T any](ctx context.Context, text []byte, f func(context.Context, T) (proto.Empty, error)) error {
	var packet T
	if err := wire.Decode(text, &packet); err != nil {
		return &proto.Error{Code: proto.CodeInvalid, Message: "Invalid request: " + err.Error()}
	}
	_, err := f(ctx, packet)
	return err
}

// verdict is what a page hears of its packet.
func verdict(err error) (typ string, packet any) {
	if err == nil {
		return "ok", proto.Empty{}
	}
	worded, ok := errors.AsType[*proto.Error](err)
	if !ok {
		worded = &proto.Error{Code: proto.CodeInternal, Message: "repl: " + err.Error()}
	}
	return "error", worded
}
