package trust

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"zino/pkg/catalog/skill/folders"
	"zino/pkg/durable"
	"zino/proto"
)

// FileName is the name of the store.
const FileName = "trust.json"

const (
	storeMax    = 8 << 20 // bytes of the file
	answersMax  = 20      // answers that are kept for a path, the latest ones
	lockTimeout = 5 * time.Second
)

// Store holds the answers of a person about files of projects, by path and hash.
type Store struct {
	dir  string
	now  func() time.Time
	sums folders.Sums // of the files of skills
}

var errNoDir = errors.New("no file of a project can be trusted: there is no directory for " + FileName + ", set HOME")

// NewStore returns the store in a directory, which is made when an answer is stored. Without
// a directory its methods fail.
func NewStore(dir string) *Store { return &Store{dir: dir, now: time.Now} }

// answer is an entry of the file.
type answer struct {
	Path    string    `json:"path"`
	SHA256  string    `json:"sha256"`
	Trusted bool      `json:"trusted"`
	Time    time.Time `json:"time"`
}

type storeFile struct {
	Version int      `json:"version"`
	Entries []answer `json:"entries"`
}

// parseStore reads the file. Unlike in the files of projects a mistake makes all of it
// invalid: nothing is trusted until a person has looked at it.
func parseStore(data []byte) ([]answer, error) {
	var file storeFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind the object")
	}
	if file.Version != 1 {
		return nil, fmt.Errorf("version %d is not known", file.Version)
	}
	for _, a := range file.Entries {
		if sum, err := hex.DecodeString(a.SHA256); err != nil || len(sum) != 32 || !filepath.IsAbs(a.Path) {
			return nil, fmt.Errorf("invalid entry for %.200q", a.Path)
		}
	}
	return file.Entries, nil
}

// read reads the file. One that other users can write to is an error.
func (s *Store) read() ([]answer, error) {
	if s.dir == "" {
		return nil, errNoDir
	}
	path := filepath.Join(s.dir, FileName)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if uid := int(info.Sys().(*syscall.Stat_t).Uid); !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 || uid != os.Geteuid() {
		return nil, fmt.Errorf("%s must be a file that only its owner, uid %d, can write to: chmod 600 it", path, os.Geteuid())
	}
	data, err := io.ReadAll(io.LimitReader(f, storeMax+1))
	if err == nil && len(data) > storeMax {
		err = fmt.Errorf("it is larger than %d bytes", storeMax)
	}
	var list []answer
	if err == nil {
		list, err = parseStore(data)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: repair it, or remove it and answer again", path, err)
	}
	return list, nil
}

// state returns the state of a file among the answers.
func state(list []answer, path, sum string) string {
	now := proto.TrustNew
	for _, a := range list {
		switch {
		case a.Path != path:
		case a.SHA256 == sum && a.Trusted:
			return proto.TrustTrusted
		case a.SHA256 == sum:
			return proto.TrustRefused
		default:
			now = proto.TrustChanged
		}
	}
	return now
}

// set stores an answer about a path, in place of that for the same hash. Without trusted it
// removes all answers about the path.
func (s *Store) set(path, sum string, trusted *bool) error {
	if s.dir == "" {
		return errNoDir
	}
	if err := os.MkdirAll(s.dir, durable.DirMode); err != nil {
		return err
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	lock, err := durable.AwaitLockFile(ctx, root, "."+FileName+".lock", func() error { return nil })
	if err != nil {
		return err
	}
	list, err := s.read()
	if err == nil {
		list = slices.DeleteFunc(list, func(a answer) bool { return a.Path == path && (trusted == nil || a.SHA256 == sum) })
		if trusted != nil {
			list = append(list, answer{path, sum, *trusted, s.now().UTC().Truncate(time.Second)})
		}
		list = latest(list, path)
		var data []byte
		if data, err = json.MarshalIndent(storeFile{1, list}, "", " "); err == nil {
			err = durable.Replace(root, FileName, append(data, '\n'))
		}
	}
	return errors.Join(err, lock.Unlock())
}

// latest drops the first answers about a path beyond answersMax.
func latest(list []answer, path string) []answer {
	of := 0
	for _, a := range list {
		if a.Path == path {
			of++
		}
	}
	return slices.DeleteFunc(list, func(a answer) bool {
		if a.Path != path || of <= answersMax {
			return false
		}
		of--
		return true
	})
}
