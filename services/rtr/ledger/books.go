package ledger

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// printSize is how many bytes before a place in the file are remembered, to
// know the file again.
const printSize = 64

// books are the sums that budgets are held against, as the file has them up to
// a place. They are a function of the file alone: what this process wrote is
// read back like everybody's.
type books struct {
	file file
	log  *slog.Logger
	told atomic.Bool // the log knows of lines that cannot be read

	mu       sync.Mutex // guards what follows
	days     map[day]account
	sessions map[string]account
	open     map[string]reservation // by id
	info     fs.FileInfo            // of the file that was read
	end      int64                  // the place up to which it was read
	print    []byte                 // the bytes before that
}

// account is what stands against one limit.
type account struct{ spent, reserved sum }

// reservation is one that has not ended.
type reservation struct {
	day     day
	session string
	sum     sum
}

// day is a local day, as 20261121.
type day int

func dayOf(t time.Time) day {
	year, month, d := t.Date()
	return day(year*10000 + int(month)*100 + d)
}

func newBooks(f file, log *slog.Logger) *books {
	b := &books{file: f, log: log}
	b.clear()
	return b
}

func (b *books) clear() {
	b.days, b.sessions, b.open = map[day]account{}, map[string]account{}, map[string]reservation{}
	b.end, b.print = 0, nil
}

// accounts are those of a day and of a session, as the open file has them now.
func (b *books) accounts(ctx context.Context, open *os.File, at time.Time, session string) (today, own account, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	err = b.update(ctx, open, at.Location())
	return b.days[dayOf(at)], b.sessions[session], err
}

// update reads what was appended to the open file since it was last read, or
// all of it if it is not the same file grown. Days are those of loc. mu is held.
func (b *books) update(ctx context.Context, open *os.File, loc *time.Location) error {
	fi, err := open.Stat()
	if err != nil {
		return b.file.wrong(err)
	}
	if !b.grown(open, fi) {
		b.clear()
	}
	b.info = fi
	bad := 0
	end, err := read(ctx, open, b.end, func(line []byte) {
		if e, ok := parse(line); ok {
			b.enter(&e, loc)
		} else {
			bad++
		}
	})
	b.tell(bad)
	if err == nil && end > b.end {
		b.print, err = printAt(open, end)
	}
	if err != nil {
		b.clear() // half of it is worth nothing
		b.info = nil
		return b.file.wrong(err)
	}
	b.end = end
	return nil
}

// grown reports whether the open file is the one that was read, with nothing
// changed up to the place.
func (b *books) grown(open *os.File, fi fs.FileInfo) bool {
	if b.info == nil || !os.SameFile(b.info, fi) || fi.Size() < b.end {
		return false
	}
	now, err := printAt(open, b.end)
	return err == nil && bytes.Equal(now, b.print)
}

// printAt are the last bytes before a place.
func printAt(open *os.File, end int64) ([]byte, error) {
	text := make([]byte, min(end, printSize))
	_, err := open.ReadAt(text, end-int64(len(text)))
	return text, err
}

// tell says once that there are lines which cannot be read.
func (b *books) tell(bad int) {
	if bad > 0 && !b.told.Swap(true) {
		b.log.Warn("lines that cannot be read are not counted", "file", b.file.path(), "lines", bad)
	}
}

// enter counts a line.
func (b *books) enter(e *entry, loc *time.Location) {
	on := dayOf(e.at.In(loc))
	if e.kind() == reserves {
		if _, twice := b.open[e.ID]; !twice {
			r := reservation{on, e.Session, e.sum()}
			b.open[e.ID] = r
			b.change(r, func(a *account) { a.reserved.add(r.sum) })
		}
		return
	}
	if r, ok := b.open[e.ID]; ok {
		delete(b.open, e.ID)
		b.change(r, func(a *account) { a.reserved.sub(r.sum) })
	}
	if e.kind() != withdrawal {
		b.change(reservation{on, e.Session, sum{}}, func(a *account) { a.spent.add(e.sum()) })
	}
}

// change changes the accounts of a day and a session.
func (b *books) change(r reservation, by func(*account)) {
	a := b.days[r.day]
	by(&a)
	b.days[r.day] = a
	if r.session != "" {
		a := b.sessions[r.session]
		by(&a)
		b.sessions[r.session] = a
	}
}
