package mem

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/proto"
)

// BenchmarkAppendHistory is the handler without the socket.
func BenchmarkAppendHistory(b *testing.B) {
	for _, durability := range []string{"os", "fsync"} {
		b.Run(durability, func(b *testing.B) {
			s, err := Open(config.Mem{DataDir: b.TempDir(), Durability: durability}, slog.New(slog.DiscardHandler))
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			req := proto.AppendHistory{ChannelID: "kitchen", Messages: proto.Raw("[" + msg("Where is the walnut bread?") + "," + msg("In the oven.") + "]")}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.appendHistory(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkGetHistory reads the last 50 messages of many.
func BenchmarkGetHistory(b *testing.B) {
	s, err := Open(config.Mem{DataDir: b.TempDir(), Durability: "os"}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for range 1000 {
		if _, err := s.appendHistory(b.Context(), proto.AppendHistory{ChannelID: "c", Messages: proto.Raw("[" + msg("Where is the walnut bread?") + "]")}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.getHistory(b.Context(), proto.GetHistory{ChannelID: "c", Limit: 50}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkIndex searches with three words, of which one is frequent, and adds.
func BenchmarkIndex(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		rng := rand.New(rand.NewPCG(1, 2))
		x := newIndex()
		for range n {
			x.add(text(rng, 20))
		}
		b.Run(fmt.Sprintf("search/n=%d", n), func(b *testing.B) {
			for b.Loop() {
				x.search(text(rng, 3), 3)
			}
		})
		b.Run(fmt.Sprintf("add/n=%d", n), func(b *testing.B) {
			for b.Loop() {
				x.add(text(rng, 20))
			}
		})
	}
}

// text has words whose frequencies fall like those of a language.
func text(rng *rand.Rand, n int) string {
	z := rand.NewZipf(rng, 1.1, 10, 50_000)
	var s strings.Builder
	for range n {
		s.WriteString(fmt.Sprintf("word%d ", z.Uint64()))
	}
	return s.String()
}
