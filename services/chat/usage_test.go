package chat

import (
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

func usageOf(in, out int64, dollars float64) proto.InferenceUsage {
	u := proto.InferenceUsage{InputTokens: in, OutputTokens: out}
	if dollars > 0 {
		u.CostUSD = &dollars
	}
	return u
}

// TestCost checks how the cost of a session is shown.
func TestCost(t *testing.T) {
	for _, test := range []struct {
		want   string
		usages []proto.InferenceUsage
	}{
		{"$0.00", nil},
		{"$0.0231", []proto.InferenceUsage{usageOf(1, 1, 0.0231)}},
		{"$0.02", []proto.InferenceUsage{usageOf(1, 1, 0.02)}},
		{"$0.012", []proto.InferenceUsage{usageOf(1, 1, 0.012)}},
		{"$0.30", []proto.InferenceUsage{usageOf(1, 1, 0.1), usageOf(1, 1, 0.2)}},
		{"$12.35", []proto.InferenceUsage{usageOf(1, 1, 12.345678)}},
		{"≥ $0.02", []proto.InferenceUsage{usageOf(1, 1, 0.029), usageOf(1, 1, 0)}},
		{"24k tokens", []proto.InferenceUsage{usageOf(20_000, 3_600, 0)}},
		{"999 tokens", []proto.InferenceUsage{usageOf(990, 9, 0)}},
	} {
		var x chat
		x.windows = map[string]int64{}
		for _, u := range test.usages {
			x.used(u)
		}
		zinotest.Equal(t, "the cost", x.usage.cost(), test.want)
	}
}

// TestContext checks how full the context is said to be: only the last inference counts,
// and those of sub-agents do not.
func TestContext(t *testing.T) {
	for _, test := range []struct {
		last, window int64
		want         string
		full         bool
	}{
		{0, 200_000, "0 %", false},
		{24_000, 200_000, "12 %", false},
		{159_999, 200_000, "79 %", false},
		{166_000, 200_000, "83 % · /handoff", true},
		{24_100, 0, "24k", false},
		{1_250_000, 0, "1.2M", false},
		{0, 0, "", false},
	} {
		x := chat{sessionState: sessionState{windows: map[string]int64{}}}
		x.used(usageOf(1_000_000, 0, 0.1))
		x.used(proto.InferenceUsage{InputTokens: test.last, Model: "m", ContextWindow: int(test.window)})
		x.usage.addAgent(proto.Usage{InputTokens: 77})
		got, full := x.usage.context(x.windows["m"])
		if got != test.want || full != test.full {
			t.Errorf("%d of %d: %q, %v; want %q, %v", test.last, test.window, got, full, test.want, test.full)
		}
	}
}
