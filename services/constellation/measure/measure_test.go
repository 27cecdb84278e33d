package measure

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"zino/pkg/zinotest"
)

func TestPercentile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[99-i] = float64(i + 1) // not sorted
	}
	for _, c := range []struct {
		values  []float64
		p, want float64
	}{
		{nil, 50, 0},
		{[]float64{7}, 50, 7},
		{[]float64{7}, 99, 7},
		{[]float64{2, 1}, 50, 1},
		{[]float64{3, 1, 2}, 50, 2},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
		{hundred, 0, 1},
	} {
		if got := Percentile(c.values, c.p); got != c.want {
			t.Errorf("percentile %g of %d values: %g, want %g", c.p, len(c.values), got, c.want)
		}
	}
	zinotest.Equal(t, "first value afterwards", hundred[0], 100.0)
}

func TestSpread(t *testing.T) {
	if got := Spread([]float64{100, 100, 110, 100}); got != 0 {
		t.Errorf("one outlier of four: %g", got)
	}
	if got := Spread([]float64{80, 90, 100, 110, 120, 130, 140, 150}); got <= Disturbed {
		t.Errorf("values between 80 and 150: %g", got)
	}
	zinotest.Equal(t, "without values", Spread(nil), 0.0)
}

func TestPlotIsXML(t *testing.T) {
	rising := []Point{{1, 10}, {10, 100}, {1000, 5000}}
	for name, c := range map[string]struct {
		panel  Panel
		curves int
		marks  int
	}{
		"linear":      {Panel{Title: "a < b & c", Curves: []Curve{{Points: rising}}, Marks: []float64{2, 3}}, 1, 2},
		"logarithmic": {Panel{Log: true, Curves: []Curve{{Name: "<a>", Points: rising}, {Name: "b", Points: rising[:2]}}}, 2, 0},
		"one point":   {Panel{Log: true, Curves: []Curve{{Points: rising[:1]}}}, 1, 0},
		"zeros":       {Panel{Curves: []Curve{{Points: []Point{{0, 0}, {1, 0}}}}}, 1, 0},
		"empty":       {Panel{}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			text := Plot{"title <", []Panel{c.panel, c.panel}}.SVG()
			zinotest.Equal(t, "curves", strings.Count(text, "<polyline"), 2*c.curves)
			zinotest.Equal(t, "marks", strings.Count(text, "#d33"), 2*c.marks)
			if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
				t.Errorf("not a number in %s", text)
			}
			for d := xml.NewDecoder(strings.NewReader(text)); ; {
				if _, err := d.Token(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestLogarithmicAxis checks that a decade has the same height everywhere.
func TestLogarithmicAxis(t *testing.T) {
	p := Panel{Log: true, Curves: []Curve{{Points: []Point{{1, 3}, {100, 400}}}}}
	x, y := p.axes(0, 90)
	zinotest.Equal(t, "10 lies in the middle", 2*x.place(10), x.place(1)+x.place(100))
	if y.place(1) != 90 || y.place(1000) != 0 || y.place(10)-y.place(100) != 30 {
		t.Errorf("1 to 1000 at %g, %g, %g, %g", y.place(1), y.place(10), y.place(100), y.place(1000))
	}
}

func TestOwnMemory(t *testing.T) {
	anonymous, err := Anonymous(os.Getpid())
	zinotest.Must(t, err)
	files, err := Files(os.Getpid())
	zinotest.Must(t, err)
	if anonymous <= 0 || files < 3 {
		t.Errorf("%g MB, %g descriptors", anonymous, files)
	}
	if _, err := Status(os.Getpid(), "Nothing"); err == nil {
		t.Error("no error for an unknown field")
	}
}

func TestSection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "performance.md")
	zinotest.Write(t, file, "# Speed\n\n<!-- load -->\nold\n<!-- /load -->\n\nThe end.\n")
	zinotest.Must(t, Section(file, "load", "## Load\n\nnew\n"))
	zinotest.Must(t, Section(file, "growth", "## Growth"))
	text, err := os.ReadFile(file)
	zinotest.Must(t, err)
	zinotest.Equal(t, "file", string(text), "# Speed\n\n<!-- load -->\n## Load\n\nnew\n<!-- /load -->\n\nThe end.\n\n<!-- growth -->\n## Growth\n<!-- /growth -->\n")

	zinotest.Write(t, file, "<!-- load -->\nno end\n")
	if err := Section(file, "load", "new"); err == nil {
		t.Error("no error for a section without an end")
	}
}

// TestSectionsAtOnce checks that commands that write at the same time lose no section.
func TestSectionsAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "performance.md")
	zinotest.Write(t, file, "# Speed\n")
	var writers sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		writers.Go(func() { errs[i] = Section(file, fmt.Sprint("s", i), fmt.Sprint("text ", i)) })
	}
	writers.Wait()
	zinotest.Must(t, errors.Join(errs...))
	text, err := os.ReadFile(file)
	zinotest.Must(t, err)
	for i := range errs {
		zinotest.Equal(t, fmt.Sprint("sections with text ", i), strings.Count(string(text), fmt.Sprintf("\ntext %d\n", i)), 1)
	}
}
