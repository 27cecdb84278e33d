package bench_test

import (
	"bytes"
	"strings"

	"zino/services/agr"
)

// benchParser compares the search for tags with a search for '<' alone.
func benchParser(b *bench) ([]line, error) {
	chunks := piecesOf(prose, 30)
	cpu, count, err := benchParse(b, chunks)
	found := 0
	floor := timed(b.scale(100), 100, func() {
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
	per := float64(len(chunks))
	return []line{
		{name: "tag parser, 30-byte chunk", measured: cpu / per, floor: floor / per, ratio: floor / cpu, goals: []goal{ratioAtLeast(0.4)}, note: "ratio: speed over bytes.IndexByte"},
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

// benchParse returns the CPU time and the allocations of parsing one text.
func benchParse(b *bench, chunks [][]byte) (cpu, count float64, err error) {
	var p agr.Parser
	events := 0
	parse := func() {
		for _, chunk := range chunks {
			events += len(p.Feed(chunk))
		}
		events += len(p.End())
	}
	cpu = timed(b.scale(100), 100, parse)
	count, err = allocations(b.scale(1000), func() error { parse(); return nil })
	return cpu, count, err
}
