package chat

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// readLines reads the lines of a pipe until its end.
func readLines(pipe *os.File) <-chan []byte {
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		r := bufio.NewReader(pipe)
		for {
			line, err := r.ReadBytes('\n')
			if len(line) > 0 {
				lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

func readStart(lines <-chan []byte) (start proto.ChatStart, err error) {
	line, ok := <-lines
	if !ok {
		return start, io.EOF
	}
	err = wire.DecodeReply(line, &start)
	if err == nil && start.Type != proto.TypeChatStart {
		err = errors.New("not a start line")
	}
	return start, err
}

// line handles a line of zino.
func (c *chat) line(line []byte) {
	var result proto.ChatResult
	if err := wire.DecodeReply(line, &result); err != nil {
		return // a line of a later version
	}
	switch result.Type {
	case proto.TypeChatReady:
		if result.Socket != "" {
			c.start.Socket = result.Socket
		}
		if result.Request != nil {
			c.request = *result.Request
		}
		c.client = &rpc.Client{Service: "daemon", Path: c.start.Socket}
		c.connected()
	case proto.TypeChatFailed:
		c.fail(&proto.Error{Kind: result.Kind, Message: result.Message})
		c.stop(exitFailed)
	}
}

// packet is something that the daemon sends about a turn.
type packet struct {
	turn    *turn
	typ     string
	payload []byte
	end     *proto.Followed // the end of the packets
	err     error           // why they ended
}

// call makes a request in the background. then gets the answer, in the loop.
func call[Req, Rep any](c *chat, m proto.Method[Req, Rep], req Req, then func(Rep, error)) {
	go func() {
		reply, err := rpc.Call(c.ctx, c.client, m, req)
		c.after(func() { then(reply, err) })
	}()
}

// forward is call for a method of another service.
func forward[Req, Rep any](c *chat, service string, m proto.Method[Req, Rep], req Req, then func(Rep, error)) {
	method, wrapped, err := forwarding(service, m, req)
	if err != nil {
		var none Rep
		then(none, err)
		return
	}
	call(c, method, wrapped, then)
}

// forwarding wraps a request for another service.
func forwarding[Req, Rep any](service string, m proto.Method[Req, Rep], req Req) (method proto.Method[proto.Forward, Rep], wrapped proto.Forward, err error) {
	inner, err := wire.AppendObject(nil, m.Type, req)
	return proto.Method[proto.Forward, Rep]{Service: "daemon", Type: proto.DaemonForward.Type, Reply: m.Reply}, proto.Forward{Service: service, Request: inner}, err
}

// after runs f in the loop.
func (c *chat) after(f func()) {
	select {
	case c.results <- f:
	case <-c.ctx.Done():
	}
}

const (
	reconnectLimit    = time.Minute
	reconnectInterval = 100 * time.Millisecond
)

// follow sends the packets of a turn to the loop until the turn has ended. A lost
// connection is made again.
func (c *chat) follow(ctx context.Context, t *turn, next *int64) {
	send := func(p packet) bool {
		p.turn = t
		select {
		case c.packets <- p:
			return true
		case <-ctx.Done():
			return false
		}
	}
	var lost time.Time
	for {
		received := false
		end, err := rpc.CallEvents(ctx, c.client, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: t.session, Turn: t.id, From: next}, func(typ string, payload []byte) error {
			received = true
			var place struct {
				Next *int64 `json:"next,omitzero"`
			}
			if err := wire.DecodeReply(payload, &place); err == nil && place.Next != nil {
				next = place.Next
			}
			if !send(packet{typ: typ, payload: bytes.Clone(payload)}) {
				return ctx.Err()
			}
			return nil
		})
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && end.Reason != "restart":
			send(packet{end: &end})
			return
		case err != nil && !errors.Is(err, rpc.ErrHungUp) && !errors.Is(err, rpc.ErrConnect) && !errors.Is(err, proto.ErrUnavailable):
			send(packet{err: err})
			return
		}
		if lost.IsZero() || received {
			lost = time.Now()
			send(packet{typ: typeLost})
		}
		if time.Since(lost) > reconnectLimit {
			send(packet{err: proto.Errorf(proto.CodeUnavailable, "Connection lost. The turn may go on: zino attach %s", shortID(t.session))})
			return
		}
		select {
		case <-time.After(reconnectInterval):
		case <-ctx.Done():
			return
		}
	}
}

// typeLost is the type of a packet of follow's own: the connection is being made again.
const typeLost = "lost"
