package keys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// maxFile is how many bytes a file with a key may have.
const maxFile = 64 << 10

// Entry is a key in the store, without the key.
type Entry struct {
	Name      string // of the account
	Encrypted bool
	Path      string
	Modified  time.Time
}

// Get returns the key of an account, "" if there is none. A file or directory
// that others can use is an error which says how to repair it.
func (s *Store) Get(ctx context.Context, name string) (key string, err error) {
	key, _, err = s.find(ctx, name)
	return key, err
}

// find is Get, and says where the key lies.
func (s *Store) find(ctx context.Context, name string) (key, path string, err error) {
	if err := checkName(name); err != nil {
		return "", "", err
	}
	root, err := s.open()
	if root == nil {
		return "", s.dir, err
	}
	defer root.Close()
	var data []byte
	var file string
	for range 3 { // a key that is being set may change its form under our eyes
		if file = current(root, name); file == "" {
			continue
		}
		if data, err = s.read(root, file); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if file == "" {
		return "", "", nil
	}
	path = s.path(file)
	if err != nil {
		return "", path, fmt.Errorf("cannot read %s: %w", path, err)
	}
	if strings.HasSuffix(file, sealed) {
		if data, err = s.creds.unseal(ctx, name, data); err != nil {
			return "", path, fmt.Errorf("cannot decrypt %s: %w; set the key again with: zino auth set %s", path, err, name)
		}
	}
	key, err = clean(data, path)
	return key, path, err
}

// clean is Clean for what was read at path.
func clean(data []byte, path string) (string, error) {
	key, err := Clean(string(data))
	if err != nil {
		return "", fmt.Errorf("%s holds no key: %w", path, err)
	}
	return key, nil
}

// current is the file that holds the key of an account now, "" if there is
// none. Both forms are there for a moment while one takes the other's place,
// and after a crash in that moment: the newer one counts.
func current(root *os.Root, name string) string {
	plain, plainErr := root.Lstat(name)
	cred, credErr := root.Lstat(name + sealed)
	switch {
	case credErr == nil && (plainErr != nil || !plain.ModTime().After(cred.ModTime())):
		return name + sealed
	case plainErr == nil:
		return name
	}
	return ""
}

// read reads a file of the store. Links do not lead out of it, and nothing but
// a file that is the owner's alone is read.
func (s *Store) read(root *os.Root, name string) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && exposed(info) {
		err = fmt.Errorf("it is open to other users: chmod 600 %s", s.path(name))
	}
	if err != nil {
		return nil, err
	}
	return readAll(f)
}

// readAll reads a regular file of at most maxFile bytes.
func readAll(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	return data, err
}

// readFile is readAll for a path that was configured: a file that others can
// read, too, for that is how containers are handed their secrets.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not block
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := readAll(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// List returns what is in the store, by name. It decrypts nothing.
func (s *Store) List() ([]Entry, error) {
	root, err := s.open()
	if root == nil {
		return nil, err
	}
	defer root.Close()
	files, err := s.names(root)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, file := range files {
		if name := strings.TrimSuffix(file, sealed); checkName(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var list []Entry
	for _, name := range slices.Compact(names) {
		file := current(root, name)
		info, err := root.Lstat(file)
		if err != nil {
			continue // removed just now
		}
		list = append(list, Entry{name, strings.HasSuffix(file, sealed), s.path(file), info.ModTime()})
	}
	return list, nil
}

// names lists the directory.
func (s *Store) names(root *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("cannot list %s: %w", s.dir, err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// Stamp changes when a key is set or removed, by whatever program, and when
// the rights of a file change. It reads no file: whoever uses a key may ask
// for the stamp each time and for the key only when that is another one.
func (s *Store) Stamp() string {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, name := range append([]fs.DirEntry{nil}, entries...) {
		path := s.dir
		if name != nil {
			path = filepath.Join(s.dir, name.Name())
		}
		var st syscall.Stat_t
		if err := syscall.Lstat(path, &st); err != nil {
			continue // removed just now: the directory tells
		}
		fmt.Fprintf(&b, "%x.%x.%x.%x ", st.Ino, st.Size, st.Ctim.Sec, st.Ctim.Nsec)
	}
	return b.String()
}
