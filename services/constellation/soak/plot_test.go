package soak_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Sizes of a plot in pixels.
const (
	plotWidth, panelHeight = 760, 110
	margin                 = 24
)

// plots writes NAME.svg for each service and for the files.
func (r *run) plots() error {
	r.series.mu.Lock()
	defer r.series.mu.Unlock()
	var errs []error
	for name, points := range r.series.points {
		panels := []string{"files", "disk, MB"}
		if name != files {
			panels = nil
			for _, m := range measures {
				panels = append(panels, m.name)
			}
		}
		var kills []time.Time
		for _, k := range r.series.kills {
			if k.name == name {
				kills = append(kills, k.time)
			}
		}
		errs = append(errs, os.WriteFile(filepath.Join(r.out, name+".svg"), []byte(plot(name, panels, points, kills)), 0o644))
	}
	return errors.Join(errs...)
}

// plot draws a panel for each measure, one below the other, and a red line for each kill.
// The vertical axis begins at 0.
func plot(title string, panels []string, points []point, kills []time.Time) string {
	began, length := points[0].time, max(points[len(points)-1].time.Sub(points[0].time), 1)
	x := func(t time.Time) float64 {
		return margin + (plotWidth-2*margin)*float64(t.Sub(began))/float64(length)
	}
	var b strings.Builder
	height := margin + len(panels)*(panelHeight+2*margin)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", plotWidth, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="16" font-size="14">%s, %s</text>`+"\n", margin, title, length.Round(time.Second))
	for i, panel := range panels {
		top := float64(2*margin + i*(panelHeight+2*margin))
		highest := slices.MaxFunc(points, func(a, b point) int { return int(1e3*a.values[i]) - int(1e3*b.values[i]) }).values[i]
		fmt.Fprintf(&b, `<text x="%d" y="%.0f">%s: at most %.4g, at the end %.4g</text>`+"\n", margin, top-5, panel, highest, points[len(points)-1].values[i])
		for _, k := range kills {
			fmt.Fprintf(&b, `<path d="M%.1f %.0fv%d" stroke="#d33" stroke-width="0.5"/>`+"\n", x(k), top, panelHeight)
		}
		fmt.Fprintf(&b, `<path d="M%d %.0fh%d" stroke="#999"/><polyline fill="none" stroke="#036" points="`, margin, top+panelHeight, plotWidth-2*margin)
		for _, p := range points {
			fmt.Fprintf(&b, "%.1f,%.1f ", x(p.time), top+panelHeight*(1-p.values[i]/max(highest, 1e-9)))
		}
		b.WriteString(`"/>` + "\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}
