package rpc

import (
	"context"

	"zino/pkg/wire"
	"zino/proto"
)

// Sink takes streamed text. A delta is valid only during the call. Flush is
// called when nothing more is at hand, before waiting for the next delta.
type Sink interface {
	Text(delta []byte) error
	Flush() error
}

// CallText makes a request that is answered with text. Streamed text goes to
// sink as it comes; text that comes whole goes there in one piece if a stream
// was asked for. When sink is an Out, chunks pass through undecoded. The whole
// text is returned in every case.
func CallText[Req interface{ Streaming() bool }](ctx context.Context, c *Client, m proto.Method[Req, proto.Text], req Req, sink Sink) (proto.Text, error) {
	s := textStream{c: c, sink: sink, streaming: req.Streaming()}
	s.relay, _ = sink.(*Out)
	err := c.do(ctx, exchange{requestOf(ctx, m, req), s.packet})
	return s.text, err
}

// textStream takes the packets of one text answer.
type textStream struct {
	c         *Client
	sink      Sink
	relay     *Out // the sink, if chunks may pass as they are
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
	typ, err := s.c.typeOf(payload)
	if err != nil {
		return false, err
	}
	switch typ {
	case "keepalive":
		return false, nil
	case "chunk":
		err := s.slowChunk(payload)
		return false, flushUnless(in.Ready(), s.sink, err)
	case "error":
		return true, errorOf(payload)
	case "done":
		return true, s.done(in.Detach(payload))
	}
	return true, s.whole(in.Detach(payload))
}

// chunk passes on a chunk in our own form.
func (s *textStream) chunk(payload []byte) error {
	if s.relay != nil {
		s.streamed = true
		return s.relay.Frame(payload)
	}
	if s.scratch == nil {
		s.scratch = make([]byte, 0, 512)
	}
	delta, ok := wire.ChunkDelta(payload, s.scratch)
	if !ok {
		return s.slowChunk(payload)
	}
	s.streamed = true
	return s.sink.Text(delta)
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
	s.text = proto.Text{Content: done.FullText, Iterations: done.Iterations}
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
