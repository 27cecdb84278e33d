package rpctest

import (
	"context"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
)

// Case is one request of a service.
type Case struct {
	Name    string
	Request string // the payload; a JSON object without "meta"

	// What is wanted: the last packet of the answer to the letter, or an error
	// of this code whose text is Message or, if Message ends with "…", begins
	// with it. With none of them, any answer but an error.
	Reply, Code, Message string

	// Block is the work on the request, if that takes as long as the request
	// does: a *Block, used by no other case, or a type that can report it.
	Block Blocked
}

// Blocked reports how far the work on a request is: see Block.
type Blocked interface {
	Begun(t testing.TB)
	Canceled(t testing.TB)
}

// Conformance checks what the protocol requires of every service: one terminal
// packet for each request, also for malformed ones; connections that stay usable;
// answers on half-closed connections; and work that ends when the caller hangs up or
// the deadline passes. Nothing else may use the service meanwhile.
func Conformance(t *testing.T, socket string, cases []Case) {
	t.Helper()
	t.Run("malformed", func(t *testing.T) {
		c := Dial(t, socket)
		for _, payload := range []string{
			"", "x", "{", "[]", `"ping"`, "null", `{"type":"ping"}}`, `{"type":5}`, "{\"type\":\"ping\",\"x\":\"\xff\"}",
			`{"type":"stats","meta":{"trace":"a b"}}`, `{"type":"stats","meta":{"deadline_ms":0}}`,
		} {
			if p := ask(c, payload); p.Type != "error" || p.Code != "invalid" || !strings.HasPrefix(p.Message, "Invalid request: ") {
				t.Errorf("%q: %s", payload, p.Raw)
			}
		}
		if p := ask(c, `{"type":"no such type"}`); p.Code != "unknown" || p.Message != "Unknown message type: no such type" {
			t.Errorf("an unknown type: %s", p.Raw)
		}
		if p := ask(c, `{"type":"describe"}`); p.Type != "description" {
			t.Errorf("describe: %s", p.Raw)
		}
	})
	t.Run("too large", func(t *testing.T) {
		c := Dial(t, socket)
		c.Write("\x01\x00\x00\x00")
		if p := c.Next(); p.Type != "error" || p.Code != "too_large" {
			t.Errorf("got %s", p.Raw)
		}
		zinotest.Equal(t, "after the error", c.Receive(), "")
	})
	t.Run("cut", func(t *testing.T) {
		frame := Frame(`{"type":"ping"}`)
		for n := range len(frame) {
			c := Dial(t, socket)
			c.Write(frame[:n])
			c.HalfClose()
			if got := c.Receive(); got != "" {
				t.Errorf("after %d bytes of a frame: %s", n, got)
			}
		}
	})
	for _, tt := range cases {
		t.Run(tt.Name, func(t *testing.T) {
			if tt.Block != nil {
				tt.blocked(t, socket)
				return
			}
			c := Dial(t, socket)
			c.Send(tt.Request)
			_, last := c.Finish()
			tt.check(t, last)
			c.Send(tt.Request)
			c.HalfClose()
			tt.check(t, terminal(c))
			zinotest.Equal(t, "after the answer on a half-closed connection", c.Receive(), "")
		})
	}
	WaitIdle(t, socket)
}

// ask sends a payload and returns the answer. A reset connection is reported by
// Conn.
func ask(c *Conn, payload string) Packet {
	c.t.Helper()
	c.Send(payload)
	return c.Next()
}

// terminal skips the packets of a stream.
func terminal(c *Conn) (last Packet) {
	c.t.Helper()
	for {
		switch last = c.Next(); last.Type {
		case "chunk", "keepalive":
		default:
			return last
		}
	}
}

func (tt Case) check(t testing.TB, last Packet) {
	t.Helper()
	begin, open := strings.CutSuffix(tt.Message, "…")
	switch {
	case tt.Reply != "":
		zinotest.Equal(t, tt.Request, last.Raw, tt.Reply)
	case tt.Code == "" && (last.Type == "error" || last.Raw == ""):
		t.Errorf("%s: got %s", tt.Request, last.Raw)
	case tt.Code == "":
	case last.Type != "error" || last.Code != tt.Code || last.Message != tt.Message && !(open && strings.HasPrefix(last.Message, begin)):
		t.Errorf("%s:\n got %s\nwant code %s, message %q", tt.Request, last.Raw, tt.Code, tt.Message)
	}
}

// blocked checks what ends work that would not end by itself.
func (tt Case) blocked(t *testing.T, socket string) {
	t.Helper()
	for _, halfFirst := range []bool{false, true} {
		c := Dial(t, socket)
		c.Send(tt.Request)
		tt.Block.Begun(t)
		if halfFirst {
			c.HalfClose()
		}
		c.Close()
		tt.Block.Canceled(t)
		WaitIdle(t, socket)
	}
	c := Dial(t, socket)
	c.Send(strings.TrimSuffix(tt.Request, "}") + `,"meta":{"deadline_ms":200}}`)
	last := c.Next()
	for last.Type != "error" && last.Raw != "" { // events
		last = c.Next()
	}
	if last.Code != "timeout" {
		t.Errorf("after the deadline: %s", last.Raw)
	}
}

// Shutdown checks that a request which is cancelled because the service ends has
// one terminal packet. The case has a Block of its own.
func Shutdown(t *testing.T, s *rpc.Server, socket string, tt Case) {
	t.Helper()
	c := Dial(t, socket)
	c.Send(tt.Request)
	tt.Block.Begun(t)
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(expired) }()
	if last := terminal(c); last.Type != "error" || last.Code != "canceled" {
		t.Errorf("the request ended with %s", last.Raw)
	}
	zinotest.Equal(t, "after the terminal packet", c.Receive(), "")
	if err := zinotest.Receive(t, "the shutdown", stopped); err == nil {
		t.Error("Shutdown returned no error though it cancelled a request")
	}
	tt.Block.Canceled(t)
}
