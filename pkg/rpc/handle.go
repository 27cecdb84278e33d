package rpc

import (
	"context"

	"zino/pkg/wire"
	"zino/proto"
)

// Handle registers fn for a method that answers with one packet. Raw fields of the
// request are parts of the connection's buffer and valid until fn returns.
func Handle[Req, Rep any](s *Server, m proto.Method[Req, Rep], fn func(context.Context, Req) (Rep, error)) {
	s.handle(m.Type, func(ctx context.Context, payload []byte, out *Out) error {
		var req Req
		if err := wire.Decode(payload, &req); err != nil {
			return invalid(err)
		}
		rep, err := fn(ctx, req)
		if err != nil {
			return err
		}
		return out.end(m.Reply, rep)
	})
}

// HandleText registers fn for a method that answers with text. What fn writes
// to Out goes only to callers that asked for a stream; what it returns is the
// whole text.
func HandleText[Req interface{ Streaming() bool }](s *Server, m proto.Method[Req, proto.Text], fn func(context.Context, Req, *Out) (proto.Text, error)) {
	s.handle(m.Type, func(ctx context.Context, payload []byte, out *Out) error {
		var req Req
		if err := wire.Decode(payload, &req); err != nil {
			return invalid(err)
		}
		out.stream = req.Streaming()
		text, err := fn(ctx, req, out)
		if err != nil {
			return err
		}
		return out.endText(m.Reply, text)
	})
}

// HandleEvents registers fn for a method that answers with typed packets until
// the caller hangs up or fn returns. The reply's type ends them.
func HandleEvents[Req, Rep any](s *Server, m proto.Method[Req, Rep], fn func(context.Context, Req, *Out) (Rep, error)) {
	s.handle(m.Type, func(ctx context.Context, payload []byte, out *Out) error {
		var req Req
		if err := wire.Decode(payload, &req); err != nil {
			return invalid(err)
		}
		rep, err := fn(ctx, req, out)
		if err != nil {
			return err
		}
		if err = out.end(m.Reply, rep); err != nil && err == out.err && ctx.Err() != nil {
			return nil // the caller has hung up, which is how it ends the request
		}
		return err
	})
}

// HandleRelay registers fn for a method whose answer is that of another service,
// passed on with Relay.
func HandleRelay[Req, Rep any](s *Server, m proto.Method[Req, Rep], fn func(context.Context, Req, *Out) error) {
	s.handle(m.Type, func(ctx context.Context, payload []byte, out *Out) error {
		var req Req
		if err := wire.Decode(payload, &req); err != nil {
			return invalid(err)
		}
		return fn(ctx, req, out)
	})
}

// handle registers h. Two handlers for one type are a bug.
func (s *Server) handle(typ string, h handler) {
	if s.handlers[typ] != nil {
		panic("rpc: two handlers for " + s.service + " " + typ)
	}
	s.handlers[typ] = h
}
