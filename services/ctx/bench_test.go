package assemble

import (
	"log/slog"
	"strings"
	"testing"

	"zino/proto"
)

// BenchmarkBuild100KB builds contexts from a history of 100 KB: whole, with memories
// to compare, and cut.
func BenchmarkBuild100KB(b *testing.B) {
	element := `{"role":"user","content":"` + strings.Repeat("x", 1000) + `"}`
	list := proto.Raw("[" + strings.TrimSuffix(strings.Repeat(element+",", 100), ",") + "]")
	memory := proto.HardMemory{Messages: proto.Raw(`[{"role":"user","content":"Where is the bread?"},{"role":"assistant","content":"In the oven."}]`)}
	for _, c := range []struct {
		name  string
		limit budget
		found []proto.HardMemory
	}{
		{"whole", 32000, nil},
		{"memories", 32000, []proto.HardMemory{memory, memory, memory}},
		{"cut", 16000, nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := &Service{log: slog.New(slog.DiscardHandler), memoryBudget: 4000}
			b.SetBytes(int64(len(list)))
			for b.Loop() {
				var j joined
				kept, err := newest(list, c.limit)
				if err != nil {
					b.Fatal(err)
				}
				j.add(s.choose(b.Context(), c.found, kept.list)...)
				j.add(kept.elements)
				j.array()
			}
		})
	}
}
