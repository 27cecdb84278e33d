package web

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
)

// TestPing: a page with a job is asked whether it answers. One that does not is shown
// as busy, in its file and in the list, until it does.
func TestPing(t *testing.T) {
	b := newEnv(t)
	b.stop()
	b.tune = func(s *Server) { s.pingEvery = 20 * time.Millisecond }
	b.start()
	p := b.hello(`"nonce":"n1"`)
	file := filepath.Join(b.dir, p.file)
	zinotest.Append(t, file, "```js\n1\n```\n")
	job := p.receive()["job"].(string)
	busy := func() string {
		pages := b.pages()
		if len(pages) != 1 {
			t.Fatalf("connected: %+v", pages)
		}
		return pages[0].BusySince
	}
	for range 4 {
		if packet := p.next(); packet["type"] != "ping" || len(packet) != 1 {
			t.Fatalf("received %v", packet)
		}
	}
	b.until("it is busy", func() bool { return busy() != "" })
	b.until("the file says so", func() bool {
		text, err := os.ReadFile(file)
		must(t, err)
		return strings.Contains(string(text), ": page busy or frozen since ")
	})
	b.Server.mu.Lock()
	page := b.Server.pages[p.id]
	b.Server.mu.Unlock()
	page.pinger.mu.Lock()
	page.pinger.every = time.Minute // only the pong counts from here on
	page.pinger.mu.Unlock()
	p.sendAs("pong", `"x":1`)
	b.until("it is not busy any more", func() bool { return busy() == "" })
	p.sendAs("result", `"job":"`+job+`","ok":true,"kind":"text","value":"done"`)
	if packet := p.receive(); packet["type"] != "ok" {
		t.Errorf("a pong was answered: %v", packet)
	}
	b.until("the reply is written", func() bool {
		text, err := os.ReadFile(file)
		must(t, err)
		return strings.Contains(string(text), "done\n")
	})
}
