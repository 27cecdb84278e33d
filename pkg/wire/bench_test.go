package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

const delta30 = "thirty bytes of a model's text"

func BenchmarkAppendChunk(b *testing.B) {
	delta, buf := []byte(delta30), make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = AppendChunk(buf[:0], delta)
	}
}

func BenchmarkAppendChunkEncodingJSON(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		json.Marshal(struct {
			Type  string `json:"type"`
			Delta string `json:"delta"`
		}{"chunk", delta30})
	}
}

func BenchmarkChunkDelta(b *testing.B) {
	for name, delta := range map[string]string{"plain": delta30, "escaped": "two\n\"lines\" of a model's text"} {
		b.Run(name, func(b *testing.B) {
			frame, err := AppendChunk(nil, delta)
			zinotest.Must(b, err)
			scratch := make([]byte, 0, 256)
			b.ReportAllocs()
			for b.Loop() {
				ChunkDelta(frame[headerSize:], scratch)
			}
		})
	}
}

func BenchmarkReadFrames(b *testing.B) {
	for name, size := range map[string]int{"30B": 30, "4KB": 4 << 10, "100KB": 100 << 10} {
		b.Run(name, func(b *testing.B) {
			stream := frames(b, strings.Repeat("x", size))
			source := bytes.NewReader(stream)
			r := NewReader(source)
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				source.Reset(stream)
				if _, err := r.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkIsPing(b *testing.B) {
	payload := []byte(`{"type":"ping"}`)
	b.ReportAllocs()
	for b.Loop() {
		IsPing(payload)
	}
}

func BenchmarkAppendPong(b *testing.B) {
	head, buf := PongHead("mem", "dev", 1, ""), make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendPong(buf[:0], head, 12345)
	}
}

// BenchmarkTypeOfLargeRequest measures the cost of a long conversation to a
// relay: finding the end of its messages, without decoding.
func BenchmarkTypeOfLargeRequest(b *testing.B) {
	message := `{"role":"user","content":"` + strings.Repeat("words and \\\"quotes\\\" ", 50) + `"},`
	payload := []byte(`{"type":"run","messages":[` + strings.TrimSuffix(strings.Repeat(message, 100), ",") + `]}`)
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		if typ, _, err := Type(payload); typ != "run" || err != nil {
			b.Fatal(typ, err)
		}
	}
}

func BenchmarkDecodeRequest(b *testing.B) {
	payload := []byte(`{"type":"get_history","text":"kitchen","int":50,"meta":{"trace":"0123456789abcdef"}}`)
	b.ReportAllocs()
	for b.Loop() {
		var v sample
		zinotest.Must(b, Decode(payload, &v))
	}
}
