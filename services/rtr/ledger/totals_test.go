package ledger

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// TestRestart: budgets are what the file says, whichever process opens it.
func TestRestart(t *testing.T) {
	limits := Limits{TokensPerDay: 100, TokensPerSession: 60}
	l, dir, c := newLedger(t, limits)
	ask := Ask{Session: "s", Input: 10, Output: 20}
	spend(t, l, ask, 10, 10)
	lost := mustReserve(t, l, ask)
	wantBudget(t, l, tokensPerDay, "s", 20, 30)

	again := openLedger(t, dir, limits, c, new(zinotest.Buffer))
	wantBudget(t, again, tokensPerDay, "s", 20, 30)
	wantBudget(t, again, tokensPerSession, "s", 20, 30)
	wantRefused(t, again, ask, "tokens_per_session = 60", "20 tokens spent", "30 tokens reserved")
	settle(t, lost, used(10, 1)) // the other process lives after all
	wantBudget(t, again, tokensPerDay, "s", 31, 0)
	wantBudget(t, again, tokensPerSession, "s", 31, 0)
	wantBudget(t, again, tokensPerSession, "other", 0, 0)
	wantBudget(t, again, tokensPerSession, "", 0, 0)
	wantBudget(t, again, tokensPerSession, "-", 0, 0)
}

// TestSettlements: what counts of a reservation after its end.
func TestSettlements(t *testing.T) {
	for name, test := range map[string]struct {
		end    func(*Reservation) error
		tokens float64
		money  float64
	}{
		"less":           {func(r *Reservation) error { return r.Settle(used(10, 5)) }, 15, 15e-6},
		"more":           {func(r *Reservation) error { return r.Settle(used(100, 5)) }, 105, 105e-6},
		"nothing":        {func(r *Reservation) error { return r.Settle(&proto.Usage{}) }, 0, 0},
		"unknown":        {func(r *Reservation) error { return r.Settle(nil) }, 30, 30e-6},
		"abandoned":      {func(r *Reservation) error { return r.Abandon(5) }, 15, 15e-6},
		"abandoned late": {func(r *Reservation) error { return r.Abandon(500) }, 30, 30e-6},
		"cancel":         {(*Reservation).Cancel, 0, 0},
		"reported": {func(r *Reservation) error {
			u := used(10, 5)
			u.CostUSD = new(0.5)
			return r.Settle(u)
		}, 15, 0.5},
		"nonsense": {func(r *Reservation) error {
			u := used(-10, 5)
			u.CostUSD = new(-0.5)
			return r.Settle(u)
		}, 5, 5e-6},
	} {
		t.Run(name, func(t *testing.T) {
			l, _, _ := newLedger(t, Limits{TokensPerDay: 1000, USDPerDay: 1})
			r := mustReserve(t, l, Ask{Input: 10, Output: 20, Price: cheap})
			wantBudget(t, l, tokensPerDay, "", 0, 30)
			wantBudget(t, l, usdPerDay, "", 0, 30e-6)
			zinotest.Must(t, test.end(r))
			if err := r.Settle(used(7, 7)); err != nil { // only the first end counts
				t.Fatal(err)
			}
			zinotest.Must(t, r.Cancel())
			wantBudget(t, l, tokensPerDay, "", test.tokens, 0)
			wantBudget(t, l, usdPerDay, "", test.money, 0)
		})
	}
}

// TestFileChanges: a file that is not the one which was read, grown, is read
// anew.
func TestFileChanges(t *testing.T) {
	l, dir, _ := newLedger(t, Limits{TokensPerDay: 1e6})
	path := filepath.Join(dir, fileName)
	spend(t, l, Ask{Input: 1, Output: 1}, 1, 1)
	wantBudget(t, l, tokensPerDay, "", 2, 0)
	for _, step := range []struct {
		name   string
		change func() error
		want   float64
	}{
		{"moved away", func() error { return os.Rename(path, path+".old") }, 0},
		{"another in its place", func() error { return os.Rename(path+".old", path) }, 2},
		{"shorter", func() error { return os.Truncate(path, 0) }, 0},
		{"longer", func() error { return os.WriteFile(path, []byte(strings.Repeat(settledLine+"\n", 3)), 0o600) }, 3840},
		{"rewritten", func() error {
			return os.WriteFile(path, []byte(strings.Repeat(strings.Replace(settledLine, `"s"`, `"z"`, 1)+"\n", 4)+unknownLine+"\n"), 0o600)
		}, 10320},
		{"edited", func() error {
			return os.WriteFile(path, []byte(strings.Replace(settledLine, "80", "70", 1)+"\n"+canceledLine+"\n"+unknownLine+"\n"+settledLine+"\n"), 0o600)
		}, 7750},
		{"removed", func() error { return os.RemoveAll(dir) }, 0},
	} {
		zinotest.Must(t, step.change())
		wantBudget(t, l, tokensPerDay, "", step.want, 0)
		spend(t, l, Ask{Input: 1, Output: 1}, 1, 1)
		wantBudget(t, l, tokensPerDay, "", step.want+2, 0)
		if step.name == "moved away" {
			zinotest.Must(t, os.Remove(path))
		}
	}
}

// TestTornLine checks that a line that was cut costs no more than itself, and one
// that lacks its end only costs nothing.
func TestTornLine(t *testing.T) {
	for _, limits := range []Limits{{}, {TokensPerDay: 1e6}} {
		for cut, want := range map[int]int64{0: 2, 1: 2, 100: 2, len(settledLine) - 1: 2, len(settledLine): 3} {
			l, dir, _ := newLedger(t, limits)
			writeFile(t, dir, settledLine+"\n"+settledLine[:cut])
			spend(t, l, Ask{Input: 1, Output: 1}, 1, 1)
			if got := mustReport(t, l, proto.UsageRequest{}).Total.Requests; got != want {
				t.Fatalf("cut at %d: %d requests, want %d\n%s", cut, got, want, readFile(t, dir))
			}
			if l.limited() {
				wantBudget(t, l, tokensPerDay, "", float64(1280*(want-1)+2), 0)
			}
		}
	}
}

// TestBrokenLines checks that lines which cannot be read are skipped, and logged
// once.
func TestBrokenLines(t *testing.T) {
	l, dir, c := newLedger(t, Limits{})
	long := strings.Replace(settledLine, `"s"`, `"`+strings.Repeat("s", lineMax)+`"`, 1)
	writeFile(t, dir, strings.Join([]string{
		"garbage", settledLine, "", "  ", long, settledLine + "\r", long + long + long, "\xff\xfe", reservedLine, `{"time":1}`, settledLine, settledLine,
	}, "\n"))
	log := new(zinotest.Buffer)
	for _, limits := range []Limits{{}, {TokensPerDay: 1e6}} {
		l = openLedger(t, dir, limits, c, log)
		for range 3 {
			if got := mustReport(t, l, proto.UsageRequest{}).Total.Requests; got != 4 {
				t.Errorf("%d requests", got)
			}
		}
	}
	if log.Count("level=WARN") != 2 || log.Count("lines=5") != 2 {
		t.Errorf("two ledgers logged %s", log)
	}
	wantBudget(t, l, tokensPerDay, "", 4*1280, 0)
}
