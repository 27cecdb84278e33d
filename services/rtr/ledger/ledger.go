// Package ledger records what every request of the router used, and enforces the
// budgets that all of its clients share. It owns one file, usage.jsonl, in a
// stable form for people and their tools: one JSON object a line, appended and
// never changed.
//
//	{"time":"2026-11-21T14:03:07+01:00","id":"J4K…","session":"…","provider":"anthropic","model":"…",
//	 "input_tokens":1200,"output_tokens":80,"cache_read_tokens":1000,"cache_write_tokens":0,"reasoning_tokens":0,"cost_usd":0.0017,"prices_of":"2026-11-22"}
//
// (in one line) is what a request used; prices_of is the date of the built-in
// prices that the cost was estimated with, if it was. Input tokens include those
// from and to the provider's cache, output tokens include reasoning; keys that
// are 0 or unknown are absent, except input_tokens and output_tokens. So
//
//	jq -s 'map(.cost_usd // 0) | add' usage.jsonl
//
// is what was spent. The time is when the request was made, in local time: a
// request belongs to the day on which it began. Three more kinds of line have
// no input_tokens:
//
//	{…,"reserved":{"tokens":5200,"usd":0.08}}                 a request that begins under a budget
//	{…,"reserved":{"tokens":5200,"usd":0.08},"unknown":true}  it ended, and what it used is unknown
//	{…,"canceled":true}                                       it never reached the provider
//
// A reservation ends with the line of the same id. Until then it counts in full,
// and for ever if its process died: the money may be spent. Unknown usage counts
// as much as its last line says: what was reserved, or an estimate of what the
// provider had done when its answer was abandoned.
//
// Several processes may share the file. A reservation is checked and written
// under a lock on it, after what others appended has been read, so that the
// limits apply to all of them together. A line survives the death of its process
// at once, and a power failure after up to a second. A line that cannot be read
// is skipped, and logged once.
//
// The file may be moved away at any time. The budgets then start at zero.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"zino/pkg/durable"
	"zino/proto"
)

const (
	// fileName is the file's name in its directory.
	fileName = "usage.jsonl"
	// syncDelay is the longest time until a line is synced.
	syncDelay = time.Second
	// lockWait limits how long the end of a request waits for the file's lock. After
	// that its line stays pending until the next one.
	lockWait = 100 * time.Millisecond
	// pendingMax is how many bytes of lines wait for a file that cannot be
	// written.
	pendingMax = 1 << 20
)

// Limits are the configured budgets for all clients together; 0: no such
// limit. Days are local ones. A session's limits do not apply to requests
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

// Price is the price of a model's tokens in US dollars per million.
type Price struct {
	Input, Output, CacheRead, CacheWrite float64

	Date string // of the built-in price list that a part of it is from; empty: no part
}

// Cost returns the cost of a usage in US dollars. Every token counts once: input
// tokens from and to the cache have prices of their own.
func (p Price) Cost(u proto.Usage) float64 {
	plain := max(0, u.InputTokens-u.CacheReadTokens-u.CacheWriteTokens)
	return (float64(plain)*p.Input + float64(u.CacheReadTokens)*p.CacheRead +
		float64(u.CacheWriteTokens)*p.CacheWrite + float64(u.OutputTokens)*p.Output) / 1e6
}

// maxInput is the highest price of an input token: before the request it is
// unknown whether a token will come from the cache or go there.
func (p Price) maxInput() float64 { return max(p.Input, p.CacheRead, p.CacheWrite) }

// Ledger records usage in the file of one directory. It is safe for concurrent
// use.
type Ledger struct {
	limits Limits
	now    func() time.Time
	log    *slog.Logger
	dir    string

	unpriced sync.Map    // models whose provider should report costs, and did not
	badLines atomic.Bool // unreadable lines were logged

	totals totals // used with the file locked

	mu      sync.Mutex // guards the following
	file    *durable.File
	dirInfo fs.FileInfo // of the directory that the file is in
	pending [][]byte    // lines that are not in the file yet
	size    int         // of these lines
	timer   *time.Timer // runs until the next sync; nil: all is on disk
	closed  bool

	syncs sync.WaitGroup // timers that run and syncs under way
}

// Open opens the ledger in dir, and makes dir if it does not exist. now is the
// clock, in the location whose days count. A directory that cannot be used is a warning in
// the log without limits, as nothing depends on it, and an error with limits.
func Open(dir string, limits Limits, now func() time.Time, log *slog.Logger) (*Ledger, error) {
	if err := limits.check(); err != nil {
		return nil, err
	}
	l := &Ledger{limits: limits, now: now, log: log, dir: dir}
	l.totals.clear()
	err := l.flush() // of nothing: it fails where usage cannot be recorded
	if err == nil || errors.Is(err, durable.ErrLocked) {
		return l, nil
	}
	if l.limited() {
		return nil, unavailable(err, limits.in())
	}
	log.Warn("usage is not recorded", "error", err)
	return l, nil
}

// errBusy is the error of a line that waited for lockWait: for another process, or for other
// requests of this one.
var errBusy = fmt.Errorf("%w, or by other requests", durable.ErrLocked)

func (l *Ledger) path() string { return filepath.Join(l.dir, fileName) }

func (l *Ledger) limited() bool { return l.limits != Limits{File: l.limits.File} }

// unavailable is the refusal while usage cannot be recorded under a budget.
func unavailable(err error, in string) error {
	return &proto.Error{Code: proto.CodeUnavailable, Message: fmt.Sprintf(
		"cannot record usage against the budget, refusing model requests: %v; repair this, or remove the limits from [budget]%s", err, in)}
}

// open returns the file in the directory that has the name now. With create it
// makes the directory; without, an absent one is an error fs.ErrNotExist.
func (l *Ledger) open(create bool) (*durable.File, error) {
	if create {
		if err := os.MkdirAll(l.dir, durable.DirMode); err != nil {
			return nil, l.fileError(err)
		}
	}
	fi, err := os.Stat(l.dir)
	if err != nil {
		return nil, l.fileError(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil && os.SameFile(fi, l.dirInfo) {
		return l.file, nil
	}
	root, err := os.OpenRoot(l.dir) // closed when the last request that uses it has ended
	if err != nil {
		return nil, l.fileError(err)
	}
	if l.dirInfo, err = root.Stat("."); err != nil {
		return nil, l.fileError(err)
	}
	l.file = durable.New(root, fileName, durable.Options{NoSync: true, KeepOpen: true, Report: func(e durable.Event) {
		e.Name, e.Kept = filepath.Join(l.dir, e.Name), filepath.Join(l.dir, e.Kept)
		l.log.Warn(e.String())
	}})
	return l.file, nil
}

// fileError adds the file's path to an error, in one line.
func (l *Ledger) fileError(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", l.path(), err)
}

// record appends a line. If that fails, the line is appended before the next one.
func (l *Ledger) record(line []byte) error {
	l.mu.Lock()
	full := l.size+len(line) > pendingMax
	if !full {
		l.pending, l.size = append(l.pending, line), l.size+len(line)
	}
	l.mu.Unlock()
	err := l.flush()
	if full && err == nil {
		err = errors.New("the file could not be written for too long")
	}
	return err
}

// flush appends the pending lines.
func (l *Ledger) flush() error {
	file, err := l.open(true)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	err = file.Update(ctx, true, l.flushTo)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errBusy
	}
	l.mu.Lock()
	closed := l.closed
	if len(l.pending) == 0 && errors.Is(err, errBusy) {
		err = nil // another request has written the lines
	}
	if err != nil && !closed && len(l.pending) > 0 {
		l.syncLater() // which tries again, once
	}
	l.mu.Unlock()
	if err == nil && closed {
		return l.sync()
	}
	return l.fileError(err)
}

// flushTo appends the pending lines to the locked file.
func (l *Ledger) flushTo(tx *durable.Tx) error {
	l.mu.Lock()
	lines := l.pending
	l.mu.Unlock()
	if err := tx.Append(lines); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = l.pending[len(lines):]
	for _, line := range lines {
		l.size -= len(line)
	}
	if len(lines) > 0 && !l.closed {
		l.syncLater()
	}
	return nil
}

// syncLater syncs the file within a second, and first appends what is pending.
// mu is held.
func (l *Ledger) syncLater() {
	if l.timer != nil {
		return
	}
	l.syncs.Add(1)
	l.timer = time.AfterFunc(syncDelay, func() {
		defer l.syncs.Done()
		l.mu.Lock()
		l.timer = nil
		waiting := len(l.pending) > 0
		l.mu.Unlock()
		var err error
		if waiting {
			err = l.flush()
		}
		if err == nil {
			err = l.sync()
		}
		if err != nil {
			l.log.Warn("usage is recorded, but would not survive a power failure", "error", err)
		}
	})
}

func (l *Ledger) sync() error {
	file, err := l.open(false)
	if err == nil {
		err = l.fileError(file.Sync())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the directory was moved away
	}
	if err == nil {
		l.log.Debug("usage is on disk", "file", l.path())
	}
	return err
}

// Close returns when everything that was recorded is on disk. What is settled
// later is still recorded.
func (l *Ledger) Close() error {
	l.mu.Lock()
	l.closed = true
	due := l.timer != nil && l.timer.Stop()
	if due {
		l.timer = nil
		l.syncs.Done()
	}
	waiting := len(l.pending) > 0
	l.mu.Unlock()
	l.syncs.Wait()
	if waiting {
		return l.flush()
	}
	if due {
		return l.sync()
	}
	return nil
}
