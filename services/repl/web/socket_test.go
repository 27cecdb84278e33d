package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"zino/pkg/wire"
	"zino/proto"
)

// peer is a simulated page.
type peer struct {
	b     *env
	conn  *websocket.Conn
	id    string
	nonce string
	file  string
}

// dial opens a socket with the token.
func (b *env) dial(path string) *websocket.Conn {
	b.t.Helper()
	c, _, err := websocket.Dial(b.t.Context(), "ws://"+b.addr+path, &websocket.DialOptions{
		Subprotocols: []string{protocol, b.token}, HTTPHeader: http.Header{"Origin": {"http://" + b.addr}},
	})
	must(b.t, err)
	b.t.Cleanup(func() { c.CloseNow() })
	c.SetReadLimit(packetMax)
	return c
}

// hello connects a page and reads its welcome.
func (b *env) hello(fields string) *peer {
	b.t.Helper()
	p := &peer{b: b, conn: b.dial(socketPath)}
	p.send(`{"type":"hello","name":"app",` + fields + `}`)
	welcome := p.receive()
	if welcome["type"] != "welcome" {
		b.t.Fatalf("hello %s: %v", fields, welcome)
	}
	p.id, p.nonce, p.file = welcome["id"].(string), welcome["nonce"].(string), welcome["file"].(string)
	return p
}

func (p *peer) send(text string) {
	p.b.t.Helper()
	must(p.b.t, p.conn.Write(p.b.t.Context(), websocket.MessageText, []byte(text)))
}

// sendAs sends a packet with the id and nonce of the page.
func (p *peer) sendAs(typ, fields string) {
	p.b.t.Helper()
	p.send(`{"type":"` + typ + `","id":"` + p.id + `","nonce":"` + p.nonce + `",` + fields + `}`)
}

// receive waits for the next packet that is not a ping.
func (p *peer) receive() map[string]any {
	p.b.t.Helper()
	for {
		if packet := p.next(); packet["type"] != "ping" {
			return packet
		}
	}
}

func (p *peer) next() map[string]any {
	p.b.t.Helper()
	ctx, cancel := context.WithTimeout(p.b.t.Context(), 30*time.Second)
	defer cancel()
	_, text, err := p.conn.Read(ctx)
	must(p.b.t, err)
	var packet map[string]any
	must(p.b.t, json.Unmarshal(text, &packet))
	return packet
}

// closed waits until the socket is closed and returns the code and the reason.
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

// eval requests an evaluation and calls answer with its job.
func (p *peer) eval(code string, answer func(job string)) proto.Evaluated {
	p.b.t.Helper()
	type answered struct {
		result proto.Evaluated
		err    error
	}
	done := make(chan answered, 1)
	go func() {
		result, err := p.b.service.Eval(p.b.t.Context(), proto.Eval{Page: p.id, Code: code})
		done <- answered{result, err}
	}()
	packet := p.receive()
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

// pages returns the connected pages.
func (b *env) pages() []proto.Page {
	b.t.Helper()
	pages, err := b.service.Pages(b.t.Context(), proto.PagesRequest{})
	must(b.t, err)
	return pages.Pages
}

func TestSocket(t *testing.T) {
	b := newEnv(t)
	p := b.hello(`"nonce":"n1","url":"http://` + b.addr + `/app.html","kind":"frame"`)
	if pages := b.pages(); len(pages) != 1 || pages[0].ID != p.id || pages[0].Kind != "frame" || p.nonce != "n1" {
		t.Errorf("pages %+v, welcome %+v", pages, p)
	}
	got := p.eval("12+13", func(job string) {
		p.sendAs("started", `"job":"`+job+`"`)
		p.sendAs("events", `"events":[{"type":"console","level":"log","message":"hi"}]`)
		p.sendAs("result", `"job":"`+job+`","ok":true,"kind":"json","value":"25"`)
	})
	if !got.OK || valueOf(got) != "25" || got.Kind != "json" || len(got.Background) != 1 || got.Background[0].Message != "hi" {
		t.Errorf("evaluated: %+v", got)
	}
	for range 3 {
		if packet := p.receive(); packet["type"] != "ok" {
			t.Errorf("answered %v", packet)
		}
	}
	text, err := os.ReadFile(filepath.Join(b.dir, p.file))
	if err != nil || !strings.Contains(string(text), "```JSON\n25\n```") {
		t.Errorf("the file: %v\n%s", err, text)
	}
}

// TestSocketText checks a result that is not valid Unicode, as JavaScript allows.
func TestSocketText(t *testing.T) {
	b := newEnv(t)
	p := b.hello(`"nonce":"n"`)
	got := p.eval("x", func(job string) {
		p.sendAs("result", `"job":"`+job+`","ok":true,"kind":"text","value":"a\ud800b\u0000\u001b"`)
	})
	if !got.OK || !strings.HasPrefix(valueOf(got), "a") || !strings.Contains(valueOf(got), "b") {
		t.Errorf("evaluated: %+v, received %v", got, p.receive())
	}
}

// TestSocketErrors checks that an invalid packet gets an error and does not end the
// connection.
func TestSocketErrors(t *testing.T) {
	b := newEnv(t)
	p := b.hello(`"nonce":"n"`)
	for fields, code := range map[string]string{
		`result:"job":"none","ok":true`: "unknown", `started:"job":"none"`: "unknown", `result:"job":{},"ok":true`: "invalid", `result:"ok":true`: "invalid",
		`events:"events":7`: "invalid", `nothing:"x":1`: "unknown", `attach:"name":"x"`: "unknown", `eval:"page":"x","code":"1"`: "unknown",
	} {
		typ, rest, _ := strings.Cut(fields, ":")
		p.sendAs(typ, rest)
		if got := p.receive(); got["type"] != "error" || got["code"] != code {
			if typ != "started" || got["type"] != "ok" {
				t.Errorf("%s: %v, want %s", fields, got, code)
			}
		}
	}
	if len(b.pages()) != 1 {
		t.Error("the page was disconnected")
	}
}

// TestSocketViolations checks that packets that the script never sends close the
// socket.
func TestSocketViolations(t *testing.T) {
	b := newEnv(t)
	for _, test := range []struct{ name, text, want string }{
		{"no hello", `{"type":"result","id":"1a2b","nonce":"n","job":"1","ok":true}`, "hello"},
		{"no JSON", "hello", "hello"},
		{"no type", `{"name":"x"}`, "hello"},
		{"no name", `{"type":"hello"}`, "name"},
		{"a name of another type", `{"type":"hello","name":{}}`, "name"},
	} {
		p := &peer{b: b, conn: b.dial(socketPath)}
		p.send(test.text)
		if code, reason := p.closed(); code != websocket.StatusPolicyViolation || !strings.Contains(reason, test.want) {
			t.Errorf("%s: closed with %d %q", test.name, code, reason)
		}
	}
	for _, text := range []string{
		`{"type":"events","id":"ID","nonce":"other","events":[]}`, `{"type":"events","id":"ffff","nonce":"n","events":[]}`,
		`{"type":"events","nonce":"n","events":[]}`, `{"type":"events","id":"ID","events":[]}`, `[]`, `{`, "",
	} {
		p := b.hello(`"nonce":"n"`)
		p.send(strings.Replace(text, "ID", p.id, 1))
		if code, _ := p.closed(); code != websocket.StatusPolicyViolation {
			t.Errorf("%s: closed with %d", text, code)
		}
	}
	p := b.hello(`"nonce":"n"`)
	must(t, p.conn.Write(t.Context(), websocket.MessageBinary, []byte("{}")))
	if code, reason := p.closed(); code != websocket.StatusPolicyViolation || !strings.Contains(reason, "text") {
		t.Errorf("bytes: closed with %d %q", code, reason)
	}
	b.until("all pages are disconnected", func() bool { return len(b.pages()) == 0 })
}

// TestSocketLimits checks that too large packets close only the socket.
func TestSocketLimits(t *testing.T) {
	b := newEnv(t)
	p := &peer{b: b, conn: b.dial(socketPath)}
	p.send(`{"type":"hello","name":"` + strings.Repeat("x", helloMax) + `"}`)
	if code, _ := p.closed(); code != websocket.StatusMessageTooBig {
		t.Errorf("a long hello: closed with %d", code)
	}
	p = b.hello(`"nonce":"n"`)
	// The socket may be closed before all of it is written.
	_ = p.conn.Write(t.Context(), websocket.MessageText, make([]byte, packetMax+1))
	if code, _ := p.closed(); code == websocket.StatusNormalClosure {
		t.Errorf("a long packet: closed with %d", code)
	}
	b.until("it is gone", func() bool { return len(b.pages()) == 0 })
	b.hello(`"nonce":"n"`)
}

func TestSocketsMax(t *testing.T) {
	b := newEnv(t)
	b.mu.Lock()
	b.open = socketsMax - 1
	b.mu.Unlock()
	last := b.hello(`"nonce":"n"`)
	_, res, err := websocket.Dial(t.Context(), "ws://"+b.addr+socketPath, &websocket.DialOptions{
		Subprotocols: []string{protocol, b.token}, HTTPHeader: http.Header{"Origin": {"http://" + b.addr}},
	})
	if err == nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one too many: %v %v", res, err)
	}
	must(t, last.conn.CloseNow())
	b.until("there is room", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.open == socketsMax-1 })
	b.hello(`"nonce":"n"`)
}

// TestSocketEnd checks that the service closes the sockets when it stops.
func TestSocketEnd(t *testing.T) {
	b := newEnv(t)
	p, l := b.hello(`"nonce":"n"`), &peer{b: b, conn: b.dial(livePath)}
	if got := l.receive(); got["type"] != "pages" {
		t.Errorf("live: %v", got)
	}
	must(t, b.service.Close())
	if code, _ := p.closed(); code != websocket.StatusGoingAway {
		t.Errorf("closed with %d", code)
	}
	if code, _ := l.closed(); code != websocket.StatusGoingAway {
		t.Errorf("live closed with %d", code)
	}
	late := &peer{b: b, conn: b.dial(socketPath)}
	late.send(`{"type":"hello","name":"late"}`)
	if code, reason := late.closed(); code != websocket.StatusTryAgainLater || reason == "" {
		t.Errorf("late: closed with %d %q", code, reason)
	}
}

// TestConnected checks that pages and status pages count as connections, but requests
// do not.
func TestConnected(t *testing.T) {
	b := newEnv(t)
	if b.get("/zino.js"); b.Connected() {
		t.Error("connected after a script was fetched")
	}
	p, l := b.hello(`"nonce":"n"`), &peer{b: b, conn: b.dial(livePath)}
	for _, c := range []*peer{p, l} {
		if !b.Connected() {
			t.Error("not connected while one is")
		}
		must(t, c.conn.CloseNow())
	}
	b.until("both are disconnected", func() bool { return !b.Connected() })
}

// TestSocketGone checks that a job fails at once when its page disconnects.
func TestSocketGone(t *testing.T) {
	b := newEnv(t)
	p := b.hello(`"nonce":"n"`)
	got := p.eval("forever", func(string) { p.conn.CloseNow() })
	if got.OK || !strings.Contains(got.Error, "page closed or reloaded") {
		t.Errorf("evaluated: %+v", got)
	}
}

func TestIdentity(t *testing.T) {
	b := newEnv(t)
	first := b.hello(`"nonce":"one"`)
	ask := `"id":"` + first.id + `","nonce":`
	if copied := b.hello(ask + `"two"`); copied.id == first.id {
		t.Error("a copy of the tab has the same id")
	}
	if forged := b.hello(ask + `"three","left":"guess"`); forged.id == first.id {
		t.Error("a page that does not know the nonce took the id over")
	}
	again := b.hello(ask + `"one"`)
	if code, _ := first.closed(); again.id != first.id || code == websocket.StatusNormalClosure {
		t.Errorf("the same page over a new socket is %s, not %s", again.id, first.id)
	}
	reloaded := b.hello(ask + `"four","left":"one"`)
	if _, reason := again.closed(); reloaded.id != first.id || reloaded.nonce != "four" {
		t.Errorf("the page after a reload is %s, not %s: %s", reloaded.id, first.id, reason)
	}
	must(t, reloaded.conn.CloseNow())
	b.until("the page is disconnected", func() bool { return len(b.pages()) == 2 })
	if later := b.hello(ask + `"five"`); later.id != first.id {
		t.Errorf("a page that comes back is %s, not %s", later.id, first.id)
	}
}

func TestLive(t *testing.T) {
	b := newEnv(t)
	l := &peer{b: b, conn: b.dial(livePath)}
	if got := l.receive()["pages"].([]any); len(got) != 0 {
		t.Errorf("pages %v", got)
	}
	p := b.hello(`"nonce":"n"`)
	b.until("the list has the page", func() bool { return len(l.receive()["pages"].([]any)) == 1 })
	must(t, p.conn.CloseNow())
	b.until("the list is empty", func() bool { return len(l.receive()["pages"].([]any)) == 0 })
	must(t, l.conn.CloseNow())
	b.until("all sockets are closed", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.open == 0 })
}

// FuzzHandle checks that every packet of a page gets a valid reply.
func FuzzHandle(f *testing.F) {
	for _, text := range []string{
		`{"type":"result","id":"1a2b","nonce":"n","job":"1","ok":true,"kind":"json","value":"1"}`, `{"type":"events","id":"1a2b","nonce":"n","events":[{"type":"console","message":"x"}]}`,
		`{"type":"started","id":"1a2b","nonce":"n","job":"1"}`, `{"type":"hello","name":"x"}`, `{"type":"\ud800"}`, "", "[]", `{"type":{}}`,
	} {
		f.Add([]byte(text))
	}
	b := newEnv(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		typ, packet := b.handle(t.Context(), text)
		got, err := wire.AppendObject(nil, typ, packet)
		must(t, err)
		if again, err := wire.ReplyType(got); err != nil || again != typ || typ != "ok" && typ != "error" {
			t.Fatalf("%q: answered %s, %v", text, got, err)
		}
	})
}
