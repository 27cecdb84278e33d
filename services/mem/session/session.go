// Package session stores the sessions of the terminal agent. A session is an
// append-only file ID.jsonl of events, the session log, one JSON object a line:
//
//	{"type":"meta","schema_version":1,"ts":"2026-11-21T14:03:07Z"}
//	{"type":"message","role":"user","text":"hello","ts":"…"}
//	{"type":"message","role":"assistant","text":"so","partial":true,"ts":"…"}
//	{"type":"tool_use","id":"1","name":"read","input":{"path":"a"},"ts":"…"}
//	{"type":"tool_result","tool_use_id":"1","output":{"ok":true},"ok":true,"ts":"…"}
//	{"type":"interrupted","role":"system","text":"Interrupted","ts":"…"}
//
// A file whose first line is not of type meta has schema 1. Other types and keys are
// stored and returned as they are. People and other programs may edit, add and remove
// files at any time.
//
// Several processes may share the directory. An append is one write under a lock
// on the file, and is acknowledged when it is on disk. With at it names the offset at
// which the session must end: a writer notices another one, and can repeat a request
// whose answer was lost. Until its end a turn locks another file, ID.lock: turns on one
// session follow each other. A call without a result belongs to the turn that has the
// lock, to one that crashed, or to one that is parked.
//
// The attachments that messages and results name are the files ID.files/SHA256.
//
// .index.json caches a digest of each file, so that lists do not read the files. It
// may be deleted.
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
	fileEnd  = ".jsonl"
	lockEnd  = ".lock"
	filesEnd = ".files" // the directory of a session's attachments
)

// Options of a Store.
type Options struct {
	// NoSync acknowledges an append after write(2), without fdatasync: it survives
	// the process, but not a power failure.
	NoSync bool
	// Report, if set, is called with every repair of a file.
	Report func(durable.Event)
	// Skipped, if set, is called with the number of lines of a file that are not
	// events; 0 if all of them are.
	Skipped func(file string, lines int)
	// Damaged, if set, is called with the number of events of a file that are left
	// out of the messages, because their type, role or content is damaged.
	Damaged func(file string, events int)
	// Removing, if set, is called before a session's file is removed and again
	// afterwards, to remove what was derived from it.
	Removing func(id string) error
	// Now is the clock, time.Now if nil.
	Now func() time.Time
}

// Store is a directory of sessions. It is safe for concurrent use.
type Store struct {
	root *os.Root
	opt  Options
	room int // maximum bytes of the events in a packet
	part int // maximum bytes of an exported text in a packet

	attaching sync.Mutex // locked while an attachment is stored
	mu        sync.Mutex
	digests   map[string]digest // by id; nil until the index has been read
	stale     bool              // the index file is older than the digests
}

// New returns the sessions in root. Close closes root.
func New(root *os.Root, opt Options) *Store {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Removing == nil {
		opt.Removing = func(string) error { return nil }
	}
	return &Store{root: root, opt: opt, room: readRoom, part: exportRoom}
}

// Close closes the directory. Acknowledged events are on disk already.
func (s *Store) Close() error { return s.root.Close() }

// log returns the file of a session with a valid id.
func (s *Store) log(id string) *durable.File {
	return durable.New(s.root, id+fileEnd, durable.Options{NoSync: s.opt.NoSync, Report: s.opt.Report})
}

// path returns the path of a session's file, for messages.
func (s *Store) path(id string) string { return filepath.Join(s.root.Name(), id+fileEnd) }

// now returns the current time in the format of events.
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

// isGone reports whether err is that of a file that was removed.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, proto.ErrNotFound)
}

// fileError adds the session, the path and the remedy to an error of a session's
// file.
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

// entries returns all sessions, the last changed first.
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

// ids returns the file names in the directory that are ids of sessions.
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

// candidatesMax is the number of candidates in the error of an ambiguous prefix.
const candidatesMax = 4

// resolve returns the id of the session with this id or the only one with this prefix.
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
