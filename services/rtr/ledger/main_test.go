package ledger

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
	_ "time/tzdata" // days of places that this host may not know

	"zino/pkg/zinotest"
	"zino/proto"
)

func TestMain(m *testing.M) {
	zinotest.Child(zinotest.Roles{"spender": spendAll, "holder": holdReservation, "disk": fillDisk})
	os.Exit(m.Run())
}

// noon is when most tests take place.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, berlin)

var berlin = place("Europe/Berlin")

func place(name string) *time.Location {
	loc, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return loc
}

// clock is a time that tests set.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

// newLedger is a ledger in a fresh directory, at noon.
func newLedger(tb testing.TB, limits Limits) (*Ledger, string, *clock) {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "data", "rtr")
	c := &clock{at: noon}
	return openLedger(tb, dir, limits, c, new(zinotest.Buffer)), dir, c
}

func openLedger(tb testing.TB, dir string, limits Limits, c *clock, log *zinotest.Buffer) *Ledger {
	tb.Helper()
	l, err := Open(dir, limits, c.now, log.Logger())
	zinotest.Must(tb, err)
	tb.Cleanup(func() {
		if err := l.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return l
}

// openAtNoon opens a ledger in another process.
func openAtNoon(dir string, limits Limits) (*Ledger, error) {
	return Open(dir, limits, (&clock{at: noon}).now, new(zinotest.Buffer).Logger())
}

// cheap has costs that are easy to add up: a dollar for a million tokens.
var cheap = &Price{Input: 1, Output: 1, CacheRead: 1, CacheWrite: 1}

func mustReserve(tb testing.TB, l *Ledger, a Ask) *Reservation {
	tb.Helper()
	r, err := l.Reserve(tb.Context(), a)
	zinotest.Must(tb, err)
	return r
}

func settle(tb testing.TB, r *Reservation, u *proto.Usage) {
	tb.Helper()
	zinotest.Must(tb, r.Settle(u))
}

// spend makes a whole request.
func spend(tb testing.TB, l *Ledger, a Ask, input, output int64) {
	tb.Helper()
	settle(tb, mustReserve(tb, l, a), used(input, output))
}

func used(input, output int64) *proto.Usage {
	return &proto.Usage{InputTokens: input, OutputTokens: output}
}

// wantRefused expects a refusal with these parts.
func wantRefused(tb testing.TB, l *Ledger, a Ask, parts ...string) {
	tb.Helper()
	_, err := l.Reserve(tb.Context(), a)
	zinotest.Error(tb, err, proto.ErrBudget, parts...)
}

func mustReport(tb testing.TB, l *Ledger, req proto.UsageRequest) proto.UsageReport {
	tb.Helper()
	report, err := l.Report(tb.Context(), req)
	zinotest.Must(tb, err)
	return report
}

// budget is how a limit stands.
func budget(tb testing.TB, l *Ledger, key, session string) proto.BudgetState {
	tb.Helper()
	for _, b := range mustReport(tb, l, proto.UsageRequest{SessionID: session}).Budgets {
		if b.Name == key {
			return b
		}
	}
	tb.Fatalf("there is no limit %s", key)
	return proto.BudgetState{}
}

func wantBudget(tb testing.TB, l *Ledger, key, session string, spent, reserved float64) {
	tb.Helper()
	if b := budget(tb, l, key, session); b.Spent != spent || b.Reserved != reserved {
		tb.Errorf("%s: %v spent and %v reserved, want %v and %v", key, b.Spent, b.Reserved, spent, reserved)
	}
}

func readFile(tb testing.TB, dir string) string {
	tb.Helper()
	return zinotest.Read(tb, filepath.Join(dir, fileName))
}

func writeFile(tb testing.TB, dir, text string) {
	tb.Helper()
	zinotest.Write(tb, filepath.Join(dir, fileName), text)
}
