package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"zino/proto"
)

// Ask is a request that is about to be made.
type Ask struct {
	Session  string // that the usage is counted for; empty: none
	Provider string // the kind of provider
	Model    string // the model's identifier there
	Input    int64  // estimated tokens of the prompt
	Output   int64  // the most tokens of the answer; 0: no bound is known
	Least    int64  // Output may be lowered to this, and to half of what the budget leaves; 0: it may not
	Price    *Price // nil: unknown
	Told     bool   // the provider tells the cost itself
}

// Reservation is leave to make one request. Settle or Cancel ends it; the first
// of them counts, later ones do nothing.
type Reservation struct {
	// Output is how many tokens the answer may have; 0: no bound.
	Output int64

	l      *Ledger
	line   entry // what all of its lines have
	ask    Ask
	held   amount
	price  *Price
	told   bool
	marked bool // its beginning is in the file
	ended  atomic.Bool
}

// Reserve asks for leave to make a request. With limits it is refused with an
// error of code budget, which names the limit, if it might pass one, and if
// money is limited and nobody can tell what it costs; with code unavailable if
// it cannot be recorded; and with ctx's error if that ends while others hold
// the file. Without limits it always succeeds and touches no file.
//
// An answer without a bound gets all that the limits leave as one.
func (l *Ledger) Reserve(ctx context.Context, a Ask) (*Reservation, error) {
	a.Input, a.Output, a.Least = counted(a.Input), counted(a.Output), counted(a.Least)
	a.Session, a.Provider, a.Model = named(a.Session), named(a.Provider), named(a.Model)
	r := &Reservation{Output: a.Output, l: l, price: a.Price, told: a.Told}
	r.line = entry{ID: rand.Text(), Session: a.Session, Provider: a.Provider, Model: a.Model}
	if !l.limited() {
		r.line.at = l.now()
		r.hold(&a)
		return r, nil
	}
	if err := l.reserve(ctx, r, &a); err != nil {
		return nil, refused(ctx, err, l.limits.in())
	}
	return r, nil
}

// reserve checks the limits and writes the reservation, with the file locked.
func (l *Ledger) reserve(ctx context.Context, r *Reservation, a *Ask) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.turn }()
	open, err := l.file.lock(ctx)
	if err != nil {
		return err
	}
	defer open.Close()
	if err := l.pen.ready(open); err != nil {
		return err
	}
	r.line.at = l.now()
	limits, err := l.limitsOn(ctx, open, r.line.at, a.Session)
	if err != nil {
		return err
	}
	if r.Output, err = l.allow(limits, a); err != nil {
		return err
	}
	r.hold(a)
	begin := r.line
	begin.Reserved = &r.held
	text, err := begin.text()
	if err != nil {
		return err
	}
	r.marked = true
	return l.pen.write(open, text, false)
}

// limitsOn lists the limits of a request as they stand now.
func (l *Ledger) limitsOn(ctx context.Context, open *os.File, at time.Time, session string) ([]limit, error) {
	today, own, err := l.books.accounts(ctx, open, at, session)
	if err != nil {
		return nil, err
	}
	limits := l.standing(today, own, at)
	if session == "" {
		limits = slices.DeleteFunc(limits, func(l limit) bool { return l.ends.IsZero() })
	}
	return limits, nil
}

// allow decides whether a request may be made, and how long its answer may be.
func (l *Ledger) allow(limits []limit, a *Ask) (output int64, err error) {
	_, untold := l.untold.Load(modelKey(a.Provider, a.Model))
	if a.Price == nil && (!a.Told || untold) {
		for _, lim := range limits {
			if lim.money {
				return 0, lim.unpriced(a)
			}
		}
	}
	return grant(limits, a)
}

// modelKey names a model for reports.
func modelKey(provider, model string) string { return provider + "/" + model }

// refused is the error of a reservation that could not be made.
func refused(ctx context.Context, err error, in string) error {
	var said *proto.Error
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return ctx.Err()
	case errors.As(err, &said):
		return err
	}
	return unkept(err, in)
}

// hold sets the amount that the request may take, and its time.
func (r *Reservation) hold(a *Ask) {
	r.ask, r.held = *a, amountOf(a.sum(r.Output))
	r.line.Time = r.line.at.Format(time.RFC3339)
}

func amountOf(s sum) amount { return amount{min(s.tokens, most), usd(min(s.nano, most))} }

// Abandon ends a request whose answer was given up in the middle, so that
// nobody knows what it used: the prompt and that many tokens of the answer
// count as spent, at most what was reserved.
func (r *Reservation) Abandon(output int64) error {
	if r.Output > 0 {
		output = min(output, r.Output)
	}
	if !r.ended.Load() {
		r.held = amountOf(r.ask.sum(counted(output)))
	}
	return r.Settle(nil)
}

// Settle records what the request used, and fills in what it cost if its
// provider has not told and its price is known. A usage above what was reserved
// is recorded as it is. With nil, nobody knows: then what was reserved counts
// as spent. An error has been logged, and the line goes out with the next one
// if it can.
func (r *Reservation) Settle(u *proto.Usage) error {
	if r.ended.Swap(true) {
		return nil
	}
	end := r.line
	if u == nil {
		end.Unknown, end.Reserved = true, &r.held
		return r.note(&end)
	}
	end.use(u)
	if u.CostUSD = end.Cost; u.CostUSD == nil && r.price != nil {
		end.Cost, end.PricesOf = new(min(r.price.Cost(end.usage()), usd(most))), r.price.Date
		u.CostUSD = end.Cost
	}
	r.heard(u.CostUSD != nil)
	return r.note(&end)
}

// heard remembers whether a provider that tells its costs did: where it does
// not, a limit of money would never be reached.
func (r *Reservation) heard(cost bool) {
	key := modelKey(r.line.Provider, r.line.Model)
	if cost {
		r.l.untold.Delete(key)
	} else if r.told {
		r.l.untold.Store(key, true)
	}
}

// Cancel says that the request never reached the provider, so that nothing was
// used.
func (r *Reservation) Cancel() error {
	if r.ended.Swap(true) || !r.marked {
		return nil
	}
	end := r.line
	end.Canceled = true
	return r.note(&end)
}

// note writes a line that ends the reservation.
func (r *Reservation) note(end *entry) error {
	text, err := end.text()
	if err == nil {
		err = r.l.pen.note(text)
	}
	if err != nil {
		r.l.log.Warn("the usage of a request is not recorded yet", "error", err)
	}
	return err
}
