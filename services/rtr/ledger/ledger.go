// Package ledger keeps the books of the router: what every request used, and
// the budgets that all clients of it share. It owns one file, usage.jsonl, in
// a form that is stable and meant for people and their tools: one JSON object
// a line, appended and never changed.
//
//	{"time":"2026-11-21T14:03:07+01:00","id":"J4K…","session":"…","provider":"anthropic","model":"…",
//	 "input_tokens":1200,"output_tokens":80,"cache_read_tokens":1000,"cache_write_tokens":0,"reasoning_tokens":0,"cost_usd":0.0017,"prices_of":"2026-11-22"}
//
// (in one line) is what a request used; prices_of is the date of the built-in
// prices that the cost was estimated with, if it was. Input tokens include those from and to
// the provider's cache, output tokens include reasoning; keys that are 0 or
// unknown are absent, except input_tokens and output_tokens. So
//
//	jq -s 'map(.cost_usd // 0) | add' usage.jsonl
//
// is what was spent. The time is when the request was made, in local time: a
// request belongs to the day on which it began. Three more kinds of line have
// no input_tokens:
//
//	{…,"reserved":{"tokens":5200,"usd":0.08}}                 a request that begins under a budget
//	{…,"reserved":{"tokens":5200,"usd":0.08},"unknown":true}  it ended, and nobody knows what it used
//	{…,"canceled":true}                                       it never reached the provider
//
// A reservation ends with the line of the same id. Until then it counts in
// full, and it counts so for ever if its process died: the money may be spent.
// What is unknown counts as much as its last line says: what was reserved, or
// an estimate of what a provider had done when its answer was given up.
//
// Several processes may keep one file. A reservation is checked and written
// under a lock on it, after what others appended has been read, so the sums
// hold for all of them together. A line is one write at the end of the file,
// and is there for all at once; it survives the death of its process, and
// after up to a second that of the host. A line that was cut in the middle
// costs no more than itself: the next one begins on a line of its own. Lines
// that cannot be read are left out, and told of once in the log.
//
// The file may be moved away at any time. The budgets then begin anew.
package ledger

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"sync"
	"time"

	"zino/proto"
)

// Limits are the configured budgets for all clients together; 0: no such
// limit. Days are local ones. A session's limits do not hold for requests
// without a session.
type Limits struct {
	USDPerDay, USDPerSession       float64 // US dollars
	TokensPerDay, TokensPerSession int64   // input and output

	File string // that sets them, for error texts; empty: not known
}

func (l Limits) check() error {
	for _, v := range []struct {
		key   string
		value float64
	}{
		{usdPerDay, l.USDPerDay},
		{usdPerSession, l.USDPerSession},
		{tokensPerDay, float64(l.TokensPerDay)},
		{tokensPerSession, float64(l.TokensPerSession)},
	} {
		if math.IsNaN(v.value) || math.IsInf(v.value, 0) || v.value < 0 {
			return fmt.Errorf("[budget] %s = %v: it must be above 0, or 0 for no limit", v.key, v.value)
		}
	}
	return nil
}

// in names the file that sets the limits, for the end of a remedy.
func (l Limits) in() string {
	if l.File == "" {
		return ""
	}
	return " in " + l.File
}

// Price is what a model's tokens cost in US dollars per million.
type Price struct {
	Input, Output, CacheRead, CacheWrite float64

	Date string // of the built-in price list that a part of it is from; empty: no part
}

// Cost is what a usage costs in US dollars. Every token is paid once: input
// tokens from and to the cache have prices of their own.
func (p Price) Cost(u proto.Usage) float64 {
	plain := max(0, u.InputTokens-u.CacheReadTokens-u.CacheWriteTokens)
	return (float64(plain)*p.Input + float64(u.CacheReadTokens)*p.CacheRead +
		float64(u.CacheWriteTokens)*p.CacheWrite + float64(u.OutputTokens)*p.Output) / 1e6
}

// dearest is the price of an input token of which nobody knows yet whether it
// will come from the cache or go there.
func (p Price) dearest() float64 { return max(p.Input, p.CacheRead, p.CacheWrite) }

// Ledger is one process's hold on the books. It is safe for concurrent use.
type Ledger struct {
	limits Limits
	now    func() time.Time
	log    *slog.Logger
	file   file
	pen    *pen
	books  *books
	turn   chan struct{} // whoever has put a token there may lock the file
	untold sync.Map      // models whose provider should tell costs, and did not
}

// Open takes up the books in dir, which it makes if need be. now tells the time
// in the location whose days count. Without limits a directory that cannot be
// used is a warning in the log, as nothing depends on it; with limits it is an
// error.
func Open(dir string, limits Limits, now func() time.Time, log *slog.Logger) (*Ledger, error) {
	if err := limits.check(); err != nil {
		return nil, err
	}
	l := &Ledger{limits: limits, now: now, log: log, file: file{dir}, turn: make(chan struct{}, 1)}
	l.pen = &pen{file: l.file, log: log}
	l.books = newBooks(l.file, log)
	f, err := l.file.open(os.O_RDWR)
	if err == nil {
		return l, f.Close()
	}
	if l.limited() {
		return nil, unkept(err, limits.in())
	}
	log.Warn("usage is not recorded", "error", err)
	return l, nil
}

// Close has everything that was written on disk. What is settled later is
// still recorded.
func (l *Ledger) Close() error { return l.pen.close() }

func (l *Ledger) limited() bool { return l.limits != Limits{File: l.limits.File} }

// unkept is the refusal where a budget cannot be recorded: a brake that does
// not hold is none.
func unkept(err error, in string) error {
	return &proto.Error{Code: proto.CodeUnavailable, Message: fmt.Sprintf(
		"cannot record usage against the budget, refusing model requests: %v; repair this, or remove the limits from [budget]%s", err, in)}
}
