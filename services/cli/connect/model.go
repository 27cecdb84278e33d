package connect

import (
	"net/url"
	"os"
	"slices"
	"strings"

	"zino/pkg/config"
	"zino/pkg/keys"
	"zino/proto"
)

// CheckModel returns an error that says how to connect a model if neither the
// configuration nor the environment nor the user's keys name one.
func (t *Target) CheckModel(cfg *config.Config) error {
	if t.Provider != "" || cfg.Provider != "" || cfg.OpenAIBaseURL != "" || keys.NewSearch(cfg, os.Getenv).Configured() || hasKey() {
		return nil
	}
	return proto.Errorf(proto.CodeUnavailable, "no model is connected: run `zino auth set PROVIDER` or `zino auth login openrouter`, set ANTHROPIC_API_KEY (or OPENAI_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY; "+
		"Anthropic's keys: https://console.anthropic.com/settings/keys), or set [api] base_url in the configuration; "+
		`provider = "auto" looks for a model server on this host, provider = "offline" does without`)
}

// hasKey reports whether the environment or the user's store has a key or names a
// server. rtr decides how to use it and reports errors in it.
func hasKey() bool {
	for _, name := range slices.Concat(providerKeys, []string{"OPENAI_BASE_URL"}) {
		if strings.TrimSpace(os.Getenv(name)) != "" {
			return true
		}
	}
	store, err := keys.OpenUser(os.Getenv)
	if err != nil {
		return false
	}
	list, err := store.List()
	return err != nil || len(list) > 0
}

// KeyInShell returns the first account whose key is in the caller's environment.
func KeyInShell() keys.Account {
	for _, account := range keys.Accounts() {
		if strings.TrimSpace(os.Getenv(account.Variable)) != "" {
			return account
		}
	}
	return keys.Account{}
}

// DescribeSource formats where a key comes from.
func DescribeSource(from keys.Source, err error) string {
	if err != nil {
		return "unusable: " + from.String()
	}
	return from.String()
}

// Hidden replaces a secret in what is printed.
const Hidden = "(hidden)"

// WithoutPassword hides user and password of a URL.
func WithoutPassword(s string) string {
	if u, err := url.Parse(s); err == nil && u.User != nil {
		u.User = nil
		return strings.Replace(u.String(), "://", "://"+Hidden+"@", 1)
	}
	return s
}
