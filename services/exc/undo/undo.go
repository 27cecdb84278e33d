// Package undo records the file changes of turns, and takes them back.
//
// A Store has three kinds of files below its directory:
//
//	objects/aa/SHA256        the content of a file (an image)
//	index/ROOT               what the last scan of a root found
//	turns/SESSION/TURN.jsonl the changes of a turn, one a line (Change)
//	turns/SESSION/undo-N.json  an undo: its plan, and what a redo takes back
//
// Changes are found in two ways. The tools write and edit name their file
// (BeforeFile). For a command the root is scanned before and after it (Before,
// After): a scan reads names and stat, and the content only of files that differ
// from the index. Files that are as the index of their git repository says need no
// image: git has their content.
//
// Undo checks all paths before it changes one, follows no symbolic link, and
// removes only what a turn created. An undo that was cut off is finished by Recover.
package undo

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"zino/pkg/config"
	"zino/pkg/durable"
	"zino/proto"
)

// FileMax is the size in bytes of the largest file whose changes by write and edit
// are recorded.
const FileMax = 64 << 20

// TooLarge is the reason why the change of a file above FileMax is not recorded.
const TooLarge = "too_large"

// scansMax is how many scans of a root may reach a limit before the root is left
// alone for the session.
const scansMax = 3

// remembered bounds the entries of the maps of a Store.
const remembered = 4096

// At says where a change is made, and in which turn.
type At struct {
	Root    string // absolute; symbolic links in it are resolved
	Session string
	Turn    string
}

// By says what makes a change.
type By struct {
	Tool string         // such as "bash"
	Call string         // the call's key
	Late bool           // by a command that went on after its result
	Made func([]Change) // gets the changes, also those that cannot be recorded; nil: no function

	again bool // an earlier process may have recorded its changes
}

// Store keeps the changes of turns in a directory. It is safe for concurrent use,
// and other processes may use the same directory.
type Store struct {
	dir     string
	cfg     config.Undo
	log     *slog.Logger
	objects objects

	mu      sync.Mutex
	own     []string         // directories that no scan enters
	strikes map[string]reach // by session and root
	noticed map[string]bool  // turns whose notice was sent

	collecting sync.Mutex
	at         func(point string) // called between the steps of an undo, by tests
}

// reach is how often scans of a root have reached a limit, and the last reason.
type reach struct {
	n   int
	why string
}

// Open makes a Store in dir, which is created if it is missing.
func Open(dir string, cfg config.Undo, log *slog.Logger) (*Store, error) {
	s := &Store{
		dir: dir, cfg: cfg, log: log, strikes: map[string]reach{}, noticed: map[string]bool{}, at: func(string) {},
	}
	s.objects = objects{dir: filepath.Join(dir, "objects"), exclude: new(sync.RWMutex), added: s.added()}
	for _, sub := range []string{s.objects.dir, s.indexDir(), s.turnsDir()} {
		if err := os.MkdirAll(sub, durable.DirMode); err != nil {
			return nil, err
		}
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	s.own = []string{real}
	return s, nil
}

func (s *Store) indexDir() string { return filepath.Join(s.dir, "index") }
func (s *Store) turnsDir() string { return filepath.Join(s.dir, "turns") }

// Exclude names directories of Zino's own data, whether they exist or not: scans
// leave them out.
func (s *Store) Exclude(paths ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, path := range paths {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		if filepath.IsAbs(path) {
			s.own = append(s.own, path)
		}
	}
}

// ownBelow returns the excluded directories below root, relative to it.
func (s *Store) ownBelow(root string) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	below := map[string]bool{}
	for _, path := range s.own {
		if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
			below[rel] = true
		}
	}
	return below
}

// covered reports whether changes at a place are recorded.
func (s *Store) covered(at At) bool {
	return s != nil && s.cfg.Enabled && at.Root != "" && at.Turn != "" && at.check() == nil && supported() == nil
}

// check checks the names that become names of files.
func (at At) check() error {
	if err := proto.CheckSessionID(at.Session); err != nil {
		return err
	}
	return checkTurn(at.Turn)
}

// checkTurn checks the id of a turn.
func checkTurn(id string) error {
	rest, ok := strings.CutPrefix(id, "t-")
	if !ok || rest == "" || len(rest) > 64 || strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return proto.Errorf(proto.CodeInvalid, "invalid turn %.80q: want t- and letters and digits", id)
	}
	return nil
}

// supported is the error of a kernel without openat2(2).
var supported = sync.OnceValue(func() error {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return proto.Errorf(proto.CodeUnavailable, "undo is not available: it needs Linux 5.6 or later, whose openat2 follows no symbolic links (%v)", err)
	}
	return unix.Close(fd)
})

// problem is the error of undo where it is switched off or impossible.
func (s *Store) problem() error {
	if s == nil || !s.cfg.Enabled {
		return proto.Errorf(proto.CodeUnavailable, "undo is switched off: [undo] enabled is false")
	}
	return supported()
}

// limited counts a scan that reached a limit.
func (s *Store) limited(at At, root, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.strikes) > remembered {
		clear(s.strikes)
	}
	key := at.Session + "\x00" + root
	s.strikes[key] = reach{s.strikes[key].n + 1, why}
}

// leftAlone returns why a root is not scanned any more in a session, or "".
func (s *Store) leftAlone(at At, root string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.strikes[at.Session+"\x00"+root]; r.n >= scansMax {
		return r.why
	}
	return ""
}

// FirstNotice reports whether no notice was sent in the turn yet, and counts this
// one.
func (s *Store) FirstNotice(at At) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := at.Session + "\x00" + at.Turn
	if s.noticed[key] {
		return false
	}
	if len(s.noticed) > remembered {
		clear(s.noticed)
	}
	s.noticed[key] = true
	return true
}

// uncovered is the text of a notice about a root.
func uncovered(format string, args ...any) string {
	return "undo does not cover shell commands here: " + fmt.Sprintf(format, args...)
}

// bytesText is a size for people.
func bytesText(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size && n%unit.size == 0 {
			return fmt.Sprintf("%d %s", n/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// errorIs reports whether err is one of the errors of the system.
func errorIs(err error, errnos ...unix.Errno) bool {
	return slices.ContainsFunc(errnos, func(e unix.Errno) bool { return errors.Is(err, e) })
}

// closeAll closes files that need no flush.
func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
