package keys

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Source says where a key came from.
type Source struct {
	Kind  string // "credential", "key_file", "environment" or "store"; "" if there is no key
	Place string // a path, or the name of the environment's variable
}

// Lookup looks for the key of an account, in this order: a credential of the
// unit ($CREDENTIALS_DIRECTORY/zino-NAME, /zino.NAME, /VARIABLE or /NAME, the
// first one that is there), keyFile unless that is "", the account's variable in the
// environment, and the store unless that is nil. The key is "" if there is
// none. What is there and cannot be used is an error, and the search ends; the
// source then says where.
func Lookup(ctx context.Context, account Account, keyFile string, getenv func(string) string, store *Store) (key string, from Source, err error) {
	for _, look := range []func() (string, Source, error){
		func() (string, Source, error) { return credential(account, getenv) },
		func() (string, Source, error) { return fromFile(keyFile) },
		func() (string, Source, error) { return fromEnvironment(account, getenv) },
		func() (string, Source, error) { return fromStore(ctx, account, store) },
	} {
		key, from, err = look()
		if err != nil {
			return "", from, fmt.Errorf("%s's key: %w", account.Name, err)
		}
		if key != "" {
			return key, from, nil
		}
	}
	return "", Source{}, nil
}

// credential reads what systemd hands to a unit. Who may read it is systemd's
// business; an empty one counts as none, so that a unit can set a default.
func credential(account Account, getenv func(string) string) (string, Source, error) {
	dir := getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return "", Source{}, nil
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", Source{}, nil
	}
	if err != nil {
		return "", Source{"credential", dir}, fmt.Errorf("cannot open the unit's credentials: %w", err)
	}
	defer root.Close()
	for _, name := range []string{"zino-" + account.Name, "zino." + account.Name, account.Variable, account.Name} {
		f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		from := Source{"credential", dir + "/" + name}
		if err != nil {
			return "", from, fmt.Errorf("cannot open the unit's credential: %w", err)
		}
		data, err := readAll(f)
		f.Close() // it was only read
		if err != nil {
			return "", from, fmt.Errorf("cannot read %s: %w", from.Place, err)
		}
		key, err := clean(data, from.Place)
		return key, from, err
	}
	return "", Source{}, nil
}

// fromFile reads the file that was configured: it must hold a key.
func fromFile(path string) (string, Source, error) {
	if path == "" {
		return "", Source{}, nil
	}
	from := Source{"key_file", path}
	data, err := readFile(path)
	if err != nil {
		return "", from, fmt.Errorf("cannot read [api] key_file: %w", err)
	}
	key, err := clean(data, path)
	if err == nil && key == "" {
		err = fmt.Errorf("[api] key_file is empty: put the key in %s", path)
	}
	return key, from, err
}

func fromEnvironment(account Account, getenv func(string) string) (string, Source, error) {
	from := Source{"environment", account.Variable}
	key, err := clean([]byte(getenv(account.Variable)), account.Variable)
	return key, from, err
}

func fromStore(ctx context.Context, account Account, store *Store) (string, Source, error) {
	if store == nil {
		return "", Source{}, nil
	}
	key, path, err := store.find(ctx, account.Name)
	return key, Source{"store", path}, err
}
