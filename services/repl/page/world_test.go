package page

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"
)

// world is the environment of a state: a file, a clock and a page. It does what the
// service does, and checks the invariants after each transition.
type world struct {
	t           testing.TB
	page        *State
	file        []byte
	exists      bool
	mod         time.Time
	now         time.Time
	unavailable bool
	log         []string
	kept        map[string]string
	given       map[string]bool // jobs given out
	job         string          // the last one
	looked      int             // bytes of the tails that were read
	writes      int
	rival       func() // writes before the next edit does
	scans       int
}

// begin is when each world begins.
var begin = time.Date(2026, 3, 4, 22, 52, 47, 0, time.UTC)

func newWorld(t testing.TB, o Options) *world {
	t.Helper()
	if o.Name == "" {
		o.Name, o.ID, o.Epoch = "index-7-zen", "1a2b", "E"
	}
	return &world{t: t, page: New(o), now: begin, kept: map[string]string{}, given: map[string]bool{}}
}

// view returns the end of the file.
func (w *world) view(from int64, scan *Scan) View {
	if w.unavailable {
		return View{Unavailable: true}
	}
	from = min(from, int64(len(w.file)))
	w.looked += len(w.file) - int(from)
	return View{Tail: w.file[from:], Offset: from, ModTime: w.mod, Missing: !w.exists, Scan: scan}
}

// apply applies an event, writes the file and plays the actions.
func (w *world) apply(e Event) {
	w.t.Helper()
	from := w.page.From()
	if w.page.phase == unread {
		from = max(0, int64(len(w.file))-reach) // not the whole of a long file
	}
	v := w.view(from, nil)
	for range 4 {
		frozen := bytes.Clone(v.Tail)
		next, edit, actions := w.page.Apply(v, e)
		if !bytes.Equal(frozen, v.Tail) {
			w.t.Fatal("the view was changed")
		}
		switch edit.Need {
		case Nothing:
			if rival := w.rival; rival != nil && edit.Changed {
				w.rival = nil // the edit is too late: the transition is dropped
				rival()
				w.apply(e)
				return
			}
			w.commit(v, e, next, edit, actions)
			return
		case More:
			v = w.view(edit.From, nil)
		case Head:
			v = w.scan()
		}
	}
	w.t.Fatalf("%T is never satisfied with the view", e)
}

// scan reads the file from its head.
func (w *world) scan() View {
	w.scans++
	scan, err := w.page.Scan(bytes.NewReader(w.file))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.view(scan.From, scan)
}

// commit makes the result of a transition current.
func (w *world) commit(v View, e Event, next *State, edit Edit, actions []Action) {
	w.t.Helper()
	again, edit2, actions2 := w.page.Apply(v, e)
	if !reflect.DeepEqual(edit, edit2) || !reflect.DeepEqual(actions, actions2) || again.Deadline() != next.Deadline() || again.Status() != next.Status() {
		w.t.Fatalf("%T has another result the second time", e)
	}
	before := w.file
	if edit.Changed {
		if edit.From > int64(len(w.file)) || v.Unavailable {
			w.t.Fatalf("edit at %d of %d bytes, unavailable %v", edit.From, len(w.file), v.Unavailable)
		}
		if settled := w.page.Settled(); bytes.HasSuffix(w.file[:min(len(w.file), int(settled))], w.page.file.anchor.bytes) && len(w.page.file.anchor.bytes) >= anchorMin && edit.From < settled {
			w.t.Fatalf("%T: edit at %d, and all was settled up to %d", e, edit.From, settled)
		}
		w.file = slices.Concat(w.file[:edit.From], edit.Text)
		w.exists, w.mod = true, w.now
		w.writes++
	}
	w.page = next
	w.check(before, e)
	for _, f := range actions {
		w.action(f)
	}
}

// check checks what must hold after each transition.
func (w *world) check(before []byte, e Event) {
	w.t.Helper()
	if n := min(int64(len(before)), w.page.Settled()); !w.page.busy() && n > int64(len(w.file)) {
		w.t.Fatalf("%T: settled up to %d of %d bytes", e, n, len(w.file))
	}
	if !w.page.Deadline().IsZero() && w.page.Deadline().Before(w.now) {
		w.t.Fatalf("%T: has a deadline in the past", e)
	}
}

// action logs an action, and plays the page.
func (w *world) action(e Action) {
	w.t.Helper()
	switch e := e.(type) {
	case Run:
		if w.given[e.Job] {
			w.t.Fatalf("%s was given out twice", e.Job)
		}
		w.given[e.Job], w.job = true, e.Job
		test := ""
		if e.Test {
			test = " test"
		}
		w.note("run %s for %s: %s %q %q%s", e.Job, e.Agent, e.Lang, e.Info, e.Code, test)
	case Cancel:
		w.note("cancel %s", e.Job)
	case Done:
		answer := e.Value
		if !e.OK {
			answer = e.Error
		}
		w.note("done %q key=%s ok=%v json=%v reason=%s background=%d %s: %s", e.Job, e.Key, e.OK, e.JSON, e.Reason, len(e.Background), span(e.Duration), brief(answer))
	case Unknown:
		w.note("unknown %s", e.Job)
	case Keep:
		w.kept[e.File] = e.Body
		w.note("keep %s: %d bytes", e.File, len(e.Body))
	case Status:
		w.note("state %s", e.Text)
	case Log:
		w.note("log %s", e.Text)
	}
}

func brief(s string) string {
	if len(s) > 100 {
		return fmt.Sprintf("%q and %d bytes", s[:60], len(s)-60)
	}
	return fmt.Sprintf("%q", s)
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, w.now.Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
}

// pass advances the clock; Ticks are applied when they are due.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	end := w.now.Add(d)
	for n := 0; ; n++ {
		next := w.page.Deadline()
		if next.IsZero() || next.After(end) {
			break
		}
		if n > 1000 {
			w.t.Fatal("the deadlines never end")
		}
		w.now = next
		w.apply(Tick{w.now})
	}
	w.now = end
}

// save writes the file as an editor does, without an event.
func (w *world) save(text []byte) {
	w.file, w.exists, w.mod = bytes.Clone(text), true, w.now
}

// changed lets the debounce time pass and applies Changed.
func (w *world) changed() {
	w.t.Helper()
	w.pass(150 * time.Millisecond)
	w.apply(Changed{w.now})
}

func (w *world) append(text string) {
	w.t.Helper()
	w.save(append(bytes.Clone(w.file), text...))
	w.changed()
}

func (w *world) start() {
	w.t.Helper()
	w.apply(Start{w.now})
	w.apply(Connected{At: w.now})
}

// answer answers the last job.
func (w *world) answer(after time.Duration, value string) {
	w.t.Helper()
	w.apply(Started{w.now, w.job})
	w.pass(after)
	w.apply(Result{At: w.now, Job: w.job, OK: true, JSON: true, Value: value})
}

// footers returns the positions of the footers outside of fences.
func (w *world) footers() (places []int) {
	for at, line := range parts(w.file, 0) {
		if line.part == outside && w.page.options.isFooter(line.text) {
			places = append(places, at.from)
		}
	}
	return places
}

// rests checks the file after all work.
func (w *world) rests() {
	w.t.Helper()
	f := w.footers()
	if len(f) != 1 {
		w.t.Fatalf("%d footers:\n%s", len(f), w.file[max(0, len(w.file)-5000):])
	}
	if l := lineAt(w.file, f[0]); !isBlank(w.file[l.next:]) {
		w.t.Fatalf("the footer is not the last line:\n%s", w.file)
	}
	if before := w.file[:f[0]]; !endsBlank(before) {
		w.t.Fatalf("no blank line above the footer:\n%s", w.file)
	}
}
