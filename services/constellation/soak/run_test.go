// Package soak_test runs a constellation under mixed traffic for a chosen time (make soak):
// turns, jobs, memories, live pages and MCP calls. In the first half it kills a random
// service again and again; the second half is undisturbed, and shows whether anything
// grows. It ends at the first acknowledged write that cannot be read back.
//
// It writes a plot in SVG for each service and for the files, and its report into
// docs/performance.md.
package soak_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// options are those of one run.
type options struct {
	bin, out   string
	length     time.Duration
	round      time.Duration // after each, all that was written is verified and removed
	night      time.Duration // behind each round: things go idle, and their limits pass
	kills      time.Duration // mean time between kills
	samples    time.Duration
	pace       time.Duration // pause of a worker between two operations
	firstPhase time.Duration // with kills

	// For tests, after each sample: what is done to the files, and whether the run ends.
	damage func(*world)
	enough func(*run) bool
}

// defaults returns the options of a run of that length.
func defaults(bin, out string, length, pace time.Duration) options {
	return options{
		bin: bin, out: out, length: length, pace: pace, firstPhase: length / 2,
		round:   min(max(length/40, 10*time.Second), 5*time.Minute),
		night:   min(length/300, 30*time.Second),
		kills:   min(max(length/100, 2*time.Second), 30*time.Second),
		samples: min(max(length/600, 250*time.Millisecond), time.Minute),
	}
}

// soak runs the traffic and writes the plots. It returns an error if the verdict is not ok.
func soak(ctx context.Context, o options) (report string, err error) {
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return "", err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return "", err
	}
	w, err := start(o.bin)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	run := &run{options: o, world: w, began: time.Now()}
	failure := run.traffic(ctx)
	run.ended = time.Now()
	if failure == nil {
		failure = run.series.judge(run.quiet(), run.ended)
	}
	if failure == nil && run.failedAfter > 0 {
		failure = fmt.Errorf("%d operations failed while no service was killed", run.failedAfter)
	}
	report = run.report(failure)
	return report, errors.Join(failure, run.plots())
}

// quiet returns when the processes that were started after the last kill have settled.
func (r *run) quiet() time.Time { return r.began.Add(r.firstPhase + settle) }

func (r *run) report(failure error) string {
	var b strings.Builder
	length := r.ended.Sub(r.began).Round(time.Second)
	fmt.Fprintf(&b, "%s, %d rounds of %s and pauses of %s, %d kills in the first %s\n", length, r.rounds, r.round.Round(time.Second), r.night.Round(time.Second), len(r.series.kills), min(r.firstPhase, length).Round(time.Second))
	fmt.Fprintf(&b, "idle limits are %d times shorter (%s): a day of them passes in %s, %.1f in all\n", hurry, shortened(r.cfg), 24*time.Hour/hurry, length.Hours()*hurry/24)
	fmt.Fprintf(&b, "%d operations (%s), %d failed during kills, %d after\n", r.done.total(), r.done, r.failedDuring, r.failedAfter)
	fmt.Fprintf(&b, "%d acknowledged writes verified, %d of them after a kill\n\n", r.verified, r.verifiedAfterKill)
	b.WriteString(r.series.table(r.quiet(), r.ended))
	for i, what := range slices.SortedFunc(maps.Keys(r.failures), func(a, b string) int { return r.failures[b] - r.failures[a] }) {
		if i == 0 {
			b.WriteString("\nfailures:\n")
		}
		if i < 20 {
			fmt.Fprintf(&b, "%6d  %s\n", r.failures[what], what)
		}
	}
	verdict := "ok"
	if r.ended.Sub(r.quiet()) < settle {
		verdict = fmt.Sprintf("ok, too short to judge growth (that takes %s without kills)", 2*settle)
	}
	if failure != nil {
		verdict = failure.Error()
	}
	fmt.Fprintf(&b, "\nverdict: %s\n", verdict)
	return b.String()
}
