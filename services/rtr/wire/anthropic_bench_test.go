package wire

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// ignoring is a sink that drops all events.
type ignoring struct{}

// Event drops an event.
func (ignoring) Event(Event) error { return nil }

// Flush has nothing to do.
func (ignoring) Flush() error { return nil }

// repeating is an HTTP transport that gives every request the same answer.
type repeating string

// RoundTrip answers with status 200.
func (r repeating) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(r))), Request: req}, nil
}

// BenchmarkAnthropicStream reads an answer of 10,000 tokens from memory, plain
// ones and ones with escapes.
func BenchmarkAnthropicStream(b *testing.B) {
	const tokens = 10000
	for name, piece := range map[string]string{"plain": " token%d", "escapes": `\n\"token%d`} {
		var stream strings.Builder
		stream.WriteString(anthropicEvents(anStart, anText))
		for n := range tokens {
			fmt.Fprintf(&stream, "event: content_block_delta\ndata: "+`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+piece+`"}}`+"\n\n", n)
		}
		stream.WriteString(anthropicEvents(anStop0, anEnd, anMark))
		b.Run(name, func(b *testing.B) {
			ep := Endpoint{Client: &http.Client{Transport: repeating(stream.String())}, Base: "http://provider.test"}
			req := Request{Model: "m", Messages: []Message{{Role: "user", Text: "hi"}}}
			b.SetBytes(int64(stream.Len()))
			b.ReportAllocs()
			for b.Loop() {
				if err := Anthropic(context.Background(), &ep, &req, ignoring{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tokens, "ns/token")
		})
	}
}
