package keys

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Source is where a key was found.
type Source struct {
	// Kind is "configuration", "credential", "key_file", "environment" or "store", ""
	// if there is no key.
	Kind  string
	Place string // a path, the name of a variable, or "[api] key"
	Token bool   // a bearer token, which is sent in another header than a key
}

// Variables besides those of the accounts.
const (
	firstVariable = "LLM_API_KEY"          // the key of the first provider, if that is openai
	tokenVariable = "ANTHROPIC_AUTH_TOKEN" // a token for anthropic, if it has no key
)

// Search is where keys are looked for. It is used by rtr, and by all that reports
// to a user which key rtr will use.
type Search struct {
	// First is set for the provider that is asked first. The configured key and key
	// file, and LLM_API_KEY, are its alone.
	First   bool
	Key     string // [api] key
	KeyFile string // [api] key_file
	Getenv  func(string) string
	// Store is nil if the user has none, and for a provider's account at another
	// base URL: a key that was stored for a provider goes to that provider only.
	Store *Store
}

// Lookup returns the key of an account, the first found of: the configured key; a
// credential of the unit; the configured key file; the account's variable in the
// environment; the store; for anthropic, the token in ANTHROPIC_AUTH_TOKEN. The key
// is "" if there is none. A source that exists and cannot be used is an error, which
// ends the search; the source is returned with it.
func (s Search) Lookup(ctx context.Context, account Account) (key string, from Source, err error) {
	if s.First && s.Key != "" {
		return s.Key, Source{Kind: "configuration", Place: "[api] key"}, nil
	}
	keyFile := ""
	if s.First {
		keyFile = s.KeyFile
	}
	getenv := s.Getenv
	llm := s.First && account.Name == "openai" && strings.TrimSpace(getenv(firstVariable)) != ""
	if llm {
		getenv = func(name string) string {
			if name == account.Variable {
				name = firstVariable
			}
			return s.Getenv(name)
		}
	}
	key, from, err = Lookup(ctx, account, keyFile, getenv, s.Store)
	if llm && from.Kind == "environment" {
		from.Place = firstVariable
	}
	if key != "" || err != nil || account.Name != "anthropic" {
		return key, from, err
	}
	from = Source{Kind: "environment", Place: tokenVariable, Token: true}
	if key, err = Clean(s.Getenv(tokenVariable)); err != nil {
		return "", from, fmt.Errorf("%s: %w", tokenVariable, err)
	}
	if key == "" {
		return "", Source{}, nil
	}
	return key, from, nil
}

// Lookup is the part of Search.Lookup between the configuration and the token: a
// credential of the unit ($CREDENTIALS_DIRECTORY/zino-NAME, /zino.NAME, /VARIABLE
// or /NAME, the first that exists), keyFile unless that is "", the account's
// variable in the environment, and the store unless that is nil.
func Lookup(ctx context.Context, account Account, keyFile string, getenv func(string) string, store *Store) (key string, from Source, err error) {
	for _, look := range []func() (string, Source, error){
		func() (string, Source, error) { return credential(account, getenv) },
		func() (string, Source, error) { return fromFile(keyFile) },
		func() (string, Source, error) {
			key, err := clean([]byte(getenv(account.Variable)), account.Variable)
			return key, Source{Kind: "environment", Place: account.Variable}, err
		},
		func() (string, Source, error) {
			if store == nil {
				return "", Source{}, nil
			}
			key, path, err := store.find(ctx, account.Name)
			return key, Source{Kind: "store", Place: path}, err
		},
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

// credential reads a credential that systemd passes to a unit, which it has made
// private. An empty one counts as none, so that a unit can set a default.
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
		return "", Source{Kind: "credential", Place: dir}, fmt.Errorf("cannot open the unit's credentials: %w", err)
	}
	defer root.Close()
	for _, name := range []string{"zino-" + account.Name, "zino." + account.Name, account.Variable, account.Name} {
		f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		from := Source{Kind: "credential", Place: dir + "/" + name}
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

// fromFile reads the configured file, which must have a key.
func fromFile(path string) (string, Source, error) {
	if path == "" {
		return "", Source{}, nil
	}
	from := Source{Kind: "key_file", Place: path}
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
