package soak_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/constellation/measure"
)

// limited is what is sampled, with the growth that is still flat.
type limited struct {
	name  string
	limit float64
}

// measures are those of each service.
var measures = []limited{
	{"anonymous memory, MB", 2},
	{"descriptors", 5},
	{"threads", 5},
	{"goroutines", 10},
}

// files is the row of the files of all services.
const files = "files"

// fileMeasures are those of the files. Ledgers get a line for each inference and each
// call, and are kept for days: they grow.
var fileMeasures = []limited{
	{"files", 100},
	{"disk without ledgers, MB", 5},
	{"ledgers, MB", math.Inf(1)},
}

func measuresOf(name string) []limited {
	if name == files {
		return fileMeasures
	}
	return measures
}

// isLedger reports whether a file is the ledger of rtr, or one of exc or of the audit.
func isLedger(path string) bool {
	return filepath.Ext(path) == ".jsonl" && slices.Contains([]string{"rtr", "calls", "audit"}, filepath.Base(filepath.Dir(path)))
}

// point is one sample.
type point struct {
	time   time.Time
	values []float64 // in the order of measures
}

// kill is the death of a service.
type kill struct {
	name string
	time time.Time
}

// series are the samples of a run.
type series struct {
	mu     sync.Mutex
	points map[string][]point
	kills  []kill
}

func (s *series) add(name string, values ...float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.points == nil {
		s.points = map[string][]point{}
	}
	s.points[name] = append(s.points[name], point{time.Now(), values})
}

func (s *series) killed(name string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kills = append(s.kills, kill{name, at})
}

func (s *series) killedSince(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kills) > 0 && s.kills[len(s.kills)-1].time.After(t)
}

func (s *series) lastKills() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, k := range s.kills[max(0, len(s.kills)-3):] {
		list = append(list, k.name+" "+k.time.Format(time.TimeOnly))
	}
	return strings.Join(list, ", ")
}

// sample samples all services and files once. A service that is being started again is
// left out.
func (r *run) sample(ctx context.Context) {
	for name, pid := range r.pids() {
		client := r.clients[name]
		if client == nil {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, time.Second)
		st, err := rpc.Call(limited, client, proto.GetStats, proto.StatsRequest{})
		cancel()
		values, procErr := process(pid)
		if err == nil && procErr == nil {
			r.series.add(name, append(values, float64(st.Goroutines))...)
		}
	}
	var number, size, ledgers int64
	_ = filepath.WalkDir(r.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // it was removed meanwhile
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			number++
			if isLedger(path) {
				ledgers += info.Size()
			} else {
				size += info.Size()
			}
		}
		return nil
	})
	r.series.add(files, float64(number), float64(size)/1e6, float64(ledgers)/1e6)
}

// process returns a process's anonymous memory in megabytes, its descriptors and threads.
func process(pid int) ([]float64, error) {
	anonymous, err := measure.Anonymous(pid)
	descriptors, err2 := measure.Files(pid)
	threads, err3 := measure.Status(pid, "Threads")
	return []float64{anonymous, descriptors, threads}, errors.Join(err, err2, err3)
}

// growth returns the medians of a measure in the first and the last quarter between two
// times, and false without enough samples.
func (s *series) growth(name string, measure int, from, to time.Time) (before, after float64, ok bool) {
	quarter := to.Sub(from) / 4
	var early, late []float64
	for _, p := range s.points[name] {
		switch {
		case p.time.Before(from):
		case p.time.Before(from.Add(quarter)):
			early = append(early, p.values[measure])
		case p.time.After(to.Add(-quarter)):
			late = append(late, p.values[measure])
		}
	}
	if len(early) < 3 || len(late) < 3 {
		return 0, 0, false
	}
	return median(early), median(late), true
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// settle is how long a new process may grow: its heap finds its size, and its clients
// open their connections. Growth is judged over at least as long a time behind it.
const settle = 4 * time.Minute

// judge returns an error if a service grew between two times, or was not sampled. A time
// that is too short is not judged.
func (s *series) judge(from, to time.Time) error {
	if to.Sub(from) < settle {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.points)) {
		for i, m := range measuresOf(name) {
			before, after, ok := s.growth(name, i, from, to)
			switch {
			case !ok:
				errs = append(errs, fmt.Errorf("%s: too few samples", name))
			case after-before > m.limit:
				errs = append(errs, fmt.Errorf("%s grows: %s %.1f to %.1f", name, m.name, before, after))
			}
		}
	}
	if len(s.points) == 0 {
		errs = append(errs, errors.New("no service was sampled"))
	}
	return errors.Join(errs...)
}

// table shows the growth of all measures between two times.
func (s *series) table(from, to time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	cell := func(name string, measure int, format string) string {
		before, after, ok := s.growth(name, measure, from, to)
		if !ok {
			return "-"
		}
		return fmt.Sprintf(format+" -> "+format, before, after)
	}
	fmt.Fprintf(&b, "%-8s %-18s %-14s %-14s %s\n", "SERVICE", "ANONYMOUS MB", "DESCRIPTORS", "THREADS", "GOROUTINES")
	for _, name := range slices.Sorted(maps.Keys(s.points)) {
		if name != files {
			fmt.Fprintf(&b, "%-8s %-18s %-14s %-14s %s\n", name, cell(name, 0, "%.1f"), cell(name, 1, "%.0f"), cell(name, 2, "%.0f"), cell(name, 3, "%.0f"))
		}
	}
	fmt.Fprintf(&b, "files: %s, %s MB, and ledgers of %s MB\n", cell(files, 0, "%.0f"), cell(files, 1, "%.1f"), cell(files, 2, "%.1f"))
	return b.String()
}
