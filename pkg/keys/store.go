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

	"zino/pkg/durable"
)

// sealed is the extension of files that systemd-creds encrypted.
const sealed = ".cred"

// Store stores keys in a directory of mode 0700, with a file of mode 0600 for each
// account: NAME.cred if it is encrypted, else NAME. It keeps no key in memory and
// may be used concurrently, also by several processes.
type Store struct {
	dir   string
	creds creds
}

// Open returns the store in dir, an absolute path such as <base>/keys. It
// does not access it: the first key makes the directory.
func Open(dir string) *Store {
	return &Store{dir, creds{user: os.Geteuid() != 0, timeout: 5 * time.Second}}
}

// OpenUser returns the user's store, below Base.
func OpenUser(getenv func(string) string) (*Store, error) {
	base, err := Base(getenv)
	if err != nil {
		return nil, err
	}
	return Open(filepath.Join(base, "keys")), nil
}

// Dir returns the store's directory, which may not exist.
func (s *Store) Dir() string { return s.dir }

// Set stores a key and replaces an earlier one. It returns the place and form, for a
// sentence that begins "the key is kept": "encrypted with systemd-creds in PATH" or
// "in PATH, readable by you only, not encrypted (REASON)".
func (s *Store) Set(ctx context.Context, name, key string) (how string, err error) {
	if key, err = checked(name, key); err != nil {
		return "", err
	}
	root, err := s.make()
	if err != nil {
		return "", err
	}
	defer root.Close()
	data, reason := s.creds.seal(ctx, name, key)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	file, other := name+sealed, name
	how = "encrypted with systemd-creds in " + s.path(file)
	if reason != nil {
		file, other, data = name, name+sealed, []byte(key+"\n")
		how = fmt.Sprintf("in %s, readable by you only, not encrypted (%v)", s.path(file), reason)
	}
	if err := s.put(root, file, other, data); err != nil {
		return "", err
	}
	return how, nil
}

// checked checks the name of an account and cleans a key to store.
func checked(name, key string) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	key, err := Clean(key)
	if err != nil {
		return "", fmt.Errorf("invalid key: %w", err)
	}
	if key == "" {
		return "", errors.New("the key is empty")
	}
	return key, nil
}

// put writes a file and removes the other form of it.
func (s *Store) put(root *os.Root, name, other string, data []byte) error {
	if err := durable.Replace(root, name, data); err != nil {
		return fmt.Errorf("cannot write %s: %w", s.path(name), err)
	}
	_, err := s.remove(root, other)
	return err
}

// Delete removes the key of an account, and what interrupted writes left of one. It
// reports whether it found any.
func (s *Store) Delete(name string) (found bool, err error) {
	if err := checkName(name); err != nil {
		return false, err
	}
	root, err := s.open()
	if root == nil {
		return false, err
	}
	defer root.Close()
	names, err := s.names(root)
	if err != nil {
		return false, err
	}
	for _, file := range names {
		if file != name && file != name+sealed && !leftover(file, name) {
			continue
		}
		removed, removeErr := s.remove(root, file)
		found, err = found || removed, errors.Join(err, removeErr)
	}
	return found, errors.Join(err, durable.SyncDir(root))
}

// leftover reports whether file was left by an interrupted write of name's key: a
// dot, the name and a random number.
func leftover(file, name string) bool {
	rest, ok := strings.CutPrefix(file, "."+name)
	return ok && strings.Trim(strings.TrimPrefix(rest, sealed), "0123456789") == ""
}

func (s *Store) remove(root *os.Root, name string) (bool, error) {
	err := root.Remove(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("cannot remove %s: %w", s.path(name), err)
	}
	return err == nil, nil
}

// make is open for a directory that may not exist.
func (s *Store) make() (*os.Root, error) {
	if err := os.MkdirAll(s.dir, durable.DirMode); err != nil {
		return nil, fmt.Errorf("cannot make the directory for keys: %w", err)
	}
	root, err := s.open()
	if root == nil && err == nil {
		err = fmt.Errorf("%s was removed just now: try again", s.dir)
	}
	return root, err
}

// open opens the directory, nil if it does not exist. A directory that other users can
// use is an error.
func (s *Store) open() (*os.Root, error) {
	root, err := os.OpenRoot(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open the directory of keys: %w", err)
	}
	info, err := root.Stat(".")
	if err == nil && exposed(info) {
		err = fmt.Errorf("%s, where keys are kept, is open to other users: chmod 700 %s", s.dir, s.dir)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

// checkName checks that an account's name is a plain file name.
func checkName(name string) error {
	if name == "" || len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("no account can be called %q: small letters, digits and hyphens", name)
	}
	return nil
}

// maxFile limits the size of a file with a key.
const maxFile = 64 << 10

// Entry is a key in the store, without the key.
type Entry struct {
	Name      string // of the account
	Encrypted bool
	Path      string
	Modified  time.Time
}

// Get returns the key of an account, "" if the store has no key of it. A file or directory that
// other users can use is an error, which says how to repair it.
func (s *Store) Get(ctx context.Context, name string) (key string, err error) {
	key, _, err = s.find(ctx, name)
	return key, err
}

// find is Get, and returns the path as well.
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
	for range 3 { // a key that is being set may change its form meanwhile
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

// clean is Clean with the path in the error.
func clean(data []byte, path string) (string, error) {
	key, err := Clean(string(data))
	if err != nil {
		return "", fmt.Errorf("%s contains no valid key: %w", path, err)
	}
	return key, nil
}

// current returns the name of the file with the key of an account, "" without a
// file. Both forms exist for a moment while one replaces the other, and after a
// crash in that moment: the newer one counts.
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

// read reads a file of the store. It follows no links out of it, and reads only
// regular files that no other user has rights to.
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

// readFile is readAll for a configured path. Other users may have rights to the
// file: containers get their secrets that way.
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

// List lists the keys in the store by name. It does not decrypt them.
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

// Stamp changes when any program sets or removes a key, and when the rights of a
// file change. It reads no file: a user of a key can check the stamp each time, and
// look up the key again only if it has changed.
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
			continue // removed just now: the directory has changed, too
		}
		fmt.Fprintf(&b, "%x.%x.%x.%x ", st.Ino, st.Size, st.Ctim.Sec, st.Ctim.Nsec)
	}
	return b.String()
}
