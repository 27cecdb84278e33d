// Package bench_test measures the programs from outside against their goals: the
// table that make bench prints. testdata contains the floors.
package bench_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var (
	benchTable = flag.Bool("bench.table", false, "measure everything and print the table (make bench)")
	benchOnly  = flag.String("bench.only", "", "with -bench.table: only rows whose name contains this")
)

// row is a part of the table. It may have several lines, which share their
// measurements.
type row struct {
	name  string // matched by -bench.only
	cheap bool   // takes milliseconds and needs only programs in testdata: part of every test run
	run   func(*bench) ([]line, error)
}

// table lists all rows in printing order.
var table = []row{
	{"ping", true, benchPing},
	{"ping allocs", true, benchPingAllocs},
	{"chunk codec", true, benchChunk},
	{"forward 100 KB", true, benchForward},
	{"forward 100 KB through agr", false, benchForwardProcess},
	{"3 hops burst", false, benchBurst},
	{"3 hops paced", false, benchPaced},
	{"3 hops cold first chunk", false, benchFirstChunk},
	{"parser", true, benchParser},
	{"mask", true, benchMask},
	{"policy", true, benchPolicy},
	{"hook, none matches", true, benchNoHook},
	{"hook", false, benchHook},
	{"mcp tokens", false, benchToolTokens},
	{"mcp call", false, benchToolCall},
	{"mcp processes", false, benchServers},
	{"audit", true, benchAudit},
	{"providers", true, benchProviders},
	{"open streams", false, benchStreams},
	{"cli start", false, benchCLIStart},
	{"chat start", false, benchChatStart},
	{"chat parent", false, benchChatParent},
	{"chat stream", false, benchChatStream},
	{"chat idle", false, benchChatIdle},
	{"chat markdown", false, benchChatMarkdown},
	{"chat turns", false, benchChatTurns},
	{"service start", false, benchServiceStart},
	{"idle memory", false, benchIdleMemory},
	{"exec sh -c true", false, benchExec},
	{"append_history", false, benchAppend},
	{"get_history", false, benchLastMessages},
	{"hard memories", false, benchMemories},
	{"recall", false, benchRecall},
	{"whole turn", false, benchTurn},
	{"project", false, benchProject},
	{"session deltas", false, benchDeltas},
	{"session resumed", false, benchResume},
	{"session first token", false, benchFirstToken},
	{"detach", false, benchDetach},
	{"followers", false, benchFollowers},
	{"attach", false, benchAttach},
	{"parked turns", false, benchParked},
	{"undo scan", false, benchUndoScan},
	{"repl", false, benchRepl},
	{"repl pages", false, benchReplPages},
	{"repl eval", false, benchReplEval},
	{"repl console", false, benchReplConsole},
	{"repl script", false, benchReplScript},
}

// TestBenchTable prints the table with -bench.table. In an ordinary test run it
// checks that the cheap rows can be measured.
func TestBenchTable(t *testing.T) {
	b := newBench(t)
	const layout = "%-52s %12s %12s %8s  %-18s %-8s %s\n"
	if *benchTable {
		b.printf(layout, "WHAT", "MEASURED", "FLOOR", "RATIO", "GOAL", "", "")
	}
	met, all, measured := 0, 0, 0
	for _, r := range table {
		if b.smoke && !r.cheap || !strings.Contains(r.name, *benchOnly) {
			continue
		}
		measured++
		lines, err := r.run(b)
		if err != nil {
			lines = append(lines, line{name: r.name, missing: fmt.Errorf("%w (%s)", err, b.lastWords())})
		}
		for _, l := range lines {
			if all += l.counts(); l.met() {
				met += l.counts()
			}
			if b.smoke {
				b.check(l)
			} else {
				b.printf(layout, l.columns()...)
			}
		}
	}
	if measured == 0 {
		t.Fatalf("no row of the table has %q in its name", *benchOnly)
	}
	b.printf("%d of %d goals met\n", met, all)
}

func (b *bench) printf(format string, args ...any) {
	if *benchTable {
		fmt.Fprintf(os.Stdout, format, args...)
	}
}

// check fails the test for a line without numbers.
func (b *bench) check(l line) {
	if l.missing != nil || l.measured < 0 || l.unit != allocs && l.measured == 0 {
		b.t.Errorf("%s: not measured: %v, %v", l.name, l.measured, l.missing)
	}
}

// line is one line of the table.
type line struct {
	name            string
	unit            unit
	measured, floor float64
	ratio           float64
	goals           []goal // empty: the line is informative
	note            string // what was measured
	missing         error  // why it was not measured
}

// goal is one condition of a line.
type goal struct {
	ratio   bool // about the ratio, not the measured value
	atLeast bool
	limit   float64
}

func atMost(v float64) goal       { return goal{limit: v} }
func ratioAtMost(r float64) goal  { return goal{ratio: true, limit: r} }
func ratioAtLeast(r float64) goal { return goal{ratio: true, atLeast: true, limit: r} }

func (l line) met() bool {
	return l.missing == nil && !slices.ContainsFunc(l.goals, func(g goal) bool { return !g.metBy(l) })
}

// counts returns 1 for a line that has a goal or could not be measured.
func (l line) counts() int {
	if l.missing == nil && len(l.goals) == 0 {
		return 0
	}
	return 1
}

func (g goal) metBy(l line) bool {
	v := l.measured
	if g.ratio {
		v = l.ratio
	}
	return v <= g.limit && !g.atLeast || v >= g.limit && g.atLeast
}

func (g goal) text(u unit) string {
	sign, limit := "<= ", u.text(g.limit)
	if g.atLeast {
		sign = ">= "
	}
	if g.ratio {
		limit = fmt.Sprintf("%gx", g.limit)
	}
	return sign + limit
}

func (l line) columns() []any {
	if l.missing != nil {
		return []any{l.name, "-", "-", "-", "-", "missed", "not measured: " + l.missing.Error()}
	}
	floor, ratio, verdict := "-", "-", "missed"
	if l.floor > 0 {
		floor = l.unit.text(l.floor)
	}
	if l.ratio > 0 {
		ratio = fmt.Sprintf("%.2fx", l.ratio)
	}
	if l.met() {
		verdict = "met"
	}
	if l.counts() == 0 {
		verdict = "-"
	}
	var goals []string
	for _, g := range l.goals {
		goals = append(goals, g.text(l.unit))
	}
	return []any{l.name, l.unit.text(l.measured), floor, ratio, strings.Join(goals, ", "), verdict, l.note}
}

// unit is the unit of a measurement.
type unit int

const (
	nanoseconds unit = iota
	megabytes
	kilobytes // of 1024 bytes
	allocs
	tokenCount
	processCount
)

func (u unit) text(v float64) string {
	switch {
	case u == allocs:
		return fmt.Sprintf("%.4g allocs", v)
	case u == tokenCount:
		return fmt.Sprintf("%.0f tokens", v)
	case u == processCount:
		return fmt.Sprintf("%.0f", v)
	case u == megabytes:
		return fmt.Sprintf("%.4g MB", v/1e6)
	case u == kilobytes:
		return fmt.Sprintf("%.4g KiB", v/1024)
	case v >= 1e6:
		return fmt.Sprintf("%.4g ms", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.4g us", v/1e3)
	}
	return fmt.Sprintf("%.3g ns", v)
}

// errNoCompiler is the error for a floor in C without a compiler.
var errNoCompiler = errors.New("there is no C compiler (gcc) for the floor")

// TestBenchVerdicts checks which lines meet their goals: limits are inclusive, and a
// line that was not measured does not.
func TestBenchVerdicts(t *testing.T) {
	for _, c := range []struct {
		l    line
		want bool
	}{
		{line{measured: 10, goals: []goal{atMost(10)}}, true},
		{line{measured: 11, goals: []goal{atMost(10)}}, false},
		{line{ratio: 1.2, goals: []goal{ratioAtMost(1.1)}}, false},
		{line{ratio: 0.5, goals: []goal{ratioAtLeast(0.4)}}, true},
		{line{ratio: 0.3, goals: []goal{ratioAtLeast(0.4)}}, false},
		{line{measured: 1, ratio: 3, goals: []goal{atMost(2), ratioAtMost(2)}}, false},
		{line{measured: 1, goals: []goal{atMost(2)}, missing: errNoCompiler}, false},
	} {
		if got := c.l.met(); got != c.want {
			t.Errorf("%+v: met = %v", c.l, got)
		}
		if c.l.counts() != 1 {
			t.Errorf("%+v: counts = %d, want 1", c.l, c.l.counts())
		}
	}
}
