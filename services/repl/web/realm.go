package web

import (
	"context"
	"errors"
	"time"

	"github.com/coder/websocket"

	"zino/pkg/wire"
	"zino/proto"
	"zino/services/repl"
)

const (
	helloTime = 10 * time.Second // until a page must have said hello
	helloMax  = 64 << 10         // bytes of a hello
	packetMax = 16 << 20         // bytes of any other packet; the script sends less
)

// page is a page that has said hello. What it says from then on has to bear the
// id and the nonce that it got.
type page struct {
	conn  *websocket.Conn
	realm *repl.Page
	id    string
	nonce string
}

// left is what a hello has besides an attach: the nonce of the load before, if
// that has gone. Otherwise a page that is loaded again and a copy of a tab would
// look the same.
type left struct {
	Left string `json:"left,omitzero"`
}

// realm is one page, for as long as it is connected.
func (s *Server) realm(ctx context.Context, c *websocket.Conn) error {
	p, err := s.hello(ctx, c)
	if err != nil {
		return err
	}
	defer s.leave(p)
	if err := write(ctx, c, "welcome", p.realm.Attached()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		farewell(c, p.send(ctx)) // ends the reading, too
	}()
	err = s.read(ctx, p)
	farewell(c, err) // before ctx ends: that cuts the socket
	cancel()
	<-sent
	return err
}

// hello waits for a page's first words and connects it.
func (s *Server) hello(ctx context.Context, c *websocket.Conn) (*page, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTime)
	defer cancel()
	c.SetReadLimit(helloMax)
	text, err := read(ctx, c)
	if err != nil {
		return nil, err
	}
	var attach proto.Attach
	var before left
	if typ, _, err := wire.Type(text); err != nil || typ != "hello" {
		return nil, fault("the first packet has to be a hello")
	}
	if err := errors.Join(wire.Decode(text, &attach), wire.Decode(text, &before)); err != nil {
		return nil, fault(err.Error())
	}
	c.SetReadLimit(packetMax)
	return s.connect(c, attach, before.Left)
}

// connect makes a page a realm. The load before is ended first if it is still
// there: its socket may be closed later than the next one is opened.
func (s *Server) connect(c *websocket.Conn, attach proto.Attach, before string) (*page, error) {
	s.mu.Lock()
	old := s.pages[attach.ID]
	s.mu.Unlock()
	if old != nil && old.nonce == before {
		old.realm.Close()
	}
	realm, err := s.service.Connect(attach)
	if err != nil {
		return nil, err
	}
	a := realm.Attached()
	p := &page{conn: c, realm: realm, id: a.ID, nonce: a.Nonce}
	s.mu.Lock()
	s.pages[p.id] = p
	s.mu.Unlock()
	return p, nil
}

func (s *Server) leave(p *page) {
	p.realm.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pages[p.id] == p {
		delete(s.pages, p.id)
	}
}

// send passes on what the service has for the page, until either is gone.
func (p *page) send(ctx context.Context) error {
	for {
		typ, packet, err := p.realm.Next(ctx)
		if err != nil {
			return err
		}
		if err := write(ctx, p.conn, typ, packet); err != nil {
			return err
		}
	}
}

// read answers what the page says.
func (s *Server) read(ctx context.Context, p *page) error {
	for {
		text, err := read(ctx, p.conn)
		if err != nil {
			return err
		}
		var who struct {
			ID    string `json:"id"`
			Nonce string `json:"nonce"`
		}
		if err := wire.Decode(text, &who); err != nil || who.ID != p.id || who.Nonce != p.nonce {
			return fault("a packet has to bear the id and the nonce of its page")
		}
		typ, packet := verdict(s.take(ctx, text))
		if err := write(ctx, p.conn, typ, packet); err != nil {
			return err
		}
	}
}

// read waits for a packet.
func read(ctx context.Context, c *websocket.Conn) ([]byte, error) {
	kind, text, err := c.Read(ctx)
	if err == nil && kind != websocket.MessageText {
		err = fault("a packet has to be text")
	}
	return text, err
}
