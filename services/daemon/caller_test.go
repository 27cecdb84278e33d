package daemon

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"testing"
	"time"
)

// packet is any packet of an answer.
type packet struct {
	Type, Delta, Content, Message, Code, Service string

	FullText   string `json:"full_text"`
	Iterations *int
	raw        string
}

func (p packet) text() string { return p.Content + p.FullText }

// caller is a client that speaks bytes.
type caller struct {
	t  *testing.T
	nc *net.UnixConn
}

func (b *bench) dial() *caller {
	b.t.Helper()
	nc, err := net.Dial("unix", b.cfg.Daemon.Socket)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return &caller{b.t, nc.(*net.UnixConn)}
}

func (c *caller) send(payload string) {
	c.t.Helper()
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
	if _, err := c.nc.Write(frame); err != nil {
		c.t.Fatal(err)
	}
}

// next reads one packet; the end of the stream has an empty type.
func (c *caller) next() (p packet) {
	c.t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(c.nc, head[:]); err == io.EOF {
		return p
	} else if err != nil {
		c.t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c.nc, body); err != nil {
		c.t.Fatal(err)
	}
	if err := json.Unmarshal(body, &p); err != nil {
		c.t.Fatalf("%s: %v", body, err)
	}
	p.raw = string(body)
	return p
}

// finish reads up to the terminal packet and returns it with the text that was
// streamed before. Nothing may follow: the next packet is the pong of a ping.
func (c *caller) finish() (streamed string, last packet) {
	c.t.Helper()
	for last = c.next(); last.Type == "chunk"; last = c.next() {
		streamed += last.Delta
	}
	c.send(`{"type":"ping"}`)
	if p := c.next(); p.Type != "pong" {
		c.t.Errorf("after the terminal packet %s came %s", last.raw, p.raw)
	}
	return streamed, last
}

// ask sends one request and reads its answer.
func (b *bench) ask(payload string) (streamed string, last packet) {
	b.t.Helper()
	c := b.dial()
	c.send(payload)
	return c.finish()
}

// wait waits for ch to be closed or to deliver.
func wait[T any](t *testing.T, ch <-chan T, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
	}
}

// until waits for ch, or for the end of the request.
func until(ctx context.Context, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// idle waits until the daemon works on nothing.
func (b *bench) idle() {
	b.t.Helper()
	c := b.dial()
	for busy := true; busy; {
		c.send(`{"type":"stats"}`)
		var stats struct {
			InFlight int `json:"in_flight"`
		}
		if p := c.next(); json.Unmarshal([]byte(p.raw), &stats) != nil || p.Type != "stats" {
			b.t.Fatalf("stats: %s", p.raw)
		}
		busy = stats.InFlight > 0
	}
}

// modes runs f for collected and streamed requests; more is the field to add.
func modes(t *testing.T, f func(t *testing.T, stream bool, more string)) {
	t.Run("collected", func(t *testing.T) { f(t, false, "") })
	t.Run("streaming", func(t *testing.T) { f(t, true, `,"stream":true`) })
}
