package rpc

import (
	"testing"

	"zino/pkg/wire"
)

// endless is a reader of the same frame for ever, one a read.
type endless []byte

func (e endless) Read(b []byte) (int, error) { return copy(b, e), nil }

// discard is a sink that looks at nothing.
type discard struct{ n int }

func (d *discard) Text(delta []byte) error { d.n += len(delta); return nil }
func (d *discard) Flush() error            { return nil }

// TestChunksCostNoMemory: a chunk is handed to a sink, and passed on to an Out,
// without an allocation.
func TestChunksCostNoMemory(t *testing.T) {
	frame, err := wire.AppendChunk(nil, "thirty bytes of\na \"model's\" text")
	if err != nil {
		t.Fatal(err)
	}
	d, out := &discard{}, &Out{stream: true, buf: make([]byte, 0, coalesce)}
	for _, s := range []*textStream{
		{c: &Client{}, reply: "response", sink: d, streaming: true},
		{c: &Client{}, reply: "response", sink: d, relay: out, streaming: true},
	} {
		in := wire.NewReader(endless(frame))
		take := func() {
			out.buf = out.buf[:0]
			payload, err := in.Next()
			if err != nil {
				t.Fatal(err)
			}
			if done, err := s.packet(in, payload); done || err != nil {
				t.Fatal(done, err)
			}
		}
		if n := testing.AllocsPerRun(100, take); n != 0 {
			t.Errorf("relay %v: %v allocations", s.relay != nil, n)
		}
	}
	if d.n == 0 || len(out.buf) != len(frame) {
		t.Errorf("the sink has %d bytes, the relay %d", d.n, len(out.buf))
	}
}
