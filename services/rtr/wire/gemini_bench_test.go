package wire

import (
	"context"
	"strings"
	"testing"

	"zino/pkg/sse"
)

// benchStream tells the time and allocations per event of a wire's stream.
func benchStream(b *testing.B, infer Func, line, last string, want int) {
	b.Helper()
	const events = 10000
	stream := strings.Repeat(line, events) + last
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		ep, _ := endpointFor(b, strings.NewReader(stream))
		var d discard
		if err := infer(context.Background(), ep, ask(b, nil), &d); err != nil || d.n != want*events {
			b.Fatal(err, d.n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/event")
}

// geToken is an event as Gemini sends it: one for several tokens.
func geToken(text string) string {
	return `data: {"candidates": [{"content": {"parts": [{"text": "` + text + `"}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 4211,"candidatesTokenCount": 117,"totalTokenCount": 4702,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 4211}],"thoughtsTokenCount": 374},"modelVersion": "gemini-3-flash","responseId": "x1YiaYjHJ7aPxN8P0bGU6As"}` + "\r\n\r\n"
}

func BenchmarkGeminiStream(b *testing.B) {
	for name, text := range map[string]string{"plain": " a few words of text", "escaped": ` a\n\"few\" words\n`} {
		b.Run(name, func(b *testing.B) {
			benchStream(b, Gemini, geToken(text), "data: "+geStop+"\n\n", len(strings.NewReplacer(`\n`, "\n", `\"`, `"`).Replace(text)))
		})
	}
}

// BenchmarkGeminiReading is what reading alone costs, without a look at what the
// events say.
func BenchmarkGeminiReading(b *testing.B) {
	const events = 10000
	stream := strings.Repeat(geToken(" a few words of text"), events)
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		in := sse.NewReader(strings.NewReader(stream))
		n := 0
		for _, err := in.Next(); err == nil; _, err = in.Next() {
			n++
		}
		if n != events {
			b.Fatal(n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/event")
}

func BenchmarkOllamaStream(b *testing.B) {
	for name, text := range map[string]string{"plain": " token", "escaped": `\n\"a\"`} {
		b.Run(name, func(b *testing.B) {
			benchStream(b, Ollama, olLine(`"content":"`+text+`"`), olDone, len(strings.NewReplacer(`\n`, "\n", `\"`, `"`).Replace(text)))
		})
	}
}
