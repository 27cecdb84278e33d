package mem

import (
	"log/slog"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
)

// BenchmarkAppendHistory calls the handler without the socket.
func BenchmarkAppendHistory(b *testing.B) {
	for _, durability := range []string{"os", "fsync"} {
		b.Run(durability, func(b *testing.B) {
			s, err := Open(config.Mem{DataDir: b.TempDir(), Durability: durability}, slog.New(slog.DiscardHandler))
			zinotest.Must(b, err)
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

// BenchmarkGetHistory reads the last 50 of 1000 messages.
func BenchmarkGetHistory(b *testing.B) {
	s, err := Open(config.Mem{DataDir: b.TempDir(), Durability: "os"}, slog.New(slog.DiscardHandler))
	zinotest.Must(b, err)
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
