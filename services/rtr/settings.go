package rtr

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"zino/pkg/config"
	"zino/pkg/keys"
)

// settings are the parts of the configuration and of the environment that
// decide how models are asked.
type settings struct {
	provider  string
	base      *url.URL // [api] base_url, nil if there is none
	key       string   // [api] key
	keyFile   string
	model     string
	maxTokens int
	streaming bool
	stall     time.Duration // 0: no limit
	bases     map[string]*url.URL
	wrong     map[string]error // why a provider's base is none: it alone cannot be asked
	fallback  []config.Fallback
	known     []config.Model
	getenv    func(string) string
	store     *keys.Store // nil if the user has no place for one
	headers   http.Header // of the user's, for Anthropic
	problems  []string    // with them and with bases
}

func readSettings(cfg *config.Config) (settings, error) {
	set := settings{
		provider: cfg.Provider, keyFile: cfg.API.KeyFile, model: cfg.Service.Model, maxTokens: cfg.MaxTokens,
		streaming: cfg.Rtr.Streaming, stall: time.Duration(cfg.Rtr.StallTimeout * float64(time.Second)),
		bases: map[string]*url.URL{}, wrong: map[string]error{}, fallback: cfg.Rtr.Fallback, known: cfg.Rtr.Model, getenv: os.Getenv,
	}
	key := cfg.API.Key
	if key == "" {
		key = os.Getenv("ZINO_API_KEY") // [api] key, as the CLI hands it on
	}
	var err error
	if set.key, err = keys.Clean(key); err != nil && strings.TrimSpace(key) != "" {
		return settings{}, fmt.Errorf("%s[api] key: %w", place(cfg), err)
	}
	if set.base, err = parseBase(cfg.API.BaseURL); err != nil {
		return settings{}, fmt.Errorf("%s[api] base_url: %w", place(cfg), err)
	}
	if set.store, err = keys.OpenUser(os.Getenv); err != nil {
		set.store = nil // without a home there is no store
	}
	set.headers, set.problems = customHeaders(os.Getenv(headersVariable))
	set.readBases(cfg)
	return set, nil
}

// readBases finds where each provider is: the environment's word, else the
// configuration's, else its own address. What is empty counts as not set.
func (set *settings) readBases(cfg *config.Config) {
	for _, p := range []struct{ name, key, variable, configured string }{
		{"anthropic", "anthropic_base_url", "ANTHROPIC_BASE_URL", cfg.AnthropicBaseURL},
		{"openai", "openai_base_url", "OPENAI_BASE_URL", cfg.OpenAIBaseURL},
		{"gemini", "gemini_base_url", "GEMINI_BASE_URL", cfg.GeminiBaseURL},
		{"openrouter", "openrouter_base_url", "OPENROUTER_BASE_URL", cfg.OpenRouterBaseURL},
		{"ollama", "", "OLLAMA_HOST", ""},
	} {
		from, value := p.variable, strings.TrimSpace(os.Getenv(p.variable))
		if value == "" {
			from, value = place(cfg)+p.key, p.configured
		} else if p.name == "ollama" {
			value = ollamaHost(value)
		}
		base, err := parseBase(value)
		if err != nil {
			set.wrong[p.name] = fmt.Errorf("%s: %w", from, err)
			set.problems = append(set.problems, set.wrong[p.name].Error())
		}
		if base != nil {
			set.bases[p.name] = base
		}
	}
}

// ollamaHost makes a URL of what OLLAMA_HOST may be: a URL, host:port, a host
// or :port. 0.0.0.0 is what the server listens on; it answers on loopback.
func ollamaHost(value string) string {
	port := "" // a URL has its scheme's
	if !strings.Contains(value, "://") {
		if ip := net.ParseIP(value); ip != nil && ip.To4() == nil {
			value = "[" + value + "]"
		}
		value, port = "http://"+value, "11434"
	}
	u, err := url.Parse(value)
	if err != nil {
		return value
	}
	host := u.Hostname()
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if u.Port() != "" {
		port = u.Port()
	}
	if u.Host = host; port != "" {
		u.Host += ":" + port
	}
	return u.String()
}

// place is the beginning of an error about the configuration.
func place(cfg *config.Config) string {
	if cfg.File == "" {
		return ""
	}
	return cfg.File + ": "
}

// parseBase checks a base URL; an empty one is nil. Its errors do not repeat
// it, as it may hold a password.
func parseBase(base string) (*url.URL, error) {
	base = strings.TrimRight(strings.TrimSpace(base), "/")
	if base == "" {
		return nil, nil
	}
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("not a URL like https://host/v1")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("a base URL has no '?' and no '#'; paths such as /chat/completions are added to it")
	}
	return u, nil
}

// secretFor finds the key of a provider. What the configuration says of a key,
// and LLM_API_KEY, is for the provider that is asked first, and for no other.
func (s *Service) secretFor(account keys.Account, first, ours bool) (string, keys.Source, error) {
	if first && s.set.key != "" {
		return s.set.key, keys.Source{Kind: "configuration", Place: "[api] key"}, nil
	}
	getenv, file, store := s.set.getenv, "", s.set.store
	if first {
		file = s.set.keyFile
	}
	if !ours {
		store = nil // a key that was stored for OpenAI goes to OpenAI only
	}
	if first && account.Name == "openai" {
		getenv = func(name string) string {
			if key := strings.TrimSpace(s.set.getenv("LLM_API_KEY")); name == account.Variable && key != "" {
				return key
			}
			return s.set.getenv(name)
		}
	}
	return keys.Lookup(s.life, account, file, getenv, store)
}
