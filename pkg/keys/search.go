package keys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"

	"zino/pkg/config"
)

// Source is where a key was found.
type Source struct {
	// Kind is "[api] key", "credential", "key_file", "environment" or "store", or ""
	// without a key.
	Kind  string
	Place string // a path, the name of a variable, or "in FILE" for [api] key
	Token bool   // a bearer token, which is sent in another header than a key
}

// String formats the source for a list of keys: "environment OPENAI_API_KEY",
// "store", "none".
func (s Source) String() string {
	if s.Kind == "" || s.Kind == "store" {
		return cmp.Or(s.Kind, "none")
	}
	return s.Kind + " " + s.Place
}

// Variables besides those of the accounts.
const (
	firstVariable = "LLM_API_KEY"          // the key of the first provider, if that is openai
	tokenVariable = "ANTHROPIC_AUTH_TOKEN" // a token for anthropic, if it has no key
)

// Search is where keys are looked for. NewSearch fills it; rtr finds its keys with
// it, and so does everything that reports which key rtr uses.
type Search struct {
	// First is the provider of requests that name none, "offline", or "" if the keys
	// decide. [api] and LLM_API_KEY are for this provider only.
	First   string
	BaseURL string // [api] base_url
	Key     string // [api] key
	KeyFile string // [api] key_file
	File    string // the configuration's path
	Getenv  func(string) string
	Store   *Store // nil for a user without a directory of their own
}

// NewSearch returns the places that a configuration and an environment name.
func NewSearch(cfg *config.Config, getenv func(string) string) Search {
	s := Search{BaseURL: strings.TrimSpace(cfg.API.BaseURL), Key: cfg.API.Key, KeyFile: cfg.API.KeyFile, File: cfg.File, Getenv: getenv}
	switch {
	case cfg.Provider == "offline" || slices.Contains(config.Providers, cfg.Provider):
		s.First = cfg.Provider
	case s.Configured():
		s.First = "openai"
	}
	if store, err := OpenUser(getenv); err == nil {
		s.Store = store
	}
	return s
}

// Configured reports whether [api] or LLM_API_KEY is set. Without the name of a
// provider it is for openai.
func (s Search) Configured() bool {
	return s.BaseURL != "" || s.Key != "" || s.KeyFile != "" || strings.TrimSpace(s.Getenv(firstVariable)) != ""
}

// Lookup returns the key of an account, the first found of: [api] key; a credential
// of the unit ($CREDENTIALS_DIRECTORY/zino-NAME, /zino.NAME, /VARIABLE or /NAME);
// [api] key_file; LLM_API_KEY; the account's variable; the store; for anthropic, the
// token in ANTHROPIC_AUTH_TOKEN. Without a key, key and source are empty. A source
// that exists and cannot be used is an error, which ends the search; the source is
// returned with it.
func (s Search) Lookup(ctx context.Context, account Account) (key string, from Source, err error) {
	if s.First != account.Name {
		s.Key, s.KeyFile = "", ""
	}
	if s.Key != "" {
		return s.Key, Source{Kind: "[api] key", Place: "in " + s.File}, nil
	}
	variable := account.Variable
	if s.First == account.Name && account.Name == "openai" {
		if strings.TrimSpace(s.Getenv(firstVariable)) != "" {
			variable = firstVariable
		}
		// The store's keys are for the providers themselves, not for another endpoint.
		if u, err := url.Parse(s.BaseURL); s.BaseURL != "" && (err != nil || u.Hostname() != "api.openai.com") {
			s.Store = nil
		}
	}
	for _, look := range []func() (string, Source, error){
		func() (string, Source, error) { return credential(account, s.Getenv) },
		func() (string, Source, error) { return fromFile(s.KeyFile) },
		func() (string, Source, error) {
			key, err := clean([]byte(s.Getenv(variable)), variable)
			return key, Source{Kind: "environment", Place: variable}, err
		},
		func() (string, Source, error) {
			if s.Store == nil {
				return "", Source{}, nil
			}
			key, path, err := s.Store.find(ctx, account.Name)
			return key, Source{Kind: "store", Place: path}, err
		},
		func() (string, Source, error) {
			if account.Name != "anthropic" {
				return "", Source{}, nil
			}
			key, err := clean([]byte(s.Getenv(tokenVariable)), tokenVariable)
			return key, Source{Kind: "environment", Place: tokenVariable, Token: true}, err
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

// credential reads the first credential of the account that systemd passes to the
// unit, in a private directory. An empty one, which a unit can set as a default,
// gives no key: the next source is searched.
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

// fromFile reads [api] key_file. An empty file is an error.
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
