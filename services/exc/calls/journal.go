// Package calls records what exc carries out for turns, so that a call that was
// repeated after a crash is not carried out twice.
//
// The journal is a directory with a file for each day, in UTC. A call has two lines
// there: one that is synced before the call changes anything, and one with the
// result, which is not synced.
//
//	{"start":"2026-11-22T10:00:00Z"}
//	{"key":"S/t-1/4/c1","input_sha256":"…","begin":"2026-11-22T10:31:07.1Z","before":"…","after":"…"}
//	{"key":"S/t-1/4/c1","end":"2026-11-22T10:31:07.2Z","result":{…}}
//
// start stands in a journal that was empty, and says since when nothing is missing.
// Several processes may share the directory: every file is written under a lock on
// itself.
package calls

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"zino/pkg/durable"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	// Keep is how long lines are kept at least.
	Keep = 48 * time.Hour
	// ResultsMax is how many bytes of results are kept at least: the newest ones.
	ResultsMax = 64 << 20
	// writeLimit is how long the lock of a file is waited for: its owner may be a
	// process that was stopped.
	writeLimit = 10 * time.Second
)

// Call is what is recorded before a call changes anything.
type Call struct {
	Key    string
	Sum    string // SHA-256 of tool, root and input in hex
	Before string // SHA-256 of the file's present content in hex, of write and edit; empty: no such file, or it cannot be read
	After  string // of its planned content; empty: not a change of a file
	Job    string // the job that runs the command; empty: none
}

// State is what the journal knows of a call.
type State int

// The states.
const (
	Unknown  State = iota // it may have begun: the journal is damaged, or does not go back far enough
	NotBegun              // certainly not begun
	Begun                 // begun, without an end
	Finished              // the result is known
	Dropped               // it has ended, but its result was dropped
)

// Record is what the journal has of a call.
type Record struct {
	State  State
	Call   Call   // unless it is Unknown or NotBegun
	Result []byte // with Finished
}

// Journal is an open journal. It is safe for concurrent use.
type Journal struct {
	dir  string
	root *os.Root
	log  *slog.Logger
	now  func() time.Time
	most int64 // ResultsMax, or what a test sets

	mu    sync.Mutex
	days  []*day // in order
	index map[string]entry
	today string // when old files were last removed
}

// day is a file of the journal.
type day struct {
	name    string
	file    *durable.File
	mark    durable.Mark
	first   time.Time // of its first line; zero: no line is indexed
	damaged bool      // a line is not one of the journal
	scanned bool      // lines of it are in the index
	results int64     // bytes of the lines with results
}

// entry is where the lines of a call are.
type entry struct{ begin, end place }

// place is the position of a line. The zero value means no line.
type place struct {
	day  *day
	at   int64
	size int64
}

// Open opens the journal in a directory, which it makes.
func Open(dir string, log *slog.Logger) (*Journal, error) {
	if err := os.MkdirAll(dir, durable.DirMode); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	j := &Journal{dir: dir, root: root, log: log, now: time.Now, most: ResultsMax, index: map[string]entry{}}
	if err := j.rotate(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return j, nil
}

// Close closes the files.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, d := range j.days {
		d.file.Close()
	}
	return j.root.Close()
}

// Dir is the directory.
func (j *Journal) Dir() string { return j.dir }

// Find returns what is recorded of a call. since is when the call was asked for: it
// cannot have begun before. The zero time means unknown.
func (j *Journal) Find(key string, since time.Time) (Record, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for attempt := 0; ; attempt++ {
		if err := j.refresh(); err != nil {
			return Record{}, err
		}
		r, err := j.find(key, since)
		if !errors.Is(err, errRewritten) || attempt == 3 {
			return r, err
		}
	}
}

func (j *Journal) find(key string, since time.Time) (Record, error) {
	e, ok := j.index[key]
	if !ok {
		if j.complete(since) {
			return Record{State: NotBegun}, nil
		}
		return Record{}, nil
	}
	begin, err := e.begin.read(key)
	if err != nil {
		return Record{}, err
	}
	r := Record{State: Begun, Call: Call{begin.Key, begin.Sum, begin.Before, begin.After, begin.Job}}
	if e.end.day == nil {
		return r, nil
	}
	end, err := e.end.read(key)
	if err != nil {
		return Record{}, err
	}
	if r.State = Dropped; len(end.Result) > 0 {
		r.State, r.Result = Finished, end.Result
	}
	return r, nil
}

// complete reports whether the journal has every call that began at since or later.
// The times of a session log are whole seconds.
func (j *Journal) complete(since time.Time) bool {
	var first time.Time
	for _, d := range j.days {
		if d.damaged {
			return false
		}
		if first.IsZero() {
			first = d.first
		}
	}
	return !since.IsZero() && !first.IsZero() && !first.Truncate(time.Second).After(since)
}

// Begin records that a call is about to change something, and returns when that is
// on disk.
func (j *Journal) Begin(c Call) error {
	text, err := wire.AppendObject(nil, "", line{Key: c.Key, Sum: c.Sum, Begin: j.stamp(), Before: c.Before, After: c.After, Job: c.Job})
	if err != nil {
		return err
	}
	if err := j.rotate(); err != nil {
		return err
	}
	file, err := j.append(text)
	if err != nil {
		return err
	}
	return file.Sync()
}

// End records the result of a call, an object. It is not synced. A result that is too
// large for a line is dropped.
func (j *Journal) End(key string, result []byte) error {
	text, err := wire.AppendObject(nil, "", line{Key: key, End: j.stamp(), Result: result})
	if err != nil {
		return err
	}
	_, err = j.append(text)
	if errors.Is(err, durable.ErrTooLarge) {
		return j.End(key, nil)
	}
	return err
}

func (j *Journal) stamp() string { return j.now().UTC().Format(time.RFC3339Nano) }

// append adds a line to the file of today.
func (j *Journal) append(text []byte) (*durable.File, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	d := j.day(j.now().UTC().Format(dayLayout))
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	err := d.file.Update(ctx, true, func(tx *durable.Tx) error { return tx.Append([][]byte{text}) })
	if err != nil {
		err = fmt.Errorf("%s: %w", j.path(d), err)
	}
	return d.file, err
}

const (
	dayLayout = "2006-01-02"
	ext       = ".jsonl"
)

// day returns the day of a name, which it adds.
func (j *Journal) day(name string) *day {
	i, ok := slices.BinarySearchFunc(j.days, name, func(d *day, name string) int { return strings.Compare(d.name, name) })
	if !ok {
		d := &day{name: name}
		// A torn last line is repaired like that of a session: the call was not started
		// before its line was whole, and a torn result counts as lost.
		d.file = durable.New(j.root, name+ext, durable.Options{NoSync: true, KeepOpen: true, Report: func(e durable.Event) {
			j.log.Warn("the journal of calls was repaired", "dir", j.dir, "what", e.String())
		}})
		j.days = slices.Insert(j.days, i, d)
	}
	return j.days[i]
}

// names lists the days that have files, in order.
func (j *Journal) names() (names []string, err error) {
	dir, err := j.root.Open(".")
	if err != nil {
		return nil, err
	}
	list, err := dir.Readdirnames(-1)
	for _, file := range list {
		day, ok := strings.CutSuffix(file, ext)
		if _, err := time.Parse(dayLayout, day); ok && err == nil {
			names = append(names, day)
		}
	}
	slices.Sort(names)
	return names, errors.Join(err, dir.Close())
}

// rotate removes the files of days that are over for longer than Keep, once a day.
// In a journal that is empty then it records since when nothing is missing.
func (j *Journal) rotate() error {
	now := j.now().UTC()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.today == now.Format(dayLayout) {
		return nil
	}
	names, err := j.names()
	if err != nil {
		return err
	}
	start := now
	for len(names) > 0 {
		date, err := time.Parse(dayLayout, names[0])
		if err != nil {
			return err
		}
		if date.AddDate(0, 0, 1).Add(Keep).After(now) {
			break
		}
		if err := j.day(names[0]).file.Remove(); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		names, start = names[1:], now.Add(-Keep)
	}
	j.today = now.Format(dayLayout)
	if len(names) > 0 {
		return nil
	}
	text, err := wire.AppendObject(nil, "", line{Start: start.Format(time.RFC3339Nano)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	err = j.day(j.today).file.Update(ctx, true, func(tx *durable.Tx) error {
		if tx.End() > 0 { // another process was faster
			return nil
		}
		return tx.Append([][]byte{text})
	})
	if durable.IsFull(err) { // Begin reports it: code that is not part of a turn needs no journal
		j.today = ""
		j.log.Warn("cannot record calls: those of turns fail until there is room", "dir", j.dir, "error", err)
		return nil
	}
	return err
}

// line is a line of the journal.
type line struct {
	Key    string    `json:"key,omitzero"`
	Sum    string    `json:"input_sha256,omitzero"`
	Begin  string    `json:"begin,omitzero"`
	Before string    `json:"before,omitzero"`
	After  string    `json:"after,omitzero"`
	Job    string    `json:"job,omitzero"`
	End    string    `json:"end,omitzero"`
	Result proto.Raw `json:"result,omitzero"`
	Start  string    `json:"start,omitzero"`
}

// parse reads a line; ok is false for a damaged one. when is the line's time.
func parse(text []byte) (l line, when time.Time, ok bool) {
	if !wire.Valid(text) || wire.Decode(text, &l) != nil {
		return line{}, when, false
	}
	stamp := l.Start
	switch {
	case l.Key != "" && l.Sum != "" && l.Begin != "" && l.End == "":
		stamp = l.Begin
	case l.Key != "" && l.End != "" && l.Begin == "":
		stamp = l.End
	case l.Key != "" || l.Start == "":
		return line{}, when, false
	}
	when, err := time.Parse(time.RFC3339Nano, stamp)
	return l, when, err == nil
}

func (j *Journal) path(d *day) string { return filepath.Join(j.dir, d.name+ext) }
