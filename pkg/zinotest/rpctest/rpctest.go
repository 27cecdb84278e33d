// Package rpctest tests services over real sockets. Only test files import it.
//
// A service, or a fake neighbour of one, is a real rpc.Server:
//
//	socket, _ := rpctest.New(t, "mem", "", func(s *rpc.Server) {
//		rpc.Handle(s, proto.MemGetSoft, getSoft)
//	})
//	client := rpctest.Client(t, "mem", socket)
//
// A connection that speaks bytes:
//
//	c := rpctest.Dial(t, socket)
//	reply := c.Ask(`{"type":"ping"}`)
//	c.Send(`{"message":"hi","stream":true}`)
//	streamed, last := c.Finish()
//
// A handler that works until its caller hangs up, and a peer that does not keep
// to the protocol:
//
//	block := rpctest.NewBlock() // a handler calls block.Wait(ctx)
//	rpctest.Raw(t, socket, "\x00\x00\x00\x02[]")
//
// What a fake neighbour was sent:
//
//	var asked rpctest.Record[proto.Infer] // a handler calls asked.Add(req)
//	first := asked.All()[0]
//
// What holds for every service is checked by one call with one table:
//
//	rpctest.Conformance(t, socket, []rpctest.Case{
//		{Name: "soft memory", Request: `{"type":"get_soft"}`, Reply: `{"type":"soft_memory","content":""}`},
//		{Name: "no channel", Request: `{"type":"get_history","channel_id":""}`, Code: "invalid", Message: "…"},
//		{Name: "slow neighbour", Request: run, Block: block},
//	})
package rpctest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// New serves what register adds under the name of a service, at socket or, if
// that is empty, in a directory of its own. Its log is discarded.
func New(t testing.TB, service, socket string, register func(*rpc.Server)) (path string, s *rpc.Server) {
	t.Helper()
	s = rpc.NewServer(service, slog.New(slog.DiscardHandler))
	register(s)
	path, _ = Serve(t, s, socket)
	return path, s
}

// Serve serves s at socket or, if that is empty, in a directory of its own. The
// server is shut down when the test ends, or by stop: its requests are cancelled
// after a second.
func Serve(t testing.TB, s *rpc.Server, socket string) (path string, stop func()) {
	t.Helper()
	l := zinotest.Listen(t, socket)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// Client returns a client that is closed when the test ends.
func Client(t testing.TB, service, socket string) *rpc.Client {
	t.Helper()
	c := &rpc.Client{Service: service, Path: socket}
	t.Cleanup(c.Close)
	return c
}

// Raw listens at socket, or in a directory of its own, answers the first frame
// of each connection with bytes, and hangs up.
func Raw(t testing.TB, socket, answer string) (path string) {
	t.Helper()
	return Play(t, socket, func(_ int, c *Conn) {
		if c.Receive() != "" {
			c.Write(answer)
		}
	})
}

// Play listens at socket, or in a directory of its own, and calls play with the
// n-th connection, from 0, each in a goroutine. A connection is closed when play
// returns; it reports no errors, since the peer can hang up at any time.
func Play(t testing.TB, socket string, play func(n int, c *Conn)) (path string) {
	t.Helper()
	l := zinotest.Listen(t, socket)
	var all sync.WaitGroup
	all.Go(func() {
		for n := 0; ; n++ {
			nc, err := l.Accept()
			if err != nil {
				return // closed
			}
			all.Go(func() {
				defer nc.Close()
				play(n, NewConn(nil, nc))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

// Conn is a connection that speaks bytes. Its methods report errors with
// t.Error, so that goroutines can call them.
type Conn struct {
	net.Conn
	t testing.TB // nil: errors are not reported
}

// Dial connects to socket until the test ends.
func Dial(t testing.TB, socket string) *Conn {
	t.Helper()
	nc, err := net.Dial("unix", socket)
	zinotest.Must(t, err)
	t.Cleanup(func() { nc.Close() })
	return NewConn(t, nc)
}

// NewConn returns a connection that was made in another way than with Dial.
func NewConn(t testing.TB, nc net.Conn) *Conn {
	nc.SetDeadline(time.Now().Add(zinotest.Timeout))
	return &Conn{nc, t}
}

// report reports an error of the connection.
func (c *Conn) report(format string, args ...any) {
	if c.t != nil {
		c.t.Helper()
		c.t.Errorf(format, args...)
	}
}

func (c *Conn) helper() {
	if c.t != nil {
		c.t.Helper()
	}
}

// Frame returns the frame of a payload.
func Frame(payload string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(payload)))) + payload
}

// Write sends bytes as they are.
func (c *Conn) Write(bytes string) {
	c.helper()
	if _, err := c.Conn.Write([]byte(bytes)); err != nil {
		c.report("%v", err)
	}
}

// Send sends payloads, each in its frame.
func (c *Conn) Send(payloads ...string) {
	c.helper()
	for _, p := range payloads {
		c.Write(Frame(p))
	}
}

// Receive reads one payload. At the end of the stream it returns "".
func (c *Conn) Receive() string {
	c.helper()
	var head [4]byte
	_, err := io.ReadFull(c, head[:])
	if err == io.EOF {
		return ""
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if err == nil {
		_, err = io.ReadFull(c, body)
	}
	if err != nil {
		c.report("reading a frame: %v", err)
		return ""
	}
	return string(body)
}

// Ask sends a payload and returns the first one of the answer.
func (c *Conn) Ask(payload string) string {
	c.helper()
	c.Send(payload)
	return c.Receive()
}

// HalfClose ends the sending side: an answer can still arrive.
func (c *Conn) HalfClose() {
	c.helper()
	if err := c.Conn.(*net.UnixConn).CloseWrite(); err != nil {
		c.report("%v", err)
	}
}

// Packet is any packet of an answer.
type Packet struct {
	Type, Delta, Content, Message, Code, Service, Details string
	Provider, Model                                       string

	FullText   string `json:"full_text"`
	StopReason string `json:"stop_reason"`
	Iterations int
	Status     int
	Usage      *proto.Usage
	Raw        string `json:"-"`
}

// Text is the whole text of a terminal packet, streamed or not.
func (p Packet) Text() string { return p.Content + p.FullText }

// Next reads one packet. At the end of the stream it is empty.
func (c *Conn) Next() (p Packet) {
	c.helper()
	if p.Raw = c.Receive(); p.Raw == "" {
		return p
	}
	// Other keys can have any types: only the type must fit.
	err := json.Unmarshal([]byte(p.Raw), &p)
	if err != nil && p.Type == "" {
		c.report("%s: %v", p.Raw, err)
	}
	return p
}

// Streamed reads chunks until their text ends with mark, and returns the text.
func (c *Conn) Streamed(mark string) (text string) {
	c.helper()
	for !strings.HasSuffix(text, mark) {
		p := c.Next()
		if p.Type != "chunk" {
			c.report("waiting for %q after %q: got %s", mark, text, p.Raw)
			return text
		}
		text += p.Delta
	}
	return text
}

// Finish reads up to the terminal packet and returns it with the text of the
// chunks before it. Nothing may follow: a ping is answered next.
func (c *Conn) Finish() (streamed string, last Packet) {
	c.helper()
	for last = c.Next(); last.Type == "chunk" || last.Type == "keepalive"; last = c.Next() {
		streamed += last.Delta
	}
	c.Send(`{"type":"ping"}`)
	if p := c.Next(); p.Type != "pong" {
		c.report("after the terminal packet %s came %s", last.Raw, p.Raw)
	}
	return streamed, last
}

// Packets reads n packets.
func (c *Conn) Packets(n int) (packets []Packet) {
	c.helper()
	for range n {
		packets = append(packets, c.Next())
	}
	return packets
}

// Rest reads all packets up to the terminal one, which is the last. Nothing may
// follow it: a ping is answered next. If the peer hangs up instead, the last packet
// is empty.
func (c *Conn) Rest() (packets []Packet) {
	c.helper()
	for {
		last := c.Next()
		packets = append(packets, last)
		switch last.Type {
		case "":
			return packets
		case "done", "response", "result", "error":
			if after := c.Ask(`{"type":"ping"}`); !strings.HasPrefix(after, `{"type":"pong"`) {
				c.report("after the terminal packet %s came %s", last.Raw, after)
			}
			return packets
		}
	}
}

// Raws returns packets as they came.
func Raws(packets []Packet) (all []string) {
	for _, p := range packets {
		all = append(all, p.Raw)
	}
	return all
}

// Modes runs f for requests whose answer is collected and for those whose answer is
// streamed. more is the field to add to the request.
func Modes(t *testing.T, f func(t *testing.T, stream bool, more string)) {
	t.Run("collected", func(t *testing.T) { f(t, false, "") })
	t.Run("streaming", func(t *testing.T) { f(t, true, `,"stream":true`) })
}

// Record keeps what a fake service was sent, in its order.
type Record[T any] struct {
	mu  sync.Mutex
	all []T
}

// Add adds a value and returns how many there are. Raw fields lie in the connection's
// buffer: clone them before.
func (r *Record[T]) Add(v T) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, v)
	return len(r.all)
}

// All returns the values so far.
func (r *Record[T]) All() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// WaitIdle waits until the service works on no request.
func WaitIdle(t testing.TB, socket string) {
	t.Helper()
	c := Dial(t, socket)
	defer c.Close()
	for {
		var stats struct {
			Type     string
			InFlight int `json:"in_flight"`
		}
		reply := c.Ask(`{"type":"stats"}`)
		if err := json.Unmarshal([]byte(reply), &stats); err != nil || stats.Type != "stats" {
			t.Fatalf("stats: %s: %v", reply, err)
		}
		if stats.InFlight == 0 {
			return
		}
	}
}

// Block is work that goes on until its request is cancelled or released.
type Block struct{ begun, canceled, release chan struct{} }

// NewBlock returns work for any number of requests, one after the other.
func NewBlock() *Block {
	return &Block{make(chan struct{}, 64), make(chan struct{}, 64), make(chan struct{}, 64)}
}

// Wait is the handler's work.
func (b *Block) Wait(ctx context.Context) error {
	b.begun <- struct{}{}
	select {
	case <-b.release:
		return nil
	case <-ctx.Done():
		b.canceled <- struct{}{}
		return ctx.Err()
	}
}

// Until waits in a handler for a value from ch, or for it to be closed, or for the
// end of the request.
func Until(ctx context.Context, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Begun waits until a request is worked on.
func (b *Block) Begun(t testing.TB) {
	t.Helper()
	zinotest.Receive(t, "the work has begun", b.begun)
}

// Canceled waits until a request that was worked on is cancelled.
func (b *Block) Canceled(t testing.TB) {
	t.Helper()
	zinotest.Receive(t, "the work is cancelled", b.canceled)
}

// Release lets the work of one request end, now or when it begins.
func (b *Block) Release() { b.release <- struct{}{} }
