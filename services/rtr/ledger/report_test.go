package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"zino/proto"
)

// week is a ledger with some days of work by three models.
func week(t *testing.T) *Ledger {
	t.Helper()
	l, _, c := newLedger(t, Limits{})
	for i, w := range []struct {
		session, provider, model string
		usage                    *proto.Usage
		price                    *Price
	}{
		{"a", "anthropic", "large", &proto.Usage{InputTokens: 100, OutputTokens: 10, CacheReadTokens: 50, CacheWriteTokens: 20, ReasoningTokens: 5}, &Price{Input: 1e4, Output: 1e4, CacheRead: 1e3, CacheWrite: 2e4}},
		{"", "openai", "small", used(1000, 100), nil},
		{"b", "anthropic", "large", used(10, 1), cheap},
		{"a", "ollama", "local", used(5, 5), &Price{}},
		{"b", "openai", "small", nil, nil},
		{"b", "openai", "small", nil, cheap},
	} {
		c.set(noon.AddDate(0, 0, i/2))
		ask := Ask{Session: w.session, Provider: w.provider, Model: w.model, Input: 7, Output: 7, Price: w.price}
		settle(t, mustReserve(t, l, ask), w.usage)
	}
	if err := mustReserve(t, l, Ask{Session: "c"}).Cancel(); err != nil {
		t.Fatal(err)
	}
	return l
}

// line is a row in short.
func line(r proto.UsageRow) string {
	cost := "unknown"
	if r.Usage.CostUSD != nil {
		cost = fmt.Sprint(*r.Usage.CostUSD)
	}
	u := r.Usage
	return fmt.Sprintf("%s: %d requests %d+%d tokens (%d %d %d) %s/%d", r.Key, r.Requests, u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens, u.ReasoningTokens, cost, r.Unpriced)
}

func TestReport(t *testing.T) {
	l := week(t)
	const total = "total: 6 requests 1115+116 tokens (50 20 5) 0.850011/3"
	for _, test := range []struct {
		req  proto.UsageRequest
		want string
	}{
		{proto.UsageRequest{}, `
2026-11-23: 2 requests 0+0 tokens (0 0 0) unknown/2
2026-11-22: 2 requests 15+6 tokens (0 0 0) 1.1e-05/0
2026-11-21: 2 requests 1100+110 tokens (50 20 5) 0.85/1
` + total},
		{proto.UsageRequest{By: "model"}, `
openai/small: 3 requests 1000+100 tokens (0 0 0) unknown/3
anthropic/large: 2 requests 110+11 tokens (50 20 5) 0.850011/0
ollama/local: 1 requests 5+5 tokens (0 0 0) 0/0
` + total},
		{proto.UsageRequest{By: "session"}, `
b: 3 requests 10+1 tokens (0 0 0) 1.1e-05/2
a: 2 requests 105+15 tokens (50 20 5) 0.85/0
-: 1 requests 1000+100 tokens (0 0 0) unknown/1
` + total},
		{proto.UsageRequest{By: "day", Since: "2026-11-22", SessionID: "b"}, `
2026-11-23: 2 requests 0+0 tokens (0 0 0) unknown/2
2026-11-22: 1 requests 10+1 tokens (0 0 0) 1.1e-05/0
total: 3 requests 10+1 tokens (0 0 0) 1.1e-05/2`},
		{proto.UsageRequest{By: "model", SessionID: "-"}, `
openai/small: 1 requests 1000+100 tokens (0 0 0) unknown/1
total: 1 requests 1000+100 tokens (0 0 0) unknown/1`},
		{proto.UsageRequest{Since: "2026-11-24"}, "\ntotal: 0 requests 0+0 tokens (0 0 0) unknown/0"},
		{proto.UsageRequest{SessionID: "c"}, "\ntotal: 0 requests 0+0 tokens (0 0 0) unknown/0"},
	} {
		report, got := mustReport(t, l, test.req), ""
		for _, r := range append(report.Rows, report.Total) {
			got += "\n" + line(r)
		}
		if got != test.want || len(report.Budgets) != 0 {
			t.Errorf("%+v\ngives%s\nwant%s", test.req, got, test.want)
		}
	}
}

// TestReportPricesOf: the newest date of the built-in prices in what is summed.
func TestReportPricesOf(t *testing.T) {
	l, dir, c := newLedger(t, Limits{})
	estimate := func(session, date string) {
		spend(t, l, Ask{Session: session, Price: &Price{Input: 1, Output: 1, Date: date}}, 1, 1)
	}
	estimate("configured", "")
	estimate("old", "2026-11-22")
	estimate("new", "2027-02-01")
	reported := used(1, 1)
	reported.CostUSD = new(0.5)
	settle(t, mustReserve(t, l, Ask{Session: "reported", Price: &Price{Date: "2028-01-01"}, ReportsCost: true}), reported)
	l = &Ledger{now: c.now, dir: dir} // as another process reads it
	for session, want := range map[string]string{"": "2027-02-01", "old": "2026-11-22", "configured": "", "reported": "", "other": ""} {
		if got := mustReport(t, l, proto.UsageRequest{SessionID: session}).PricesOf; got != want {
			t.Errorf("session %q: %q, want %q", session, got, want)
		}
	}
}

// TestReportEmpty: no file and no limits give lists that are there, and empty.
func TestReportEmpty(t *testing.T) {
	l, dir, c := newLedger(t, Limits{})
	for range 2 {
		report := mustReport(t, l, proto.UsageRequest{})
		if report.Rows == nil || report.Budgets == nil || len(report.Rows)+len(report.Budgets) != 0 || line(report.Total) != "total: 0 requests 0+0 tokens (0 0 0) unknown/0" {
			t.Errorf("the report is %+v", report)
		}
		l = &Ledger{now: c.now, dir: dir + "/none"}
	}
}

func TestReportBudgets(t *testing.T) {
	l, _, _ := newLedger(t, Limits{USDPerDay: 2.5, TokensPerDay: 1000, USDPerSession: 1, TokensPerSession: 500})
	spend(t, l, Ask{Session: "s", Input: 10, Output: 10, Price: &Price{Input: 5e4, Output: 0}}, 10, 10)
	mustReserve(t, l, Ask{Session: "t", Input: 10, Output: 10, Price: &Price{Input: 2.5e4}})
	const ends = "2026-11-22T00:00:00+01:00"
	const days = "{usd_per_day 2.5 0.5 0.25 " + ends + "} {tokens_per_day 1000 20 20 " + ends + "} "
	for session, want := range map[string]string{
		"s": days + "{usd_per_session 1 0.5 0 } {tokens_per_session 500 20 0 }",
		"t": days + "{usd_per_session 1 0 0.25 } {tokens_per_session 500 0 20 }",
		"":  days + "{usd_per_session 1 0 0 } {tokens_per_session 500 0 0 }",
	} {
		if got := mustReport(t, l, proto.UsageRequest{SessionID: session, Since: "2030-01-01"}).Budgets; fmt.Sprint(got) != "["+want+"]" {
			t.Errorf("session %q: %+v, want %+v", session, got, want)
		}
	}
}

func TestReportRefuses(t *testing.T) {
	l := week(t)
	for _, req := range []proto.UsageRequest{{By: "year"}, {By: "Day"}, {Since: "yesterday"}, {Since: "2026-13-01"}, {Since: "2026-1-1"}} {
		if _, err := l.Report(t.Context(), req); !errors.Is(err, proto.ErrInvalid) || !strings.HasPrefix(err.Error(), "Invalid request: ") {
			t.Errorf("%+v: %v", req, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Report(ctx, proto.UsageRequest{}); !errors.Is(err, context.Canceled) {
		t.Errorf("the client hung up: %v", err)
	}
	limited := &Ledger{limits: Limits{TokensPerDay: 1}, now: l.now, dir: l.dir}
	if got := budget(t, limited, tokensPerDay, ""); got.Spent != 28 {
		t.Errorf("on that day %v tokens are spent", got.Spent)
	}
}

// TestReportZone: days are those of the reader's clock.
func TestReportZone(t *testing.T) {
	l, _, c := newLedger(t, Limits{TokensPerDay: 100})
	c.set(time.Date(2026, 11, 21, 23, 30, 0, 0, berlin))
	spend(t, l, Ask{Input: 1, Output: 1}, 1, 1)
	c.set(c.now().In(place("Asia/Tokyo")))
	l = &Ledger{limits: l.limits, now: l.now, dir: l.dir} // another process
	report := mustReport(t, l, proto.UsageRequest{})
	if len(report.Rows) != 1 || report.Rows[0].Key != "2026-11-22" || report.Budgets[0].Spent != 2 || report.Budgets[0].Ends != "2026-11-23T00:00:00+09:00" {
		t.Errorf("in Tokyo: %+v", report)
	}
}
