package web

import (
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// TestSocketGone: the page that goes fails what runs in it, at once.
func TestSocketGone(t *testing.T) {
	b := newBench(t)
	p := b.hello(`"nonce":"n"`)
	got := p.eval("forever", func(string) { p.conn.CloseNow() })
	if got.OK || !strings.Contains(got.Error, "page closed or reloaded") {
		t.Errorf("evaluated: %+v", got)
	}
}

// TestIdentity: who keeps the id, and who gets another.
func TestIdentity(t *testing.T) {
	b := newBench(t)
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
	if err := reloaded.conn.CloseNow(); err != nil {
		t.Fatal(err)
	}
	b.until("it is gone", func() bool { return len(b.pages()) == 2 })
	if later := b.hello(ask + `"five"`); later.id != first.id {
		t.Errorf("a page that comes back is %s, not %s", later.id, first.id)
	}
}

// TestLive: the list comes when it changes.
func TestLive(t *testing.T) {
	b := newBench(t)
	l := &peer{b: b, conn: b.dial(livePath)}
	if got := l.hear()["pages"].([]any); len(got) != 0 {
		t.Errorf("pages %v", got)
	}
	p := b.hello(`"nonce":"n"`)
	b.until("the list has the page", func() bool { return len(l.hear()["pages"].([]any)) == 1 })
	if err := p.conn.CloseNow(); err != nil {
		t.Fatal(err)
	}
	b.until("the list is empty", func() bool { return len(l.hear()["pages"].([]any)) == 0 })
	if err := l.conn.CloseNow(); err != nil {
		t.Fatal(err)
	}
	b.until("nothing is left", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.open == 0 })
}
