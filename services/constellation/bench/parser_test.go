package bench_test

import (
	"bytes"
	"strings"

	"zino/services/agr"
)

// benchParser compares the search for tags with a search for '<' alone.
func benchParser(b *bench) ([]line, error) {
	chunks := piecesOf(prose, 30)
	parse := newParse(chunks)
	count, err := allocations(b.scale(1000), func() error { parse(); return nil })
	found := 0
	times := alternately(b.scale(100), 100, parse, func() {
		for _, chunk := range chunks {
			for rest := chunk; ; found++ {
				i := bytes.IndexByte(rest, '<')
				if i < 0 {
					break
				}
				rest = rest[i+1:]
			}
		}
	})
	for _, list := range times {
		for i := range list {
			list[i] /= float64(len(chunks))
		}
	}
	l := line{name: "tag parser, 30-byte chunk", goals: []goal{ratioAtLeast(0.4)}, note: "ratio: speed over bytes.IndexByte"}.over(times[0], times[1])
	l.ratio = 1 / l.ratio
	return []line{
		l,
		{name: "tag parser, allocations of a text", unit: allocs, measured: count, goals: []goal{atMost(0)}},
	}, err
}

func piecesOf(text string, size int) (list [][]byte) {
	for len(text) > 0 {
		n := min(size, len(text))
		list = append(list, []byte(text[:n]))
		text = text[n:]
	}
	return list
}

// prose is a typical text of a model: words, some code, few '<'.
var prose = strings.Repeat(strings.Repeat("The bread is in the oven, and the soup will be ready in a while. ", 8)+
	"Run it for all i < n:\n\n```go\nfor i := 0; i < n; i++ {\n\tfmt.Println(i)\n}\n```\n", 8)

// newParse returns a function that parses a text.
func newParse(chunks [][]byte) func() {
	var p agr.Parser
	events := 0
	return func() {
		for _, chunk := range chunks {
			events += len(p.Feed(chunk))
		}
		events += len(p.End())
	}
}
