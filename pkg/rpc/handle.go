package rpc

import (
	"context"
	"runtime"
	"time"

	"zino/pkg/wire"
	"zino/proto"
)

// Handle registers fn for a method that answers with one packet. Raw fields of
// the request lie in the connection's buffer: they are fn's until it returns.
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
		return out.end(m.Reply, rep)
	})
}

// HandleRelay registers fn for a method whose answer is another service's, sent
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

// handle registers h. Two handlers for one type are a mistake in the program.
func (s *Server) handle(typ string, h handler) {
	if s.handlers[typ] != nil {
		panic("rpc: two handlers for " + s.service + " " + typ)
	}
	s.handlers[typ] = h
}

// OnStats has fn add what the service knows of itself, such as problems, to
// the answer to stats.
func (s *Server) OnStats(fn func(*proto.Stats)) { s.onStats = append(s.onStats, fn) }

// handleCommon registers what every service answers.
func handleCommon(s *Server) {
	Handle(s, proto.Ping, s.ping)
	Handle(s, proto.Describe, s.describe)
	Handle(s, proto.GetStats, s.stats)
}

// ping answers the pings that carry more than their type.
func (s *Server) ping(context.Context, proto.PingRequest) (proto.Pong, error) {
	return proto.Pong{Service: s.service, Version: Build, Proto: proto.Version, UptimeS: s.uptime()}, nil
}

func (s *Server) describe(context.Context, proto.DescribeRequest) (proto.Description, error) {
	return proto.DescriptionOf(s.service)
}

func (s *Server) stats(context.Context, proto.StatsRequest) (proto.Stats, error) {
	s.mu.Lock()
	connections := int64(len(s.conns))
	s.mu.Unlock()
	stats := proto.Stats{
		Service: s.service, UptimeS: s.uptime(), Requests: s.requests.Load(), Errors: s.failures.Load(),
		InFlight: s.inFlight.Load() - 1, Connections: connections, HeapBytes: heapBytes(), Problems: []string{},
	}
	for _, fn := range s.onStats {
		fn(&stats)
	}
	return stats, nil
}

func (s *Server) uptime() int64 { return int64(time.Since(s.started) / time.Second) }

// heapBytes is the size of the heap's objects. runtime/metrics would tell it
// without a pause, but costs every program 0.1 ms at its start, and stats are
// asked for rarely.
func heapBytes() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
