package undo

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"zino/pkg/durable"
	"zino/proto"
)

// Kinds of what a path is.
const (
	kindFile    = "file"
	kindSymlink = "symlink"
	kindDir     = "dir"
)

// State is what a path is at some time.
type State struct {
	Kind   string `json:"kind"`
	SHA256 string `json:"sha256,omitempty"` // of a file's content; empty: not covered
	Blob   string `json:"blob,omitempty"`   // the git object that is the image
	Git    string `json:"git,omitempty"`    // the directory of its repository
	Text   string `json:"text,omitempty"`   // of a symbolic link
	Mode   uint32 `json:"mode"`             // permissions, with the set-user-ID, set-group-ID and sticky bits
	UID    uint32 `json:"uid"`
	GID    uint32 `json:"gid"`
}

// Change is a line of a turn's record: a path that the turn changed.
type Change struct {
	Root   string `json:"root,omitempty"` // absolute; empty: the path is absolute
	Path   string `json:"path"`
	Kind   string `json:"kind"`   // after the change, or before a deletion
	Before *State `json:"before"` // nil: it did not exist
	After  *State `json:"after"`  // nil: it was deleted
	By     string `json:"by,omitempty"`
	Call   string `json:"call,omitempty"`
	Late   bool   `json:"late,omitempty"` // after the result of its call
	Why    string `json:"why,omitempty"`  // why it is not covered: Path, or the text of a link, is escaped; empty: it is
	TS     string `json:"ts,omitempty"`
}

// timeFormat is RFC 3339 with a fixed width: the texts are in the order of time.
const timeFormat = "2006-01-02T15:04:05.000000000Z07:00"

// newChange makes a Change.
func newChange(root, path string, before, after *State, by By) Change {
	c := Change{Root: root, Path: path, Before: before, After: after, By: by.Tool, Call: by.Call, Late: by.Late, TS: time.Now().UTC().Format(timeFormat)}
	c.Kind = cmp.Or(after, before).Kind
	if !utf8.ValidString(path) {
		c.Path, c.Why = escaped(path), "its name is not UTF-8"
	}
	for _, state := range []*State{before, after} {
		if state != nil && !utf8.ValidString(state.Text) {
			state.Text, c.Why = escaped(state.Text), cmp.Or(c.Why, "the text of the link is not UTF-8")
		}
	}
	return c
}

// escaped writes the bytes of a name that are not UTF-8 as git does: \351. Records are
// JSON.
func escaped(name string) string {
	var b strings.Builder
	for i, r := range name {
		if _, size := utf8.DecodeRuneInString(name[i:]); r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, `\%03o`, name[i])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// check checks a Change that was read from a file.
func (c Change) check() error {
	clean := c.Path != "" && !strings.ContainsRune(c.Path, 0) && utf8.ValidString(c.Path) && filepath.Clean(c.Path) == c.Path
	switch {
	case !clean, c.Root == "" && (!filepath.IsAbs(c.Path) || c.Path == "/"), c.Root != "" && (!filepath.IsLocal(c.Path) || c.Path == "."):
		return fmt.Errorf("invalid path %.200q", c.Path)
	case c.Root != "" && (!filepath.IsAbs(c.Root) || filepath.Clean(c.Root) != c.Root || strings.ContainsRune(c.Root, 0)):
		return fmt.Errorf("invalid root %.200q", c.Root)
	case c.Before == nil && c.After == nil:
		return fmt.Errorf("no change of %.200q", c.Path)
	}
	return errors.Join(c.Before.check(), c.After.check())
}

// check checks a State that was read from a file.
func (s *State) check() error {
	if s == nil {
		return nil
	}
	switch {
	case s.Kind != kindFile && s.Kind != kindSymlink && s.Kind != kindDir:
		return fmt.Errorf("invalid kind %.80q", s.Kind)
	case s.Mode&^0o7777 != 0:
		return fmt.Errorf("invalid mode %o", s.Mode)
	case s.SHA256 != "" && !isHex(s.SHA256, 64), s.Blob != "" && !isHex(s.Blob, 40) && !isHex(s.Blob, 64):
		return fmt.Errorf("invalid hash %.80q", s.SHA256+s.Blob)
	case s.Git != "" && !filepath.IsAbs(s.Git), strings.ContainsRune(s.Git, 0), s.Blob != "" && s.Git == "":
		return fmt.Errorf("invalid repository %.200q", s.Git)
	case s.Kind == kindSymlink && (s.Text == "" || strings.ContainsRune(s.Text, 0)):
		return fmt.Errorf("invalid link %.200q", s.Text)
	}
	return nil
}

func isHex(s string, length int) bool {
	return len(s) == length && strings.Trim(s, "0123456789abcdef") == ""
}

// same reports whether two states are equal for undo. Where the images are does not
// matter. Two files that are not covered are never equal.
func (s *State) same(other *State) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.sameContent(other) && s.Mode == other.Mode && s.UID == other.UID && s.GID == other.GID
}

func (s *State) sameContent(other *State) bool {
	return s.Kind == other.Kind && s.Text == other.Text && s.SHA256 == other.SHA256 && (s.Kind != kindFile || s.SHA256 != "")
}

// id identifies the path of a change over all roots.
func (c Change) id() string {
	switch {
	case c.Why != "": // another file may have the escaped name
		return filepath.Join(c.Root, c.Path) + "\x00"
	case c.Root == "":
		return c.Path
	}
	return filepath.Join(c.Root, c.Path)
}

// repeats reports whether o is the same change by the same call.
func (c Change) repeats(o Change) bool {
	return c.Call == o.Call && c.id() == o.id() && c.Before.same(o.Before) && c.After.same(o.After)
}

// record is what a turn has changed.
type record struct {
	turn    string
	changes []Change
}

// parseRecord reads the lines of a record. Lines that are damaged or of a newer
// version are left out, and reported.
func parseRecord(data []byte) (changes []Change, problems []error) {
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		var c Change
		err := json.Unmarshal([]byte(line), &c)
		if err == nil {
			err = c.check()
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		changes = append(changes, c)
	}
	return changes, problems
}

const recordSuffix = ".jsonl"

func (s *Store) sessionDir(session string) string { return filepath.Join(s.turnsDir(), session) }

// append adds changes to the record of a turn, with their images, and returns when
// they are on disk.
func (s *Store) append(at At, changes []Change, by By) error {
	if by.again {
		recorded, err := os.ReadFile(filepath.Join(s.sessionDir(at.Session), at.Turn+recordSuffix))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		list, _ := parseRecord(recorded) // records reports what is damaged
		changes = slices.DeleteFunc(changes, func(c Change) bool { return slices.ContainsFunc(list, c.repeats) })
	}
	if len(changes) == 0 {
		return nil
	}
	if by.Made != nil {
		by.Made(changes)
	}
	sums, lines := map[string]bool{}, make([][]byte, 0, len(changes))
	for _, c := range changes {
		for _, state := range []*State{c.Before, c.After} {
			if state != nil && state.SHA256 != "" && state.Blob == "" {
				sums[state.SHA256] = true
			}
		}
		line, err := json.Marshal(c)
		if err != nil {
			return err
		}
		lines = append(lines, line)
	}
	if err := s.objects.sync(sums); err != nil {
		return err
	}
	dir, err := s.openSession(at.Session, true)
	if err != nil {
		return err
	}
	defer dir.Close()
	return durable.New(dir, at.Turn+recordSuffix, durable.Options{Framing: durable.Lines}).Append(lines)
}

// openSession opens the directory of a session's records.
func (s *Store) openSession(session string, create bool) (*os.Root, error) {
	if err := proto.CheckSessionID(session); err != nil {
		return nil, err
	}
	dir := s.sessionDir(session)
	if create {
		if err := os.Mkdir(dir, durable.DirMode); err == nil {
			if err := syncPath(s.turnsDir()); err != nil {
				return nil, err
			}
		} else if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return os.OpenRoot(dir)
}

func syncPath(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return durable.SyncDir(root)
}

// records reads what is known of a session: the turns with changes, the first one
// first, and the undos in their order. Damaged lines are logged.
func (s *Store) records(session string) (turns []record, plans []plan, err error) {
	dir, err := s.openSession(session, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		turn, isTurn := strings.CutSuffix(e.Name(), recordSuffix)
		n, isPlan := planNumber(e.Name())
		switch {
		case isTurn && checkTurn(turn) == nil:
			data, err := dir.ReadFile(e.Name())
			if err != nil {
				return nil, nil, err
			}
			changes, problems := parseRecord(data)
			for _, problem := range problems {
				s.log.Warn("undo: a damaged line of a turn's record is left out", "session", session, "turn", turn, "error", problem)
			}
			if len(changes) > 0 {
				turns = append(turns, record{turn, changes})
			}
		case isPlan:
			data, err := dir.ReadFile(e.Name())
			if err != nil {
				return nil, nil, err
			}
			p, err := parsePlan(data)
			if err != nil {
				s.log.Warn("undo: a damaged plan is left out", "session", session, "file", e.Name(), "error", err)
				continue
			}
			p.n = n
			plans = append(plans, p)
		}
	}
	slices.SortFunc(turns, func(a, b record) int {
		return cmp.Or(strings.Compare(a.changes[0].TS, b.changes[0].TS), strings.Compare(a.turn, b.turn))
	})
	slices.SortFunc(plans, func(a, b plan) int { return a.n - b.n })
	return turns, plans, nil
}

// net joins the changes of each path to one, in the order of the paths. gaps are
// the paths that something else changed in between.
func net(changes []Change) (list []Change, gaps map[string]bool) {
	at, gaps := map[string]int{}, map[string]bool{}
	for _, c := range changes {
		id := c.id()
		i, seen := at[id]
		if !seen {
			at[id] = len(list)
			list = append(list, c)
			continue
		}
		if !list[i].After.same(c.Before) {
			gaps[id] = true
		}
		list[i].After, list[i].TS, list[i].Late = c.After, c.TS, list[i].Late || c.Late
	}
	list = slices.DeleteFunc(list, func(c Change) bool { return !gaps[c.id()] && c.Before.same(c.After) })
	for i := range list {
		list[i].Kind = cmp.Or(list[i].After, list[i].Before).Kind
	}
	slices.SortFunc(list, func(a, b Change) int { return strings.Compare(a.id(), b.id()) })
	return list, gaps
}
