package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	_ "time/tzdata" // days of places that this host may not know

	"zino/proto"
)

// TestMain lets the test binary stand in for another process: see children.
func TestMain(m *testing.M) {
	if role := os.Getenv("LEDGER_CHILD"); role != "" {
		if err := children[role](os.Getenv("LEDGER_DIR")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
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
	return openLedger(tb, dir, limits, c, &logs{}), dir, c
}

func openLedger(tb testing.TB, dir string, limits Limits, c *clock, log *logs) *Ledger {
	tb.Helper()
	l, err := Open(dir, limits, c.now, log.logger())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := l.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return l
}

// logs is a log that a test reads.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logs) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// cheap has costs that are easy to add up: a dollar for a million tokens.
var cheap = &Price{Input: 1, Output: 1, CacheRead: 1, CacheWrite: 1}

func mustReserve(tb testing.TB, l *Ledger, a Ask) *Reservation {
	tb.Helper()
	r, err := l.Reserve(tb.Context(), a)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func settle(tb testing.TB, r *Reservation, u *proto.Usage) {
	tb.Helper()
	if err := r.Settle(u); err != nil {
		tb.Fatal(err)
	}
}

// spend makes a whole request.
func spend(tb testing.TB, l *Ledger, a Ask, input, output int64) {
	tb.Helper()
	settle(tb, mustReserve(tb, l, a), used(input, output))
}

func used(input, output int64) *proto.Usage {
	return &proto.Usage{InputTokens: input, OutputTokens: output}
}

// wantRefused asks, and expects a refusal with these words.
func wantRefused(tb testing.TB, l *Ledger, a Ask, words ...string) {
	tb.Helper()
	r, err := l.Reserve(tb.Context(), a)
	if !errors.Is(err, proto.ErrBudget) || strings.Contains(err.Error(), "\n") {
		tb.Fatalf("granted %+v, %v; want an error of one line with code budget", r, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			tb.Errorf("the refusal does not say %q: %v", w, err)
		}
	}
}

func mustReport(tb testing.TB, l *Ledger, req proto.UsageRequest) proto.UsageReport {
	tb.Helper()
	report, err := l.Report(tb.Context(), req)
	if err != nil {
		tb.Fatal(err)
	}
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

// wantBudget holds what is spent and reserved against what is expected.
func wantBudget(tb testing.TB, l *Ledger, key, session string, spent, reserved float64) {
	tb.Helper()
	if b := budget(tb, l, key, session); b.Spent != spent || b.Reserved != reserved {
		tb.Errorf("%s: %v spent and %v reserved, want %v and %v", key, b.Spent, b.Reserved, spent, reserved)
	}
}

func readFile(tb testing.TB, dir string) string {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

func writeFile(tb testing.TB, dir, text string) {
	tb.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}
