package agr

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/agr/toolbox"
)

// ledger notes when calls begin and end.
type ledger struct {
	mu      sync.Mutex
	entries []string // "+name" and "-name"
	running int
	most    int // that ran at once
}

// note runs a call between two entries.
func (l *ledger) note(name string, call func() error) error {
	l.mu.Lock()
	l.entries = append(l.entries, "+"+name)
	l.running++
	l.most = max(l.most, l.running)
	l.mu.Unlock()
	err := call()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, "-"+name)
	l.running--
	return err
}

// before reports whether one thing happened before another.
func (l *ledger) before(one, other string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, j := slices.Index(l.entries, one), slices.Index(l.entries, other)
	return i >= 0 && j >= 0 && i < j
}

var numbered = regexp.MustCompile(`"(?:path|command|query)":"(\d+)"`)

// numberOf is the number that a call of the tests has as its argument.
func numberOf(t *testing.T, input []byte) (n int) {
	m := numbered.FindSubmatch(input)
	if m == nil {
		t.Errorf("input %s", input)
		return 0
	}
	fmt.Sscan(string(m[1]), &n)
	return n
}

// call is a call of a tool with its number.
func numberedCall(n int, tool, argument string) string {
	return native(fmt.Sprint("id", n), tool, fmt.Sprintf(`{"%s":"%d"}`, argument, n))
}

// TestReadsSideBySide: calls that read are under way at once, up to eight. The
// first eight end when all of them have begun, each after the one behind it:
// their results still stand in the order of the calls, and the events of each in
// theirs.
func TestReadsSideBySide(t *testing.T) {
	t.Parallel()
	const calls = 20
	var list, want []string
	all, ended := make(chan struct{}), make([]chan struct{}, calls)
	for i := range ended {
		ended[i] = make(chan struct{})
	}
	for i := range calls {
		list = append(list, numberedCall(i, "read", "path"))
		want = append(want, string(toolbox.Said(fmt.Sprint("text ", i))))
	}
	b := newBench(t, asks("", list...), says("Done."))
	var l ledger
	var missing atomic.Int32
	missing.Store(sideBySide)
	b.exc.carries(func(ctx context.Context, req proto.Call, _ *rpc.Out) (proto.CallResult, error) {
		n := numberOf(t, req.Input)
		return proto.CallResult{Result: toolbox.Said(fmt.Sprint("text ", n))}, l.note(fmt.Sprint(n), func() error {
			defer close(ended[n])
			if n >= sideBySide {
				return nil
			}
			if missing.Add(-1) == 0 {
				close(all)
			}
			if n == sideBySide-1 {
				return until(ctx, all)
			}
			return until(ctx, ended[n+1])
		})
	})
	packets := b.watch(request(question, told+inSession))
	l.mu.Lock()
	defer l.mu.Unlock()
	if results := toolResults(t, b.rtr.asked()[1]); !slices.Equal(results, want) {
		t.Errorf("the model sees %q", results)
	}
	if l.most != sideBySide {
		t.Errorf("%d calls at once", l.most)
	}
	for i := range calls {
		id := fmt.Sprintf(`"id":"id%d"`, i)
		var own []string
		for _, p := range packets {
			if strings.Contains(p, id) {
				own = append(own, p)
			}
		}
		name := fmt.Sprint("id", i)
		compare(t, own, requested(name, "read", fmt.Sprintf(`{"path":"%d"}`, i)), begun(name, "read"), finished(name, "read", want[i]))
	}
}

// TestOrderOfCalls: what changes something runs alone, after all calls in front
// of it and before all behind it. Reading and recalling are under way together.
func TestOrderOfCalls(t *testing.T) {
	t.Parallel()
	kinds := strings.Repeat("rmwbrrewmr", 6) // read, recall (m), write, bash, edit
	tools := map[rune][2]string{'r': {"read", "path"}, 'm': {"recall", "query"}, 'w': {"write", "path"}, 'b': {"bash", "command"}, 'e': {"edit", "path"}}
	var list []string
	for i, kind := range kinds {
		list = append(list, numberedCall(i, tools[kind][0], tools[kind][1]))
	}
	b := newBench(t, asks("", list...), says("Done."))
	b.remembering()
	var l ledger
	there := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
	meet := func(ctx context.Context, n int) error { // of the first two neither ends before the other has begun
		if n > 1 {
			return nil
		}
		close(there[n])
		return until(ctx, there[1-n])
	}
	b.exc.carries(func(ctx context.Context, req proto.Call, _ *rpc.Out) (proto.CallResult, error) {
		n := numberOf(t, req.Input)
		return proto.CallResult{Result: toolbox.Said("")}, l.note(fmt.Sprint(n), func() error { return meet(ctx, n) })
	})
	b.mem.searches(func(ctx context.Context, req proto.SearchHard) (proto.HardMemories, error) {
		n := numberOf(t, fmt.Appendf(nil, `"query":"%s"`, req.Query))
		return proto.HardMemories{}, l.note(fmt.Sprint(n), func() error { return meet(ctx, n) })
	})
	if _, last := b.ask(request(question, inSession)); last.text() != "Done." {
		t.Fatalf("last packet %s", last.raw)
	}
	for i, kind := range kinds {
		for j := range kinds {
			alone := !strings.ContainsRune("rm", kind)
			if alone && j < i && !l.before(fmt.Sprint("-", j), fmt.Sprint("+", i)) || alone && j > i && !l.before(fmt.Sprint("-", i), fmt.Sprint("+", j)) {
				t.Errorf("call %d is not alone beside call %d", i, j)
			}
		}
	}
	if !l.before("+1", "-0") || !l.before("+0", "-1") {
		t.Error("read and recall follow each other")
	}
}

// TestHangUpDuringReads: all calls that are under way are cancelled, and no
// other begins.
func TestHangUpDuringReads(t *testing.T) {
	t.Parallel()
	var list []string
	for i := range 2 * sideBySide {
		list = append(list, numberedCall(i, "read", "path"))
	}
	b := newBench(t, asks("", list...), says("never"))
	arrived, cancelled := make(chan struct{}), make(chan struct{}, len(list))
	b.exc.carries(func(ctx context.Context, _ proto.Call, _ *rpc.Out) (proto.CallResult, error) {
		arrived <- struct{}{}
		<-ctx.Done()
		cancelled <- struct{}{}
		return proto.CallResult{}, ctx.Err()
	})
	c := b.dial()
	c.send(request(question, told+inSession))
	for range sideBySide {
		wait(t, arrived, "the calls to begin")
	}
	c.nc.Close()
	for range sideBySide {
		wait(t, cancelled, "the calls to be cancelled")
	}
	b.idle()
	if n, m := len(b.exc.calls()), len(b.rtr.asked()); n != sideBySide || m != 1 {
		t.Errorf("%d calls, %d inferences", n, m)
	}
}
