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

// parent is zino, which has started this program and waits for its end.
type parent struct {
	file    *os.File
	lines   chan []byte // closed when zino has died
	ended   bool        // it is closed
	session string      // that zino knows
}

func newParent(file *os.File) *parent {
	p := &parent{file: file, lines: make(chan []byte)}
	go func() {
		defer close(p.lines)
		r := bufio.NewReader(file)
		for {
			line, err := r.ReadBytes('\n')
			if len(line) > 0 {
				p.lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	return p
}

// start returns the start line.
func (p *parent) start() (start proto.ChatStart, err error) {
	line, ok := <-p.lines
	if !ok {
		return start, io.EOF
	}
	err = wire.DecodeReply(line, &start)
	if err == nil && start.Type != proto.TypeChatStart {
		err = errors.New("not a start line")
	}
	return start, err
}

// opened tells zino which session is open, if it is another one. made is the last one that
// this chat has made.
func (p *parent) opened(session, made string) {
	if session == p.session {
		return
	}
	p.session = session
	s := proto.ChatSession{Type: proto.TypeChatSession, SessionID: session, New: session != "" && session == made}
	line, err := wire.AppendObject(nil, "", s)
	if err == nil {
		p.file.Write(append(line, '\n')) // fails if zino has died, or has given a pipe
	}
}

// line handles a line of zino.
func (c *chat) line(line []byte) {
	var result proto.ChatResult
	if err := wire.DecodeReply(line, &result); err != nil {
		return // a line of a later version
	}
	c.start.Notes = append(c.start.Notes, result.Notes...)
	switch result.Type {
	case proto.TypeChatReady:
		if result.Socket != "" {
			c.start.Socket = result.Socket
		}
		if req := result.Request; req != nil {
			c.request.Env, c.request.Cwd, c.request.Umask = req.Env, req.Cwd, req.Umask
			c.noSave = c.noSave || req.NoSave
			if req.SessionID != "" {
				c.start.SessionID, c.start.Latest = req.SessionID, false
			}
		}
		c.client = &rpc.Client{Service: "daemon", Path: c.start.Socket}
		c.connected()
		for _, request := range c.early {
			request()
		}
		c.early = nil
	case proto.TypeChatFailed:
		for _, note := range c.start.Notes {
			c.print(kindLine, safe(note))
		}
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

// call makes a request in the background, once the daemon can be reached. then gets the
// answer, in the loop.
func call[Req, Rep any](c *chat, m proto.Method[Req, Rep], req Req, then func(Rep, error)) {
	if c.client == nil {
		c.early = append(c.early, func() { call(c, m, req, then) })
		return
	}
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

// isLost reports whether the daemon may be back soon. One that is stopped without a wait
// cancels what it does. A supervisor answers unavailable for a service that does not start.
func isLost(err error, again bool) bool {
	return errors.Is(err, rpc.ErrHungUp) || errors.Is(err, rpc.ErrConnect) || errors.Is(err, proto.ErrTimeout) || errors.Is(err, proto.ErrCanceled) ||
		again && errors.Is(err, proto.ErrUnavailable)
}

// follow sends the packets of a turn to the loop until the turn has ended. A lost
// connection is made again, unless the services belong to this chat.
func (c *chat) follow(ctx context.Context, t *turn, next *int64) {
	private := c.lifetime == proto.LifetimePrivate
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
		end, err := rpc.CallEvents(ctx, c.client, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: t.session, Turn: t.id, From: next, Inputs: true, Gather: true}, func(typ string, payload []byte) error {
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
		case err != nil && !isLost(err, !lost.IsZero()):
			send(packet{err: err})
			return
		case private: // it starts again, but does not go on with the turn
			send(packet{err: proto.Errorf(proto.CodeUnavailable, "The daemon of this chat was restarted: the turn was interrupted.")})
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
