package agr

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"zino/proto"
)

// packet is any packet of an answer.
type packet struct {
	Type, Delta, Content, Message, Code, Service, Details string
	Provider, Model                                       string

	FullText   string `json:"full_text"`
	Iterations *int
	StopReason string `json:"stop_reason"`
	Usage      *proto.Usage
	Status     int
	raw        string
}

// caller is a client that speaks bytes.
type caller struct {
	t  *testing.T
	nc *net.UnixConn
}

func (b *bench) dial() *caller {
	b.t.Helper()
	nc, err := net.Dial("unix", b.path)
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

// read reads text chunks until the streamed text ends with mark.
func (c *caller) read(mark string) (text string) {
	c.t.Helper()
	for !strings.HasSuffix(text, mark) {
		p := c.next()
		if p.Type != "chunk" {
			c.t.Fatalf("waiting for %q after %q: got %s", mark, text, p.raw)
		}
		text += p.Delta
	}
	return text
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

const question = `[{"role":"user","content":"hi"}]`

// request is a run of messages.
func request(messages string, more string) string {
	return `{"type":"run","messages":` + messages + `,"temperature":0.3,"top_p":0.9` + more + `}`
}

// ask sends one request and reads its answer.
func (b *bench) ask(payload string) (streamed string, last packet) {
	b.t.Helper()
	c := b.dial()
	c.send(payload)
	return c.finish()
}

// text is the whole text of a terminal packet.
func (p packet) text() string { return p.Content + p.FullText }

func (p packet) iterations() int {
	if p.Iterations == nil {
		return -1
	}
	return *p.Iterations
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

// idle waits until the agent works on nothing.
func (b *bench) idle() {
	b.t.Helper()
	c := b.dial()
	for busy := true; busy; {
		c.send(`{"type":"stats"}`)
		p := c.next()
		var stats struct {
			InFlight int `json:"in_flight"`
		}
		if err := json.Unmarshal([]byte(p.raw), &stats); err != nil || p.Type != "stats" {
			b.t.Fatalf("%s: %v", p.raw, err)
		}
		busy = stats.InFlight > 0
	}
}

// modes runs f for collected and streamed requests; more is the field to add.
func modes(t *testing.T, f func(t *testing.T, stream bool, more string)) {
	t.Run("collected", func(t *testing.T) { f(t, false, "") })
	t.Run("streaming", func(t *testing.T) { f(t, true, `,"stream":true`) })
}
