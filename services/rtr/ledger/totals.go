package ledger

import (
	"context"
	"iter"
	"time"

	"zino/pkg/durable"
)

// totals are the sums that the limits are checked against. They are a function of the
// file alone: what this process wrote is read back like the lines of others.
type totals struct {
	mark     durable.Mark // what is before it has been read
	days     map[day]account
	sessions map[string]account
	open     map[string]reservation // by id
}

// account is the sum that counts against one limit.
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

func (t *totals) clear() {
	*t = totals{days: map[day]account{}, sessions: map[string]account{}, open: map[string]reservation{}}
}

// update reads what was appended to the locked file since the last update, or all
// of it if it is another file. Days are those of loc. It returns the number of
// lines that could not be read.
func (t *totals) update(ctx context.Context, tx *durable.Tx, loc *time.Location) (bad int, err error) {
	span, err := tx.Span(t.mark)
	if err != nil {
		return 0, err
	}
	if span.All {
		t.clear()
	}
	for e, err := range entries(ctx, durable.ReadLines(tx, span.From, span.To)) {
		if err != nil {
			t.clear() // half of it is of no use
			return bad, err
		}
		if e == nil {
			bad++
		} else {
			t.add(e, loc)
		}
	}
	t.mark = span.Next
	return bad, nil
}

// entries parses lines. One that cannot be read is nil.
func entries(ctx context.Context, lines iter.Seq2[durable.Line, error]) iter.Seq2[*entry, error] {
	return func(yield func(*entry, error) bool) {
		for line, err := range lines {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(nil, err)
				return
			}
			e, ok := parse(line.Text)
			if !ok && !yield(nil, nil) || ok && !yield(&e, nil) {
				return
			}
		}
	}
}

// add counts a line.
func (t *totals) add(e *entry, loc *time.Location) {
	on := dayOf(e.at.In(loc))
	if e.kind() == reserved {
		if _, known := t.open[e.ID]; !known {
			r := reservation{on, e.Session, e.sum()}
			t.open[e.ID] = r
			t.change(r.day, r.session, func(a *account) { a.reserved.add(r.sum) })
		}
		return
	}
	if r, ok := t.open[e.ID]; ok {
		delete(t.open, e.ID)
		t.change(r.day, r.session, func(a *account) { a.reserved.sub(r.sum) })
	}
	if e.kind() != canceled {
		t.change(on, e.Session, func(a *account) { a.spent.add(e.sum()) })
	}
}

// change changes the accounts of a day and a session.
func (t *totals) change(on day, session string, by func(*account)) {
	a := t.days[on]
	by(&a)
	t.days[on] = a
	if session != "" {
		a := t.sessions[session]
		by(&a)
		t.sessions[session] = a
	}
}
