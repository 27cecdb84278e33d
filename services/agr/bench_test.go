package agr

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// prose is a typical answer: words, some code with brackets, and one block.
func prose() []byte {
	const words = "The quick brown fox looks at the disk and finds that nothing is wrong with it. "
	const code = "for (i = 0; i < n; i++) { a<b>(c); } "
	return []byte(strings.Repeat(strings.Repeat(words, 20)+code, 40) + "<tool_call>\n{\"name\":\"x\"}\n</tool_call>")
}

// parse feeds the pieces to p and returns the number of bytes in its events.
func parse(p *Parser, pieces [][]byte) (n int) {
	for _, piece := range pieces {
		for _, e := range p.Feed(piece) {
			n += len(e.Body)
		}
	}
	for _, e := range p.End() {
		n += len(e.Body)
	}
	return n
}

// scan is the baseline: one search in each piece.
func scan(pieces [][]byte) (n int) {
	for _, piece := range pieces {
		for i := bytes.IndexByte(piece, '<'); i >= 0; i = bytes.IndexByte(piece, '<') {
			piece, n = piece[i+1:], n+1
		}
	}
	return n
}

func BenchmarkParser(b *testing.B) {
	text := prose()
	for _, c := range []struct {
		name string
		size int
	}{{"whole", len(text)}, {"30-byte-chunks", 30}, {"byte-by-byte", 1}} {
		b.Run(c.name, func(b *testing.B) {
			pieces := slices.Collect(slices.Chunk(text, c.size))
			want := len(text) - len("<tool_call></tool_call>")
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			var p Parser
			for b.Loop() {
				if n := parse(&p, pieces); n != want {
					b.Fatalf("%d bytes of events, want %d", n, want)
				}
			}
			b.ReportMetric(floor(pieces)/(b.Elapsed().Seconds()/float64(b.N)), "x-of-scan")
		})
	}
}

// floor returns the time in seconds of one scan of the pieces: the best of several
// batches, since the machine may run other work.
func floor(pieces [][]byte) float64 {
	const batches, rounds = 20, 50
	best, sum := time.Hour, 0
	for range batches {
		started := time.Now()
		for range rounds {
			sum += scan(pieces)
		}
		best = min(best, time.Since(started))
	}
	if sum == 0 {
		return 0
	}
	return best.Seconds() / rounds
}

func BenchmarkAppendMessage(b *testing.B) {
	messages := []byte(`[{"role":"user","content":"` + strings.Repeat("history ", 10_000) + `"}]`)
	content := prose()
	b.SetBytes(int64(len(messages) + len(content)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (&inference{turn: &turn{}, text: content}).appendTo(messages); err != nil {
			b.Fatal(err)
		}
	}
}
