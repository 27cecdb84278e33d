package repl

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"slices"
	"syscall"
	"time"

	"zino/services/repl/page"
	"zino/services/repl/tail"
)

const (
	// triesMax is how often a transition is tried while other programs change the
	// file.
	triesMax = 3
	// needsMax is how often Apply may ask for more of the file in one transition.
	needsMax = 8
	// scanFrom is the size from which a log that was not read yet is scanned, and
	// not read as a whole.
	scanFrom = 256 << 10
	// pollEvery is the interval at which all logs are checked for changes that no
	// notification reported.
	pollEvery = 2 * time.Second
)

// known is the end of the file as the state knows it.
type known struct {
	stamp tail.Stamp
	sum   uint64 // of the bytes behind the place where reading begins
	young bool   // the file may change again without a change of its stamp
}

var seed = maphash.MakeSeed()

// errSaving: another program is in the middle of saving the file.
var errSaving = errors.New("the file is being saved")

// transition applies an event to the file and the state.
func (l *pageLog) transition(e page.Event) []page.Action {
	for range triesMax {
		next, known, actions, err := l.try(e)
		if errors.Is(err, tail.ErrChanged) {
			continue
		}
		if err == nil {
			l.report(nil)
			l.state, l.known, l.kept = next, known, nil
			return actions
		}
		if errors.Is(err, errSaving) {
			break
		}
		l.report(err)
		l.dropKept()
		return l.postpone(e)
	}
	l.dropKept()
	l.alarm.pending() // the file follows when the other programs are done
	return l.postpone(e)
}

// postpone applies an event to the state only; the file follows later.
func (l *pageLog) postpone(e page.Event) []page.Action {
	next, _, actions := l.state.Apply(page.View{Unavailable: true}, e)
	l.state = next
	return actions
}

// try reads the file, applies the event and writes the file, once.
func (l *pageLog) try(e page.Event) (*page.State, known, []page.Action, error) {
	fail := func(err error) (*page.State, known, []page.Action, error) { return nil, known{}, nil, err }
	from := l.state.From()
	var scan *page.Scan
	if from == 0 {
		// A long log that was not read yet is scanned without keeping it.
		if stamp, err := l.s.dir.Stat(l.file); err == nil && stamp.Size() > scanFrom { // reading reports an error
			if scan, err = l.scan(); err != nil {
				return fail(err)
			}
			from = scan.From
		}
	}
	for range needsMax {
		v, err := l.s.dir.Read(l.file, from)
		if err != nil {
			return fail(err)
		}
		if l.saving(e, &v) {
			return fail(errSaving)
		}
		view := page.View{Tail: v.Bytes, Offset: v.Offset, ModTime: v.ModTime, Missing: v.Missing, Scan: scan}
		next, edit, actions := l.state.Apply(view, e)
		switch edit.Need {
		case page.More:
			from = edit.From
			continue
		case page.Head:
			if scan, err = l.scan(); err != nil {
				return fail(err)
			}
			from = scan.From
			continue
		}
		if !edit.Changed {
			return next, l.knownOf(&v, next.From()), actions, nil
		}
		if v.Missing {
			if err := l.s.dir.Make(logDir); err != nil {
				return fail(err)
			}
		}
		if err := l.keep(actions); err != nil {
			l.s.log.Warn("cannot store a long result", "dir", l.bodies, "error", err)
			l.dropKept()
			view.NoKeep = true
			next, edit, actions = l.state.Apply(view, e)
		}
		v, err = l.s.dir.Replace(l.file, v, edit.From, edit.Text)
		if errors.Is(err, tail.ErrSaved) && slices.ContainsFunc(actions, isRun) {
			// An editor saves a copy that contains the request, or is about to. It runs
			// now: tried again, it would be found there as another one, and run twice.
			l.alarm.touch()
			return next, known{}, actions, nil
		}
		if err != nil {
			return fail(err)
		}
		if appended(&v, edit) { // the state has not seen that: the end is not known
			l.alarm.touch()
			return next, known{}, actions, nil
		}
		return next, l.knownOf(&v, next.From()), actions, nil
	}
	return fail(fmt.Errorf("%s: its end cannot be found", l.file))
}

func isRun(a page.Action) bool { _, ok := a.(page.Run); return ok }

// appended reports whether another program has appended to the file since an edit.
func appended(v *tail.View, edit page.Edit) bool {
	return v.Offset+int64(len(v.Bytes)) > edit.From+int64(len(edit.Text))
}

// scan passes the whole file through the state's scanner.
func (l *pageLog) scan() (*page.Scan, error) {
	f, err := l.s.dir.Open(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, tail.ErrChanged
	}
	if err != nil {
		return nil, err
	}
	scan, err := l.state.Scan(f)
	return scan, errors.Join(err, f.Close())
}

// knownOf returns what is known of the file now, reading from a place on.
func (l *pageLog) knownOf(v *tail.View, from int64) known {
	behind := v.Bytes[min(max(from-v.Offset, 0), int64(len(v.Bytes))):]
	return known{stamp: v.Stamp, sum: maphash.Bytes(seed, behind), young: v.Stamp.Young(time.Now())}
}

// saving reports whether another program has changed the file and may not be done
// yet. Then only the alarm decides when to look: a write between the two halves of
// a save would mix both.
func (l *pageLog) saving(e page.Event, v *tail.View) bool {
	switch e.(type) {
	case page.Changed, page.Start, page.Connected, page.Stopping:
		return false
	}
	return l.known != known{} && v.Offset <= l.state.From() && !l.unchanged(v)
}

// unchanged reports whether the file, read from state.From on, is the known one.
func (l *pageLog) unchanged(v *tail.View) bool {
	if v.Stamp == l.known.stamp && !l.known.young {
		return true
	}
	now := l.knownOf(v, l.state.From())
	if now.sum != l.known.sum || v.Stamp.Size() != l.known.stamp.Size() {
		return false
	}
	l.known = now
	return true
}

// report logs that the file cannot be read or written, or can be again.
func (l *pageLog) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == l.fault {
		return
	}
	// What stands in the place of the file is not a regular file: waiting is useless.
	l.permanent = errors.Is(err, tail.ErrNotRegular) || errors.Is(err, syscall.ELOOP) ||
		errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR)
	if l.fault = text; err != nil {
		l.s.log.Warn("cannot use a page's file; its requests wait", "file", l.file, "error", err)
	} else {
		l.s.log.Info("a page's file can be used again", "file", l.file)
	}
	l.s.setFault(l.file, text)
}
