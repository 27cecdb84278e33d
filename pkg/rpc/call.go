package rpc

import (
	"context"
	"fmt"

	"zino/pkg/wire"
	"zino/proto"
)

// Call makes a request that is answered with one packet. An answer of type
// error is returned as a *proto.Error; one of another method's type is none.
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

// Relay sends request, a whole packet, and passes the packets of the answer to
// out as they are, up to the terminal one. It is for methods that answer with
// one packet; keepalives are the caller's own.
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
		if m.Type != proto.Ping.Type { // a bare ping is answered on the spot
			meta = metaOf(ctx)
		}
		b, err := wire.AppendRequest(wire.Begin(b), m.Type, req, meta)
		if err != nil {
			return b, err
		}
		return b, wire.End(b, start)
	}
}

// typeOf reads the type of an answer's packet that will be decoded, typeIn that
// of one that is passed on.
func (c *Client) typeOf(payload []byte) (string, error) {
	typ, err := wire.ReplyType(payload)
	return typ, c.noPacket(err)
}

func (c *Client) typeIn(payload []byte) (string, error) {
	typ, _, err := wire.Type(payload)
	return typ, c.noPacket(err)
}

// decode reads an answer.
func (c *Client) decode(payload []byte, rep any) error {
	return c.noPacket(wire.DecodeReply(payload, rep))
}

// noPacket words an error of the codec.
func (c *Client) noPacket(err error) error {
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
