package cli

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"syscall"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// usageRouter is a daemon with a router behind it.
type usageRouter struct {
	socket string
	report proto.UsageReport
	fails  error

	mu    sync.Mutex
	asked []proto.UsageRequest
}

func newUsageRouter(t *testing.T, report proto.UsageReport, fails error) *usageRouter {
	t.Helper()
	r := &usageRouter{report: report, fails: fails}
	r.socket = newDaemon(t, func(s *rpc.Server) { rpc.Handle(s, proto.RtrUsage, r.usage) })
	return r
}

func (r *usageRouter) usage(_ context.Context, req proto.UsageRequest) (proto.UsageReport, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, req)
	return r.report, r.fails
}

func (r *usageRouter) requests() []proto.UsageRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// usageRow is a row of 5 requests.
func usageRow(key string, tokens, unpriced int64, cost *float64) proto.UsageRow {
	return proto.UsageRow{Key: key, Requests: 5, Unpriced: unpriced, Usage: proto.Usage{
		InputTokens: tokens, OutputTokens: tokens / 10, CacheReadTokens: tokens / 2, CostUSD: cost,
	}}
}

var someUsage = proto.UsageReport{
	Rows: []proto.UsageRow{
		usageRow("2026-11-22", 0, 0, new(0.0)),
		usageRow("2026-11-21", 123456789, 0, new(1234.56789)),
		usageRow("2026-11-20", 100, 0, new(0.00001)),
		usageRow("2026-11-19", 100, 2, new(0.01)),
		usageRow("2026-11-18", 100, 5, nil),
		usageRow("\x1b[31mred\nline ü", 10, 0, new(0.0123)),
	},
	Total: usageRow("total", 123457099, 7, new(1234.59)),
	Budgets: []proto.BudgetState{
		{Name: "usd_per_day", Limit: 5, Spent: 4.98, Reserved: 0.00002, Ends: "2026-11-23T00:00:00+01:00"},
		{Name: "tokens_per_day", Limit: 1e9, Spent: 123456, Ends: "2026-11-23T00:00:00+01:00"},
		{Name: "tokens_per_session", Limit: 1000, Spent: 12, Reserved: 30},
	},
}

const someTable = `KEY               REQUESTS      INPUT    CACHED    OUTPUT           COST
2026-11-22               5          0         0         0        $0.0000
2026-11-21               5  123456789  61728394  12345678     $1234.5679
2026-11-20               5        100        50        10       <$0.0001
2026-11-19               5        100        50        10     >= $0.0100
2026-11-18               5        100        50        10        unknown
^[[31mred line ü         5         10         5         1        $0.0123
total                    5  123457099  61728549  12345709  >= $1234.5900

BUDGET                SPENT  RESERVED       LIMIT                       ENDS
usd_per_day         $4.9800  <$0.0001     $5.0000  2026-11-23T00:00:00+01:00
tokens_per_day       123456         0  1000000000  2026-11-23T00:00:00+01:00
`

func TestUsage(t *testing.T) {
	r := newUsageRouter(t, someUsage, nil)
	for _, test := range []struct {
		args []string
		want string
		req  proto.UsageRequest
	}{
		{nil, "tokens_per_session        -         -        1000           with the session\n", proto.UsageRequest{By: "day"}},
		{
			[]string{"--by", "session", "--since=2026-11-01", "--session", "a b"},
			"tokens_per_session       12        30        1000           with the session\n",
			proto.UsageRequest{By: "session", Since: "2026-11-01", SessionID: "a b"},
		},
	} {
		status, out, stderr := run(t, newWorld(t).command(append([]string{"--socket", r.socket, "usage"}, test.args...)...), "")
		if status != 0 || stderr != "" || out != someTable+test.want {
			t.Errorf("status %d, stderr %q, printed\n%swant\n%s", status, stderr, out, someTable+test.want)
		}
		if asked := r.requests(); asked[len(asked)-1] != test.req {
			t.Errorf("asked for %+v", asked[len(asked)-1])
		}
	}
}

func TestUsageJSON(t *testing.T) {
	r := newUsageRouter(t, someUsage, nil)
	status, out, stderr := run(t, newWorld(t).command("--socket", r.socket, "usage", "--json"), "")
	if _, same, _ := run(t, newWorld(t).command("--socket", r.socket, "usage", "--format", "json"), ""); same != out {
		t.Errorf("--format json prints %q", same)
	}
	var got proto.UsageReport
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 0 || stderr != "" || strings.Count(out, "\n") != 1 {
		t.Fatalf("status %d, stderr %q, stdout %q: %v", status, stderr, out, err)
	}
	if len(got.Rows) != 6 || got.Total.Requests != 5 || *got.Rows[1].Usage.CostUSD != 1234.56789 || got.Budgets[1].Spent != 123456 {
		t.Errorf("stdout %s", out)
	}
}

func TestUsageEmpty(t *testing.T) {
	for want, budgets := range map[string][]proto.BudgetState{
		"No usage recorded.\n": nil,
		"No usage recorded.\n\nBUDGET        SPENT  RESERVED    LIMIT  ENDS\nusd_per_day  $0.0000  $0.5000  $1.0000  then\n": {{Name: "usd_per_day", Limit: 1, Reserved: 0.5, Ends: "then"}},
	} {
		r := newUsageRouter(t, proto.UsageReport{Total: proto.UsageRow{Key: "total"}, Budgets: budgets}, nil)
		status, out, stderr := run(t, newWorld(t).command("--socket", r.socket, "usage"), "")
		if status != 0 || stderr != "" || strings.Join(strings.Fields(out), " ") != strings.Join(strings.Fields(want), " ") {
			t.Errorf("status %d, stderr %q, stdout %q, want %q", status, stderr, out, want)
		}
	}
}

// TestUsageEstimated checks that the date of the prices is printed.
func TestUsageEstimated(t *testing.T) {
	r := newUsageRouter(t, proto.UsageReport{Total: usageRow("total", 10, 0, new(0.5)), PricesOf: "2026-11-22"}, nil)
	status, out, stderr := run(t, newWorld(t).command("--socket", r.socket, "usage"), "")
	if status != 0 || stderr != "" || !strings.HasSuffix(out, "$0.5000\nestimated with prices of 2026-11-22\n") {
		t.Errorf("status %d, stderr %q, stdout %q", status, stderr, out)
	}
}

func TestUsageFails(t *testing.T) {
	r := newUsageRouter(t, someUsage, &proto.Error{Code: proto.CodeInternal, Message: "the file\nis \x1b[31m gone"})
	expect(t, newWorld(t).command("--socket", r.socket, "usage"), "", 1, "", "Error [internal]: the file is ^[[31m gone\n")
}

// TestUsageOwn checks that the user's running services are used.
func TestUsageOwn(t *testing.T) {
	w, r := newWorld(t), newUsageRouter(t, proto.UsageReport{}, nil)
	w.daemon(t, r.socket)
	expect(t, w.command("usage"), "", 0, "No usage recorded.\n", "")
}

// TestUsageInterrupted checks an interrupt while the command waits for a service.
func TestUsageInterrupted(t *testing.T) {
	t.Parallel()
	l := zinotest.Listen(t, "")
	p := zinotest.Start(t, newWorld(t).command("--socket", l.Addr().String(), "usage"))
	nc, err := l.Accept()
	zinotest.Must(t, err)
	defer nc.Close()
	_, err = wire.NewReader(nc).Next()
	zinotest.Must(t, err)
	p.Signal(syscall.SIGINT)
	if status := p.Exit(); status != exitInterrupted || p.Err.String() != "^C Interrupted.\n" {
		t.Errorf("status %d, stderr %q", status, p.Err)
	}
}
