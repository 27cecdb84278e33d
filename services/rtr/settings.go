package rtr

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"zino/pkg/config"
)

// openAI is the endpoint that a key without a base URL means, and defaultModel
// the model asked for there when none is configured: the cheapest of its
// current ones, as any choice of ours should cost little.
const (
	openAI       = "https://api.openai.com/v1"
	defaultModel = "gpt-6-luna"
)

// howToConnect names what a person can set.
const howToConnect = "set [api] base_url, or [api] key (or LLM_API_KEY or OPENAI_API_KEY in the environment)"

// settings are the parts of the configuration and of the environment that
// decide how models are asked.
type settings struct {
	provider  string
	base      *url.URL // nil if no endpoint is configured
	key       string
	model     string
	maxTokens int
	streaming bool
	stall     time.Duration // 0: no limit
}

func readSettings(cfg *config.Config) (settings, error) {
	switch cfg.Provider {
	case "", "auto", "openai", "offline":
	default:
		return settings{}, fmt.Errorf("%sprovider = %q is none of \"auto\", \"openai\", \"offline\"", place(cfg), cfg.Provider)
	}
	set := settings{
		provider: cfg.Provider, key: findKey(cfg), model: cfg.Service.Model, maxTokens: cfg.MaxTokens,
		streaming: cfg.Rtr.Streaming, stall: time.Duration(cfg.Rtr.StallTimeout * float64(time.Second)),
	}
	if strings.ContainsFunc(set.key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return settings{}, fmt.Errorf("%sthe key for the model's provider has a character that no key has, such as a space: check [api] key, LLM_API_KEY and OPENAI_API_KEY", place(cfg))
	}
	base := strings.TrimRight(strings.TrimSpace(cfg.API.BaseURL), "/")
	if base == "" && set.key != "" {
		base = openAI
	}
	if base == "" {
		return set, nil
	}
	var err error
	if set.base, err = parseBase(base); err != nil {
		return settings{}, fmt.Errorf("%s[api] base_url: %w", place(cfg), err)
	}
	return set, nil
}

// place is the beginning of an error about the configuration.
func place(cfg *config.Config) string {
	if cfg.File == "" {
		return ""
	}
	return cfg.File + ": "
}

// findKey returns the first key that is set. An empty one counts as not set.
func findKey(cfg *config.Config) string {
	for _, key := range []string{cfg.API.Key, os.Getenv("LLM_API_KEY"), os.Getenv("OPENAI_API_KEY")} {
		if key = strings.TrimSpace(key); key != "" {
			return key
		}
	}
	return ""
}

// parseBase checks a base URL. Its errors do not repeat it, as it may hold a
// password.
func parseBase(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("not a URL like https://host/v1")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("a base URL has no '?' and no '#'; paths such as /chat/completions are added to it")
	}
	return u, nil
}
