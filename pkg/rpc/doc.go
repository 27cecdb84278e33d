// Package rpc answers and makes requests over Unix sockets: one packet in, the
// packets of its answer out, one request at a time on a connection. A connection
// is the request in flight, and closing it cancels the work behind it through
// every hop. Packets are frames of pkg/wire with the messages of proto.
//
// # A service
//
//	s := rpc.NewServer("mem", log)
//	rpc.Handle(s, proto.MemSearchHard, m.searchHard)
//	go s.Serve(listener)
//	…
//	err := s.Shutdown(ctx) // lets requests finish until ctx is done
//
// A handler is a function of the method's types, which the compiler checks:
//
//	func (m *Mem) searchHard(ctx context.Context, req proto.SearchHard) (proto.HardMemories, error)
//
// HandleText is for methods that answer with text, whole or streamed, and
// HandleEvents for streams of typed packets; their handlers write to an [Out].
// HandleRelay passes a request on to another service as it is. Every server also
// answers ping, describe and stats; OnStats adds to the latter. Only restricts
// who may call, by the user and groups that the kernel reports.
//
// The context of a handler ends when the caller hangs up, when the deadline of
// the request's meta passes, or when Shutdown runs out of time. It carries the
// trace, which the next hop gets with the remaining time. Raw fields of a request
// are parts of the connection's buffer: a handler that keeps one copies it.
//
// A handler returns a *proto.Error for errors with a message for users; they
// cross all hops unchanged. Any other error gets the names of service and method
// in front, and the code of the error that it wraps. Exactly one terminal packet
// ends every request, also after a panic.
//
// # A call
//
//	c := &rpc.Client{Service: "mem", Path: socket}
//	defer c.Close()
//	found, err := rpc.Call(ctx, c, proto.MemSearchHard, proto.SearchHard{Query: q})
//
// CallText passes streamed text to a [Sink] as it arrives; an Out is one, so that
// a service relays a stream without decoding it. CallEvents passes typed packets
// to a function. Cancelling ctx hangs up.
//
// A client keeps idle connections and probes one before it uses it again. A
// request that the peer certainly did not read is sent once more; ErrConnect
// marks errors of a service that cannot be reached. A peer that sends nothing, no
// keepalive either, for Client.Silence is given up.
package rpc
