package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"zino/pkg/durable"
	"zino/proto"
)

// Ask is a request that is about to be made.
type Ask struct {
	Session     string // that the usage is counted for; empty: none
	Provider    string // the kind of provider
	Model       string // the model's identifier there
	Input       int64  // estimated tokens of the prompt
	Output      int64  // the highest number of tokens of the answer; 0: no bound is known
	Least       int64  // Output may be lowered to this, and to half of what the budget leaves; 0: it may not
	Price       *Price // nil: unknown
	ReportsCost bool   // the provider reports the cost of each request
}

// Reservation is the permission to make one request. Settle, Abandon or Cancel
// ends it; the first of them counts, later ones do nothing.
type Reservation struct {
	// Output is how many tokens the answer may have; 0: no bound.
	Output int64

	l      *Ledger
	ask    Ask
	line   entry // the part that all of its lines share
	amount amount
	inFile bool // its first line is in the file
	ended  atomic.Bool
}

// Reserve asks for permission to make a request. With limits it fails with an
// error of code budget, which names the limit, if the request might exceed one,
// or if money is limited and its cost would stay unknown; with code unavailable
// if it cannot be recorded; and with ctx's error if that ends while other
// processes have the file locked. Without limits it always succeeds and touches
// no file.
//
// An answer without a bound gets all that the limits leave as its bound.
func (l *Ledger) Reserve(ctx context.Context, a Ask) (*Reservation, error) {
	a.Input, a.Output, a.Least = counted(a.Input), counted(a.Output), counted(a.Least)
	a.Session, a.Provider, a.Model = cleanName(a.Session), cleanName(a.Provider), cleanName(a.Model)
	r := &Reservation{Output: a.Output, l: l, ask: a}
	r.line = entry{ID: rand.Text(), Session: a.Session, Provider: a.Provider, Model: a.Model}
	if !l.limited() {
		r.begin(l.now())
		return r, nil
	}
	file, err := l.open(true)
	if err == nil {
		err = file.Update(ctx, true, func(tx *durable.Tx) error { return l.reserve(ctx, tx, r) })
		if _, refused := errors.AsType[*proto.Error](err); refused {
			return nil, err
		}
		err = l.fileError(err)
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, unavailable(err, l.limits.in())
	}
	return r, nil
}

// reserve checks the limits and writes the reservation to the locked file.
func (l *Ledger) reserve(ctx context.Context, tx *durable.Tx, r *Reservation) error {
	if err := l.flushTo(tx); err != nil {
		return err
	}
	at := l.now()
	bad, err := l.totals.update(ctx, tx, at.Location())
	l.logBadLines(bad)
	if err != nil {
		return err
	}
	limits := l.limitsAt(&l.totals, r.ask.Session, at)
	if r.ask.Session == "" {
		limits = slices.DeleteFunc(limits, func(l limit) bool { return l.ends.IsZero() })
	}
	_, unpriced := l.unpriced.Load(modelKey(r.ask.Provider, r.ask.Model))
	known := r.ask.Price != nil || r.ask.ReportsCost && !unpriced
	if r.Output, err = grant(limits, &r.ask, known); err != nil {
		return err
	}
	r.begin(at)
	first := r.line
	first.Reserved = &r.amount
	line, err := first.text()
	if err == nil {
		err = tx.Append([][]byte{line})
	}
	if err != nil {
		return err
	}
	r.inFile = true
	l.mu.Lock()
	defer l.mu.Unlock()
	l.syncLater()
	return nil
}

// modelKey names a model for reports.
func modelKey(provider, model string) string { return provider + "/" + model }

// logBadLines logs once that there are lines which cannot be read.
func (l *Ledger) logBadLines(n int) {
	if n > 0 && !l.badLines.Swap(true) {
		l.log.Warn("lines that cannot be read are not counted", "file", l.path(), "lines", n)
	}
}

// begin sets the time and the highest amount of the request.
func (r *Reservation) begin(at time.Time) {
	r.line.Time = at.Format(time.RFC3339)
	r.amount = amountOf(r.ask.sum(r.Output))
}

func amountOf(s sum) amount {
	return amount{min(s.tokens, amountMax), usd(min(s.nano, amountMax))}
}

// Abandon ends a request whose answer was abandoned before its end, so that what
// it used is unknown: the prompt and that many tokens of the answer count as
// spent, at most what was reserved.
func (r *Reservation) Abandon(output int64) error {
	if r.Output > 0 {
		output = min(output, r.Output)
	}
	if !r.ended.Load() {
		r.amount = amountOf(r.ask.sum(counted(output)))
	}
	return r.Settle(nil)
}

// Settle records what the request used, and sets its cost if the provider has
// not reported one and the price is known. A usage above what was reserved is
// recorded as it is. With nil the usage is unknown: what was reserved counts as
// spent. An error has been logged; the line is then appended with the next one.
func (r *Reservation) Settle(u *proto.Usage) error {
	if r.ended.Swap(true) {
		return nil
	}
	last := r.line
	if u == nil {
		last.Unknown, last.Reserved = true, &r.amount
		return r.record(&last)
	}
	last.use(u)
	if u.CostUSD = last.Cost; u.CostUSD == nil && r.ask.Price != nil {
		last.Cost, last.PricesOf = new(min(r.ask.Price.Cost(last.usage()), usd(amountMax))), r.ask.Price.Date
		u.CostUSD = last.Cost
	}
	// A limit of money is never reached by a model whose cost is not reported.
	if key := modelKey(r.line.Provider, r.line.Model); u.CostUSD != nil {
		r.l.unpriced.Delete(key)
	} else if r.ask.ReportsCost {
		r.l.unpriced.Store(key, true)
	}
	return r.record(&last)
}

// Cancel ends a request that never reached the provider, so that nothing was
// used.
func (r *Reservation) Cancel() error {
	if r.ended.Swap(true) || !r.inFile {
		return nil
	}
	last := r.line
	last.Canceled = true
	return r.record(&last)
}

// record writes the line that ends the reservation.
func (r *Reservation) record(last *entry) error {
	line, err := last.text()
	if err == nil {
		err = r.l.record(line)
	}
	if errors.Is(err, errBusy) {
		r.l.log.Debug("the usage of a request waits for the file", "error", err)
	} else if err != nil {
		r.l.log.Warn("the usage of a request is not recorded yet", "error", err)
	}
	return err
}
