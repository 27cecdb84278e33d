// Package measure contains what the benchmarks, the load and the soak share: plots,
// percentiles, texts, and the memory of processes.
package measure

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Plot is a drawing of panels, one below the other.
type Plot struct {
	Title  string
	Panels []Panel
}

// Panel is a coordinate system. A linear vertical axis begins at 0.
type Panel struct {
	Title  string
	Unit   func(float64) string // labels the vertical grid; nil: %.4g
	UnitX  func(float64) string // labels the horizontal grid of a linear panel; nil: %.4g
	Log    bool                 // both axes are logarithmic; values must be positive
	Curves []Curve
	Marks  []float64 // a red line at each X
}

// Curve is a line through points in the order of X.
type Curve struct {
	Name   string // in the legend; empty: no legend
	Points []Point
}

// Point is a point of a curve.
type Point struct{ X, Y float64 }

// Sizes in pixels.
const (
	plotWidth    = 760
	linearHeight = 110
	logHeight    = 220
	margin       = 24
	labelWidth   = 56
	legendHeight = 14
)

var colors = [...]string{"#036", "#c60", "#282", "#909", "#066", "#840"}

// SVG returns the drawing.
func (p Plot) SVG() string {
	height := margin
	var body strings.Builder
	for _, panel := range p.Panels {
		height += panel.draw(&body, height)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", plotWidth, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="16" font-size="14">%s</text>`+"\n", margin, html.EscapeString(p.Title))
	return b.String() + body.String() + "</svg>\n"
}

// axis maps values to pixels.
type axis struct {
	log      bool
	from, to float64 // values, or their decimal logarithms
	at, size float64 // pixels
}

func (a axis) place(v float64) float64 {
	if a.log {
		v = math.Log10(v)
	}
	return a.at + a.size*(v-a.from)/max(a.to-a.from, 1e-9)
}

// axes returns the axes of a panel whose frame begins at top.
func (p Panel) axes(top, height float64) (x, y axis) {
	const left = margin + labelWidth
	x = axis{p.Log, math.Inf(1), math.Inf(-1), left, plotWidth - margin - left}
	y = axis{p.Log, 0, 0, top + height, -height}
	if p.Log {
		y.from, y.to = math.Inf(1), math.Inf(-1)
	}
	for _, c := range p.Curves {
		for _, point := range c.Points {
			if p.Log {
				point = Point{math.Log10(point.X), math.Log10(point.Y)}
			}
			x.from, x.to = min(x.from, point.X), max(x.to, point.X)
			y.from, y.to = min(y.from, point.Y), max(y.to, point.Y)
		}
	}
	if p.Log { // whole decades, so that equal slopes look equal in all plots of a kind
		y.from, y.to = math.Floor(y.from), math.Max(math.Ceil(y.to), math.Floor(y.from)+1)
	}
	return x, y
}

// draw draws a panel below top and returns its height.
func (p Panel) draw(b *strings.Builder, top int) int {
	inner := linearHeight
	if p.Log {
		inner = logHeight
	}
	legend := 0
	for _, c := range p.Curves {
		if c.Name != "" {
			legend += legendHeight
		}
	}
	frame := float64(top + margin + legend)
	x, y := p.axes(frame, float64(inner))
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", margin, top+margin-5, html.EscapeString(p.Title))
	p.grid(b, x, y)
	for _, m := range p.Marks {
		fmt.Fprintf(b, `<path d="M%.1f %.0fv%d" stroke="#d33" stroke-width="0.5"/>`+"\n", x.place(m), frame, inner)
	}
	fmt.Fprintf(b, `<path d="M%.0f %.0fh%.0f" stroke="#999"/>`+"\n", x.at, y.at, x.size)
	for i, c := range p.Curves {
		color := colors[i%len(colors)]
		if c.Name != "" {
			fmt.Fprintf(b, `<text x="%.0f" y="%d" fill="%s">%s</text>`+"\n", x.at, top+margin+(i+1)*legendHeight-5, color, html.EscapeString(c.Name))
		}
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" points="`, color)
		for _, point := range c.Points {
			fmt.Fprintf(b, "%.1f,%.1f ", x.place(point.X), y.place(point.Y))
		}
		b.WriteString(`"/>` + "\n")
	}
	return margin + legend + inner + margin
}

// grid draws a line for each decade, or quarter of a linear axis.
func (p Panel) grid(b *strings.Builder, x, y axis) {
	unitX, unitY := p.UnitX, p.Unit
	if unitY == nil {
		unitY = func(v float64) string { return fmt.Sprintf("%.4g", v) }
	}
	if p.Log {
		unitX = count
	} else if unitX == nil {
		unitX = unitY
	}
	for _, v := range y.ticks() {
		at := y.place(v)
		fmt.Fprintf(b, `<path d="M%.0f %.1fh%.0f" stroke="#ddd"/><text x="%.0f" y="%.1f" text-anchor="end">%s</text>`+"\n", x.at, at, x.size, x.at-6, at+4, unitY(v))
	}
	for _, v := range x.ticks() {
		at := x.place(v)
		fmt.Fprintf(b, `<path d="M%.1f %.0fv%.0f" stroke="#ddd"/><text x="%.1f" y="%.0f" text-anchor="middle">%s</text>`+"\n", at, y.at, y.size, at, y.at+14, unitX(v))
	}
}

// ticks returns the values that are labelled: powers of ten, or the quarters of a linear
// axis.
func (a axis) ticks() (list []float64) {
	if a.log {
		for d := math.Ceil(a.from); d <= a.to; d++ {
			list = append(list, math.Pow(10, d))
		}
		return list
	}
	if !(a.from < a.to) {
		return nil // without points
	}
	for i := range 5 {
		list = append(list, a.from+(a.to-a.from)*float64(i)/4)
	}
	return list
}

// count returns a number of things: 1, 10k, 1M.
func count(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.4gM", n/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.4gk", n/1e3)
	}
	return fmt.Sprintf("%.4g", n)
}
