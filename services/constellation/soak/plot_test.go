package soak_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"zino/services/constellation/measure"
)

// plots writes soak-NAME.svg for each service and for the files.
func (r *run) plots() error {
	r.series.mu.Lock()
	defer r.series.mu.Unlock()
	var errs []error
	for name, points := range r.series.points {
		var panels []string
		for _, m := range measuresOf(name) {
			panels = append(panels, m.name)
		}
		var kills []time.Time
		for _, k := range r.series.kills {
			if k.name == name {
				kills = append(kills, k.time)
			}
		}
		errs = append(errs, os.WriteFile(filepath.Join(r.out, "soak-"+name+".svg"), []byte(plot(name, panels, points, kills)), 0o644))
	}
	return errors.Join(errs...)
}

// plot returns a panel for each measure, with a red line for each kill.
func plot(title string, panels []string, points []point, kills []time.Time) string {
	began, length := points[0].time, points[len(points)-1].time.Sub(points[0].time)
	drawing := measure.Plot{Title: fmt.Sprintf("%s: %s of mixed traffic, %d kills (red)", title, length.Round(time.Second), len(kills))}
	for i, name := range panels {
		var curve measure.Curve
		highest := 0.0
		for _, p := range points {
			curve.Points = append(curve.Points, measure.Point{X: p.time.Sub(began).Seconds(), Y: p.values[i]})
			highest = max(highest, p.values[i])
		}
		panel := measure.Panel{
			Title:  fmt.Sprintf("%s: at most %.4g, at the end %.4g", name, highest, points[len(points)-1].values[i]),
			UnitX:  func(x float64) string { return time.Duration(x * float64(time.Second)).Round(time.Second).String() },
			Curves: []measure.Curve{curve},
		}
		for _, k := range kills {
			panel.Marks = append(panel.Marks, k.Sub(began).Seconds())
		}
		drawing.Panels = append(drawing.Panels, panel)
	}
	return drawing.SVG()
}

// section returns the report of a run with its plots, which are in the directory
// performance beside the page.
func section(report string, plots []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Hours of traffic with kills\n\n%s\n\n", measure.Run())
	b.WriteString("Turns, jobs, memories, live pages and MCP calls at once, by `make soak`. In the first half a\n" +
		"random service is killed with SIGKILL again and again; the second half is undisturbed, and shows\n" +
		"whether anything grows. Each acknowledged write is read back.\n\n")
	fmt.Fprintf(&b, "```text\n%s```\n", report)
	for _, p := range plots {
		name := filepath.Base(p)
		fmt.Fprintf(&b, "\n![%s](performance/%s)\n", strings.TrimSuffix(name, ".svg"), name)
	}
	return b.String()
}
