package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"zino/pkg/wire"
	"zino/proto"
)

const (
	sendTime   = 10 * time.Second // for a packet to a page
	reasonMax  = 120              // bytes of a reason for closing; the protocol has room for 123
	socketsMax = 1000             // sockets at a time
)

// upgrade turns a request that passed the gate into a WebSocket, and closes it
// when serve is done.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request, serve func(context.Context, *websocket.Conn) error) {
	done, ok := s.enter()
	if !ok {
		http.Error(w, "Too many pages are connected, or the service is stopping.", http.StatusServiceUnavailable)
		return
	}
	defer done()
	// The gate has looked at the origin, more strictly than the library would.
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{protocol}, InsecureSkipVerify: true})
	if err != nil {
		s.log.Debug("no WebSocket", "path", r.URL.Path, "error", err) // and answered
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	farewell(c, serve(ctx, c))
}

// enter counts a socket in, unless there are too many or the server is closed.
func (s *Server) enter() (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.open >= socketsMax {
		return nil, false
	}
	s.open++
	s.sockets.Add(1)
	return func() {
		s.mu.Lock()
		s.open--
		s.mu.Unlock()
		s.sockets.Done()
	}, true
}

// fault is an end that the page is to blame for.
type fault string

func (f fault) Error() string { return string(f) }

// farewell closes a socket and tells why.
func farewell(c *websocket.Conn, err error) {
	var blame fault
	code, reason := websocket.StatusGoingAway, ""
	switch {
	case errors.As(err, &blame):
		code, reason = websocket.StatusPolicyViolation, err.Error()
	case errors.Is(err, proto.ErrBusy), errors.Is(err, proto.ErrUnavailable):
		code, reason = websocket.StatusTryAgainLater, err.Error()
	}
	// The page may be gone, or may not answer: then the library gives up soon.
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
