package rpc

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"zino/pkg/wire"
	"zino/proto"
)

const (
	keepaliveEvery = 10 * time.Second
	coalesce       = 32 << 10 // bytes that are buffered at most before they are written
	largeFrame     = 8 << 10  // bytes of a packet that is not buffered
)

// keepalivePacket shows a waiting caller that the service is alive.
const keepalivePacket = `{"type":"keepalive"}`

// Out is the answer of a request in progress. Packets are buffered until Flush,
// so that a burst costs one write and a single token is not delayed. Keepalives
// may come between the packets. Its methods may be called from one goroutine at a
// time.
type Out struct {
	nc     net.Conn
	ctx    context.Context
	stream bool
	sent   func(packet []byte) // nil, or called with the terminal packet

	mu    sync.Mutex
	limit atomic.Int64 // see SetWriteTimeout
	buf   []byte
	ended bool
	err   error // the first failed write: the caller is gone
}

// Streaming reports whether chunks go to the caller.
func (o *Out) Streaming() bool { return o.stream }

// Collect makes the answer one packet although chunks were asked for. It has no
// effect after the first chunk.
func (o *Out) Collect() { o.stream = false }

// Text sends one chunk, with the next Flush, to a caller that asked for a stream.
// Empty deltas are skipped. An error means that the caller is gone.
func (o *Out) Text(delta []byte) error {
	if !o.stream || len(delta) == 0 {
		return o.ctx.Err()
	}
	return o.add(func(b []byte) ([]byte, error) { return wire.AppendChunk(b, delta) })
}

// Delta sends an assistant_delta, with the next Flush, to a caller that asked for
// events. Empty ones are skipped.
func (o *Out) Delta(text []byte) error {
	if len(text) == 0 {
		return o.ctx.Err()
	}
	return o.add(func(b []byte) ([]byte, error) { return wire.AppendDelta(b, text) })
}

// Frame passes on a packet as another service sent it. A large one is written at once,
// without a copy: many callers may get the same.
func (o *Out) Frame(payload []byte) error {
	if len(payload) < largeFrame || len(payload) > wire.MaxPayload {
		return o.add(func(b []byte) ([]byte, error) { return wire.AppendFrame(b, payload) })
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf = wire.AppendHeader(o.buf, len(payload))
	if err := o.write(); err != nil {
		return err
	}
	o.err = o.send(payload)
	return o.err
}

// Packet sends one typed packet with the next Flush. See Event.
func (o *Out) Packet(typ string, v any) error {
	return o.add(func(b []byte) ([]byte, error) { return appendPacket(b, typ, v) })
}

// Event sends one typed packet at once, in order with the chunks. A method that
// answers with text sends events only to callers that asked for them: others may
// not know their types.
func (o *Out) Event(typ string, v any) error {
	if err := o.Packet(typ, v); err != nil {
		return err
	}
	return o.Flush()
}

// Flush writes what is buffered. Call it before waiting for more input.
func (o *Out) Flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.write()
}

func (o *Out) add(packet func([]byte) ([]byte, error)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	start := len(o.buf)
	b, err := packet(o.buf)
	if err != nil {
		o.buf = b[:start]
		return err
	}
	if o.buf = b; len(b) < coalesce {
		return nil
	}
	return o.write()
}

// write sends the buffer. mu is locked.
func (o *Out) write() error {
	if o.err != nil || len(o.buf) == 0 {
		return o.err
	}
	o.err = o.send(o.buf)
	o.buf = recycle(o.buf)
	return o.err
}

// buffer returns an empty buffer, given the one that a connection has kept.
func buffer(kept []byte) []byte {
	if kept == nil {
		return wire.Buffer(0)
	}
	return kept[:0]
}

// recycle returns what a connection keeps of a buffer that was written: a small buffer
// only.
func recycle(b []byte) []byte {
	if cap(b) <= 2*coalesce {
		return b[:0]
	}
	wire.Free(b)
	return nil
}

// SetWriteTimeout limits how long the caller may accept no byte; 0 means no limit. A
// shorter limit also holds for a write in progress. It may be called at any time.
func (o *Out) SetWriteTimeout(d time.Duration) {
	o.limit.Store(int64(d))
	o.nc.SetWriteDeadline(time.Now().Add(d))
}

// send writes b; with a limit in pieces, each within it. mu is locked.
func (o *Out) send(b []byte) error {
	for len(b) > 0 && o.limit.Load() > 0 {
		n := min(len(b), coalesce)
		if err := o.nc.SetWriteDeadline(time.Now().Add(time.Duration(o.limit.Load()))); err != nil {
			return err
		}
		if _, err := o.nc.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	if len(b) == 0 {
		return nil
	}
	_, err := o.nc.Write(b)
	return err
}

// end sends the terminal packet. Nothing follows it, not even keepalives.
func (o *Out) end(typ string, v any) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return nil
	}
	start := len(o.buf)
	b, err := appendPacket(o.buf, typ, v)
	if err != nil {
		o.buf = b[:start]
		return err
	}
	o.ended, o.buf = true, b
	if o.sent != nil {
		o.sent(b[start+len(wire.Begin(nil)):]) // behind the header
	}
	return o.write()
}

// last passes on a terminal packet as another service sent it.
func (o *Out) last(payload []byte) error {
	if err := o.Frame(payload); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	if o.sent != nil {
		o.sent(payload)
	}
	return o.write()
}

// keepAlive sends a keepalive at every interval until stop is called.
func (o *Out) keepAlive(every time.Duration) (stop func() bool) {
	o.mu.Lock() // the first keepalive waits until timer is set
	defer o.mu.Unlock()
	var timer *time.Timer
	timer = time.AfterFunc(every, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.ended || o.err != nil {
			return
		}
		o.buf, _ = wire.AppendFrame(o.buf, []byte(keepalivePacket)) // cannot fail: it is small
		o.write()                                                   // the error stays in o.err
		timer.Reset(every)
	})
	return timer.Stop
}

func appendPacket(b []byte, typ string, v any) ([]byte, error) {
	start := len(b)
	b, err := wire.AppendObject(wire.Begin(b), typ, v)
	if err != nil {
		return b, err
	}
	return b, wire.End(b, start)
}

// textDone is the terminal packet of a streamed text: proto.Text with another key
// for the text.
type textDone struct {
	Content       string       `json:"full_text"`
	Iterations    *int         `json:"iterations,omitzero"`
	ToolCalls     proto.Raw    `json:"tool_calls,omitzero"`
	State         proto.Raw    `json:"reasoning_state,omitzero"`
	StopReason    string       `json:"stop_reason,omitzero"`
	Structured    proto.Raw    `json:"structured,omitzero"`
	Usage         *proto.Usage `json:"usage,omitzero"`
	Provider      string       `json:"provider,omitzero"`
	Model         string       `json:"model,omitzero"`
	ContextWindow int          `json:"context_window,omitzero"`
	Warnings      []string     `json:"warnings,omitzero"`
	NotStored     string       `json:"not_stored,omitzero"`
}

// endText ends a text method in the form that the caller asked for.
func (o *Out) endText(reply string, text proto.Text) error {
	if o.stream {
		return o.end("done", textDone(text))
	}
	return o.end(reply, text)
}
