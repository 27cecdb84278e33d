package ledger

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zino/pkg/durable"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestFile holds the form of the lines, which is promised.
func TestFile(t *testing.T) {
	l, dir, c := newLedger(t, Limits{USDPerDay: 10})
	ask := Ask{Session: "s1", Provider: "anthropic", Model: "large", Input: 1000, Output: 500, Price: &Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}}
	first, second, third := mustReserve(t, l, ask), mustReserve(t, l, ask), mustReserve(t, l, ask)
	c.set(noon.Add(time.Hour)) // a line's time is when its request was made
	settle(t, first, &proto.Usage{InputTokens: 1000, OutputTokens: 100, CacheReadTokens: 900, CacheWriteTokens: 50, ReasoningTokens: 40})
	settle(t, second, nil)
	zinotest.Must(t, third.Cancel())
	common := func(r *Reservation) string {
		return `{"time":"2026-11-21T12:00:00+01:00","id":"` + r.line.ID + `","session":"s1","provider":"anthropic","model":"large",`
	}
	const reserved = `"reserved":{"tokens":1500,"usd":0.01125}`
	want := strings.Join([]string{
		common(first) + reserved + "}",
		common(second) + reserved + "}",
		common(third) + reserved + "}",
		common(first) + `"input_tokens":1000,"output_tokens":100,"cache_read_tokens":900,"cache_write_tokens":50,"reasoning_tokens":40,"cost_usd":0.0021075}`,
		common(second) + reserved + `,"unknown":true}`,
		common(third) + `"canceled":true}`,
	}, "\n") + "\n"
	if got := readFile(t, dir); got != want {
		t.Errorf("the file is\n%swant\n%s", got, want)
	}
	for name, mode := range map[string]os.FileMode{dir: 0o700 | os.ModeDir, filepath.Join(dir, fileName): 0o600} {
		if fi, err := os.Stat(name); err != nil || fi.Mode() != mode {
			t.Errorf("%s: mode %v, %v", name, fi.Mode(), err)
		}
	}
}

// TestUnlimited: without limits a line is written at the end and nothing else is
// done.
func TestUnlimited(t *testing.T) {
	l, dir, _ := newLedger(t, Limits{})
	writeFile(t, dir, "")
	zinotest.Must(t, os.Chmod(filepath.Join(dir, fileName), 0o644))
	unlock := lockFile(t, dir) // a reservation does not wait for it
	r := mustReserve(t, l, Ask{Model: "m", Input: 5, Output: 7, Price: cheap})
	gone := mustReserve(t, l, Ask{Output: 0})
	if r.Output != 7 || gone.Output != 0 || readFile(t, dir) != "" {
		t.Fatalf("granted %d and %d, the file is %q", r.Output, gone.Output, readFile(t, dir))
	}
	u := used(5, 6)
	zinotest.Error(t, r.Settle(u), durable.ErrLocked, dir)
	unlock()
	zinotest.Must(t, errors.Join(gone.Cancel(), r.Settle(u), r.Cancel(), l.Close()))
	if u.CostUSD == nil || *u.CostUSD != 11e-6 {
		t.Errorf("the cost is %v", u.CostUSD)
	}
	if text := readFile(t, dir); strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, `"model":"m","input_tokens":5,"output_tokens":6,"cost_usd":0.000011}`+"\n") {
		t.Errorf("the file is %q", text)
	}
	if fi, err := os.Stat(filepath.Join(dir, fileName)); err != nil || fi.Mode() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
}

// lockFile locks the file as another process would.
func lockFile(tb testing.TB, dir string) (unlock func()) {
	tb.Helper()
	f, err := os.Open(filepath.Join(dir, fileName))
	zinotest.Must(tb, err)
	tb.Cleanup(func() { f.Close() })
	zinotest.Must(tb, durable.TryLock(f))
	return func() { f.Close() }
}

func TestOpenRefusesLimits(t *testing.T) {
	for _, limits := range []Limits{{USDPerDay: -1}, {USDPerSession: math.NaN()}, {USDPerDay: math.Inf(1)}, {TokensPerDay: -5}, {TokensPerSession: -1}} {
		dir := filepath.Join(t.TempDir(), "d")
		if _, err := Open(dir, limits, time.Now, new(zinotest.Buffer).Logger()); err == nil || !strings.HasPrefix(err.Error(), "[budget] ") {
			t.Errorf("%+v: %v", limits, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%+v: the directory: %v", limits, err)
		}
	}
}

// TestNoPlace checks a directory that cannot be made, and a path that is not a file.
func TestNoPlace(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"not a directory": func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"not a file":      func(dir string) error { return os.MkdirAll(filepath.Join(dir, fileName), 0o700) },
		"a pipe": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), syscall.Mkfifo(filepath.Join(dir, fileName), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			zinotest.Must(t, spoil(dir))
			c, log := &clock{at: noon}, new(zinotest.Buffer)
			_, err := Open(dir, Limits{TokensPerDay: 5}, c.now, log.Logger())
			if !errors.Is(err, proto.ErrUnavailable) || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
				t.Errorf("with limits: %v", err)
			}
			l, err := Open(dir, Limits{}, c.now, log.Logger())
			if err != nil || !strings.Contains(log.String(), "level=WARN msg=\"usage is not recorded\"") {
				t.Fatalf("without limits: %v, logged %q", err, log)
			}
			r := mustReserve(t, l, Ask{})
			if err := r.Settle(used(1, 1)); err == nil || !strings.Contains(log.String(), "not recorded yet") {
				t.Errorf("a settlement: %v, logged %q", err, log)
			}
			zinotest.Must(t, os.RemoveAll(dir))
			spend(t, l, Ask{}, 2, 2)
			if got := mustReport(t, l, proto.UsageRequest{}).Total; got.Requests != 2 || got.Usage.InputTokens != 3 {
				t.Errorf("when there is a place again: %+v", got)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPlaceGoes: a budget that can no longer be recorded lets nothing pass.
func TestPlaceGoes(t *testing.T) {
	l, dir, _ := newLedger(t, Limits{TokensPerDay: 100})
	spend(t, l, Ask{Input: 1, Output: 1}, 1, 1)
	zinotest.Must(t, errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)))
	_, err := l.Reserve(t.Context(), Ask{Input: 1, Output: 1})
	if !errors.Is(err, proto.ErrUnavailable) || !strings.Contains(err.Error(), "refusing model requests: "+dir) || !strings.Contains(err.Error(), "[budget]") {
		t.Errorf("reserved: %v", err)
	}
	if _, err := l.Report(t.Context(), proto.UsageRequest{}); err == nil {
		t.Error("a report without a file to read")
	}
	zinotest.Must(t, os.Remove(dir))
	spend(t, l, Ask{Input: 1, Output: 1}, 1, 1)
	wantBudget(t, l, tokensPerDay, "", 2, 0)
}

// TestPending: what could not be recorded counts before the next request.
func TestPending(t *testing.T) {
	l, dir, _ := newLedger(t, Limits{TokensPerDay: 100})
	first, second := mustReserve(t, l, Ask{Input: 10, Output: 10}), mustReserve(t, l, Ask{Input: 10, Output: 10})
	zinotest.Must(t, errors.Join(os.Rename(dir, dir+".away"), os.WriteFile(dir, nil, 0o600)))
	if first.Settle(used(60, 10)) == nil || second.Settle(used(20, 10)) == nil {
		t.Fatal("recorded without a file")
	}
	zinotest.Must(t, errors.Join(os.Remove(dir), os.Rename(dir+".away", dir)))
	wantBudget(t, l, tokensPerDay, "", 0, 40)
	wantRefused(t, l, Ask{Input: 1, Output: 1}, "tokens_per_day = 100 is reached: 100 tokens spent and 0 tokens reserved")
	if text := readFile(t, dir); strings.Count(text, "\n") != 4 {
		t.Errorf("the file is\n%s", text)
	}
	zinotest.Must(t, errors.Join(os.Rename(dir, dir+".away"), os.WriteFile(dir, nil, 0o600)))
	for range 3 * pendingMax / len(settledLine) { // memory for pending lines is limited
		if l.record([]byte(settledLine)) == nil {
			t.Fatal("recorded without a file")
		}
	}
	if l.size > pendingMax || l.size < pendingMax/2 {
		t.Errorf("%d bytes are pending", l.size)
	}
	zinotest.Must(t, os.Remove(dir))
	zinotest.Error(t, l.record([]byte(settledLine)), nil, "could not be written for too long")
	zinotest.Equal(t, "pending bytes", l.size, 0)
}

// TestWaitForLock: a reservation waits for another process for as long as its
// caller does; settlements wait a moment, and are then recorded later; reports do
// not wait for long.
func TestWaitForLock(t *testing.T) {
	l, dir, _ := newLedger(t, Limits{TokensPerDay: 100})
	r := mustReserve(t, l, Ask{Input: 1, Output: 1})
	unlock := lockFile(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	for range 2 { // one waits for the lock, the other for the first one
		go func() {
			_, err := l.Reserve(ctx, Ask{Input: 1, Output: 1})
			failed <- err
		}()
	}
	zinotest.Error(t, r.Settle(used(1, 0)), durable.ErrLocked)
	wantBudget(t, l, tokensPerDay, "", 0, 2)
	cancel()
	for range 2 {
		if err := <-failed; !errors.Is(err, context.Canceled) || errors.Is(err, proto.ErrUnavailable) {
			t.Errorf("waited for the lock: %v", err)
		}
	}
	go func() {
		r, err := l.Reserve(t.Context(), Ask{Input: 1, Output: 1})
		failed <- errors.Join(err, r.Settle(used(1, 1)))
	}()
	unlock()
	zinotest.Must(t, <-failed)
	wantBudget(t, l, tokensPerDay, "", 3, 0)
}

// TestPendingAlone: a line that waited for the lock is recorded without a further
// request.
func TestPendingAlone(t *testing.T) {
	l, dir, _ := newLedger(t, Limits{})
	spend(t, l, Ask{}, 1, 1)
	unlock := lockFile(t, dir)
	zinotest.Error(t, mustReserve(t, l, Ask{}).Settle(used(1, 1)), durable.ErrLocked)
	unlock()
	zinotest.Eventually(t, "the line is in the file", func() bool { return strings.Count(readFile(t, dir), "\n") == 2 })
}

// TestBusyWithOwnRequests: a line that waits for other requests of this process is no reason
// for a warning.
func TestBusyWithOwnRequests(t *testing.T) {
	l, dir, _ := newLedger(t, Limits{})
	log := new(zinotest.Buffer)
	l.log = log.Logger()
	spend(t, l, Ask{}, 1, 1)
	file, err := l.open(true)
	zinotest.Must(t, err)
	locked, release, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- file.Update(t.Context(), true, func(tx *durable.Tx) error {
			close(locked)
			<-release
			return l.flushTo(tx)
		})
	}()
	<-locked
	zinotest.Error(t, mustReserve(t, l, Ask{}).Settle(used(1, 1)), durable.ErrLocked, "or by other requests")
	close(release)
	zinotest.Must(t, errors.Join(<-done, l.flush(), l.Close()))
	zinotest.Equal(t, "lines", strings.Count(readFile(t, dir), "\n"), 2)
	if strings.Contains(log.String(), "WARN") {
		t.Errorf("logged %s", log)
	}
}

// TestSync: what was written is on disk a second later, with one sync for all
// of it, and at the end.
func TestSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, c := new(zinotest.Buffer), &clock{at: noon}
		l, err := Open(t.TempDir(), Limits{}, c.now, log.Logger())
		zinotest.Must(t, err)
		synced := func(want int) {
			t.Helper()
			synctest.Wait()
			zinotest.Equal(t, "syncs", log.Count("usage is on disk"), want)
		}
		for range 10 {
			spend(t, l, Ask{}, 1, 1)
		}
		<-time.After(syncDelay - time.Millisecond)
		synced(0)
		<-time.After(time.Hour)
		synced(1)
		late := mustReserve(t, l, Ask{})
		spend(t, l, Ask{}, 1, 1)
		if err := errors.Join(l.Close(), l.Close()); err != nil {
			t.Error(err)
		}
		synced(2)
		settle(t, late, used(1, 1))
		synced(3)
	})
}
