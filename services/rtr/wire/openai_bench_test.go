package wire

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// discard is a sink that counts.
type discard struct{ n int }

func (d *discard) Event(e Event) error { d.n += len(e.Delta); return nil }
func (d *discard) Flush() error        { return nil }

// BenchmarkOpenAIStream tells the time and allocations per token.
func BenchmarkOpenAIStream(b *testing.B) {
	const tokens = 10000
	line := `data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-6-luna","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	stream := strings.Repeat(line, tokens) + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		ep, _ := endpointFor(b, strings.NewReader(stream))
		var d discard
		if err := OpenAI(context.Background(), ep, ask(b, nil), &d); err != nil || d.n != 6*tokens {
			b.Fatal(err, d.n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tokens, "ns/token")
}

// BenchmarkResponsesStream reports the time and allocations per token, each of
// which has a number of its own.
func BenchmarkResponsesStream(b *testing.B) {
	const tokens = 10000
	var stream strings.Builder
	stream.WriteString(eventsOf(reCreated, reMessage))
	for n := range tokens {
		fmt.Fprintf(&stream, "event: response.output_text.delta\ndata: "+
			`{"type":"response.output_text.delta","content_index":0,"delta":" token","item_id":"msg_1","logprobs":[],"obfuscation":"x","output_index":1,"sequence_number":%d}`+"\n\n", n)
	}
	stream.WriteString(eventsOf(reSaid, reEnd))
	b.SetBytes(int64(stream.Len()))
	b.ReportAllocs()
	for b.Loop() {
		ep, _ := endpointFor(b, strings.NewReader(stream.String()))
		var d discard
		if err := Responses(context.Background(), ep, ask(b, nil), &d); err != nil || d.n != 6*tokens {
			b.Fatal(err, d.n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tokens, "ns/token")
}
