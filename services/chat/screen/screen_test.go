package screen

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// display is a Screen on an emulated terminal, whose signals and answers come when a test
// says so.
type display struct {
	*Screen
	terminal *emulator
	clock    time.Time
	size     [2]int // as the last signal has reported it
	writes   []string
	region   Region
	printed  []string
}

func newDisplay(width, height int, reflows, eats bool) *display {
	d := &display{terminal: newEmulator(width, height, reflows, eats), clock: time.Unix(1e9, 0), size: [2]int{width, height}}
	d.Screen = New(d, func() (int, int) { return d.size[0], d.size[1] }, func() time.Time { return d.clock })
	d.Screen.Widths, d.Screen.Reflows = NewWidths(false), reflows
	return d
}

// Write keeps what is written for the checks.
func (d *display) Write(p []byte) (int, error) {
	d.writes = append(d.writes, string(p))
	return d.terminal.Write(p)
}

// print prints a line whose text is unlike those of all others.
func (d *display) print(cells int) {
	line := fmt.Sprintf("F%d.%s.", len(d.printed), strings.Repeat("f", cells))
	d.printed = append(d.printed, line)
	d.Print(line + "\n")
}

func (d *display) update() time.Duration {
	wait, err := d.Update(func(int, int) Region { return d.region })
	if err != nil {
		panic(err)
	}
	return wait
}

// signal reports the terminal's size.
func (d *display) signal() {
	d.size = [2]int{d.terminal.width, d.terminal.height}
	d.Resized()
}

// answer sends what was asked for.
func (d *display) answer() {
	for _, col := range d.terminal.answers {
		d.Position(col)
	}
	d.terminal.answers = nil
}

// settle passes the time until nothing is to be drawn.
func (d *display) settle() {
	for range 10 {
		d.clock = d.clock.Add(d.update())
		d.answer()
	}
}

// check compares the finished lines with the scrollback, and returns the other lines.
func (d *display) check(t *testing.T) (others []string) {
	t.Helper()
	var finished []string
	for _, line := range d.terminal.text() {
		if strings.HasPrefix(line, "F") {
			finished = append(finished, line)
		} else {
			others = append(others, line)
		}
	}
	if !slices.Equal(finished, d.printed) {
		t.Fatalf("finished lines:\n%q, want\n%q\non\n%v\nafter\n%q", finished, d.printed, d.terminal, d.writes)
	}
	if d.terminal.unknown != "" {
		t.Fatalf("%q is written", d.terminal.unknown)
	}
	if !d.terminal.restored {
		t.Fatalf("modes are left on by %q", d.writes)
	}
	return others
}

var sample = Region{Rows: []string{strings.Repeat("L", 70), strings.Repeat("L", 40) + " ", "A Working 12s · Esc stops", "", "> text", strings.Repeat("S", 50)}, Row: 4, Col: 6}

func TestResizeLeavesNothingBehind(t *testing.T) {
	for _, reflows := range []bool{true, false} {
		for _, eats := range []bool{true, false} {
			d := newDisplay(80, 24, reflows, eats)
			d.region = sample
			for range 30 {
				d.print(100)
				d.settle()
			}
			for _, size := range [][2]int{{60, 24}, {100, 30}, {40, 12}, {33, 12}, {80, 24}, {80, 7}, {120, 40}} {
				d.terminal.resize(size[0], size[1])
				d.signal()
				d.settle()
				d.print(150)
				d.settle()
				others := d.check(t)
				if want := d.fit(sample).Rows; !slices.Equal(others, want) {
					t.Fatalf("reflows %v, eats %v, %v: %q beside the finished lines, want %q\n%v", reflows, eats, size, others, want, d.terminal)
				}
			}
		}
	}
}

// TestFrameBeforeSignal checks frames that reach the terminal after it has changed its
// size: the finished lines above are never taken for rows of the region.
func TestFrameBeforeSignal(t *testing.T) {
	for _, reflows := range []bool{true, false} {
		for width := 20; width < 120; width += 7 {
			d := newDisplay(80, 24, reflows, true)
			d.region = sample
			d.print(30)
			d.settle()
			d.terminal.resize(width, 24)
			d.print(30)
			d.clock = d.clock.Add(time.Second)
			d.update()
			d.signal()
			d.settle()
			d.print(30)
			d.settle()
			d.check(t)
		}
	}
}

// TestAnswers checks terminals that never answer, late, with other numbers, and without
// being asked.
func TestAnswers(t *testing.T) {
	for name, answer := range map[string]func(d *display){
		"never": func(d *display) { d.terminal.answers = nil },
		"late": func(d *display) {
			d.clock = d.clock.Add(answerTime)
			d.update()
			d.answer()
		},
		"wrong": func(d *display) {
			for range d.terminal.answers {
				d.Position(1)
			}
			d.terminal.answers = nil
		},
		"huge":  func(d *display) { d.Position(1 << 30); d.terminal.answers = nil },
		"twice": func(d *display) { d.answer(); d.Position(5); d.Position(80) },
	} {
		d := newDisplay(80, 24, true, true)
		d.region = sample
		for i, width := range []int{50, 90, 40, 80, 30} {
			d.print(30 * i)
			for range 4 {
				d.clock = d.clock.Add(d.update())
				answer(d)
			}
			d.terminal.resize(width, 24)
			d.signal()
		}
		for range 4 {
			d.clock = d.clock.Add(d.update())
			answer(d)
		}
		if others := d.check(t); len(others) < len(sample.Rows) || !strings.HasPrefix(others[len(others)-1], "SSS") || d.phase != steady {
			t.Errorf("%s: %q beside the finished lines", name, others)
		}
	}
}

func TestFrames(t *testing.T) {
	d := newDisplay(80, 24, true, false)
	d.region = sample
	d.settle()
	if len(d.writes) != 1 || !strings.HasPrefix(d.writes[0], "\x1b[?2026h\x1b[?25l") || !strings.HasSuffix(d.writes[0], "\x1b[?25h\x1b[?2026l") {
		t.Errorf("the first frame: %q", d.writes)
	}
	d.clock = d.clock.Add(time.Hour)
	if wait := d.update(); wait != 0 || len(d.writes) != 1 {
		t.Errorf("nothing has changed, but %q is written, and %v waited", d.writes[1:], wait)
	}
	for _, urgent := range []bool{false, true} {
		d.writes = nil
		for end := d.clock.Add(10 * time.Second); d.clock.Before(end); d.clock = d.clock.Add(time.Millisecond) {
			d.print(1)
			if urgent {
				d.Urgent()
			}
			d.update()
			d.answer()
		}
		if n, most := len(d.writes), map[bool]int{false: 250, true: 300}[urgent]; n > most || n < most-5 {
			t.Errorf("%d frames in 10 seconds, want %d (urgent: %v)", n, most, urgent)
		}
		d.clock = d.clock.Add(time.Second)
		d.update()
	}
	d.print(1)
	d.clock = d.clock.Add(time.Second)
	d.update()
	d.print(1)
	d.Urgent()
	if wait := d.update(); wait != 0 {
		t.Errorf("a key waits %v to be shown", wait)
	}
	for i := range 3000 { // 15 keys a second during a stream
		d.clock = d.clock.Add(time.Millisecond)
		d.print(1)
		if i%66 == 0 {
			d.Urgent()
		}
		if wait := d.update(); i%66 == 0 && wait != 0 {
			t.Errorf("key %d waits %v to be shown", i/66, wait)
		}
		d.answer()
	}
	d.clock = d.clock.Add(time.Second)
	d.update()
	d.check(t)
}

// TestSmallWindows checks regions that are higher or wider than the window.
func TestSmallWindows(t *testing.T) {
	for _, size := range [][2]int{{40, 12}, {20, 5}, {10, 3}, {3, 2}, {1, 1}} {
		d := newDisplay(size[0], size[1], true, true)
		d.region = Region{Rows: make([]string, 30), Row: 20, Col: 70}
		for i := range d.region.Rows {
			d.region.Rows[i] = fmt.Sprintf("%d %s", i, strings.Repeat("R", 60))
		}
		d.settle()
		d.print(5)
		d.settle()
		d.check(t)
		r := d.fit(d.region)
		if len(r.Rows) != max(1, size[1]-1) || r.Rows[r.Row] != d.Widths.Cut(d.region.Rows[20], size[0]-1) || r.Col >= size[0] {
			t.Errorf("%v: %+v", size, r)
		}
	}
}

func TestLeaveAndClear(t *testing.T) {
	d := newDisplay(40, 10, true, true)
	d.region = sample
	for range 12 {
		d.print(3)
	}
	d.settle()
	if err := d.Leave(); err != nil {
		t.Fatal(err)
	}
	if others := d.check(t); len(others) > 0 || d.terminal.x != 0 {
		t.Errorf("%q is left", others)
	}
	d.settle()
	if err := d.Clear(); err != nil {
		t.Fatal(err)
	}
	if d.terminal.y != 0 || d.terminal.hidden != len(d.printed) {
		t.Errorf("after Clear:\n%v", d.terminal)
	}
	d.settle()
	if others := d.check(t); len(others) != len(sample.Rows) || d.terminal.hidden != len(d.printed) {
		t.Errorf("%q after Clear\n%v", others, d.terminal)
	}
}

// FuzzScreen checks that the finished lines stand on the terminal once and in order
// after any frames, resizes, signals and answers.
func FuzzScreen(f *testing.F) {
	f.Add([]byte("p\x50rupWusas"))
	f.Add([]byte("\x03p\x99p\x99u2upusau7upp\xffuLsauCupua"))
	f.Add([]byte("\x02puRuWpuWsuaWsuaHpusua"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) < 2 || len(ops) > 400 {
			return
		}
		d := newDisplay(80, 24, ops[0]&1 == 0, ops[0]&2 == 0)
		next := func() int {
			if len(ops) < 2 {
				return 0
			}
			ops = ops[1:]
			return int(ops[0])
		}
		for len(ops) > 1 {
			switch op := next(); op % 12 {
			case 0, 1:
				d.print(next())
			case 2, 3:
				n := 1 + next()%12
				d.region = Region{Row: next() % n, Col: next() % 100}
				for range n {
					d.region.Rows = append(d.region.Rows, strings.Repeat("R", next())+strings.Repeat(" ", next()%3))
				}
			case 4, 5:
				d.clock = d.clock.Add(time.Duration(next()) * 4 * time.Millisecond)
				d.update()
			case 6:
				d.terminal.resize(narrowest+next()%130, 1+next()%40)
			case 7:
				d.signal()
			case 8:
				d.answer()
			case 9:
				d.terminal.answers = nil
			case 10:
				if err := d.Leave(); err != nil {
					t.Fatal(err)
				}
				d.terminal.answers = nil // another program gets them
			case 11:
				if err := d.Clear(); err != nil {
					t.Fatal(err)
				}
			}
			if d.terminal.unknown != "" {
				t.Fatalf("%q is written", d.terminal.unknown)
			}
		}
		d.signal()
		d.settle()
		d.check(t)
	})
}
