package ledger

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"zino/proto"
)

// children are what the test binary does in the place of another process, in
// the directory that it is given.
var children = map[string]func(dir string) error{
	"spender": spendAll,
	"holder":  hold,
	"cut":     cutShort,
	"disk":    fillDisk,
}

func child(t *testing.T, role, dir string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "LEDGER_CHILD="+role, "LEDGER_DIR="+dir, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// openChild opens a ledger in a child.
func openChild(dir string, limits Limits) (*Ledger, error) {
	return Open(dir, limits, (&clock{at: noon}).now, (&logs{}).logger())
}

// shared are the limits that spenders share: 2000 tokens, which are a dollar.
var shared = Limits{TokensPerDay: 2000, USDPerDay: 1}

// portion is one of 10 tokens for 0.005 dollars.
var portion = Ask{Input: 5, Output: 5, Price: &Price{Input: 500, Output: 500, CacheRead: 500, CacheWrite: 500}}

// spendAll makes a request, says that it is ready, waits for the end of its
// input, makes requests from several goroutines until the budget is spent, and
// prints how many there were.
func spendAll(dir string) error {
	l, err := openChild(dir, shared)
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

// loop makes requests until the budget refuses one, and returns how many.
func loop(l *Ledger, usage func() *proto.Usage) (n int, err error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 4 {
		wg.Go(func() {
			for {
				r, failed := l.Reserve(context.Background(), portion)
				if failed == nil {
					failed = r.Settle(usage())
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

// TestLoopIsStopped has two processes, each with a loop that spends what it
// can: they are stopped at the promised amount, exactly. After that a third one
// gets nothing.
func TestLoopIsStopped(t *testing.T) {
	dir := t.TempDir()
	spenders := []*spender{startSpender(t, dir), startSpender(t, dir)}
	for _, s := range spenders {
		s.in.Close() // from here on they spend
	}
	total := 0
	for _, s := range spenders {
		total += s.number(t)
	}
	if total != 200 {
		t.Errorf("%d requests were let through, want 200", total)
	}
	l := openLedger(t, dir, shared, &clock{at: noon}, &logs{})
	wantBudget(t, l, tokensPerDay, "", 2000, 0)
	wantBudget(t, l, usdPerDay, "", 1, 0)
	wantRefused(t, l, portion, "usd_per_day = 1 is reached")
	if got := mustReport(t, l, proto.UsageRequest{}).Total; got.Requests != 200 || *got.Usage.CostUSD != 1 {
		t.Errorf("the report has %+v", got)
	}
}

// spender is a process that spends.
type spender struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startSpender starts one and waits until it is ready.
func startSpender(t *testing.T, dir string) *spender {
	t.Helper()
	s := &spender{cmd: child(t, "spender", dir)}
	in, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.in, s.out = in, bufio.NewReader(out)
	if line, err := s.out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the spender said %q, %v", line, err)
	}
	return s
}

// number is how many requests it made, when it is done.
func (s *spender) number(t *testing.T) int {
	t.Helper()
	text, err := io.ReadAll(s.out)
	n, parseErr := strconv.Atoi(strings.TrimSpace(string(text)))
	if err := errors.Join(err, parseErr, s.cmd.Wait()); err != nil {
		t.Fatalf("the spender printed %q: %v", text, err)
	}
	return n
}

// TestLoopsOfTwoLedgers is the same in one process, with requests that take
// less than was reserved, and some that nobody hears of again.
func TestLoopsOfTwoLedgers(t *testing.T) {
	dir, c := t.TempDir(), &clock{at: noon}
	var wg sync.WaitGroup
	for range 2 {
		l := openLedger(t, dir, shared, c, &logs{})
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
	l := openLedger(t, dir, shared, c, &logs{})
	if b := budget(t, l, tokensPerDay, ""); b.Spent > b.Limit || b.Spent <= b.Limit-10 || b.Reserved != 0 {
		t.Errorf("spent %v of %v, %v reserved", b.Spent, b.Limit, b.Reserved)
	}
}

// hold makes a reservation, says so, and holds it for ever.
func hold(dir string) error {
	l, err := openChild(dir, shared)
	if err != nil {
		return err
	}
	ask := portion
	ask.Session = "s"
	if _, err := l.Reserve(context.Background(), ask); err != nil {
		return err
	}
	fmt.Println("reserved")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// TestKilled: what a process had reserved when it was killed stays counted for
// that day, and for its session.
func TestKilled(t *testing.T) {
	dir, c := t.TempDir(), &clock{at: noon}
	cmd := child(t, "holder", dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "reserved\n" {
		t.Errorf("the holder said %q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		t.Fatalf("the holder ended by itself: %v", err)
	}
	limits := shared
	limits.TokensPerSession = 100
	l := openLedger(t, dir, limits, c, &logs{})
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
