package ledger

import (
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/proto"
)

func TestGrant(t *testing.T) {
	dear := &Price{Input: 10, Output: 50, CacheRead: 1, CacheWrite: 12.5}
	for _, test := range []struct {
		name   string
		limits Limits
		ask    Ask
		want   int64 // -1: refused
	}{
		{"fits", Limits{TokensPerDay: 100}, Ask{Input: 40, Output: 60}, 60},
		{"one too many", Limits{TokensPerDay: 100}, Ask{Input: 41, Output: 60}, -1},
		{"lowered", Limits{TokensPerDay: 100}, Ask{Input: 41, Output: 60, Least: 10}, 29},
		{"lowered to the least", Limits{TokensPerDay: 100}, Ask{Input: 90, Output: 60, Least: 10}, 10},
		{"below the least", Limits{TokensPerDay: 100}, Ask{Input: 91, Output: 60, Least: 10}, -1},
		{"a least above the most", Limits{TokensPerDay: 100}, Ask{Input: 90, Output: 10, Least: 20}, 10},
		{"no bound", Limits{TokensPerDay: 100}, Ask{Input: 40}, 60},
		{"no bound, nothing left", Limits{TokensPerDay: 100}, Ask{Input: 100}, -1},
		{"no bound, below the least", Limits{TokensPerDay: 100}, Ask{Input: 95, Least: 6}, -1},
		{"input alone", Limits{TokensPerDay: 100}, Ask{Input: 101, Output: 1, Least: 1}, -1},
		{"a session's", Limits{TokensPerSession: 100}, Ask{Session: "s", Input: 41, Output: 60, Least: 1}, 29},
		{"no session", Limits{TokensPerSession: 100}, Ask{Input: 41, Output: 60, Least: 1}, 60},
		{"the lower of two", Limits{TokensPerDay: 90, TokensPerSession: 100}, Ask{Session: "s", Input: 40}, 50},
		{"the lower of two again", Limits{TokensPerDay: 100, TokensPerSession: 90}, Ask{Session: "s", Input: 40}, 50},
		{"money", Limits{USDPerDay: 1}, Ask{Input: 8000, Output: 18000, Price: dear}, 18000},
		{"money, one too many", Limits{USDPerDay: 1}, Ask{Input: 8000, Output: 18001, Price: dear}, -1},
		{"money, lowered", Limits{USDPerDay: 1}, Ask{Input: 8000, Output: 1e6, Least: 1, Price: dear}, 9000},
		{"money, no bound", Limits{USDPerSession: 1}, Ask{Session: "s", Input: 8000, Price: dear}, 18000},
		{"money, input alone", Limits{USDPerDay: 1}, Ask{Input: 80001, Price: dear}, -1},
		{"money and tokens", Limits{USDPerDay: 1, TokensPerDay: 10000}, Ask{Input: 8000, Price: dear}, 2000},
		{"free", Limits{USDPerDay: 1}, Ask{Input: 8000, Price: &Price{}}, 0},
		{"free answers", Limits{USDPerDay: 1}, Ask{Input: 8000, Output: 9, Price: &Price{Input: 1, CacheWrite: 1, CacheRead: 1}}, 9},
		{"reported", Limits{USDPerDay: 1}, Ask{Input: 8000, ReportsCost: true}, 0},
		{"reported, with a price", Limits{USDPerDay: 1}, Ask{Input: 8000, ReportsCost: true, Price: dear}, 18000},
		{"reported, tokens", Limits{USDPerDay: 1, TokensPerDay: 10000}, Ask{Input: 8000, ReportsCost: true}, 2000},
		{"a price unknown", Limits{USDPerDay: 1}, Ask{Input: 1, Output: 1}, -1},
		{"a price unknown, a session's limit", Limits{USDPerSession: 1}, Ask{Session: "s", Input: 1, Output: 1}, -1},
		{"a price unknown, no session", Limits{USDPerSession: 1}, Ask{Input: 1, Output: 1}, 1},
		{"a price unknown, tokens", Limits{TokensPerDay: 100}, Ask{Input: 1, Output: 1}, 1},
		{"no limits", Limits{}, Ask{Input: 1 << 60}, 0},
		{"below zero", Limits{TokensPerDay: 100}, Ask{Input: -5, Output: -5, Least: -5}, 100},
		{"beyond all", Limits{TokensPerDay: 100}, Ask{Input: 1 << 62, Output: 1 << 62}, -1},
		{"less than a nanodollar", Limits{USDPerDay: 1e-12}, Ask{Input: 1, Output: 1, Price: cheap}, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, _, _ := newLedger(t, test.limits)
			if test.want < 0 {
				wantRefused(t, l, test.ask, "[budget] ")
				return
			}
			if got := mustReserve(t, l, test.ask).Output; got != test.want {
				t.Errorf("granted %d, want %d", got, test.want)
			}
		})
	}
}

// TestWhole: a budget is used up to its last nanodollar, and not beyond,
// whatever fractions its parts have in floating point.
func TestWhole(t *testing.T) {
	l, _, _ := newLedger(t, Limits{USDPerDay: 0.3})
	ask := Ask{Output: 100_000, Price: cheap}
	for range 3 { // three times 0.1 is more than 0.3 in floating point
		spend(t, l, ask, 0, 100_000)
	}
	wantBudget(t, l, usdPerDay, "", 0.3, 0)
	wantRefused(t, l, Ask{Price: &Price{}}, "usd_per_day = 0.3 is reached", "$0.3000 spent", "$0.0000 reserved")
	odd := Ask{Input: 7, Price: &Price{Input: 0.0375, CacheWrite: 0.0375, Output: 0.0613}}
	l, _, _ = newLedger(t, Limits{USDPerDay: 0.000123})
	r := mustReserve(t, l, odd)
	b := budget(t, l, usdPerDay, "")
	if b.Reserved > b.Limit || b.Reserved < b.Limit-1e-7 || r.Output != 2002 {
		t.Errorf("granted %d, %v of %v", r.Output, b.Reserved, b.Limit)
	}
}

// TestRefusal: the error says which limit, how it stands, when it ends and what
// to do.
func TestRefusal(t *testing.T) {
	l, _, _ := newLedger(t, Limits{USDPerDay: 5, TokensPerSession: 1_000_000, File: "/etc/zino/ZINO.toml"})
	spend(t, l, Ask{Session: "s", Output: 400_000, Price: &Price{Output: 10}}, 0, 400_000)
	mustReserve(t, l, Ask{Session: "s", Output: 50_000, Price: &Price{Output: 10}})
	for _, test := range []struct {
		ask  Ask
		want string
	}{
		{
			Ask{Session: "t", Output: 60_000, Price: &Price{Output: 10}},
			"[budget] usd_per_day = 5 leaves too little for this request, which may take $0.6000: $4.0000 spent and $0.5000 reserved for requests under way or lost; " +
				"the limit starts anew at 2026-11-22T00:00:00+01:00: wait until then, or raise [budget] usd_per_day in /etc/zino/ZINO.toml",
		},
		{
			Ask{Session: "s", Output: 600_000, Price: &Price{}},
			"[budget] tokens_per_session = 1000000 leaves too little for this request, which may take 600000 tokens: 400000 tokens spent and 50000 tokens reserved for requests under way or lost; " +
				"start a new session, or raise [budget] tokens_per_session in /etc/zino/ZINO.toml",
		},
		{
			Ask{Provider: "openai", Model: "new-one", Output: 1},
			"[budget] usd_per_day = 5 cannot be kept, as no price is known for the model new-one of openai: " +
				"set its price in [[rtr.model]] in /etc/zino/ZINO.toml, or limit tokens (tokens_per_day) instead of money",
		},
	} {
		if _, err := l.Reserve(t.Context(), test.ask); err == nil || err.Error() != test.want {
			t.Errorf("%v\nwant\n%s", err, test.want)
		}
	}
}

// TestReportedCost: the cost that a provider reports is what counts. A model whose
// cost should be reported, and was not, is refused under a limit of money.
func TestReportedCost(t *testing.T) {
	l, _, _ := newLedger(t, Limits{USDPerDay: 1})
	ask := Ask{Provider: "openrouter", Model: "any", Input: 10, Output: 10, ReportsCost: true}
	first, second := mustReserve(t, l, ask), mustReserve(t, l, ask)
	u := used(10, 10)
	u.CostUSD = new(0.25)
	settle(t, first, u)
	wantBudget(t, l, usdPerDay, "", 0.25, 0)
	settle(t, second, used(10, 10))
	wantRefused(t, l, ask, "no price is known for the model any of openrouter")
	other := ask
	other.Model = "other"
	third := mustReserve(t, l, other)
	u = used(10, 10)
	u.CostUSD = new(2.0)
	settle(t, third, u)
	wantRefused(t, l, other, "usd_per_day = 1 is reached", "$2.2500 spent")
}

// TestMidnight: a request belongs to the day on which it began.
func TestMidnight(t *testing.T) {
	l, _, c := newLedger(t, Limits{TokensPerDay: 100, TokensPerSession: 150})
	c.set(time.Date(2026, 11, 21, 23, 59, 59, 999, berlin))
	ask := Ask{Session: "s", Input: 50, Output: 40}
	late := mustReserve(t, l, ask)
	wantRefused(t, l, ask, "tokens_per_day", "starts anew at 2026-11-22T00:00:00+01:00")
	c.set(time.Date(2026, 11, 22, 0, 0, 0, 0, berlin))
	wantBudget(t, l, tokensPerDay, "", 0, 0)
	wantRefused(t, l, ask, "tokens_per_session = 150", "start a new session")
	settle(t, late, used(50, 5))
	wantBudget(t, l, tokensPerDay, "", 0, 0)
	spend(t, l, ask, 50, 20)
	wantBudget(t, l, tokensPerDay, "s", 70, 0)
	wantBudget(t, l, tokensPerSession, "s", 125, 0)
	rows := mustReport(t, l, proto.UsageRequest{}).Rows
	if len(rows) != 2 || rows[0].Key != "2026-11-22" || rows[0].Usage.OutputTokens != 20 || rows[1].Usage.OutputTokens != 5 {
		t.Errorf("the days are %+v", rows)
	}
	c.set(noon) // a clock that was set back
	wantBudget(t, l, tokensPerDay, "", 55, 0)
}

// TestDays: local days have 23 to 25 hours, and some do not begin at midnight.
func TestDays(t *testing.T) {
	for _, test := range []struct{ now, zone, ends string }{
		{"2026-11-21T11:00:00Z", "UTC", "2026-11-22T00:00:00Z"},
		{"2026-11-21T23:30:00Z", "Europe/Berlin", "2026-11-23T00:00:00+01:00"},
		{"2026-12-31T22:59:59Z", "Europe/Berlin", "2027-01-01T00:00:00+01:00"},
		{"2026-03-28T23:00:00Z", "Europe/Berlin", "2026-03-30T00:00:00+02:00"}, // 23 hours
		{"2026-10-24T22:00:00Z", "Europe/Berlin", "2026-10-26T00:00:00+01:00"}, // 25 hours
		{"2018-11-04T02:59:59Z", "America/Sao_Paulo", "2018-11-04T01:00:00-02:00"},
		{"2025-03-09T04:59:59Z", "America/Havana", "2025-03-09T01:00:00-04:00"},
		{"2025-04-24T12:00:00Z", "Africa/Cairo", "2025-04-25T01:00:00+03:00"},
		{"2025-10-25T20:30:00Z", "Asia/Beirut", "2025-10-26T00:00:00+02:00"},  // an hour twice before midnight
		{"2011-12-30T09:59:59Z", "Pacific/Apia", "2011-12-31T00:00:00+14:00"}, // a day that was left out
	} {
		now, err := time.Parse(time.RFC3339, test.now)
		zinotest.Must(t, err)
		now = now.In(place(test.zone))
		l := Ledger{limits: Limits{TokensPerDay: 1}}
		end := l.limitsAt(&totals{}, "", now)[0].ends
		if got := end.Format(time.RFC3339); got != test.ends || dayOf(end.Add(-time.Second)) != dayOf(now) {
			t.Errorf("%v ends at %s, want %s", now, got, test.ends)
		}
	}
}

// TestClocksGoBack: both of the hours between two and three count for the day.
func TestClocksGoBack(t *testing.T) {
	l, _, c := newLedger(t, Limits{TokensPerDay: 100})
	c.set(time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC).In(berlin))
	spend(t, l, Ask{Input: 20, Output: 20}, 20, 20)
	c.set(c.now().Add(time.Hour))
	spend(t, l, Ask{Input: 20, Output: 20}, 20, 20)
	c.set(c.now().Add(21 * time.Hour))
	wantRefused(t, l, Ask{Input: 20, Output: 20}, "80 tokens spent", "2026-10-26T00:00:00+01:00")
	c.set(c.now().Add(time.Hour))
	spend(t, l, Ask{Input: 20, Output: 20}, 20, 20)
}
