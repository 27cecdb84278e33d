package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"zino/proto"
)

// none is the key of requests without a session.
const none = "-"

// Report sums what was used, and says how the budgets stand: those of a
// session for the one that req names, as unused if it names none. Requests that
// have not ended are in the budgets only. It reads the file and waits for
// nobody.
func (l *Ledger) Report(ctx context.Context, req proto.UsageRequest) (proto.UsageReport, error) {
	t, err := newTally(req, l.now().Location())
	if err != nil {
		return proto.UsageReport{}, err
	}
	open, err := l.file.open(os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return t.report(l.states(account{}, account{})), nil
	}
	if err != nil {
		return proto.UsageReport{}, err
	}
	defer open.Close()
	var today, session account
	if l.limited() {
		if today, session, err = l.books.accounts(ctx, open, l.now(), sessionOf(req.SessionID)); err != nil {
			return proto.UsageReport{}, err
		}
	}
	if _, err := read(ctx, open, 0, t.line); err != nil {
		return proto.UsageReport{}, l.file.wrong(err)
	}
	l.books.tell(t.bad)
	return t.report(l.states(today, session)), nil
}

// sessionOf is the session that a request for a report names.
func sessionOf(id string) string {
	if id == none {
		return ""
	}
	return named(id)
}

// states are the configured limits as they stand.
func (l *Ledger) states(today, session account) []proto.BudgetState {
	list := []proto.BudgetState{}
	for _, lim := range l.standing(today, session, l.now()) {
		list = append(list, lim.state())
	}
	return list
}

// tally is a report in the making.
type tally struct {
	by    string
	since string // the first day that counts
	only  string // the key of the session that counts; empty: all
	loc   *time.Location
	rows  map[string]*row
	total row
	dated string // the newest date of the built-in prices in the sums
	bad   int
}

// row is a sum in the making.
type row struct {
	proto.UsageRow
	nano   int64
	priced bool
	last   time.Time
}

func newTally(req proto.UsageRequest, loc *time.Location) (*tally, error) {
	t := &tally{by: cmp.Or(req.By, "day"), since: req.Since, loc: loc, rows: map[string]*row{}}
	if !slices.Contains([]string{"day", "model", "session"}, t.by) {
		return nil, invalid(`by = %q is none of "day", "model" and "session"`, req.By)
	}
	if _, err := time.Parse(time.DateOnly, req.Since); err != nil && req.Since != "" {
		return nil, invalid("since = %q is not a day, such as 2026-11-21", req.Since)
	}
	if req.SessionID != "" {
		t.only = cmp.Or(sessionOf(req.SessionID), none)
	}
	return t, nil
}

func invalid(format string, args ...any) error {
	return &proto.Error{Code: proto.CodeInvalid, Message: "Invalid request: " + fmt.Sprintf(format, args...)}
}

// line counts a line of the file.
func (t *tally) line(text []byte) {
	e, ok := parse(text)
	if !ok {
		t.bad++
		return
	}
	if k := e.kind(); k != settles && k != ends {
		return
	}
	on, session := e.at.In(t.loc).Format(time.DateOnly), cmp.Or(e.Session, none)
	if on < t.since || t.only != "" && t.only != session {
		return
	}
	key := on
	switch t.by {
	case "model":
		key = modelKey(e.Provider, e.Model)
	case "session":
		key = session
	}
	if t.rows[key] == nil {
		t.rows[key] = &row{UsageRow: proto.UsageRow{Key: key}}
	}
	t.rows[key].add(&e)
	t.total.add(&e)
	t.dated = max(t.dated, e.PricesOf)
}

func (r *row) add(e *entry) {
	r.Requests++
	if e.at.After(r.last) {
		r.last = e.at
	}
	if e.Cost == nil {
		r.Unpriced++
	} else {
		r.priced, r.nano = true, plus(r.nano, nano(*e.Cost))
	}
	if e.Input == nil || e.Output == nil {
		return // nobody knows what it used
	}
	u := &r.Usage
	u.InputTokens, u.OutputTokens = plus(u.InputTokens, *e.Input), plus(u.OutputTokens, *e.Output)
	u.CacheReadTokens, u.CacheWriteTokens = plus(u.CacheReadTokens, e.CacheRead), plus(u.CacheWriteTokens, e.CacheWrite)
	u.ReasoningTokens = plus(u.ReasoningTokens, e.Reasoning)
}

// done is the finished sum.
func (r *row) done() proto.UsageRow {
	if r.priced {
		cost := usd(r.nano)
		r.Usage.CostUSD = &cost
	}
	return r.UsageRow
}

func (t *tally) report(budgets []proto.BudgetState) proto.UsageReport {
	rows := make([]*row, 0, len(t.rows))
	for _, r := range t.rows {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, t.compare)
	t.total.Key = "total"
	report := proto.UsageReport{Rows: []proto.UsageRow{}, Total: t.total.done(), Budgets: budgets, PricesOf: t.dated}
	for _, r := range rows {
		report.Rows = append(report.Rows, r.done())
	}
	return report
}

// compare puts days and sessions newest first, models by their tokens.
func (t *tally) compare(a, b *row) int {
	byKey := strings.Compare(a.Key, b.Key)
	switch t.by {
	case "day":
		return -byKey
	case "session":
		return cmp.Or(b.last.Compare(a.last), byKey)
	}
	tokens := func(r *row) int64 { return plus(r.Usage.InputTokens, r.Usage.OutputTokens) }
	return cmp.Or(cmp.Compare(tokens(b), tokens(a)), byKey)
}
