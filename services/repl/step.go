package repl

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"syscall"
	"time"

	"zino/services/repl/page"
	"zino/services/repl/tail"
)

const (
	// triesMax is how often an edit is tried that others get in the way of.
	triesMax = 3
	// needsMax bounds how often a page may ask to see more for one event.
	needsMax = 8
	// scanFrom is how long a log may be that is read as a whole.
	scanFrom = 256 << 10
)

// outcome is what an event comes to.
type outcome struct {
	next    *page.Page
	effects []page.Effect
	known   known
}

// apply takes an event in: the file first, then memory, then what follows from
// it. mu is held.
func (t *transcript) apply(e page.Event) []page.Effect {
	effects := t.step(e)
	for _, effect := range effects {
		t.carryOut(effect)
	}
	t.alarm.wakeAt(t.page.Wake())
	for _, effect := range effects { // last: who gets an answer may look at all else
		if done, ok := effect.(page.Done); ok {
			t.done(done)
		}
	}
	t.s.note(t, t.page)
	return effects
}

// errSaving: somebody is in the middle of saving the file.
var errSaving = errors.New("the file is being saved")

// step applies an event to the page and the file.
func (t *transcript) step(e page.Event) []page.Effect {
	for range triesMax {
		o, err := t.try(e)
		switch {
		case err == nil:
			t.trouble(nil)
			t.page, t.known = o.next, o.known
			return o.effects
		case errors.Is(err, tail.ErrChanged):
			continue
		case !errors.Is(err, errSaving):
			t.trouble(err)
			return t.hold(e)
		}
		break
	}
	t.touch() // the file follows when others rest
	return t.hold(e)
}

// hold applies an event to memory only.
func (t *transcript) hold(e page.Event) []page.Effect {
	next, _, effects := t.page.Apply(page.View{Held: true}, e)
	t.page = next
	return effects
}

// try reads, applies and writes, once.
func (t *transcript) try(e page.Event) (outcome, error) {
	from, scan, err := t.begin()
	if err != nil {
		return outcome{}, err
	}
	for range needsMax {
		v, err := t.s.dir.Read(t.file, from)
		if err != nil {
			return outcome{}, err
		}
		if t.saving(e, &v) {
			return outcome{}, errSaving
		}
		next, edit, effects := t.page.Apply(viewOf(v, scan), e)
		switch edit.Need {
		case page.More:
			from = edit.From
		case page.Head:
			if scan, err = t.scan(); err != nil {
				return outcome{}, err
			}
			from = scan.From
		default:
			return t.write(v, edit, outcome{next: next, effects: effects})
		}
	}
	return outcome{}, fmt.Errorf("%s: its end cannot be found", t.file)
}

// begin is where to read from: where the page says, or, of a long log that it has
// not seen yet, where its tail begins. Such a log is gone through without keeping it.
func (t *transcript) begin() (from int64, scan *page.Scan, err error) {
	if from = t.page.From(); from > 0 {
		return from, nil, nil
	}
	stamp, err := t.s.dir.Stat(t.file)
	if err != nil || stamp.Size() <= scanFrom {
		return 0, nil, nil // reading reports the error
	}
	if scan, err = t.scan(); err != nil {
		return 0, nil, err
	}
	return scan.From, scan, nil
}

// write carries out an edit.
func (t *transcript) write(v tail.View, edit page.Edit, o outcome) (outcome, error) {
	if edit.Changed {
		if v.Missing {
			if err := t.s.dir.Make(logDir); err != nil {
				return outcome{}, err
			}
		}
		var err error
		if v, err = t.s.dir.Replace(t.file, v, edit.From, edit.Text); err != nil {
			return outcome{}, err
		}
		if appended(&v, edit) { // the page has not seen that: nothing is known of the end
			t.touch()
			return o, nil
		}
	}
	o.known = t.knownOf(&v, o.next.From())
	return o, nil
}

// appended reports whether others have appended to the file since an edit of ours.
func appended(v *tail.View, edit page.Edit) bool {
	return v.Offset+int64(len(v.Bytes)) > edit.From+int64(len(edit.Text))
}

// scan has the page go through the whole file.
func (t *transcript) scan() (*page.Scan, error) {
	f, err := t.s.dir.Open(t.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, tail.ErrChanged
	}
	if err != nil {
		return nil, err
	}
	scan, err := t.page.Scan(f)
	return scan, errors.Join(err, f.Close())
}

func viewOf(v tail.View, scan *page.Scan) page.View {
	return page.View{Tail: v.Bytes, Offset: v.Offset, ModTime: v.ModTime, Missing: v.Missing, Scan: scan}
}

// knownOf is what the page knows of the file now, reading from a place on.
func (t *transcript) knownOf(v *tail.View, from int64) known {
	behind := v.Bytes[min(max(from-v.Offset, 0), int64(len(v.Bytes))):]
	return known{stamp: v.Stamp, sum: maphash.Bytes(seed, behind), young: v.Stamp.Young(time.Now())}
}

// saving reports whether the file was changed by others and may not be at rest
// yet. Then only the word of the alarm counts: to write between the two halves of
// a save would make a mess.
func (t *transcript) saving(e page.Event, v *tail.View) bool {
	switch e.(type) {
	case page.Changed, page.Start, page.Connected:
		return false
	}
	return t.known != known{} && v.Offset <= t.page.From() && !t.same(v)
}

// same reports whether the file is what the page knows. The view was read from
// the page's place on.
func (t *transcript) same(v *tail.View) bool {
	if v.Stamp == t.known.stamp && !t.known.young {
		return true
	}
	now := t.knownOf(v, t.page.From())
	if now.sum != t.known.sum || v.Stamp.Size() != t.known.stamp.Size() {
		return false
	}
	t.known = now
	return true
}

// look reads the file and tells the page if it has changed.
func (t *transcript) look() {
	v, err := t.s.dir.Read(t.file, t.page.From())
	if err == nil && !v.Missing && t.same(&v) {
		return
	}
	t.apply(page.Changed{At: time.Now()})
}

// inspect looks whether the file has changed without anybody saying so. As long
// as its stamp is the same, and trusted, it is not read.
func (t *transcript) inspect() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.realm == nil {
		return
	}
	stamp, err := t.s.dir.Stat(t.file)
	if err == nil && stamp == t.known.stamp && !t.known.young {
		return
	}
	v, err := t.s.dir.Read(t.file, t.page.From())
	if err != nil || v.Missing || !t.same(&v) {
		t.touch()
	}
}

// useless reports an error that waiting does not mend: what stands in the place
// of the file is none.
func useless(err error) bool {
	return errors.Is(err, tail.ErrNotRegular) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR)
}

// trouble notes that the file cannot be read or written, or can be again.
func (t *transcript) trouble(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == t.fault {
		return
	}
	t.useless = useless(err)
	if t.fault = text; err != nil {
		t.s.log.Warn("a page's file cannot be used; its requests wait", "file", t.file, "error", err)
	} else {
		t.s.log.Info("a page's file can be used again", "file", t.file)
	}
	t.s.setFault(t.file, text)
}
