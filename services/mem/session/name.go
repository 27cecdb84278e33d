package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"zino/proto"
)

const (
	idMax = 200 // bytes of an id
	named = 4   // candidates that an ambiguous beginning is answered with
)

// newID makes a UUID of version 4.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// checkID holds that an id is a file's name and nothing else, and can be typed
// after a flag.
func checkID(id string) error {
	if !isID(id) {
		return invalid("%s is no name for a session: it may have letters, digits, '.', '_' and '-', begins with a letter, a digit or '_', and is at most %d bytes long", quote(id), idMax)
	}
	return nil
}

func isID(id string) bool {
	if id == "" || len(id) > idMax || !utf8.ValidString(id) || id[0] == '.' || id[0] == '-' {
		return false
	}
	for _, r := range id {
		if r != '.' && r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			return false
		}
	}
	return true
}

// quote is an id as it stands in errors, shortened if it is very long.
func quote(id string) string {
	const limit = 80
	if len(id) <= limit {
		return fmt.Sprintf("%q", id)
	}
	return fmt.Sprintf("%q…", strings.ToValidUTF8(id[:limit], ""))
}

// entry is a session's file in the directory.
type entry struct {
	id   string
	info fs.FileInfo
}

func (e entry) updated() time.Time { return e.info.ModTime() }

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
			return nil, s.wrong(id, err)
		}
		if info.Mode().IsRegular() {
			list = append(list, entry{id, info})
		}
	}
	slices.SortFunc(list, func(a, b entry) int {
		return cmp.Or(b.updated().Compare(a.updated()), cmp.Compare(a.id, b.id))
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
		if id, ok := strings.CutSuffix(name, fileEnd); ok && isID(id) {
			ids = append(ids, id)
		}
	}
	if closed := dir.Close(); err == nil {
		err = closed
	}
	return ids, err
}

// resolve finds the session that an id or its beginning names.
func (s *Store) resolve(id string) (string, error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	if _, err := s.root.Lstat(id + fileEnd); !errors.Is(err, fs.ErrNotExist) {
		return id, s.wrong(id, err)
	}
	ids, err := s.ids()
	if err != nil {
		return "", s.wrong(id, err)
	}
	found := slices.DeleteFunc(ids, func(other string) bool { return !strings.HasPrefix(other, id) })
	switch len(found) {
	case 0:
		return "", unknown(id)
	case 1:
		return found[0], nil
	}
	return "", ambiguous(id, found)
}

func ambiguous(id string, found []string) error {
	slices.Sort(found)
	more := ""
	if n := len(found) - named; n > 0 {
		found, more = found[:named], fmt.Sprintf(" and %d more", n)
	}
	return &proto.Error{Code: proto.CodeInvalid, Kind: "session", Message: fmt.Sprintf("Several sessions begin with %s: %s%s. Give more of the id.", quote(id), strings.Join(found, ", "), more)}
}
