package ledger

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"zino/pkg/durable"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestFileTooLarge has writes cut short: a reservation that cannot be recorded is
// refused and does not count, a settlement is recorded later, once.
func TestFileTooLarge(t *testing.T) {
	if zinotest.Alone(t) {
		return
	}
	for _, room := range []int{0, 1, 60, 102} {
		limited, dir, _ := newLedger(t, Limits{TokensPerDay: 100})
		free, _, _ := newLedger(t, Limits{})
		ask := Ask{Input: 10, Output: 20}
		first, second := mustReserve(t, free, Ask{}), mustReserve(t, free, Ask{})
		lift := zinotest.LimitFileSize(t, uint64(room))
		_, err := limited.Reserve(t.Context(), ask)
		zinotest.Error(t, err, proto.ErrUnavailable, "file too large")
		zinotest.Error(t, first.Settle(used(1, 0)), syscall.EFBIG)
		zinotest.Error(t, second.Settle(used(2, 0)), syscall.EFBIG)
		lift()
		zinotest.Equal(t, "files", zinotest.Names(t, dir), "")
		spend(t, limited, ask, 1, 1)
		wantBudget(t, limited, tokensPerDay, "", 2, 0)
		want := int64(3)
		if room%2 == 1 {
			zinotest.Must(t, free.Close())
		} else {
			spend(t, free, Ask{}, 4, 0)
			want = 7
		}
		if got := mustReport(t, free, proto.UsageRequest{}).Total; got.Usage != (proto.Usage{InputTokens: want}) {
			t.Errorf("room for %d bytes: the report has %+v", room, got)
		}
	}
}

func TestDiskFull(t *testing.T) {
	zinotest.SmallDisk(t, zinotest.Command(t, "disk", t.TempDir()))
}

// fillDisk spends until the disk is full, and then has a disk that cannot be
// written at all.
func fillDisk(args []string) error {
	dir := args[0]
	if err := zinotest.Mount(dir, "size=32k", 0); err != nil {
		return err
	}
	limited, err := openAtNoon(dir, Limits{TokensPerDay: 1e9})
	if err != nil {
		return err
	}
	n := int64(0)
	for ; err == nil; n++ {
		var r *Reservation
		if r, err = limited.Reserve(context.Background(), Ask{Input: 1, Output: 1}); err == nil {
			_ = r.Settle(used(1, 1)) // the last one finds the disk full, and is pending
		}
	}
	if !errors.Is(err, proto.ErrUnavailable) || !strings.Contains(err.Error(), "no space left on device") || n < 50 {
		return fmt.Errorf("%d requests, then %w", n, err)
	}
	limited.file.Close() // an open file would be in the way
	if err := zinotest.Remount(dir, syscall.MS_RDONLY); err != nil {
		return err
	}
	if _, err = limited.Reserve(context.Background(), Ask{}); !errors.Is(err, proto.ErrUnavailable) || !strings.Contains(err.Error(), "read-only file system") {
		return fmt.Errorf("reserved on a read-only disk: %w", err)
	}
	if _, err = openAtNoon(dir, Limits{TokensPerDay: 1}); !errors.Is(err, proto.ErrUnavailable) {
		return fmt.Errorf("opened with limits: %w", err)
	}
	free, err := openAtNoon(dir, Limits{})
	if err != nil {
		return err
	}
	if r, err := free.Reserve(context.Background(), Ask{}); err != nil || r.Settle(used(1, 1)) == nil {
		return fmt.Errorf("without limits: %w", err)
	}
	report, err := free.Report(context.Background(), proto.UsageRequest{})
	if got := report.Total.Requests; err != nil || got < n-2 || got > n-1 {
		return fmt.Errorf("%d requests of %d are there, %w", got, n-1, err)
	}
	return nil
}

// shared are the limits that spenders share: 2000 tokens, which are a dollar.
var shared = Limits{TokensPerDay: 2000, USDPerDay: 1}

// portion is a request of 10 tokens for 0.005 dollars.
var portion = Ask{Input: 5, Output: 5, Price: &Price{Input: 500, Output: 500, CacheRead: 500, CacheWrite: 500}}

// spendAll makes a request, prints a line, waits for the end of its input, makes
// requests from several goroutines until the budget is spent, and prints how many
// there were.
func spendAll(args []string) error {
	l, err := openAtNoon(args[0], shared)
	if err != nil {
		return err
	}
	r, err := l.Reserve(context.Background(), portion)
	if err == nil {
		err = r.Settle(used(5, 5))
	}
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	n, err := loop(l, func() *proto.Usage { return used(5, 5) })
	if err != nil {
		return err
	}
	fmt.Println(n + 1)
	return l.Close()
}

// loop makes requests until the budget refuses one, and returns how many. A line
// that waits for the file's lock is written with the next one.
func loop(l *Ledger, usage func() *proto.Usage) (n int, err error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 4 {
		wg.Go(func() {
			for {
				r, failed := l.Reserve(context.Background(), portion)
				if failed == nil {
					if failed = r.Settle(usage()); errors.Is(failed, durable.ErrLocked) {
						failed = nil
					}
				}
				mu.Lock()
				if failed == nil {
					n++
				} else if !errors.Is(failed, proto.ErrBudget) {
					err = failed
				}
				mu.Unlock()
				if failed != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return n, err
}

// TestLoopIsStopped has two processes that spend what they can: they are stopped at
// the limit, exactly. After that a third one gets nothing.
func TestLoopIsStopped(t *testing.T) {
	dir := t.TempDir()
	type spender struct {
		in  io.Closer
		out *bufio.Reader
	}
	var spenders []spender
	for range 2 {
		cmd := zinotest.Command(t, "spender", dir)
		in, err := cmd.StdinPipe()
		zinotest.Must(t, err)
		out, err := cmd.StdoutPipe()
		zinotest.Must(t, err)
		zinotest.Must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Wait() })
		s := spender{in, bufio.NewReader(out)}
		if line, err := s.out.ReadString('\n'); line != "ready\n" {
			t.Fatalf("the spender printed %q, %v", line, err)
		}
		spenders = append(spenders, s)
	}
	for _, s := range spenders {
		s.in.Close() // from here on they spend
	}
	total := 0
	for _, s := range spenders {
		text, err := s.out.ReadString('\n')
		n, parseErr := strconv.Atoi(strings.TrimSpace(text))
		zinotest.Must(t, errors.Join(err, parseErr))
		total += n
	}
	zinotest.Equal(t, "requests that were permitted", total, 200)
	l := openLedger(t, dir, shared, &clock{at: noon}, new(zinotest.Buffer))
	wantBudget(t, l, tokensPerDay, "", 2000, 0)
	wantBudget(t, l, usdPerDay, "", 1, 0)
	wantRefused(t, l, portion, "usd_per_day = 1 is reached")
	if got := mustReport(t, l, proto.UsageRequest{}).Total; got.Requests != 200 || *got.Usage.CostUSD != 1 {
		t.Errorf("the report has %+v", got)
	}
}

// TestLoopsOfTwoLedgers is the same in one process, with requests that use less
// than was reserved, and some whose usage stays unknown.
func TestLoopsOfTwoLedgers(t *testing.T) {
	dir, c := t.TempDir(), &clock{at: noon}
	var wg sync.WaitGroup
	for range 2 {
		l := openLedger(t, dir, shared, c, new(zinotest.Buffer))
		wg.Go(func() {
			n, err := loop(l, func() *proto.Usage {
				if rand.IntN(10) == 0 {
					return nil
				}
				return used(5, rand.Int64N(6))
			})
			if n == 0 || err != nil {
				t.Errorf("%d requests, %v", n, err)
			}
		})
	}
	wg.Wait()
	l := openLedger(t, dir, shared, c, new(zinotest.Buffer))
	if b := budget(t, l, tokensPerDay, ""); b.Spent > b.Limit || b.Spent <= b.Limit-10 || b.Reserved != 0 {
		t.Errorf("spent %v of %v, %v reserved", b.Spent, b.Limit, b.Reserved)
	}
}

// holdReservation makes a reservation, prints a line and waits to be killed.
func holdReservation(args []string) error {
	l, err := openAtNoon(args[0], shared)
	if err != nil {
		return err
	}
	ask := portion
	ask.Session = "s"
	if _, err := l.Reserve(context.Background(), ask); err != nil {
		return err
	}
	fmt.Println("reserved")
	for {
		syscall.Pause()
	}
}

// TestKilled checks that what a process had reserved when it was killed stays
// counted for that day, and for its session.
func TestKilled(t *testing.T) {
	dir, c := t.TempDir(), &clock{at: noon}
	zinotest.KillAfter(t, zinotest.Command(t, "holder", dir), 1)
	limits := shared
	limits.TokensPerSession = 100
	l := openLedger(t, dir, limits, c, new(zinotest.Buffer))
	wantBudget(t, l, tokensPerDay, "", 0, 10)
	wantBudget(t, l, usdPerDay, "", 0, 0.005)
	wantRefused(t, l, Ask{Input: 1991, Price: &Price{}}, "10 tokens reserved for requests under way or lost")
	if got := mustReport(t, l, proto.UsageRequest{}); len(got.Rows) != 0 {
		t.Errorf("the report has %+v", got.Rows)
	}
	c.set(noon.AddDate(0, 0, 1))
	wantBudget(t, l, tokensPerDay, "", 0, 0)
	wantBudget(t, l, tokensPerSession, "s", 0, 10)
}
