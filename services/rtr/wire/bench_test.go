package wire

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"zino/pkg/sse"
	"zino/pkg/zinotest"
)

// discard is a sink that counts.
type discard struct{ n int }

func (d *discard) Event(e Event) error { d.n += len(e.Delta); return nil }
func (d *discard) Flush() error        { return nil }

// benchStreams are answers of each wire: what comes first, an event with a piece of
// text and with its number, and what comes last.
var benchStreams = map[string][3]string{
	"openai": {
		"", `data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-6-luna","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":"%[1]s"},"logprobs":null,"finish_reason":null}]}` + "\n\n",
		`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n",
	},
	"responses": {
		`data: {"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","content":[]}}` + "\n\n",
		"event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","content_index":0,"delta":"%[1]s","item_id":"msg_1","logprobs":[],"obfuscation":"x","output_index":1,"sequence_number":%[2]d}` + "\n\n",
		`data: {"type":"response.completed","response":{"status":"completed"}}` + "\n\n",
	},
	"anthropic": {
		"data: " + anText + "\n\n",
		"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%[1]s"}}` + "\n\n",
		`data: {"type":"message_stop"}` + "\n\n",
	},
	"gemini": {
		"", `data: {"candidates": [{"content": {"parts": [{"text": "%[1]s"}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 4211,"candidatesTokenCount": 117,"totalTokenCount": 4702,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 4211}],"thoughtsTokenCount": 374},"modelVersion": "gemini-3-flash","responseId": "x1YiaYjHJ7aPxN8P0bGU6As"}` + "\r\n\r\n",
		"data: " + geStop + "\n\n",
	},
	"ollama": {"", strings.TrimSuffix(olLine(`"content":"%[1]s"`), "\n") + "\n", olDone},
}

// BenchmarkStreams reports the time and the allocations per event of each wire's
// stream, with plain text and with escapes; "reading" splits the events of one
// without looking at them.
func BenchmarkStreams(b *testing.B) {
	const events = 10000
	for name, parts := range benchStreams {
		for how, text := range map[string]string{"plain": " a few words", "escaped": `a\n\"few\"`} {
			var stream strings.Builder
			stream.WriteString(parts[0])
			for n := range events {
				line := strings.ReplaceAll(strings.ReplaceAll(parts[1], "%[1]s", text), "%[2]d", fmt.Sprint(n))
				stream.WriteString(line)
			}
			stream.WriteString(parts[2])
			report := func(b *testing.B, read func() int) {
				b.SetBytes(int64(stream.Len()))
				b.ReportAllocs()
				for b.Loop() {
					if n := read(); n < events {
						b.Fatal(n)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/event")
			}
			b.Run(name+"/"+how, func(b *testing.B) {
				report(b, func() int {
					ep, _ := endpointFor(b, strings.NewReader(stream.String()))
					var d discard
					zinotest.Must(b, infers[name](context.Background(), ep, ask(b, nil), &d))
					return d.n
				})
			})
			if name != "gemini" || how != "plain" {
				continue
			}
			b.Run("reading", func(b *testing.B) {
				report(b, func() (n int) {
					in := sse.NewReader(strings.NewReader(stream.String()))
					for _, err := in.Next(); err == nil; _, err = in.Next() {
						n++
					}
					return n
				})
			})
		}
	}
}
