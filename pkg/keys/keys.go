// Package keys finds, stores and removes the keys of model providers.
//
// [Search] has the one order in which a key is looked for: the configuration, a
// systemd credential of the unit, the configured key file, the environment, the
// user's store. The store is a directory that only its owner can use, with a file
// per account: encrypted by systemd-creds where that works, else plain. A key is
// never part of an error or of a command line.
package keys

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Account is a provider that takes a key.
type Account struct {
	Name     string // as in a configuration: "anthropic"
	Variable string // the environment variable that may hold the key
	Page     string // the web page that issues keys
}

var accounts = []Account{
	{"anthropic", "ANTHROPIC_API_KEY", "https://console.anthropic.com/settings/keys"},
	{"openai", "OPENAI_API_KEY", "https://platform.openai.com/api-keys"},
	{"gemini", "GEMINI_API_KEY", "https://aistudio.google.com/apikey"},
	{"openrouter", "OPENROUTER_API_KEY", "https://openrouter.ai/keys"},
}

// Accounts lists the providers that take a key, in the order in which rtr
// chooses one for requests that name no provider. The caller may change the slice.
func Accounts() []Account { return slices.Clone(accounts) }

// Find returns the account of that name.
func Find(name string) (Account, bool) {
	i := slices.IndexFunc(accounts, func(a Account) bool { return a.Name == name })
	if i < 0 {
		return Account{}, false
	}
	return accounts[i], true
}

// maxKey is longer than the keys of all providers, and shorter than the headers
// that servers accept.
const maxKey = 8 << 10

// Errors of Clean.
var (
	errForeign = errors.New("it has a blank, a control character or a character outside ASCII, and no key has one")
	errLong    = errors.New("it is longer than 8192 bytes, and no key is")
)

// Clean returns key without white space around it. A key that cannot be sent as a
// header is an error, which does not repeat it.
func Clean(key string) (string, error) {
	key = strings.TrimSpace(key)
	switch {
	case len(key) > maxKey:
		return "", errLong
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "", errForeign
	}
	return key, nil
}

// Base returns the directory of the user's files: ZINO_HOME, else ZDX_HOME (the
// earlier program's variable), else zino below XDG_CONFIG_HOME, else below the
// home's .config; without a home it is below TempDir. The path is absolute and may
// not exist yet.
func Base(getenv func(string) string) (string, error) {
	for _, name := range []string{"ZINO_HOME", "ZDX_HOME"} {
		if dir := getenv(name); dir != "" {
			return absolute(dir), nil
		}
	}
	if dir := getenv("XDG_CONFIG_HOME"); dir != "" {
		return absolute(filepath.Join(dir, "zino")), nil
	}
	if home := getenv("HOME"); home != "" {
		return absolute(filepath.Join(home, ".config", "zino")), nil
	}
	dir, err := TempDir()
	return filepath.Join(dir, "home"), err
}

// TempDir returns the user's directory for hosts with neither a runtime directory
// nor a home. Other users can write to its parent, so it must be a directory of
// the caller, no link, with mode 0700. It may not exist yet.
func TempDir() (string, error) {
	dir := filepath.Join(os.TempDir(), "zino-"+strconv.Itoa(os.Getuid()))
	if err := CheckPrivate(dir); err != nil {
		return "", fmt.Errorf("%w: remove it, or set XDG_RUNTIME_DIR and HOME", err)
	}
	return dir, nil
}

// RuntimeDir returns the directory of the sockets of the user's services: zino
// below XDG_RUNTIME_DIR, else TempDir. It may not exist yet; if it does, it must be
// a directory of the caller, no link, with mode 0700.
func RuntimeDir() (string, error) {
	parent := os.Getenv("XDG_RUNTIME_DIR")
	if parent == "" {
		return TempDir()
	}
	dir := filepath.Join(parent, "zino")
	if err := CheckPrivate(dir); err != nil {
		return "", fmt.Errorf("%w: remove it, or set XDG_RUNTIME_DIR to a directory of your own", err)
	}
	return dir, nil
}

// CheckPrivate returns an error if path exists and is not a directory of the
// caller, or one that other users have rights to.
func CheckPrivate(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.IsDir() && ok && int(stat.Uid) == os.Getuid() && !exposed(info):
		return nil
	case !info.IsDir():
		err = errors.New("it is not a directory")
	case ok && int(stat.Uid) != os.Getuid():
		err = fmt.Errorf("it belongs to uid %d, and you are uid %d", stat.Uid, os.Getuid())
	default:
		err = fmt.Errorf("its mode is %04o", info.Mode().Perm())
	}
	return fmt.Errorf("%s is not a directory that only you can use (mode 0700), %w", path, err)
}

// exposed reports whether other users than the owner have rights.
func exposed(info os.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
