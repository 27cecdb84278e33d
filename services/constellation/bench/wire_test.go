package bench_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"zino/pkg/wire"
	"zino/proto"
)

// timed returns the CPU time of one call of f in nanoseconds: the median of rounds of n
// calls. It uses the thread's clock, which excludes other goroutines.
func timed(rounds, n int, f func()) float64 { return median(alternately(rounds, n, f)[0]) }

// alternately is timed for several functions, whose rounds alternate. It returns the
// CPU time of one call in each round, and runs at least three.
func alternately(rounds, n int, fs ...func()) [][]float64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	lists := make([][]float64, len(fs))
	for range max(3, rounds) {
		for i, f := range fs {
			started := threadCPU()
			for range n {
				f()
			}
			lists[i] = append(lists[i], float64(threadCPU()-started)/float64(n))
		}
	}
	return lists
}

// threadCPU returns the CPU time of this thread in nanoseconds.
func threadCPU() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) // cannot fail: every kernel has it
	return ts.Nano()
}

// benchChunk encodes and decodes a chunk of 30 bytes.
func benchChunk(b *bench) ([]line, error) {
	delta := []byte("a piece of text of thirty byte")
	frame, err := wire.AppendChunk(nil, delta)
	if err != nil {
		return nil, err
	}
	payload, out, scratch := frame[4:], make([]byte, 0, 256), make([]byte, 0, 256)
	encode := func() { out, err = wire.AppendChunk(out[:0], delta) }
	decode := func() {
		if _, ok := wire.ChunkDelta(payload, scratch); !ok {
			err = io.ErrUnexpectedEOF
		}
	}
	times := alternately(b.scale(100), 10000, func() { out = append(out[:0], frame...) }, encode, decode)
	lines := []line{
		line{name: "encode a 30-byte chunk", goals: []goal{atMost(30)}, note: "floor: a copy of the frame"}.over(times[1], times[0]),
		line{name: "decode a 30-byte chunk", goals: []goal{atMost(130)}}.over(times[2], times[0]),
	}
	count, allocErr := allocations(10000, func() error { encode(); decode(); return err })
	return append(lines, line{name: "encode and decode a chunk, allocations", unit: allocs, measured: count, goals: []goal{atMost(0)}}), allocErr
}

// conversation returns a list of messages of 2 KB, about size bytes in all: words, and
// code with quotes and line breaks.
func conversation(size int) proto.Raw {
	list := []byte("[")
	text := strings.Repeat("The bread is in the oven, and the soup will be ready in a while.\n\tfmt.Println(\"ready\", n)\n", 22)
	for len(list) < size {
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(wire.AppendString(append(list, `{"role":"user","content":`...), text), '}')
	}
	return append(list, ']')
}

// relayed is the meta of a relayed request.
var relayed = proto.Meta{Trace: "0123456789abcdef", Keepalive: true}

// benchForward measures a relay's work on a request without sockets: read the frame,
// decode it, and encode a request to the next hop with the same messages.
func benchForward(b *bench) ([]line, error) {
	var err error
	messages := conversation(100 << 10)
	request, err := wire.AppendRequest(nil, "run", proto.Run{Messages: messages, Temperature: 0.7, TopP: 1, Stream: new(true)}, relayed)
	if err != nil {
		return nil, err
	}
	frame, err := wire.AppendFrame(nil, request)
	if err != nil {
		return nil, err
	}
	source, out := bytes.NewReader(frame), []byte(nil)
	in := wire.NewReader(source)
	forward := func() {
		source.Reset(frame)
		out, err = forwardOnce(in, out[:0])
	}
	forward()
	if err != nil {
		return nil, err
	}
	copied := make([]byte, len(frame))
	times := alternately(b.scale(100), 100, forward, func() { copy(copied, frame); copy(copied, frame) })
	return []line{line{
		name: "forward a request with 100 KB of messages", goals: []goal{atMost(25e3)}, note: "read, decode, encode, without sockets; floor: two copies",
	}.over(times[0], times[1])}, err
}

func forwardOnce(in *wire.Reader, out []byte) ([]byte, error) {
	payload, err := in.Next()
	if err != nil {
		return out, err
	}
	if _, _, err := wire.Type(payload); err != nil {
		return out, err
	}
	var run proto.Run
	if err := wire.Decode(payload, &run); err != nil {
		return out, err
	}
	out, err = wire.AppendRequest(wire.Begin(out), "infer", proto.Infer{Messages: run.Messages, Temperature: run.Temperature, TopP: run.TopP, Stream: run.Chunks()}, relayed)
	if err != nil {
		return out, err
	}
	return out, wire.End(out, 0)
}

// benchForwardProcess measures the same in the agent's process, including sockets: its
// CPU time for 100 KB of messages less that for 100 bytes. It has no goal, because most
// of it is the kernel's. The floor is a relay that copies the same bytes.
func benchForwardProcess(b *bench) ([]line, error) {
	peer, err := b.program("peer")
	if err != nil {
		return nil, err
	}
	c, err := b.constellation(true, nil, map[string][]string{"rtr": {peer, "source"}}, "agr", "rtr")
	defer c.stop()
	if err != nil {
		return nil, err
	}
	relay, err := b.rawRelay(c.cfg.Rtr.Socket)
	if err != nil {
		return nil, err
	}
	defer relay.stop()
	var ours, floors []float64
	for range 5 {
		floor, err := b.added(relay, func(m proto.Raw) ([]byte, error) {
			return wire.AppendRequest(nil, "infer", proto.Infer{Messages: m, Temperature: 0.7, TopP: 1}, relayed)
		})
		if err != nil {
			return nil, err
		}
		agr, err := b.added(c.processes["agr"], func(m proto.Raw) ([]byte, error) {
			return wire.AppendRequest(nil, "run", proto.Run{Messages: m, Temperature: 0.7, TopP: 1}, relayed)
		})
		if err != nil {
			return nil, err
		}
		ours, floors = append(ours, agr), append(floors, floor)
	}
	return []line{line{name: "the same in zino-agr, sockets included", note: "added by 100 KB; floor: a raw relay"}.over(ours, floors)}, nil
}

// added returns the CPU time that 100 KB of messages add to a request.
func (b *bench) added(p *process, request func(proto.Raw) ([]byte, error)) (float64, error) {
	const order = `{"role":"user","content":"burst 1"}]`
	big := conversation(100 << 10)
	large, errLarge := request(append(append(proto.Raw(nil), big[:len(big)-1]...), ","+order...))
	small, errSmall := request(proto.Raw("[" + order))
	if err := errors.Join(errLarge, errSmall); err != nil {
		return 0, err
	}
	r, err := ask[pairResult](b, true, "pair", pairTask{
		5, 200,
		side{Kind: "raw", Path: p.path, PIDs: []int{p.pid()}, Request: string(small)},
		side{Kind: "raw", Path: p.path, PIDs: []int{p.pid()}, Request: string(large)},
	})
	return r.B.Server - r.A.Server, err
}
