package keys

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"zino/pkg/durable"
)

// sealed ends the name of a file that systemd-creds encrypted.
const sealed = ".cred"

// Store keeps keys in a directory of mode 0700, a file of mode 0600 for each
// account: NAME.cred if it is encrypted, else NAME. It holds no key in memory
// and may be used concurrently, by several processes too.
type Store struct {
	dir   string
	creds creds
}

// Open returns the store in dir, an absolute path such as <base>/keys. It
// touches nothing yet: the first key makes the directory.
func Open(dir string) *Store {
	return &Store{dir, creds{user: os.Geteuid() != 0, patience: 5 * time.Second}}
}

// OpenUser returns the user's store, below Base.
func OpenUser(getenv func(string) string) (*Store, error) {
	base, err := Base(getenv)
	if err != nil {
		return nil, err
	}
	return Open(filepath.Join(base, "keys")), nil
}

// Dir is the store's directory. It need not be there.
func (s *Store) Dir() string { return s.dir }

// Set keeps a key, in the place of the one that is there. It returns where and
// in what form, in words that follow "the key is kept": "encrypted with
// systemd-creds in PATH" or "in PATH, readable by you only, not encrypted
// (REASON)".
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

// checked is Clean for a key that is to be kept under a name.
func checked(name, key string) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	key, err := Clean(key)
	if err != nil {
		return "", fmt.Errorf("this is no key: %w", err)
	}
	if key == "" {
		return "", errors.New("there is no key to keep: it is empty")
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

// Delete removes the key of an account, with whatever a write that was broken
// off left of one. It reports whether there was something.
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

// leftover reports whether file is what a write of name's key that was broken
// off left behind: a dot, the name and a random number.
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

// make is open for a directory that may have to be made.
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

// open opens the directory, nil if there is none. What others can use keeps no
// secret.
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

// checkName refuses what is no plain file name of its own.
func checkName(name string) error {
	if name == "" || len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("no account can be called %q: small letters, digits and hyphens", name)
	}
	return nil
}
