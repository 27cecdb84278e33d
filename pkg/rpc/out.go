package rpc

import (
	"context"
	"net"
	"sync"
	"time"

	"zino/pkg/wire"
	"zino/proto"
)

const (
	keepaliveEvery = 10 * time.Second
	coalesce       = 32 << 10 // bytes gathered at most before they are written
)

// keepalivePacket tells a waiting caller that work goes on.
const keepalivePacket = `{"type":"keepalive"}`

// Out is the answer of one request under way. Text gathers chunks and Flush
// writes them, so that a burst costs one write and a single token is not held
// back. A handler uses it from one goroutine; keepalives of rpc's own may come
// between its packets.
type Out struct {
	nc     net.Conn
	ctx    context.Context
	stream bool
	sent   func(packet []byte) // nil, or called with the terminal packet

	mu    sync.Mutex
	buf   []byte
	ended bool
	err   error // the first failed write: the caller is gone
}

// Streaming reports whether chunks go to the caller.
func (o *Out) Streaming() bool { return o.stream }

// Collect has the answer go out as one packet although chunks were asked for.
// It has no effect after the first chunk.
func (o *Out) Collect() { o.stream = false }

// Text sends one chunk to a caller that asked for a stream, soon: Flush says
// when. Empty deltas are skipped. An error means that the caller is gone.
func (o *Out) Text(delta []byte) error {
	if !o.stream || len(delta) == 0 {
		return o.ctx.Err()
	}
	return o.add(func(b []byte) ([]byte, error) { return wire.AppendChunk(b, delta) })
}

// Delta sends an assistant_delta to a caller that asked for events, soon: Flush
// says when. Empty ones are skipped.
func (o *Out) Delta(text []byte) error {
	if len(text) == 0 {
		return o.ctx.Err()
	}
	return o.add(func(b []byte) ([]byte, error) { return wire.AppendDelta(b, text) })
}

// Frame passes on a packet as another service sent it.
func (o *Out) Frame(payload []byte) error {
	return o.add(func(b []byte) ([]byte, error) { return wire.AppendFrame(b, payload) })
}

// Packet sends one typed packet, soon: Flush says when. See Event.
func (o *Out) Packet(typ string, v any) error {
	return o.add(func(b []byte) ([]byte, error) { return appendPacket(b, typ, v) })
}

// Event sends one typed packet at once, in order with the chunks before and
// behind it. Between the chunks of a text it goes to callers that asked for
// events only: the others may not know it.
func (o *Out) Event(typ string, v any) error {
	if err := o.Packet(typ, v); err != nil {
		return err
	}
	return o.Flush()
}

// Flush writes what has been gathered. Call it before waiting for more input.
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

// write sends the buffer; mu is held.
func (o *Out) write() error {
	if o.err != nil || len(o.buf) == 0 {
		return o.err
	}
	_, o.err = o.nc.Write(o.buf)
	if o.buf = o.buf[:0]; cap(o.buf) > 2*coalesce {
		o.buf = nil
	}
	return o.err
}

// end sends the terminal packet; nothing follows it, keepalives included.
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

// keepAlive sends a keepalive after every pause of that length until the returned function is called.
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
		o.write()                                                   // a failure stays in o.err
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

// textDone is the terminal packet of a streamed text: proto.Text, field by
// field, with the text under the name that it has there.
type textDone struct {
	Content       string       `json:"full_text"`
	Iterations    *int         `json:"iterations,omitzero"`
	ToolCalls     proto.Raw    `json:"tool_calls,omitzero"`
	State         proto.Raw    `json:"reasoning_state,omitzero"`
	StopReason    string       `json:"stop_reason,omitzero"`
	Usage         *proto.Usage `json:"usage,omitzero"`
	Provider      string       `json:"provider,omitzero"`
	Model         string       `json:"model,omitzero"`
	ContextWindow int          `json:"context_window,omitzero"`
	Warnings      []string     `json:"warnings,omitzero"`
	NotStored     string       `json:"not_stored,omitzero"`
}

// endText ends a text method in the form that the caller is waiting for.
func (o *Out) endText(reply string, text proto.Text) error {
	if o.stream {
		return o.end("done", textDone(text))
	}
	return o.end(reply, text)
}
