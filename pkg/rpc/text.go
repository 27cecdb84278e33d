package rpc

import (
	"context"
	"errors"

	"zino/pkg/wire"
	"zino/proto"
)

// Sink takes streamed text. A delta is valid only during the call. Flush is
// called when nothing more is at hand, before waiting for the next delta.
type Sink interface {
	Text(delta []byte) error
	Flush() error
}

// EventSink is a Sink that also takes the other packets of an answer, such as
// those of type notice, in their places between the chunks. The payload is the
// whole packet, well-formed JSON, and valid only during the call.
type EventSink interface {
	Sink
	Event(typ string, payload []byte) error
}

// CallText makes a request that is answered with text. Streamed text goes to
// sink as it comes; text that comes whole goes there in one piece if a stream
// was asked for. When sink is an Out, chunks pass through undecoded. Packets of
// other types go to a sink that is an EventSink and are skipped otherwise: the
// answer ends with the method's reply type, done or error only. The whole text
// is returned in every case, its raw fields as they came and unchecked.
func CallText[Req interface{ Streaming() bool }](ctx context.Context, c *Client, m proto.Method[Req, proto.Text], req Req, sink Sink) (proto.Text, error) {
	s := textStream{c: c, reply: m.Reply, sink: sink, streaming: req.Streaming()}
	s.relay, _ = sink.(*Out)
	s.events, _ = sink.(EventSink)
	err := c.do(ctx, exchange{requestOf(ctx, m, req), s.packet})
	return s.text, err
}

// textStream takes the packets of one text answer.
type textStream struct {
	c         *Client
	reply     string // the type of an answer in one piece
	sink      Sink
	relay     *Out      // the sink, if chunks may pass as they are
	events    EventSink // the sink, if it takes other packets
	streaming bool
	streamed  bool // a chunk has come
	scratch   []byte
	text      proto.Text
}

func (s *textStream) packet(in *wire.Reader, payload []byte) (done bool, err error) {
	if wire.IsChunk(payload) && s.streaming {
		err := s.chunk(payload)
		return false, flushUnless(in.Ready(), s.sink, err)
	}
	if s.events != nil && s.plainDelta(payload) {
		err := s.events.Event(proto.TypeAssistantDelta, payload)
		return false, flushUnless(in.Ready(), s.sink, err)
	}
	typ, err := s.c.typeOf(payload)
	if err != nil {
		return false, err
	}
	switch typ {
	case "error":
		return true, errorOf(payload)
	case "done":
		return true, s.done(in.Detach(payload))
	case s.reply:
		return true, s.whole(in.Detach(payload))
	}
	err = s.between(typ, payload)
	return false, flushUnless(in.Ready() || s.sink == nil, s.sink, err)
}

// plainDelta reports whether a packet is an assistant_delta in our own form,
// which flow by the thousand: it is known to be well-formed then.
func (s *textStream) plainDelta(payload []byte) bool {
	_, ok := wire.DeltaText(payload, s.room())
	return ok
}

// between takes a packet that is neither the end nor a chunk in our own form.
func (s *textStream) between(typ string, payload []byte) error {
	switch {
	case typ == "":
		return s.c.noPacket(errors.New("it has no type"))
	case typ == "keepalive":
		return nil
	case typ == "chunk":
		return s.slowChunk(payload)
	case s.events == nil:
		return nil
	}
	if _, err := wire.RequestType(payload); err != nil { // the sink may pass it on
		return s.c.noPacket(err)
	}
	return s.events.Event(typ, payload)
}

// chunk passes on a chunk in our own form.
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

// room is where texts are put that do not lie in their packet as they are.
func (s *textStream) room() []byte {
	if s.scratch == nil {
		s.scratch = make([]byte, 0, 512)
	}
	return s.scratch
}

// slowChunk takes a chunk in any other form, such as one with blanks.
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

func (s *textStream) done(payload []byte) error {
	var done textDone
	err := s.c.decode(payload, &done)
	s.text = proto.Text(done)
	return s.unstreamed(err)
}

// whole takes an answer that came in one piece.
func (s *textStream) whole(payload []byte) error {
	return s.unstreamed(s.c.decode(payload, &s.text))
}

// unstreamed hands text to the sink that was to come as a stream and did not.
func (s *textStream) unstreamed(err error) error {
	if err != nil || !s.streaming || s.streamed || s.text.Content == "" {
		return err
	}
	if err := s.sink.Text([]byte(s.text.Content)); err != nil {
		return err
	}
	return s.sink.Flush()
}

// flushUnless flushes the sink unless more is at hand.
func flushUnless(more bool, sink Sink, err error) error {
	if err != nil || more {
		return err
	}
	return sink.Flush()
}
