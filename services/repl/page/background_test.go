package page

import (
	"strings"
	"testing"
	"time"
)

// TestBacklogMax: what waits to be written is bounded. An event that is too much
// is cut for good, and says so; the others are kept as a whole.
func TestBacklogMax(t *testing.T) {
	w := newWorld(t, Options{BodyMax: 1000})
	w.start()
	const size = 3 << 20
	for range 20 {
		w.apply(Background{w.now, []Captured{{Type: "console.log", Level: "log", Message: strings.Repeat("\x1b", size)}}})
		waiting := 0
		for _, e := range w.page.backlog.shown() {
			waiting += len(e.raw)
		}
		if waiting > backlogMax {
			t.Fatalf("%d bytes wait", waiting)
		}
	}
	w.pass(2 * time.Second)
	whole := 0
	for file, body := range w.kept {
		if len(body) == size {
			whole++
		} else {
			t.Errorf("%s has %d bytes", file, len(body))
		}
	}
	text := string(w.file)
	if whole == 0 || strings.Count(text, "more bytes left out, the whole is in ") != whole ||
		strings.Count(text, "more bytes left out) ...\n") != 10-whole {
		t.Errorf("%d events are kept as a whole:\n%s", whole, text)
	}
	w.rests()
}
