package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"zino/proto"
)

// peer is a page without a browser.
type peer struct {
	b     *bench
	conn  *websocket.Conn
	id    string
	nonce string
	file  string
}

// dial opens a socket with the token.
func (b *bench) dial(path string) *websocket.Conn {
	b.t.Helper()
	c, _, err := websocket.Dial(b.t.Context(), "ws://"+b.addr+path, &websocket.DialOptions{
		Subprotocols: []string{protocol, b.token}, HTTPHeader: http.Header{"Origin": {"http://" + b.addr}},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.CloseNow() })
	c.SetReadLimit(packetMax)
	return c
}

// hello connects a page and reads its welcome.
func (b *bench) hello(fields string) *peer {
	b.t.Helper()
	p := &peer{b: b, conn: b.dial(socketPath)}
	p.say(`{"type":"hello","name":"app",` + fields + `}`)
	welcome := p.hear()
	if welcome["type"] != "welcome" {
		b.t.Fatalf("hello %s: %v", fields, welcome)
	}
	p.id, p.nonce, p.file = welcome["id"].(string), welcome["nonce"].(string), welcome["file"].(string)
	return p
}

func (p *peer) say(text string) {
	p.b.t.Helper()
	if err := p.conn.Write(p.b.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		p.b.t.Fatal(err)
	}
}

// tell says something with the page's id and nonce.
func (p *peer) tell(typ, fields string) {
	p.b.t.Helper()
	p.say(`{"type":"` + typ + `","id":"` + p.id + `","nonce":"` + p.nonce + `",` + fields + `}`)
}

func (p *peer) hear() map[string]any {
	p.b.t.Helper()
	ctx, cancel := context.WithTimeout(p.b.t.Context(), 30*time.Second)
	defer cancel()
	_, text, err := p.conn.Read(ctx)
	if err != nil {
		p.b.t.Fatal(err)
	}
	var packet map[string]any
	if err := json.Unmarshal(text, &packet); err != nil {
		p.b.t.Fatal(err)
	}
	return packet
}

// closed waits for the socket's end and returns its code and reason.
func (p *peer) closed() (websocket.StatusCode, string) {
	p.b.t.Helper()
	ctx, cancel := context.WithTimeout(p.b.t.Context(), 30*time.Second)
	defer cancel()
	for {
		_, _, err := p.conn.Read(ctx)
		if end, ok := errors.AsType[websocket.CloseError](err); ok {
			return end.Code, end.Reason
		}
		if err != nil {
			return -1, err.Error()
		}
	}
}

// eval runs code in the page while answer speaks for it.
func (p *peer) eval(code string, answer func(job string)) proto.Evaluated {
	p.b.t.Helper()
	type outcome struct {
		result proto.Evaluated
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := p.b.service.Eval(p.b.t.Context(), proto.Eval{Page: p.id, Code: code})
		done <- outcome{result, err}
	}()
	packet := p.hear()
	if packet["type"] != "job" || packet["code"] != code {
		p.b.t.Fatalf("instead of a job: %v", packet)
	}
	answer(packet["job"].(string))
	got := <-done
	if got.err != nil {
		p.b.t.Fatal(got.err)
	}
	return got.result
}

// pages is how many realms there are.
func (b *bench) pages() []proto.Page {
	b.t.Helper()
	pages, err := b.service.Pages(b.t.Context(), proto.PagesRequest{})
	if err != nil {
		b.t.Fatal(err)
	}
	return pages.Pages
}
