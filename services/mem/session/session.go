// Package session keeps the sessions of the terminal agent. A session is a file
// ID.jsonl of events, the session log, one JSON object a line, that only grows:
//
//	{"type":"meta","schema_version":1,"ts":"2026-11-21T14:03:07Z"}
//	{"type":"message","role":"user","text":"hello","ts":"…"}
//	{"type":"message","role":"assistant","text":"so","partial":true,"ts":"…"}
//	{"type":"tool_use","id":"1","name":"read","input":{"path":"a"},"ts":"…"}
//	{"type":"tool_result","tool_use_id":"1","output":{"ok":true},"ok":true,"ts":"…"}
//	{"type":"interrupted","role":"system","text":"Interrupted","ts":"…"}
//
// A file without a first line of type meta has schema 1. Other types and keys are
// kept and served. The files are for people and other programs too: they may be
// edited, copied in and removed at any time.
//
// Several processes may share the directory. An append is one write under a lock
// on the file, and is acknowledged when it is on disk; with at it also says where
// the session must end, so that a writer notices another one, and may repeat a
// request whose answer was lost. A turn has another lock for as long as it lasts,
// the file ID.lock: turns on one session follow each other, and a call without a
// result belongs to a turn that died.
//
// .index.json caches what lists show of each file, so that a list need not read
// the files. It may be deleted.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"zino/pkg/durable"
	"zino/pkg/text"
	"zino/proto"
)

const (
	fileEnd = ".jsonl"
	lockEnd = ".lock"
)

// Options of a Store.
type Options struct {
	// NoSync acknowledges an event when the kernel has it: it then survives the
	// process, but not a power failure.
	NoSync bool
	// Report, if set, is called with every repair of a file.
	Report func(durable.Event)
	// Skipped, if set, is called with the number of lines of a file that are not
	// events; 0 if all of them are.
	Skipped func(file string, lines int)
	// Damaged, if set, is called with the number of events of a file that no model
	// is sent, because what makes them messages, calls or results is damaged.
	Damaged func(file string, events int)
	// Now is the clock, time.Now if nil.
	Now func() time.Time
}

// Store is a directory of sessions. It is safe for concurrent use.
type Store struct {
	root *os.Root
	opt  Options
	room int // bytes of the events in a packet
	part int // bytes of the text in one

	mu      sync.Mutex
	digests map[string]digest // by id; nil until the index has been read
	stale   bool              // the index lacks some of them
}

// New returns the sessions in root, which Close closes.
func New(root *os.Root, opt Options) *Store {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Store{root: root, opt: opt, room: readRoom, part: exportRoom}
}

// Close closes the directory. Everything that was acknowledged is on disk before.
func (s *Store) Close() error { return s.root.Close() }

// log is the file of a session whose id has been checked.
func (s *Store) log(id string) *durable.File {
	return durable.New(s.root, id+fileEnd, durable.Options{NoSync: s.opt.NoSync, Report: s.opt.Report})
}

// path is the path of a session's file, for people.
func (s *Store) path(id string) string { return filepath.Join(s.root.Name(), id+fileEnd) }

// now is the time as events have it.
func (s *Store) now() string { return stamp(s.opt.Now()) }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func invalid(format string, args ...any) error {
	return &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

func unknown(id string) error {
	return &proto.Error{Code: proto.CodeNotFound, Kind: "session", Message: fmt.Sprintf("There is no session %s. See zino sessions list.", text.Quote(id))}
}

func exists(id string) error {
	return invalid("There is a session %s already. Choose another name.", text.Quote(id))
}

// isGone reports an error of a file that does not exist any more.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, proto.ErrNotFound)
}

// fileError adds to an error of a session's file the session, the path, and what
// to do about it.
func (s *Store) fileError(id string, err error) error {
	if _, done := errors.AsType[*proto.Error](err); done || err == nil {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return unknown(id)
	}
	cause := err
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		cause = path.Err
	}
	message := fmt.Sprintf("session %s: %s: %v%s", text.Quote(id), s.path(id), cause, durable.Remedy(err))
	return &storeError{strings.ReplaceAll(message, "\n", "; "), err}
}

type storeError struct {
	text  string
	cause error
}

func (e *storeError) Error() string { return e.text }
func (e *storeError) Unwrap() error { return e.cause }

// entry is a session's file in the directory.
type entry struct {
	id   string
	info fs.FileInfo
}

// entries are all sessions, the one that changed last in front.
func (s *Store) entries(ctx context.Context) ([]entry, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	list := make([]entry, 0, len(ids))
	for _, id := range ids {
		info, err := s.root.Lstat(id + fileEnd)
		if errors.Is(err, fs.ErrNotExist) {
			continue // just removed
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, s.fileError(id, err)
		}
		if info.Mode().IsRegular() {
			list = append(list, entry{id, info})
		}
	}
	slices.SortFunc(list, func(a, b entry) int {
		return cmp.Or(b.info.ModTime().Compare(a.info.ModTime()), cmp.Compare(a.id, b.id))
	})
	return list, nil
}

// ids are the names in the directory that a session could have.
func (s *Store) ids() (ids []string, err error) {
	dir, err := s.root.Open(".")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		if id, ok := strings.CutSuffix(name, fileEnd); ok && proto.CheckSessionID(id) == nil {
			ids = append(ids, id)
		}
	}
	return ids, errors.Join(err, dir.Close())
}

// candidatesMax is how many candidates the answer to an ambiguous id names.
const candidatesMax = 4

// resolve finds the session that an id or the beginning of one names.
func (s *Store) resolve(id string) (string, error) {
	if err := proto.CheckSessionID(id); err != nil {
		return "", err
	}
	if _, err := s.root.Lstat(id + fileEnd); !errors.Is(err, fs.ErrNotExist) {
		return id, s.fileError(id, err)
	}
	ids, err := s.ids()
	if err != nil {
		return "", s.fileError(id, err)
	}
	found := slices.DeleteFunc(ids, func(other string) bool { return !strings.HasPrefix(other, id) })
	switch len(found) {
	case 0:
		return "", unknown(id)
	case 1:
		return found[0], nil
	}
	slices.Sort(found)
	more := ""
	if n := len(found) - candidatesMax; n > 0 {
		found, more = found[:candidatesMax], fmt.Sprintf(" and %d more", n)
	}
	return "", &proto.Error{Code: proto.CodeInvalid, Kind: "session", Message: fmt.Sprintf("Several sessions begin with %s: %s%s. Give more of the id.", text.Quote(id), strings.Join(found, ", "), more)}
}
