package web

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

func TestSocket(t *testing.T) {
	b := newBench(t)
	p := b.hello(`"nonce":"n1","url":"http://` + b.addr + `/app.html","kind":"frame"`)
	if pages := b.pages(); len(pages) != 1 || pages[0].ID != p.id || pages[0].Kind != "frame" || p.nonce != "n1" {
		t.Errorf("pages %+v, welcome %+v", pages, p)
	}
	got := p.eval("12+13", func(job string) {
		p.tell("started", `"job":"`+job+`"`)
		p.tell("events", `"events":[{"type":"console","level":"log","message":"hi"}]`)
		p.tell("result", `"job":"`+job+`","ok":true,"kind":"json","value":"25"`)
	})
	if !got.OK || got.Value != "25" || got.Kind != "json" || len(got.Background) != 1 || got.Background[0].Message != "hi" {
		t.Errorf("evaluated: %+v", got)
	}
	for range 3 {
		if packet := p.hear(); packet["type"] != "ok" {
			t.Errorf("answered %v", packet)
		}
	}
	text, err := os.ReadFile(filepath.Join(b.dir, p.file))
	if err != nil || !strings.Contains(string(text), "```JSON\n25\n```") {
		t.Errorf("the file: %v\n%s", err, text)
	}
}

// TestSocketText: what JavaScript calls a string need not be Unicode.
func TestSocketText(t *testing.T) {
	b := newBench(t)
	p := b.hello(`"nonce":"n"`)
	got := p.eval("x", func(job string) {
		p.tell("result", `"job":"`+job+`","ok":true,"kind":"text","value":"a\ud800b\u0000\u001b"`)
	})
	if !got.OK || !strings.HasPrefix(got.Value, "a") || !strings.Contains(got.Value, "b") {
		t.Errorf("evaluated: %+v, heard %v", got, p.hear())
	}
}

// TestSocketErrors: what is wrong with a packet is answered, and the page stays.
func TestSocketErrors(t *testing.T) {
	b := newBench(t)
	p := b.hello(`"nonce":"n"`)
	for fields, code := range map[string]string{
		`result:"job":"none","ok":true`: "unknown", `started:"job":"none"`: "unknown", `result:"job":{},"ok":true`: "invalid", `result:"ok":true`: "invalid",
		`events:"events":7`: "invalid", `nothing:"x":1`: "unknown", `attach:"name":"x"`: "unknown", `eval:"page":"x","code":"1"`: "unknown",
	} {
		typ, rest, _ := strings.Cut(fields, ":")
		p.tell(typ, rest)
		if got := p.hear(); got["type"] != "error" || got["code"] != code {
			if typ != "started" || got["type"] != "ok" {
				t.Errorf("%s: %v, want %s", fields, got, code)
			}
		}
	}
	if len(b.pages()) != 1 {
		t.Error("the page is gone")
	}
}

// TestSocketFaults: what no page of ours would say ends the socket.
func TestSocketFaults(t *testing.T) {
	b := newBench(t)
	for _, test := range []struct{ name, text, want string }{
		{"no hello", `{"type":"result","id":"1a2b","nonce":"n","job":"1","ok":true}`, "hello"},
		{"no JSON", "hello", "hello"},
		{"no type", `{"name":"x"}`, "hello"},
		{"no name", `{"type":"hello"}`, "name"},
		{"a name that is none", `{"type":"hello","name":{}}`, "name"},
	} {
		p := &peer{b: b, conn: b.dial(socketPath)}
		p.say(test.text)
		if code, reason := p.closed(); code != websocket.StatusPolicyViolation || !strings.Contains(reason, test.want) {
			t.Errorf("%s: closed with %d %q", test.name, code, reason)
		}
	}
	for _, text := range []string{
		`{"type":"events","id":"ID","nonce":"other","events":[]}`, `{"type":"events","id":"ffff","nonce":"n","events":[]}`,
		`{"type":"events","nonce":"n","events":[]}`, `{"type":"events","id":"ID","events":[]}`, `[]`, `{`, "",
	} {
		p := b.hello(`"nonce":"n"`)
		p.say(strings.Replace(text, "ID", p.id, 1))
		if code, _ := p.closed(); code != websocket.StatusPolicyViolation {
			t.Errorf("%s: closed with %d", text, code)
		}
	}
	p := b.hello(`"nonce":"n"`)
	if err := p.conn.Write(t.Context(), websocket.MessageBinary, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if code, reason := p.closed(); code != websocket.StatusPolicyViolation || !strings.Contains(reason, "text") {
		t.Errorf("bytes: closed with %d %q", code, reason)
	}
	b.until("all are gone", func() bool { return len(b.pages()) == 0 })
}

// TestSocketLimits: packets that are too large end the socket, not the service.
func TestSocketLimits(t *testing.T) {
	b := newBench(t)
	p := &peer{b: b, conn: b.dial(socketPath)}
	p.say(`{"type":"hello","name":"` + strings.Repeat("x", helloMax) + `"}`)
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

// TestSocketsMax: there is a bound, and room again when one has gone.
func TestSocketsMax(t *testing.T) {
	b := newBench(t)
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
	if err := last.conn.CloseNow(); err != nil {
		t.Fatal(err)
	}
	b.until("there is room", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.open == socketsMax-1 })
	b.hello(`"nonce":"n"`)
}

// TestSocketEnd: sockets end with the service, and with the server.
func TestSocketEnd(t *testing.T) {
	b := newBench(t)
	p, l := b.hello(`"nonce":"n"`), &peer{b: b, conn: b.dial(livePath)}
	if got := l.hear(); got["type"] != "pages" {
		t.Errorf("live: %v", got)
	}
	if err := b.service.Close(); err != nil {
		t.Fatal(err)
	}
	if code, _ := p.closed(); code != websocket.StatusGoingAway {
		t.Errorf("closed with %d", code)
	}
	if code, _ := l.closed(); code != websocket.StatusGoingAway {
		t.Errorf("live closed with %d", code)
	}
	late := &peer{b: b, conn: b.dial(socketPath)}
	late.say(`{"type":"hello","name":"late"}`)
	if code, reason := late.closed(); code != websocket.StatusTryAgainLater || reason == "" {
		t.Errorf("late: closed with %d %q", code, reason)
	}
}

// TestConnected: pages and lists of pages count, and nothing else.
func TestConnected(t *testing.T) {
	b := newBench(t)
	if b.get("/zino.js"); b.Connected() {
		t.Error("connected after a script was fetched")
	}
	p, l := b.hello(`"nonce":"n"`), &peer{b: b, conn: b.dial(livePath)}
	for _, c := range []*peer{p, l} {
		if !b.Connected() {
			t.Error("not connected while one is")
		}
		if err := c.conn.CloseNow(); err != nil {
			t.Fatal(err)
		}
	}
	b.until("it has noticed", func() bool { return !b.Connected() })
}
