package soak_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/services/constellation/measure"
)

// sampled returns the samples of an hour, one a minute, of a service whose measures are
// those of at plus what of adds.
func sampled(began time.Time, at []float64, adds func(minute int) float64, measure int) *series {
	s := &series{points: map[string][]point{"mem": {}}}
	for i := range 60 {
		values := append([]float64{}, at...)
		values[measure] += adds(i)
		s.points["mem"] = append(s.points["mem"], point{began.Add(time.Duration(i) * time.Minute), values})
	}
	return s
}

func TestJudge(t *testing.T) {
	began := time.Now()
	half, end := began.Add(30*time.Minute), began.Add(time.Hour)
	at := []float64{10, 20, 8, 15}
	for _, c := range []struct {
		name    string
		measure int
		adds    func(minute int) float64
		want    string
	}{
		{"flat", 0, func(int) float64 { return 0 }, ""},
		{"sawtooth", 0, func(i int) float64 { return float64(i % 5) }, ""},
		{"grew during the kills", 0, func(i int) float64 { return float64(min(i, 20)) }, ""},
		{"leaks memory", 0, func(i int) float64 { return float64(i) / 10 }, "mem grows: anonymous memory"},
		{"leaks descriptors", 1, func(i int) float64 { return float64(i) }, "mem grows: descriptors"},
		{"leaks threads", 2, func(i int) float64 { return float64(i) }, "mem grows: threads"},
		{"leaks goroutines", 3, func(i int) float64 { return float64(i) }, "mem grows: goroutines"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := sampled(began, at, c.adds, c.measure).judge(half, end)
			if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.HasPrefix(got, c.want) && c.want != "" {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	piling := sampled(began, at, func(i int) float64 { return float64(10 * i) }, 0)
	piling.points[files] = piling.points["mem"]
	if err := piling.judge(half, end); err == nil || !strings.Contains(err.Error(), "files grows: files") {
		t.Errorf("with files that pile up: %v", err)
	}
	if err := sampled(began, at, func(i int) float64 { return float64(i) }, 1).judge(end.Add(-settle+1), end); err != nil {
		t.Errorf("a short time was judged: %v", err)
	}
	if err := (&series{}).judge(half, end); err == nil {
		t.Error("no error without samples")
	}
	few := &series{points: map[string][]point{"mem": {{half, at}, {end, at}}}}
	if err := few.judge(half, end); err == nil || !strings.Contains(err.Error(), "too few samples") {
		t.Errorf("with two samples: %v", err)
	}
}

func TestPlotHasCurvesAndKills(t *testing.T) {
	points := sampled(time.Now(), []float64{0, 0, 0, 0}, func(i int) float64 { return float64(i) }, 1).points["mem"]
	for _, kills := range [][]time.Time{nil, {points[3].time}} {
		text := plot("mem", []string{"a", "b", "c", "d"}, points, kills)
		zinotest.Equal(t, "lines of kills", strings.Count(text, "#d33"), 4*len(kills))
		zinotest.Equal(t, "curves", strings.Count(text, "<polyline"), 4)
	}
	plot("one", []string{"a"}, points[:1], nil)
}

var (
	minutes = flag.Float64("soak.minutes", 0, "length of the run (make soak); 0: a test of the soak itself")
	page    = flag.String("soak.page", "", "with -soak.minutes: Markdown file for the report; the plots go to the directory performance beside it")
	pace    = flag.Duration("soak.pace", 100*time.Millisecond, "with -soak.minutes: pause of each client between two operations")
)

// TestSoak runs the services with kills: as long as the flags say, and else until each
// kind of operation has succeeded, services were killed and writes were verified
// afterwards; then again with sessions whose files are removed.
func TestSoak(t *testing.T) {
	bin, out := t.TempDir(), t.TempDir()
	zinotest.Must(t, zinotest.Build(bin, "zino/services/..."))
	if *minutes > 0 {
		out := filepath.Join(filepath.Dir(*page), "performance")
		report, err := soak(t.Context(), defaults(bin, out, time.Duration(*minutes*float64(time.Minute)), *pace))
		fmt.Print(report)
		plots, _ := filepath.Glob(filepath.Join(out, "soak-*.svg")) // the pattern is valid
		zinotest.Must(t, errors.Join(err, measure.Section(*page, "soak", section(report, plots))))
		return
	}
	o := defaults(bin, out, 10*time.Minute, 50*time.Millisecond)
	o.firstPhase, o.night, o.round, o.kills, o.samples = o.length, 0, 3*time.Second, 700*time.Millisecond, 250*time.Millisecond
	o.enough = func(r *run) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.series.mu.Lock()
		defer r.series.mu.Unlock()
		sampled := len(r.series.points) == len(r.services())+1 // the row of the files
		return sampled && r.rounds > 2 && len(r.series.kills) > 2 && r.verifiedAfterKill > 0 && len(r.acknowledged) == len(r.done) && len(r.done) == 7
	}
	report, err := soak(t.Context(), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, report)
	}
	zinotest.Contains(t, "report", report, "verdict: ok, too short to judge growth", " kills in the first ")
	for _, name := range []string{"mem", "daemon", "repl", files} {
		if _, err := os.Stat(filepath.Join(out, "soak-"+name+".svg")); err != nil {
			t.Error(err)
		}
	}
	o.firstPhase, o.round, o.enough = 0, time.Minute, nil
	o.damage = func(w *world) {
		sessions, _ := filepath.Glob(filepath.Join(w.cfg.Mem.SessionsDir, "plain-*.jsonl")) // the pattern is valid
		for _, s := range sessions {
			if err := os.Remove(s); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		}
	}
	report, err = soak(t.Context(), o)
	if !errors.Is(err, errLost) {
		t.Errorf("with removed sessions: %v\n%s", err, report)
	}
	zinotest.Contains(t, "report", report, "verdict: LOST: the turn #plain ")
}
