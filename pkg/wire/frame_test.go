package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"zino/pkg/zinotest"
)

// frames returns these payloads as frames, one after the other.
func frames(t testing.TB, payloads ...string) []byte {
	t.Helper()
	var b []byte
	for _, p := range payloads {
		var err error
		if b, err = AppendFrame(b, []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// readAll returns copies of all payloads up to the error that ends them.
func readAll(r *Reader) (payloads []string, err error) {
	for {
		payload, err := r.Next()
		if err != nil {
			return payloads, err
		}
		payloads = append(payloads, string(payload))
	}
}

// sizes are payload lengths around every limit inside the reader.
var sizes = []int{
	0, 1, 4, bufferSize - headerSize - 1, bufferSize - headerSize, bufferSize - headerSize + 1,
	bufferSize, 3 * bufferSize, keepSize - 1, keepSize + 1, freeSize, freeSize + 1,
}

func payloadsOf(sizes []int) (payloads []string) {
	for i, n := range sizes {
		payloads = append(payloads, strings.Repeat(string(rune('a'+i)), n))
	}
	return payloads
}

func TestFrameLayout(t *testing.T) {
	got := frames(t, `{"a":1}`, "")
	if want := "\x00\x00\x00\x07{\"a\":1}\x00\x00\x00\x00"; string(got) != want {
		t.Errorf("frames = %q, want %q", got, want)
	}
	b := append([]byte("kept"), 0xee)
	b, err := AppendFrame(b, []byte("{}"))
	if want := "kept\xee\x00\x00\x00\x02{}"; err != nil || string(b) != want {
		t.Errorf("appended: %q, %v, want %q", b, err, want)
	}
}

// TestReaderSources reads the same frames from readers that deliver their
// bytes in different portions: the payloads must not depend on it.
func TestReaderSources(t *testing.T) {
	want := payloadsOf(sizes)
	stream := frames(t, want...)
	for name, source := range map[string]func(io.Reader) io.Reader{
		"whole":        func(r io.Reader) io.Reader { return r },
		"byte by byte": iotest.OneByteReader,
		"halves":       iotest.HalfReader,
		"EOF at once":  iotest.DataErrReader,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readAll(NewReader(source(bytes.NewReader(stream))))
			if err != io.EOF {
				t.Fatalf("after %d frames: %v", len(got), err)
			}
			if len(got) != len(want) {
				t.Fatalf("%d frames, want %d", len(got), len(want))
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("frame %d: %d bytes, want %d", i, len(got[i]), len(want[i]))
				}
			}
		})
	}
}

// TestReaderCut ends the stream after every single byte: what arrived whole is
// returned, and the end is EOF between frames and ErrUnexpectedEOF inside one.
func TestReaderCut(t *testing.T) {
	payloads := []string{"", "{}", strings.Repeat("x", bufferSize)}
	stream := frames(t, payloads...)
	ends := map[int]int{} // offset of a boundary to the frames before it
	for i, end := 0, 0; i <= len(payloads); i++ {
		ends[end] = i
		if i < len(payloads) {
			end += headerSize + len(payloads[i])
		}
	}
	whole := 0
	for cut := 0; cut <= len(stream); cut++ {
		n, boundary := ends[cut]
		want := io.ErrUnexpectedEOF
		if boundary {
			whole, want = n, io.EOF
		}
		got, err := readAll(NewReader(bytes.NewReader(stream[:cut])))
		if len(got) != whole || err != want {
			t.Fatalf("cut at %d: %d frames and %v, want %d and %v", cut, len(got), err, whole, want)
		}
	}
}

func TestReaderTooLarge(t *testing.T) {
	for _, n := range []uint32{MaxPayload + 1, 1 << 25, 1 << 31, 1<<32 - 1} {
		stream := append(binary.BigEndian.AppendUint32(nil, n), "not read"...)
		r := NewReader(bytes.NewReader(stream))
		allocated := allocatedBytes(func() {
			payload, err := r.Next()
			if !errors.Is(err, ErrTooLarge) || payload != nil {
				t.Errorf("length %d: %d bytes, error %v", n, len(payload), err)
			} else if !strings.Contains(err.Error(), fmt.Sprint(n)) {
				t.Errorf("length %d: the error does not name it: %v", n, err)
			}
		})
		if allocated > 64<<10 {
			t.Errorf("length %d: %d bytes were allocated for a frame that is refused", n, allocated)
		}
	}
}

// TestReaderAnnounced: the memory of a body grows as bytes arrive, not with the
// announced length.
func TestReaderAnnounced(t *testing.T) {
	stream := append(binary.BigEndian.AppendUint32(nil, MaxPayload), "little"...)
	r := NewReader(bytes.NewReader(stream))
	allocated := allocatedBytes(func() {
		if _, err := r.Next(); err != io.ErrUnexpectedEOF {
			t.Errorf("error %v", err)
		}
	})
	if allocated > 2*keepSize {
		t.Errorf("%d bytes were allocated for 6 that arrived", allocated)
	}
}

func allocatedBytes(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestLargestFrame(t *testing.T) {
	payload := bytes.Repeat([]byte("z"), MaxPayload)
	b, err := AppendFrame(nil, payload)
	if err != nil || b[0] != 0 {
		t.Fatalf("first byte %d, error %v", b[0], err)
	}
	got, err := NewReader(bytes.NewReader(b)).Next()
	if err != nil || !bytes.Equal(got, payload) {
		t.Fatalf("%d bytes, error %v", len(got), err)
	}
	b, err = AppendFrame([]byte("kept"), append(payload, 'z'))
	if !errors.Is(err, ErrTooLarge) || string(b[:8]) != "kept\x00\x00\x00\x00" {
		t.Errorf("above the limit: %q, error %v", b[:8], err)
	}
}

func TestReaderReady(t *testing.T) {
	stream := frames(t, "{}", "{}")
	r := NewReader(bytes.NewReader(append(stream, 0, 0, 0, 9, '{')))
	for i, want := range []bool{false, true, false} { // nothing is read before the first wait
		if got := r.Ready(); got != want {
			t.Fatalf("before frame %d: Ready = %v", i, got)
		}
		if i == 2 {
			break
		}
		zinotest.Must(t, r.Wait())
		if !r.Ready() {
			t.Fatalf("frame %d is in the buffer and not ready", i)
		}
		if payload, err := r.Next(); err != nil || string(payload) != "{}" {
			t.Fatalf("frame %d: %q, %v", i, payload, err)
		}
	}
	if _, err := r.Next(); err != io.ErrUnexpectedEOF {
		t.Errorf("a frame cut in its body: %v", err)
	}
}

func TestReaderWaitAtEnd(t *testing.T) {
	r := NewReader(bytes.NewReader(frames(t, "{}")))
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(); err != io.EOF {
		t.Errorf("Wait at the end: %v", err)
	}
}

func TestDetach(t *testing.T) {
	for _, size := range []int{10, bufferSize, keepSize + 1} {
		first, second := strings.Repeat("1", size), strings.Repeat("2", size)
		r := NewReader(bytes.NewReader(frames(t, first, second)))
		payload, err := r.Next()
		zinotest.Must(t, err)
		kept := r.Detach(payload)
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if string(kept) != first {
			t.Errorf("size %d: a detached payload changed with the next frame", size)
		}
	}
}

// TestReaderGivesBack: the memory of a large frame is freed.
func TestReaderGivesBack(t *testing.T) {
	r := NewReader(bytes.NewReader(frames(t, strings.Repeat("x", 4*keepSize), "{}")))
	for range 2 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if cap(r.big) >= leastSpare {
		t.Errorf("%d bytes are kept after a large frame", cap(r.big))
	}
}

// FuzzReader: for any bytes the reader does not panic, and returns the frames in
// them.
func FuzzReader(f *testing.F) {
	f.Add([]byte{}, uint8(1))
	f.Add([]byte{0, 0, 0}, uint8(1))
	f.Add([]byte{0, 0, 0, 0}, uint8(4))
	f.Add([]byte{1, 0, 0, 0, 'x'}, uint8(2))
	f.Add([]byte("\x00\x00\x00\x02{}\x00\x00\x00\x02{}"), uint8(3))
	f.Add([]byte("\x00\x00\x10\x00{"), uint8(9))
	f.Fuzz(func(t *testing.T, stream []byte, portion uint8) {
		got, err := readAll(NewReader(&portions{stream, int(portion)%7 + 1}))
		if err == nil {
			t.Fatal("the frames never end")
		}
		again := frames(t, got...)
		if !bytes.HasPrefix(stream, again) {
			t.Fatalf("%d frames are not those of the stream", len(got))
		}
		if rest := stream[len(again):]; (err == io.EOF) != (len(rest) == 0) {
			t.Fatalf("%d bytes are left and the error is %v", len(rest), err)
		}
	})
}

// portions is a reader that returns a few bytes at a time.
type portions struct {
	rest []byte
	size int
}

func (p *portions) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(p.size, len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}

// chunk is the packet of the hand-written forms.
type chunk struct {
	Delta string `json:"delta"`
}

type assistantDelta struct {
	Text string `json:"text"`
}

type pong struct {
	Service  string `json:"service"`
	Version  string `json:"version"`
	Proto    int    `json:"proto"`
	Lifetime string `json:"lifetime,omitzero"`
	Uptime   int64  `json:"uptime_s"`
}

func TestAppendChunk(t *testing.T) {
	for _, delta := range texts {
		want, err := AppendObject(nil, "chunk", chunk{delta})
		zinotest.Must(t, err)
		got, err := AppendChunk([]byte("kept"), delta)
		if err != nil || string(got) != "kept"+string(frames(t, string(want))) {
			t.Errorf("AppendChunk(%q) = %q, %v, want %q", delta, got, err, want)
		}
	}
	if _, err := AppendChunk(nil, strings.Repeat("x", MaxPayload)); err == nil {
		t.Error("a chunk above the limit was accepted")
	}
}

// TestDelta: the hand-written form of a delta equals that of the codec, in both
// directions.
func TestDelta(t *testing.T) {
	for _, text := range texts {
		want, err := AppendObject(nil, "assistant_delta", assistantDelta{text})
		zinotest.Must(t, err)
		frame, err := AppendDelta(nil, text)
		if err != nil || string(frame) != string(frames(t, string(want))) {
			t.Errorf("AppendDelta(%q) = %q, %v, want %q", text, frame, err, want)
		}
		got, ok := DeltaText(want, nil)
		if !ok || string(got) != string([]rune(text)) {
			t.Errorf("DeltaText(%q) = %q, %v", want, got, ok)
		}
		if _, ok := ChunkDelta(want, nil); ok {
			t.Errorf("%q is not a chunk", want)
		}
	}
	for _, payload := range []string{``, `{"type":"assistant_delta","text":"a"b"}`, `{"type":"assistant_delta","text":"a","x":1}`, `{"type":"chunk","delta":"a"}`, "{\"type\":\"assistant_delta\",\"text\":\"\xff\"}"} {
		if got, ok := DeltaText([]byte(payload), nil); ok {
			t.Errorf("DeltaText(%q) = %q", payload, got)
		}
	}
}

func TestChunkDelta(t *testing.T) {
	for _, delta := range texts {
		frame, err := AppendChunk(nil, delta)
		zinotest.Must(t, err)
		got, ok := ChunkDelta(frame[headerSize:], nil)
		if want := string([]rune(delta)); !ok || string(got) != want {
			t.Errorf("ChunkDelta(%q) = %q, %v, want %q", frame[headerSize:], got, ok, want)
		}
	}
}

// TestChunkDeltaOther: every other form is left to the codec, well-formed or
// not.
func TestChunkDeltaOther(t *testing.T) {
	for _, payload := range []string{
		``, `{}`, `{"type":"chunk"}`, `{"type":"chunk","delta":`, `{"type":"chunk","delta":"`, `{"type":"chunk","delta":"}`,
		`{"type":"chunk","delta":"a"`, `{"type":"chunk","delta":"a"} `, `{"type": "chunk","delta":"a"}`,
		`{"delta":"a","type":"chunk"}`, `{"type":"chunk","delta":"a","more":"b"}`, `{"type":"chunk","delta":"a","delta":"b"}`,
		`{"type":"chunk","delta":"a\"}`, `{"type":"chunk","delta":"\x"}`, `{"type":"chunk","delta":"\ud8"}`,
		"{\"type\":\"chunk\",\"delta\":\"\n\"}", "{\"type\":\"chunk\",\"delta\":\"\xff\"}", `{"type":"chunk","delta":"a"b"}`,
		`{"type":"done","full_text":"a"}`, `{"type":"chunk","delta":null}`,
	} {
		if got, ok := ChunkDelta([]byte(payload), nil); ok {
			t.Errorf("ChunkDelta(%q) = %q", payload, got)
		}
	}
}

func TestIsChunk(t *testing.T) {
	for payload, want := range map[string]bool{
		`{"type":"chunk","delta":"a"}`: true, `{"type":"chunk","delta":""}`: true,
		`{"type":"chunk","delta":"`: false, `{"type":"done","full_text":""}`: false, ``: false,
	} {
		if got := IsChunk([]byte(payload)); got != want {
			t.Errorf("IsChunk(%s) = %v", payload, got)
		}
	}
}

// FuzzChunk compares both hand-written forms with the codec.
func FuzzChunk(f *testing.F) {
	for _, s := range texts {
		f.Add([]byte(s))
		f.Add([]byte(`{"type":"chunk","delta":` + marshal(f, s) + `}`))
	}
	f.Add([]byte(`{"type":"chunk","delta":"a","delta":"b"}`))
	f.Add([]byte(`{"type":"chunk","delta":"a\"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		want, err := AppendObject(nil, "chunk", chunk{string(data)})
		zinotest.Must(t, err)
		if got, err := AppendChunk(nil, data); err != nil || !bytes.Equal(got[headerSize:], want) {
			t.Fatalf("AppendChunk(%q) = %q, %v, want %q", data, got, err, want)
		}
		delta, ok := ChunkDelta(data, make([]byte, 0, 8))
		if !ok {
			return
		}
		var general chunk
		if typ, _, err := Type(data); err != nil || typ != "chunk" {
			t.Fatalf("%q: type %q, %v", data, typ, err)
		}
		if err := Decode(data, &general); err != nil || general.Delta != string(delta) {
			t.Fatalf("ChunkDelta(%q) = %q; the general codec: %q, %v", data, delta, general.Delta, err)
		}
	})
}

func TestIsPing(t *testing.T) {
	for payload, want := range map[string]bool{
		`{"type":"ping"}`:                true,
		" {\n\"type\" :\t\"ping\" } ":    true,
		`{"t\u0079pe":"ping"}`:           true,
		`{"type":"ping","meta":{}}`:      false,
		`{"type":"ping","type":"stats"}`: false,
		`{"Type":"ping"}`:                false,
		`{"type":"pong"}`:                false,
		`{"type":"ping",}`:               false,
		`{"type":"ping"}}`:               false,
		`{"type":"ping"`:                 false,
		`["type","ping"]`:                false,
		`{}`:                             false,
		``:                               false,
		`{"type":"ping"}` + strings.Repeat(" ", maxPing): false, // left to the codec
	} {
		if got := IsPing([]byte(payload)); got != want {
			t.Errorf("IsPing(%q) = %v", payload, got)
		}
	}
}

// FuzzIsPing: IsPing accepts only what encoding/json decodes as a ping.
func FuzzIsPing(f *testing.F) {
	f.Add([]byte(`{"type":"ping"}`))
	f.Add([]byte(` {"t\u0079pe" : "ping"}`))
	f.Add([]byte(`{"type":"ping","meta":{"trace":"a"}}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		if !IsPing(payload) {
			return
		}
		var v map[string]any
		if err := json.Unmarshal(payload, &v); err != nil || fmt.Sprint(v) != "map[type:ping]" {
			t.Fatalf("%q is not a ping: %v, %v", payload, v, err)
		}
	})
}

func TestAppendPong(t *testing.T) {
	for _, c := range []pong{{"mem", "dev", 1, "", 0}, {`a"b`, "v1.2-3\n", 42, "private", 1 << 40}} {
		want, err := AppendObject(nil, "pong", c)
		zinotest.Must(t, err)
		got := AppendPong([]byte("kept"), PongHead(c.Service, c.Version, c.Proto, c.Lifetime), c.Uptime)
		if string(got) != "kept"+string(frames(t, string(want))) {
			t.Errorf("pong = %q, want %q", got, want)
		}
	}
}

// TestNoAllocations: small frames and hand-written packets are read and written
// without allocations.
func TestNoAllocations(t *testing.T) {
	buf, scratch := make([]byte, 0, 1024), make([]byte, 0, 512)
	plain, escaped := []byte("thirty bytes of a model's text"), []byte("two\n\"lines\" of äöü <b>")
	quoted, _ := AppendChunk(nil, escaped)
	ping, head := []byte(`{"type":"ping"}`), PongHead("mem", "dev", 1, "")
	source := &endless{frame: frames(t, string(ping))}
	r := NewReader(source)
	for name, f := range map[string]func(){
		"AppendChunk":         func() { buf, _ = AppendChunk(buf[:0], plain) },
		"AppendChunk escaped": func() { buf, _ = AppendChunk(buf[:0], escaped) },
		"AppendChunk string":  func() { buf, _ = AppendChunk(buf[:0], "text of äöü") },
		"ChunkDelta":          func() { ChunkDelta([]byte(`{"type":"chunk","delta":"thirty bytes of a model's text"}`), scratch) },
		"ChunkDelta escaped":  func() { ChunkDelta(quoted[headerSize:], scratch) },
		"IsPing":              func() { IsPing(ping) },
		"AppendPong":          func() { buf = AppendPong(buf[:0], head, 12345) },
		"Reader":              func() { r.Wait(); r.Ready(); r.Next() },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if source.n < 100 {
		t.Errorf("the reader read %d frames", source.n)
	}
}

// endless reads as the same frame again and again.
type endless struct {
	frame []byte
	n     int
}

func (e *endless) Read(b []byte) (int, error) {
	e.n++
	return copy(b, e.frame), nil
}
