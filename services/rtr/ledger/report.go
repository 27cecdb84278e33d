package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"zino/proto"
)

// noSession is the key of requests without a session.
const noSession = "-"

// Report sums the usage and returns the state of the budgets. Those of a session are
// for the one that req names; without one they are unused. Requests in progress are
// part of the budgets only.
func (l *Ledger) Report(ctx context.Context, req proto.UsageRequest) (proto.UsageReport, error) {
	by := cmp.Or(req.By, "day")
	if !slices.Contains([]string{"day", "model", "session"}, by) {
		return proto.UsageReport{}, invalid(`by = %q: want "day", "model" or "session"`, req.By)
	}
	if _, err := time.Parse(time.DateOnly, req.Since); err != nil && req.Since != "" {
		return proto.UsageReport{}, invalid("since = %q is not a day, such as 2026-11-21", req.Since)
	}
	session := cleanName(req.SessionID)
	if session == noSession {
		session = ""
	}
	now, t := l.now(), totals{}
	t.clear()
	rows, total, newest, bad := map[string]*row{}, row{}, "", 0
	file, err := l.open(false)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return proto.UsageReport{}, err
	}
	if err == nil {
		for e, err := range entries(ctx, file.From(0)) {
			if errors.Is(err, fs.ErrNotExist) {
				break
			}
			if err != nil {
				return proto.UsageReport{}, l.fileError(err)
			}
			if e == nil {
				bad++
				continue
			}
			if l.limited() {
				t.add(e, now.Location())
			}
			day := e.at.In(now.Location()).Format(time.DateOnly)
			other := req.SessionID != "" && e.Session != session
			if k := e.kind(); k != settled && k != abandoned || day < req.Since || other {
				continue
			}
			key := day
			switch by {
			case "model":
				key = modelKey(e.Provider, e.Model)
			case "session":
				key = cmp.Or(e.Session, noSession)
			}
			if rows[key] == nil {
				rows[key] = &row{UsageRow: proto.UsageRow{Key: key}}
			}
			rows[key].add(e)
			total.add(e)
			newest = max(newest, e.PricesOf)
		}
	}
	l.logBadLines(bad)

	total.Key = "total"
	report := proto.UsageReport{Rows: []proto.UsageRow{}, Total: total.done(), Budgets: []proto.BudgetState{}, PricesOf: newest}
	for _, lim := range l.limitsAt(&t, session, now) {
		report.Budgets = append(report.Budgets, lim.state())
	}
	list := make([]*row, 0, len(rows))
	for _, r := range rows {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *row) int {
		byKey := strings.Compare(a.Key, b.Key)
		switch by {
		case "day":
			return -byKey
		case "session":
			return cmp.Or(b.last.Compare(a.last), byKey)
		}
		tokens := func(r *row) int64 { return plus(r.Usage.InputTokens, r.Usage.OutputTokens) }
		return cmp.Or(cmp.Compare(tokens(b), tokens(a)), byKey)
	})
	for _, r := range list {
		report.Rows = append(report.Rows, r.done())
	}
	return report, nil
}

func invalid(format string, args ...any) error {
	return &proto.Error{Code: proto.CodeInvalid, Message: "Invalid request: " + fmt.Sprintf(format, args...)}
}

// row is an unfinished row of a report.
type row struct {
	proto.UsageRow
	nano   int64
	priced bool
	last   time.Time
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
		return // its usage is unknown
	}
	u := &r.Usage
	u.InputTokens, u.OutputTokens = plus(u.InputTokens, *e.Input), plus(u.OutputTokens, *e.Output)
	u.CacheReadTokens, u.CacheWriteTokens = plus(u.CacheReadTokens, e.CacheRead), plus(u.CacheWriteTokens, e.CacheWrite)
	u.ReasoningTokens = plus(u.ReasoningTokens, e.Reasoning)
}

func (r *row) done() proto.UsageRow {
	if r.priced {
		r.Usage.CostUSD = new(usd(r.nano))
	}
	return r.UsageRow
}
