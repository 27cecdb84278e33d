// Package audit sends records of what a service does to zino-audit, or writes them to a
// plain log if zino-audit is not installed. Record only adds to a queue: it never waits.
package audit

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"zino/pkg/audit/line"
	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	// queueMax is how many bytes of records are kept while they cannot be sent.
	queueMax = 1 << 20
	// batchMax is how many records are sent at a time.
	batchMax = 500
	// dataMax is how many bytes of data a record has; the line around it has more.
	dataMax = line.MaxLine - 4<<10
	// answerLimit is how long a record may wait for its answer before calls are refused.
	answerLimit = 5 * time.Second
	// flushLimit is how long Close waits for records in the queue.
	flushLimit = 2 * time.Second
	// probeAfter is how old the last answer may be before Ready asks for another one.
	probeAfter = time.Second
	// firstPause and lastPause are the pauses between attempts to send.
	firstPause, lastPause = 50 * time.Millisecond, time.Second
)

// Event is what is recorded, and where it belongs: empty fields are left out. Data is a
// struct whose JSON is an object.
type Event struct {
	Session, Turn, Call string
	Data                any
}

// Log takes the records of a service. A nil Log drops them.
type Log struct {
	required bool
	log      *slog.Logger
	send     func(context.Context, []proto.AuditEntry, bool) error
	ping     func(context.Context) error // asks whether records would be taken
	now      func() time.Time
	closers  []func() error

	mu     sync.Mutex
	queue  []item
	size   int // of the records in the queue and of those that are being sent
	lost   int // records that were dropped since the last gap
	from   time.Time
	to     time.Time
	closed bool
	failed bool // the last attempt; logged once
	wake   chan struct{}
	ended  chan struct{}
	files  map[string]tracked
	last   time.Time // of the last answer
}

type item struct {
	entry proto.AuditEntry
	size  int
	since time.Time
	done  chan error // of RecordSync; nil: no caller waits
	probe bool       // no record: only whether there is an answer
}

// Uses reports whether the services of a configuration send their records to zino-audit,
// rather than to a plain log.
func Uses(cfg config.Audit) bool {
	if cfg.Socket == "" {
		return false
	}
	_, err := os.Lstat(cfg.Socket)
	return err == nil || cfg.Required
}

// Open returns the log of a service. If the plain log cannot be opened, it returns nil.
func Open(cfg *config.Config, service string, log *slog.Logger) *Log {
	if Uses(cfg.Audit) {
		client := &rpc.Client{Service: "audit", Path: cfg.Audit.Socket}
		l := newLog(cfg.Audit.Required, log, func(ctx context.Context, list []proto.AuditEntry, sync bool) error {
			_, err := rpc.Call(ctx, client, proto.AuditRecord, proto.RecordAudit{Records: list, Sync: sync, Src: service})
			return err
		})
		l.ping = func(ctx context.Context) error {
			_, err := rpc.Call(ctx, client, proto.Ping, proto.PingRequest{})
			return err
		}
		l.closers = append(l.closers, func() error { client.Close(); return nil })
		return l
	}
	p, err := openPlain(service)
	if err != nil {
		log.Warn("nothing is recorded for the audit: cannot open its plain log; make it writable, or run zino-audit, and start this service again", "error", err)
		return nil
	}
	l := newLog(false, log, p.send)
	l.closers = append(l.closers, func() error { return p.f.Close() })
	return l
}

func newLog(required bool, log *slog.Logger, send func(context.Context, []proto.AuditEntry, bool) error) *Log {
	l := &Log{
		required: required, log: log, send: send, ping: func(context.Context) error { return nil }, now: time.Now,
		wake: make(chan struct{}, 1), ended: make(chan struct{}), files: map[string]tracked{},
	}
	go l.run()
	return l
}

// Record records an event of a kind.
func (l *Log) Record(kind string, e Event) { l.add(kind, e, nil) }

// RecordSync is Record that returns when the record is on disk. It waits 5 seconds at most.
// The error concerns a caller only if the audit is required.
func (l *Log) RecordSync(ctx context.Context, kind string, e Event) error {
	if l == nil {
		return nil
	}
	done := make(chan error, 1)
	l.add(kind, e, done)
	timer := time.NewTimer(answerLimit)
	defer timer.Stop()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = errSilent
	}
	if !l.required {
		return nil
	}
	return err
}

func (l *Log) add(kind string, e Event, done chan error) {
	if l == nil {
		return
	}
	entry := proto.AuditEntry{Kind: kind, Session: e.Session, Turn: e.Turn, Call: e.Call}
	if e.Data != nil {
		data, err := wire.AppendObject(nil, "", e.Data)
		if err != nil || len(data) > dataMax {
			data, _ = wire.AppendObject(nil, "", oversized{len(data)})
		}
		entry.Data = data
	}
	size := 128 + len(entry.Data) + len(kind) + len(e.Session) + len(e.Turn) + len(e.Call)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if l.size+size > queueMax || l.closed {
		l.lose(1, now)
		if done != nil {
			done <- errSilent
		}
		return
	}
	l.queue = append(l.queue, item{entry: entry, size: size, since: now, done: done})
	l.size += size
	l.signal()
}

// oversized is the data of a record whose own data is too large.
type oversized struct {
	Bytes int `json:"oversized"`
}

// gap is the data of a record gap.
type gap struct {
	Lost int    `json:"lost"`
	From string `json:"from"`
	To   string `json:"to"`
}

// lose counts lost records. mu is locked.
func (l *Log) lose(n int, when time.Time) {
	if l.lost == 0 {
		l.from = when
	}
	l.lost += n
	l.to = when
}

var errSilent = &proto.Error{Code: proto.CodeUnavailable, Message: "the audit service does not answer"}

// Ready returns an error of the code unavailable if the audit is required and has not
// answered for 5 seconds: then no tool may be called and no model asked.
func (l *Log) Ready() error {
	if l == nil || !l.required {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if len(l.queue) > 0 && now.Sub(l.queue[0].since) > answerLimit {
		return errSilent
	}
	if len(l.queue) == 0 && now.Sub(l.last) > probeAfter && !l.closed {
		l.queue = append(l.queue, item{since: now, probe: true})
		l.signal()
	}
	return nil
}

// signal wakes run. mu is locked.
func (l *Log) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // it is awake
	}
}

// run sends what is in the queue, in order, until Close.
func (l *Log) run() {
	defer close(l.ended)
	pause := firstPause
	for range l.wake {
		for {
			n, more, err := l.sendSome()
			if n == 0 && err == nil {
				break
			}
			if err == nil {
				pause = firstPause
				if more {
					continue
				}
				break
			}
			timer := time.NewTimer(pause)
			pause = min(2*pause, lastPause)
			select {
			case <-timer.C:
			case _, open := <-l.wake:
				if open {
					<-timer.C
				} else if _, _, err := l.sendSome(); err != nil {
					return // a last attempt
				}
			}
		}
	}
}

// sendSome sends the first records of the queue, with the gap before them. They stay in the
// queue until the answer.
func (l *Log) sendSome() (n int, more bool, err error) {
	l.mu.Lock()
	var list []proto.AuditEntry
	lost := l.lost
	if lost > 0 {
		data, _ := wire.AppendObject(nil, "", gap{lost, l.from.UTC().Format(time.RFC3339Nano), l.to.UTC().Format(time.RFC3339Nano)})
		list = append(list, proto.AuditEntry{Kind: proto.AuditGap, Data: data})
	}
	sync := false
	for _, it := range l.queue[:min(len(l.queue), batchMax-1)] {
		if !it.probe {
			list = append(list, it.entry)
		}
		sync = sync || it.done != nil
		n++
	}
	l.mu.Unlock()
	if len(list) == 0 && n == 0 {
		return 0, false, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	if len(list) == 0 {
		err = l.ping(ctx)
	} else {
		err = l.send(ctx, list, sync)
	}
	cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	refused := isRefusal(err)
	l.report(err)
	if err != nil && !refused {
		return n, false, err
	}
	for _, it := range l.queue[:n] {
		l.size -= it.size
		if it.done != nil {
			it.done <- err
		}
	}
	l.queue, l.last = l.queue[n:], l.now()
	if len(l.queue) == 0 {
		l.queue = nil
	}
	if !refused {
		l.lost -= lost
		return max(n, 1), len(l.queue) > 0, nil
	}
	l.lose(n, l.now())
	return n, len(l.queue) > 0, nil
}

// isRefusal reports whether records were refused, and would be again.
func isRefusal(err error) bool {
	return errors.Is(err, proto.ErrInvalid) || errors.Is(err, proto.ErrTooLarge)
}

// report logs the first error, and its end. mu is locked.
func (l *Log) report(err error) {
	switch {
	case err != nil && !l.failed:
		l.log.Warn("records cannot be sent to the audit", "error", err)
	case err == nil && l.failed:
		l.log.Info("records are sent to the audit again")
	}
	l.failed = err != nil
}

// Close sends what is in the queue, for 2 seconds at most.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	close(l.wake)
	select {
	case <-l.ended:
	case <-time.After(flushLimit):
	}
	var errs []error
	for _, f := range l.closers {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// Head returns the first 512 bytes of an input, whose secrets are masked.
func Head(input []byte) string {
	const most = 512
	if len(input) <= most {
		return string(input)
	}
	return string(bytes.ToValidUTF8(input[:most], nil))
}
