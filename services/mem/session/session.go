// Package session keeps the sessions of the terminal agent. A session is a file
// ID.jsonl of events, one JSON object a line, that only grows:
//
//	{"type":"meta","schema_version":1,"ts":"2026-11-21T14:03:07Z"}
//	{"type":"message","role":"user","text":"hello","ts":"…"}
//	{"type":"message","role":"assistant","text":"so","partial":true,"ts":"…"}
//	{"type":"tool_use","id":"1","name":"read","input":{"path":"a"},"ts":"…"}
//	{"type":"tool_result","tool_use_id":"1","output":{"ok":true},"ok":true,"ts":"…"}
//	{"type":"interrupted","role":"system","text":"Interrupted","ts":"…"}
//
// A file without a first line of type meta has schema 1. Other types and keys
// are kept and served. The files are for people and other programs too: they
// may be edited, copied in and taken away at any time.
//
// Several processes may share the directory. An append is one write under a
// lock on the file, and is answered when it is on disk. A turn holds another
// lock for as long as it lasts, for which a file ID.lock stands: so turns on
// one session follow each other, and whoever holds it may take every call
// without a result for one whose turn has died.
//
// .index.json holds what lists show of each file as it was when it was last
// looked at, so that a list need not read them. It may be deleted.
package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"zino/pkg/durable"
	"zino/proto"
)

const (
	fileEnd = ".jsonl"
	lockEnd = ".lock"
	schema  = 1 // the version that this package writes, and the highest it knows
)

// Options of a Store.
type Options struct {
	// NoSync answers an append when the kernel has it: it then survives the
	// process, but not a power failure.
	NoSync bool
	// Report, if set, is told what was done to a file that was not whole.
	Report func(durable.Event)
	// Skipped, if set, is told how many lines of a file that was read are no
	// events; 0 if all of them are.
	Skipped func(file string, lines int)
	// Damaged, if set, is called with the number of events in a file that no model
	// is sent, since what makes them messages, calls or results is damaged.
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
	stale   bool              // the index lacks something of them
	held    map[string]bool   // by id: sessions that are locked here
}

// New returns the sessions in root, which the store closes in the end.
func New(root *os.Root, opt Options) *Store {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Store{root: root, opt: opt, room: readRoom, part: exportRoom, held: map[string]bool{}}
}

// Close closes the directory. Everything that was answered is on disk before.
func (s *Store) Close() error { return s.root.Close() }

// lines is the file of a session whose id has been checked.
func (s *Store) lines(id string) *durable.File {
	return durable.New(s.root, id+fileEnd, durable.Options{NoSync: s.opt.NoSync, Report: s.opt.Report})
}

// now is the time as events have it.
func (s *Store) now() string { return stamp(s.opt.Now()) }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// invalid is an error that the caller can mend.
func invalid(format string, args ...any) error {
	return &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

func unknown(id string) error {
	return &proto.Error{Code: proto.CodeNotFound, Kind: "session", Message: fmt.Sprintf("There is no session %s. See zino sessions list.", quote(id))}
}

// wrong words an error about a session's file: the session, the file, the cause,
// and what to do about it.
func (s *Store) wrong(id string, err error) error {
	if _, worded := errors.AsType[*proto.Error](err); worded || err == nil {
		return err
	}
	if errors.Is(err, durable.ErrPlace) {
		return invalid("session %s: %v: take one that read_session told", quote(id), err)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return unknown(id)
	}
	cause := err
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		cause = path.Err
	}
	text := fmt.Sprintf("session %s: %s: %v%s", quote(id), s.path(id), cause, durable.Remedy(err))
	return &fileError{strings.ReplaceAll(text, "\n", "; "), err}
}

// path is where a session's file lies, for people.
func (s *Store) path(id string) string { return filepath.Join(s.root.Name(), id+fileEnd) }

type fileError struct {
	text  string
	cause error
}

func (e *fileError) Error() string { return e.text }
func (e *fileError) Unwrap() error { return e.cause }
