package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"zino/pkg/wire"
	"zino/proto"
	"zino/services/repl"
)

const (
	helloTime  = 10 * time.Second // limit for the hello of a page
	helloMax   = 64 << 10         // bytes of a hello
	packetMax  = 16 << 20         // bytes of any other packet; the script sends less
	sendTime   = 10 * time.Second // for a packet to a page
	reasonMax  = 120              // bytes of a close reason; RFC 6455 allows 123
	socketsMax = 1000             // open sockets
)

// upgrade accepts a WebSocket, calls serve and closes the socket. The request has
// passed the gate.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request, serve func(context.Context, *websocket.Conn) error) {
	s.mu.Lock()
	full := s.closed || s.open >= socketsMax
	if !full {
		s.open++
		s.sockets.Add(1)
	}
	s.mu.Unlock()
	if full {
		http.Error(w, "Too many pages are connected, or the service is stopping.", http.StatusServiceUnavailable)
		return
	}
	defer func() {
		s.mu.Lock()
		s.open--
		s.mu.Unlock()
		s.sockets.Done()
	}()
	// The gate has checked the origin, more strictly than the library would.
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{protocol}, InsecureSkipVerify: true})
	if err != nil {
		s.log.Debug("cannot accept a WebSocket", "path", r.URL.Path, "error", err) // Accept has sent a response
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	closeSocket(c, serve(ctx, c))
}

// violation is a protocol error of the page.
type violation string

func (v violation) Error() string { return string(v) }

// closeSocket closes a socket with the status and reason of an error.
func closeSocket(c *websocket.Conn, err error) {
	var v violation
	code, reason := websocket.StatusGoingAway, ""
	switch {
	case errors.As(err, &v):
		code, reason = websocket.StatusPolicyViolation, err.Error()
	case errors.Is(err, proto.ErrBusy), errors.Is(err, proto.ErrUnavailable):
		code, reason = websocket.StatusTryAgainLater, err.Error()
	}
	// Ignore the error: the page may be disconnected. The library limits the wait for
	// the closing handshake.
	_ = c.Close(code, strings.ToValidUTF8(reason[:min(len(reason), reasonMax)], ""))
}

// write sends a packet.
func write(ctx context.Context, c *websocket.Conn, typ string, packet any) error {
	text, err := wire.AppendObject(nil, typ, packet)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	return c.Write(ctx, websocket.MessageText, text)
}

// read waits for a packet.
func read(ctx context.Context, c *websocket.Conn) ([]byte, error) {
	kind, text, err := c.Read(ctx)
	if err == nil && kind != websocket.MessageText {
		err = violation("a packet has to be text")
	}
	return text, err
}

// page is a connected page of a browser. All its packets must have the id and the
// nonce of its welcome.
type page struct {
	*repl.Page
	conn      *websocket.Conn
	id, nonce string
	pinger    pinger
}

// page serves one page for as long as it is connected.
func (s *Server) page(ctx context.Context, c *websocket.Conn) error {
	p, err := s.hello(ctx, c)
	if err != nil {
		return err
	}
	defer func() {
		p.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.pages[p.id] == p {
			delete(s.pages, p.id)
		}
	}()
	if err := write(ctx, c, "welcome", p.Attached()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var sending sync.WaitGroup
	sending.Go(func() {
		for {
			typ, packet, err := p.Next(ctx)
			if err == nil {
				err = write(ctx, c, typ, packet)
			}
			if err != nil {
				closeSocket(c, err) // also ends receive
				return
			}
			if typ == proto.TypeJob {
				select {
				case p.pinger.job <- struct{}{}:
				default: // it pings already
				}
			}
		}
	})
	sending.Go(func() { p.pinger.run(ctx, p) })
	err = s.receive(ctx, p)
	closeSocket(c, err) // before cancel, which would end the socket without a close frame
	cancel()
	sending.Wait()
	return err
}

// hello waits for the first packet of a page and connects it.
func (s *Server) hello(ctx context.Context, c *websocket.Conn) (*page, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTime)
	defer cancel()
	c.SetReadLimit(helloMax)
	text, err := read(ctx, c)
	if err != nil {
		return nil, err
	}
	if typ, _, err := wire.Type(text); err != nil || typ != "hello" {
		return nil, violation("the first packet has to be a hello")
	}
	var attach proto.Attach
	// A hello is an attach and, after a reload, the nonce of the unloaded page, which
	// distinguishes a reload from a duplicated tab.
	var before struct {
		Left string `json:"left,omitzero"`
	}
	if err := errors.Join(wire.Decode(text, &attach), wire.Decode(text, &before)); err != nil {
		return nil, violation(err.Error())
	}
	c.SetReadLimit(packetMax)
	s.mu.Lock()
	old := s.pages[attach.ID]
	s.mu.Unlock()
	if old != nil && old.nonce == before.Left {
		old.Close() // the old socket may still be open
	}
	connected, err := s.service.Connect(attach)
	if err != nil {
		return nil, err
	}
	s.pageConnected(attach.URL)
	a := connected.Attached()
	p := &page{Page: connected, conn: c, id: a.ID, nonce: a.Nonce, pinger: pinger{every: s.pingEvery, job: make(chan struct{}, 1)}}
	s.mu.Lock()
	s.pages[p.id] = p
	s.mu.Unlock()
	return p, nil
}

// receive answers the packets of a page.
func (s *Server) receive(ctx context.Context, p *page) error {
	for {
		text, err := read(ctx, p.conn)
		if err != nil {
			return err
		}
		p.pinger.answered(p)
		typ, _, err := wire.Type(text)
		if err == nil && typ == "pong" {
			continue
		}
		var from struct {
			ID    string `json:"id"`
			Nonce string `json:"nonce"`
		}
		if err := wire.Decode(text, &from); err != nil || from.ID != p.id || from.Nonce != p.nonce {
			return violation("a packet must have the id and the nonce of its page")
		}
		typ, packet := s.handle(ctx, text)
		if err := write(ctx, p.conn, typ, packet); err != nil {
			return err
		}
	}
}

// handle passes a packet of a page to the service and returns the answer.
func (s *Server) handle(ctx context.Context, text []byte) (typ string, answer any) {
	typ, _, err := wire.Type(text)
	if err == nil {
		switch typ {
		case proto.ReplResult.Type:
			err = call(ctx, text, s.service.Result)
		case proto.ReplPart.Type:
			err = call(ctx, text, s.service.Part)
		case proto.ReplEvents.Type:
			err = call(ctx, text, s.service.Events)
		case proto.ReplStarted.Type:
			err = call(ctx, text, s.service.Started)
		default:
			err = &proto.Error{Code: proto.CodeUnknown, Message: "Unknown message type: " + typ}
		}
	}
	if err == nil {
		return "ok", proto.Empty{}
	}
	e, ok := errors.AsType[*proto.Error](err)
	if !ok {
		e = &proto.Error{Code: proto.CodeInternal, Message: "repl: " + err.Error()}
	}
	return "error", e
}

func call[T any](ctx context.Context, text []byte, method func(context.Context, T) (proto.Empty, error)) error {
	var packet T
	if err := wire.Decode(text, &packet); err != nil {
		return &proto.Error{Code: proto.CodeInvalid, Message: "Invalid request: " + err.Error()}
	}
	_, err := method(ctx, packet)
	return err
}
