package mem

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"zino/pkg/durable"
)

const (
	plainMax = 200 // bytes of a name before .json
	nameMax  = 255 // bytes of a file name on Linux
	headMax  = 100 // bytes of a long id that its name shows
)

// escapedID matches what escape makes of ids that are not plain.
var escapedID = regexp.MustCompile(`^(?:[A-Za-z0-9_-]|%[0-9A-F]{2})*(?:%~.*)?$`)

// channelFile is where the history of a channel lies.
type channelFile struct {
	name   string // the file that an append would use
	legacy string // a file of the earlier layout that bears the id as it is, "" if there can be none
	idFile string // the file that holds the whole id, where the name cannot
}

// fileOf finds the name for an id. Plain ids are their own names. In others
// every byte that is not plain is written as %XX, so that distinct ids have
// distinct names. One that is too long for a name is cut, with a hash and a
// file beside it that holds the whole id; that file decides.
func fileOf(root *os.Root, id string) (channelFile, error) {
	if isPlainID(id) {
		return channelFile{name: id + ".json"}, nil
	}
	f := channelFile{legacy: legacyName(id)}
	if name := escape(id); len(name) <= plainMax {
		f.name = name + ".json"
		return f, nil
	}
	sum := sha256.Sum256([]byte(id))
	base := escape(id[:min(len(id), headMax)])
	base = base[:min(len(base), headMax)] + "%~" + hex.EncodeToString(sum[:])
	for n := 1; ; n++ {
		name := base
		if n > 1 {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		f.name, f.idFile = name+".json", name+".id"
		held, err := root.ReadFile(f.idFile)
		if errors.Is(err, fs.ErrNotExist) || err == nil && string(held) == id {
			return f, nil
		}
		if err != nil {
			return f, err
		}
	}
}

// current is the file that holds the history now: the earlier layout's if only
// that is there.
func (f channelFile) current(root *os.Root) (string, error) {
	if f.legacy == "" {
		return f.name, nil
	}
	for _, name := range []string{f.name, f.legacy} {
		_, err := root.Lstat(name)
		if err == nil {
			return name, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return f.name, err
		}
	}
	return f.name, nil
}

// claim writes the whole id beside a file whose name cannot hold it.
func (f channelFile) claim(root *os.Root, id string) error {
	if f.idFile == "" {
		return nil
	}
	if _, err := root.Lstat(f.idFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.Replace(root, f.idFile, []byte(id))
}

// unclaim removes what claim wrote.
func (f channelFile) unclaim(root *os.Root) error {
	if f.idFile == "" {
		return nil
	}
	if err := root.Remove(f.idFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func escape(id string) string {
	var b strings.Builder
	for i := range len(id) {
		if c := id[i]; isPlain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// isPlainID reports whether an id is its own name.
func isPlainID(id string) bool {
	for i := range len(id) {
		if !isPlain(id[i]) {
			return false
		}
	}
	return len(id) > 0 && len(id) <= plainMax
}

func isPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// legacyName is the file that a program which does not escape would have used
// for id, unless that is no name, or could be another id's.
func legacyName(id string) string {
	name := id + ".json"
	if len(name) > nameMax || strings.ContainsAny(id, "/\x00") || strings.Contains(id, "%") && escapedID.MatchString(id) {
		return ""
	}
	return name
}
