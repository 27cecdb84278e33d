package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// chunk is the packet that the hand-written forms are a faster way to.
type chunk struct {
	Delta string `json:"delta"`
}

type assistantDelta struct {
	Text string `json:"text"`
}

type pong struct {
	Service string `json:"service"`
	Version string `json:"version"`
	Proto   int    `json:"proto"`
	Uptime  int64  `json:"uptime_s"`
}

func TestAppendChunk(t *testing.T) {
	for _, delta := range texts {
		want, err := AppendObject(nil, "chunk", chunk{delta})
		if err != nil {
			t.Fatal(err)
		}
		got, err := AppendChunk([]byte("kept"), delta)
		if err != nil || string(got) != "kept"+string(frames(t, string(want))) {
			t.Errorf("AppendChunk(%q) = %q, %v, want %q", delta, got, err, want)
		}
	}
	if _, err := AppendChunk(nil, strings.Repeat("x", MaxPayload)); err == nil {
		t.Error("a chunk above the limit was accepted")
	}
}

// TestDelta holds that the hand-written form of an event's text is that of the
// general codec, there and back.
func TestDelta(t *testing.T) {
	for _, text := range texts {
		want, err := AppendObject(nil, "assistant_delta", assistantDelta{text})
		if err != nil {
			t.Fatal(err)
		}
		frame, err := AppendDelta(nil, text)
		if err != nil || string(frame) != string(frames(t, string(want))) {
			t.Errorf("AppendDelta(%q) = %q, %v, want %q", text, frame, err, want)
		}
		got, ok := DeltaText(want, nil)
		if !ok || string(got) != string([]rune(text)) {
			t.Errorf("DeltaText(%q) = %q, %v", want, got, ok)
		}
		if _, ok := ChunkDelta(want, nil); ok {
			t.Errorf("%q is no chunk", want)
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
		if err != nil {
			t.Fatal(err)
		}
		got, ok := ChunkDelta(frame[headerSize:], nil)
		if want := string([]rune(delta)); !ok || string(got) != want {
			t.Errorf("ChunkDelta(%q) = %q, %v, want %q", frame[headerSize:], got, ok, want)
		}
	}
}

// TestChunkDeltaOther holds that everything in another form is left to the
// general codec, well-formed or not.
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

// FuzzChunk holds both hand-written forms against the general codec.
func FuzzChunk(f *testing.F) {
	for _, s := range texts {
		f.Add([]byte(s))
		f.Add([]byte(`{"type":"chunk","delta":` + marshal(f, s) + `}`))
	}
	f.Add([]byte(`{"type":"chunk","delta":"a","delta":"b"}`))
	f.Add([]byte(`{"type":"chunk","delta":"a\"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		want, err := AppendObject(nil, "chunk", chunk{string(data)})
		if err != nil {
			t.Fatal(err)
		}
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
		`{"type":"ping"}` + strings.Repeat(" ", maxPing): false, // the general way then
	} {
		if got := IsPing([]byte(payload)); got != want {
			t.Errorf("IsPing(%q) = %v", payload, got)
		}
	}
}

// FuzzIsPing holds that what is taken for a ping is one.
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
			t.Fatalf("%q is no ping: %v, %v", payload, v, err)
		}
	})
}

func TestAppendPong(t *testing.T) {
	for _, c := range []pong{{"mem", "dev", 1, 0}, {`a"b`, "v1.2-3\n", 42, 1 << 40}} {
		want, err := AppendObject(nil, "pong", c)
		if err != nil {
			t.Fatal(err)
		}
		got := AppendPong([]byte("kept"), PongHead(c.Service, c.Version, c.Proto), c.Uptime)
		if string(got) != "kept"+string(frames(t, string(want))) {
			t.Errorf("pong = %q, want %q", got, want)
		}
	}
}

// TestNoAllocations holds that packets that flow by the thousand cost no
// memory, and neither does reading small frames.
func TestNoAllocations(t *testing.T) {
	buf, scratch := make([]byte, 0, 1024), make([]byte, 0, 512)
	plain, escaped := []byte("thirty bytes of a model's text"), []byte("two\n\"lines\" of äöü <b>")
	quoted, _ := AppendChunk(nil, escaped)
	ping, head := []byte(`{"type":"ping"}`), PongHead("mem", "dev", 1)
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

// endless is a reader of the same frame for ever, one a read.
type endless struct {
	frame []byte
	n     int
}

func (e *endless) Read(b []byte) (int, error) {
	e.n++
	return copy(b, e.frame), nil
}
