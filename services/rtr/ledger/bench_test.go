package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/proto"
)

// fill writes a file of n settled requests, a thousand a day.
func fill(tb testing.TB, dir string, n int) {
	tb.Helper()
	var text []byte
	start := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for i := range n {
		at := start.AddDate(0, 0, -(n-1-i)/1000)
		text = fmt.Appendf(text, `{"time":%q,"id":"ID%08d","session":"session-%d","provider":"anthropic","model":"model-%d","input_tokens":1200,"output_tokens":80,"cache_read_tokens":1000,"cost_usd":0.0017}`+"\n",
			at.Format(time.RFC3339), i, i/50, i%3)
	}
	zinotest.Must(tb, os.WriteFile(filepath.Join(dir, fileName), text, 0o600))
}

// BenchmarkReport sums 100000 requests.
func BenchmarkReport(b *testing.B) {
	l, dir, _ := newLedger(b, Limits{})
	fill(b, dir, 100_000)
	for _, by := range []string{"day", "model", "session"} {
		b.Run(by, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Report(b.Context(), proto.UsageRequest{By: by}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRequest makes requests beside 100000 that were made before: the cost
// must not depend on those.
func BenchmarkRequest(b *testing.B) {
	for name, limits := range map[string]Limits{"free": {}, "limited": {USDPerDay: 1e6, TokensPerSession: 1e12}} {
		b.Run(name, func(b *testing.B) {
			l, dir, _ := newLedger(b, limits)
			fill(b, dir, 100_000)
			b.ReportAllocs()
			for b.Loop() {
				r, err := l.Reserve(b.Context(), Ask{Session: "s", Input: 10, Output: 10, Price: &Price{Input: 1, Output: 1}})
				zinotest.Must(b, err)
				if err := r.Settle(&proto.Usage{InputTokens: 10, OutputTokens: 5}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
