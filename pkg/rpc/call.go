package rpc

import (
	"context"
	"errors"
	"fmt"

	"zino/pkg/wire"
	"zino/proto"
)

// Call makes a request that is answered with one packet. An answer of type error
// is returned as a *proto.Error; an answer of another method's type is an error.
func Call[Req, Rep any](ctx context.Context, c *Client, m proto.Method[Req, Rep], req Req) (Rep, error) {
	var rep Rep
	err := c.do(ctx, exchange{requestOf(ctx, m, req), func(in *wire.Reader, payload []byte) (bool, error) {
		typ, err := c.typeOf(payload)
		switch {
		case err != nil || typ == "keepalive":
			return false, err
		case typ == "error":
			return true, errorOf(payload)
		case typ != m.Reply && typ != "":
			return false, fmt.Errorf("%s answered with a packet of type %.60q: %q was expected", c.Service, typ, m.Reply)
		}
		return true, c.decode(in.Detach(payload), &rep)
	}})
	if pong, ok := any(&rep).(*proto.Pong); ok && err == nil {
		c.learn(*pong)
	}
	return rep, err
}

// Relay sends request, a whole packet, and passes the answer to out as it is. It
// is for methods that answer with one packet. Keepalives are not passed on: out
// sends its own.
func Relay(ctx context.Context, c *Client, request []byte, out *Out) error {
	build := func(b []byte) ([]byte, error) { return wire.AppendFrame(b, request) }
	return c.do(ctx, exchange{build, func(_ *wire.Reader, payload []byte) (bool, error) {
		typ, err := c.typeIn(payload)
		if err != nil || typ == "keepalive" {
			return false, err
		}
		return true, out.last(payload)
	}})
}

// CallEvents makes a request that is answered with typed packets and hands each
// to event, payload and all, until the terminal one: the method's reply type.
// The payload is valid during the call only.
func CallEvents[Req, Rep any](ctx context.Context, c *Client, m proto.Method[Req, Rep], req Req, event func(typ string, payload []byte) error) (Rep, error) {
	var rep Rep
	err := c.do(ctx, exchange{requestOf(ctx, m, req), func(in *wire.Reader, payload []byte) (bool, error) {
		typ, err := c.typeIn(payload)
		switch {
		case err != nil || typ == "keepalive":
			return false, err
		case typ == "error":
			return true, errorOf(payload)
		case typ == m.Reply:
			return true, c.decode(in.Detach(payload), &rep)
		}
		return false, event(typ, payload)
	}})
	return rep, err
}

// requestOf returns the function that appends the request's frame.
func requestOf[Req, Rep any](ctx context.Context, m proto.Method[Req, Rep], req Req) func([]byte) ([]byte, error) {
	return func(b []byte) ([]byte, error) {
		start := len(b)
		var meta proto.Meta
		if m.Type != proto.Ping.Type { // a bare ping is answered without decoding
			meta = metaOf(ctx)
		}
		b, err := wire.AppendRequest(wire.Begin(b), m.Type, req, meta)
		if err != nil {
			return b, err
		}
		return b, wire.End(b, start)
	}
}

// typeOf returns the type of a packet that will be decoded, typeIn that of one
// that is passed on and therefore checked as a whole.
func (c *Client) typeOf(payload []byte) (string, error) {
	typ, err := wire.ReplyType(payload)
	return typ, c.notPacket(err)
}

func (c *Client) typeIn(payload []byte) (string, error) {
	typ, _, err := wire.Type(payload)
	return typ, c.notPacket(err)
}

func (c *Client) decode(payload []byte, rep any) error {
	return c.notPacket(wire.DecodeReply(payload, rep))
}

func (c *Client) notPacket(err error) error {
	if err != nil {
		return fmt.Errorf("%s answered with something that is not a packet: %w", c.Service, err)
	}
	return nil
}

func errorOf(payload []byte) error {
	e := &proto.Error{}
	if err := wire.DecodeReply(payload, e); err != nil {
		return err
	}
	return e
}

// Sink receives streamed text. A delta is valid only during the call. Flush is
// called before waiting for the next delta.
type Sink interface {
	Text(delta []byte) error
	Flush() error
}

// EventSink is a Sink that also receives the packets between the chunks, such as
// those of type notice. The payload is the whole packet, well-formed JSON, and
// valid only during the call.
type EventSink interface {
	Sink
	Event(typ string, payload []byte) error
}

// CallText makes a request that is answered with text. Streamed text goes to sink
// as it arrives; if a stream was asked for and the text comes whole, it goes there
// in one piece. Chunks pass to a sink that is an Out undecoded. Packets of other
// types go to a sink that is an EventSink and are skipped otherwise: only the
// method's reply type, done or error end the answer. The whole text is returned
// in every case, its raw fields unchecked.
func CallText[Req interface{ Streaming() bool }](ctx context.Context, c *Client, m proto.Method[Req, proto.Text], req Req, sink Sink) (proto.Text, error) {
	s := textStream{c: c, reply: m.Reply, sink: sink, streaming: req.Streaming()}
	s.relay, _ = sink.(*Out)
	s.events, _ = sink.(EventSink)
	err := c.do(ctx, exchange{requestOf(ctx, m, req), s.packet})
	return s.text, err
}

// textStream is the answer to one CallText.
type textStream struct {
	c         *Client
	reply     string // the type of an answer in one piece
	sink      Sink
	relay     *Out      // the sink, if it is an Out
	events    EventSink // the sink, if it is one
	streaming bool
	streamed  bool // a chunk has arrived
	scratch   []byte
	text      proto.Text
}

func (s *textStream) packet(in *wire.Reader, payload []byte) (done bool, err error) {
	if wire.IsChunk(payload) && s.streaming {
		err := s.chunk(payload)
		return false, flushUnless(in.Ready(), s.sink, err)
	}
	if s.events != nil {
		// A delta in our own form is known to be well-formed; there are thousands.
		if _, ok := wire.DeltaText(payload, s.room()); ok {
			err := s.events.Event(proto.TypeAssistantDelta, payload)
			return false, flushUnless(in.Ready(), s.sink, err)
		}
	}
	typ, err := s.c.typeOf(payload)
	if err != nil {
		return false, err
	}
	switch typ {
	case "error":
		return true, errorOf(payload)
	case "done":
		var done textDone
		err := s.c.decode(in.Detach(payload), &done)
		s.text = proto.Text(done)
		return true, s.unstreamed(err)
	case s.reply:
		return true, s.unstreamed(s.c.decode(in.Detach(payload), &s.text))
	}
	err = s.between(typ, payload)
	return false, flushUnless(in.Ready() || s.sink == nil, s.sink, err)
}

// between handles a packet that is neither terminal nor a chunk in our own form.
func (s *textStream) between(typ string, payload []byte) error {
	switch {
	case typ == "":
		return s.c.notPacket(errors.New("it has no type"))
	case typ == "keepalive":
		return nil
	case typ == "chunk":
		return s.slowChunk(payload)
	case s.events == nil:
		return nil
	}
	if _, err := wire.RequestType(payload); err != nil { // the sink may pass it on
		return s.c.notPacket(err)
	}
	return s.events.Event(typ, payload)
}

// chunk handles a chunk in our own form.
func (s *textStream) chunk(payload []byte) error {
	if s.relay != nil {
		s.streamed = true
		return s.relay.Frame(payload)
	}
	delta, ok := wire.ChunkDelta(payload, s.room())
	if !ok {
		return s.slowChunk(payload)
	}
	s.streamed = true
	return s.sink.Text(delta)
}

// room returns a buffer for texts with escapes.
func (s *textStream) room() []byte {
	if s.scratch == nil {
		s.scratch = make([]byte, 0, 512)
	}
	return s.scratch
}

// slowChunk handles a chunk in any other form, such as one with blanks.
func (s *textStream) slowChunk(payload []byte) error {
	var chunk struct {
		Delta string `json:"delta"`
	}
	if err := wire.DecodeReply(payload, &chunk); err != nil {
		return err
	}
	if !s.streaming {
		return nil
	}
	s.streamed = true
	return s.sink.Text([]byte(chunk.Delta))
}

// unstreamed passes text to the sink that should have been streamed and was not.
func (s *textStream) unstreamed(err error) error {
	if err != nil || !s.streaming || s.streamed || s.text.Content == "" {
		return err
	}
	if err := s.sink.Text([]byte(s.text.Content)); err != nil {
		return err
	}
	return s.sink.Flush()
}

// flushUnless flushes the sink unless more has arrived already.
func flushUnless(more bool, sink Sink, err error) error {
	if err != nil || more {
		return err
	}
	return sink.Flush()
}
