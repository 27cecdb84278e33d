// Package keys finds, keeps and removes the keys of model providers.
//
// A key is looked for in this order: a systemd credential of the unit, the
// configured key file, the environment, the user's own store. The store is a
// directory that only its owner can use, with a file per account: encrypted by
// systemd-creds where that works, else plain. A key is never part of an error,
// of a command line or of a configuration.
package keys

import (
	"errors"
	"slices"
	"strings"
)

// Account is a provider that takes a key.
type Account struct {
	Name     string // as in a configuration: "anthropic"
	Variable string // the environment variable that may hold the key
	Page     string // where its users get one
}

var accounts = []Account{
	{"anthropic", "ANTHROPIC_API_KEY", "https://console.anthropic.com/settings/keys"},
	{"openai", "OPENAI_API_KEY", "https://platform.openai.com/api-keys"},
	{"gemini", "GEMINI_API_KEY", "https://aistudio.google.com/apikey"},
	{"openrouter", "OPENROUTER_API_KEY", "https://openrouter.ai/keys"},
}

// Accounts lists the providers that take a key, in the order in which one is
// chosen where none is named. The slice is the caller's.
func Accounts() []Account { return slices.Clone(accounts) }

// Find returns the account of that name.
func Find(name string) (Account, bool) {
	i := slices.IndexFunc(accounts, func(a Account) bool { return a.Name == name })
	if i < 0 {
		return Account{}, false
	}
	return accounts[i], true
}

// maxKey is more than any provider's key has, and less than what a server
// takes as a header.
const maxKey = 8 << 10

// Errors of Clean.
var (
	errForeign = errors.New("it has a blank, a control character or a character outside ASCII, and no key has one")
	errLong    = errors.New("it is longer than 8192 bytes, and no key is")
)

// Clean is key without white space around it, "" if nothing else is there. A
// key that could not be sent as a header is refused; the error does not repeat
// it.
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
