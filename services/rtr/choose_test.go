package rtr

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/keys"
	"zino/proto"
)

// choice is what decides on a provider, and the decision.
type choice struct {
	name     string
	set      func(*config.Config)
	env      map[string]string
	stored   map[string]string // keys in the store, by account
	unit     map[string]string // credentials of the unit, by file
	file     string            // what is in the file that key_file names, if there is one
	provider string
	model    string // "m" if empty, none if "-"
	endpoint string
	key      string
	problem  string // stands in the problem; empty: there is none
}

func (c choice) start(t *testing.T) *router {
	t.Helper()
	alone(t)
	t.Setenv("PATH", "") // so that nothing encrypts the store
	for name, value := range c.env {
		t.Setenv(name, value)
	}
	store, err := keys.OpenUser(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range c.stored {
		if _, err := store.Set(t.Context(), name, key); err != nil {
			t.Fatal(err)
		}
	}
	if c.unit != nil {
		dir := t.TempDir()
		t.Setenv("CREDENTIALS_DIRECTORY", dir)
		for name, key := range c.unit {
			write(t, filepath.Join(dir, name), key)
		}
	}
	return start(t, func(cfg *config.Config) {
		if c.file != "" {
			cfg.API.KeyFile = filepath.Join(t.TempDir(), "key")
			write(t, cfg.API.KeyFile, c.file)
		}
		if c.set != nil {
			c.set(cfg)
		}
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (c choice) check(t *testing.T) {
	r := c.start(t)
	caps := r.caps(t)
	switch {
	case c.model == "-" || c.provider == "offline":
		c.model = ""
	case c.model == "":
		c.model = "m"
	}
	if caps.Provider != c.provider || caps.Model != c.model || caps.Endpoint != c.endpoint || (caps.Problem == "") != (c.problem == "") || !strings.Contains(caps.Problem, c.problem) {
		t.Errorf("got %+v", caps)
	}
	chosen, err := r.target(t.Context(), selector{})
	if err != nil {
		t.Fatal(err)
	}
	if key := ""; chosen.ep != nil {
		if key = chosen.ep.Key; key != c.key {
			t.Errorf("asked with the key %q, want %q", key, c.key)
		}
	}
	for _, key := range c.env {
		if strings.HasPrefix(key, "k-") && strings.Contains(caps.Problem+r.log.String(), key) {
			t.Errorf("the key %s shows", key)
		}
	}
	if c.problem == "" {
		return
	}
	_, err = r.infer(t.Context(), ask("hi", true), &chunks{})
	if e := failure(t, err); e.Code != proto.CodeUnavailable || e.Message != caps.Problem {
		t.Errorf("infer: got %+v", *e)
	}
}

const (
	anthropicURL  = "https://api.anthropic.com"
	openAIURL     = "https://api.openai.com/v1"
	geminiURL     = "https://generativelanguage.googleapis.com"
	openRouterURL = "https://openrouter.ai/api/v1"
	ollamaURL     = "http://127.0.0.1:11434"
	lanURL        = "http://10.0.0.1/v1"
)

func named(name string) func(*config.Config) {
	return func(c *config.Config) { c.Provider = name }
}

func apiKey(key string) func(*config.Config) {
	return func(c *config.Config) { c.API.Key = key }
}

func apiBase(base string) func(*config.Config) {
	return func(c *config.Config) { c.API.BaseURL = base }
}

var (
	allKeys = map[string]string{"ANTHROPIC_API_KEY": "k-a", "OPENAI_API_KEY": "k-o", "GEMINI_API_KEY": "k-g", "OPENROUTER_API_KEY": "k-r"}
	openAIs = map[string]string{"LLM_API_KEY": "k-l", "OPENAI_API_KEY": "k-o"}
)

// TestUnnamed holds who is asked where no provider is named.
func TestUnnamed(t *testing.T) {
	noModel := func(c *config.Config) { c.Service.Model = "" }
	for _, tt := range []choice{
		{name: "nothing", problem: "ANTHROPIC_API_KEY"},
		{name: "nothing, in other words", problem: "[api] base_url"},
		{name: "all keys", env: allKeys, provider: "anthropic", endpoint: anthropicURL, key: "k-a"},
		{name: "no anthropic", env: map[string]string{"OPENAI_API_KEY": "k-o", "GEMINI_API_KEY": "k-g"}, provider: "openai", endpoint: openAIURL, key: "k-o"},
		{name: "gemini", env: map[string]string{"GEMINI_API_KEY": "k-g", "OPENROUTER_API_KEY": "k-r"}, provider: "gemini", endpoint: geminiURL, key: "k-g"},
		{name: "openrouter", env: map[string]string{"OPENROUTER_API_KEY": " k-r\n", "GEMINI_API_KEY": " "}, provider: "openrouter", endpoint: openRouterURL, key: "k-r"},
		{name: "anthropic's model", set: noModel, env: map[string]string{"ANTHROPIC_API_KEY": "k-a"}, provider: "anthropic", model: "claude-sonnet-5-5", endpoint: anthropicURL, key: "k-a"},
		{name: "openai's model", set: noModel, env: openAIs, provider: "openai", model: "gpt-6-luna", endpoint: openAIURL, key: "k-l"},
		{name: "gemini's model", set: noModel, env: map[string]string{"GEMINI_API_KEY": "k-g"}, provider: "gemini", model: "gemini-flash-latest", endpoint: geminiURL, key: "k-g"},
		{name: "openrouter's model", set: noModel, env: map[string]string{"OPENROUTER_API_KEY": "k-r"}, provider: "openrouter", model: "openrouter/auto", endpoint: openRouterURL, key: "k-r"},
		{name: "the store", stored: map[string]string{"gemini": "k-s"}, provider: "gemini", endpoint: geminiURL, key: "k-s"},
		{name: "the order is that of the providers", stored: map[string]string{"gemini": "k-s"}, env: map[string]string{"OPENROUTER_API_KEY": "k-r"}, provider: "gemini", endpoint: geminiURL, key: "k-s"},
		{name: "a credential", unit: map[string]string{"zino-openrouter": "k-u\n"}, provider: "openrouter", endpoint: openRouterURL, key: "k-u"},
		{name: "a key without a name", set: apiKey(" k-1 "), env: allKeys, provider: "openai", endpoint: openAIURL, key: "k-1"},
		{name: "the CLI's word for it", env: map[string]string{"ZINO_API_KEY": "k-z", "OPENAI_API_KEY": "k-o"}, provider: "openai", endpoint: openAIURL, key: "k-z"},
		{name: "a file without a name", file: "k-f\n", env: allKeys, provider: "openai", endpoint: openAIURL, key: "k-f"},
		{name: "the variable of all", env: map[string]string{"LLM_API_KEY": "k-l", "ANTHROPIC_API_KEY": "k-a"}, provider: "openai", endpoint: openAIURL, key: "k-l"},
		{name: "a base URL, no key", set: apiBase("http://u:p@10.0.0.1/v1/"), provider: "openai", endpoint: lanURL},
		{name: "a base URL before all keys", set: apiBase(lanURL), env: allKeys, provider: "openai", endpoint: lanURL, key: "k-o"},
		{name: "a stored key is for its own provider", set: apiBase(lanURL), stored: map[string]string{"openai": "k-s"}, provider: "openai", endpoint: lanURL},
		{name: "unless that is meant", set: apiBase(openAIURL), stored: map[string]string{"openai": "k-s"}, provider: "openai", endpoint: openAIURL, key: "k-s"},
		{name: "another server's model", set: func(c *config.Config) { c.API.BaseURL, c.Service.Model = "https://gateway.example/v1", "" }, provider: "openai", model: "-", endpoint: "https://gateway.example/v1", problem: "[service] model"},
		{name: "the variable of a server, no key", env: map[string]string{"OPENAI_BASE_URL": "http://localhost:9/v1"}, provider: "openai", endpoint: "http://localhost:9/v1"},
		{name: "auto with a key", set: named("auto"), env: allKeys, provider: "anthropic", endpoint: anthropicURL, key: "k-a"},
		{name: "auto with a base URL", set: func(c *config.Config) { c.Provider, c.API.BaseURL = "auto", lanURL }, provider: "openai", endpoint: lanURL},
		{name: "auto with nothing", set: named("auto"), provider: "offline"},
		{name: "offline in spite of keys", set: named("offline"), env: allKeys, provider: "offline"},
		{name: "what is there and is no key", env: map[string]string{"ANTHROPIC_API_KEY": "k- a", "OPENAI_API_KEY": "k-o"}, provider: "anthropic", problem: "ANTHROPIC_API_KEY"},
	} {
		t.Run(tt.name, tt.check)
	}
}

// TestNamed holds where a provider that is named is asked, and with which key.
func TestNamed(t *testing.T) {
	both := func(name, key string) func(*config.Config) {
		return func(c *config.Config) { c.Provider, c.API.Key = name, key }
	}
	all := choice{env: allKeys, stored: map[string]string{"gemini": "k-s"}, unit: map[string]string{"zino-gemini": "k-u"}, file: "k-f", set: both("gemini", "k-1"), provider: "gemini", endpoint: geminiURL}
	configured, credential, file, variable, store := all, all, all, all, all
	configured.name, configured.key = "all five: the configuration's", "k-1"
	credential.name, credential.set, credential.key = "four: the unit's", named("gemini"), "k-u"
	file.name, file.set, file.unit, file.key = "three: the file's", named("gemini"), nil, "k-f"
	variable.name, variable.set, variable.unit, variable.file, variable.key = "two: the environment's", named("gemini"), nil, "", "k-g"
	store.name, store.set, store.unit, store.file, store.env, store.key = "one: the store's", named("gemini"), nil, "", nil, "k-s"
	for _, tt := range []choice{
		configured, credential, file, variable, store,
		{name: "anthropic without a key", set: named("anthropic"), env: map[string]string{"OPENAI_API_KEY": "k-o"}, provider: "anthropic", problem: "run `zino auth set anthropic`, or set ANTHROPIC_API_KEY"},
		{name: "gemini without a key", set: named("gemini"), provider: "gemini", problem: "aistudio.google.com"},
		{name: "openai without a key", set: named("openai"), env: map[string]string{"ANTHROPIC_API_KEY": "k-a"}, provider: "openai", problem: "OPENAI_API_KEY"},
		{name: "a key for who is named", set: both("anthropic", "k-1"), provider: "anthropic", endpoint: anthropicURL, key: "k-1"},
		{name: "an address for OpenAI's wire", set: func(c *config.Config) { c.Provider, c.API.BaseURL = "openai", lanURL }, env: map[string]string{"OPENAI_BASE_URL": "http://10.0.0.2/v1"}, provider: "openai", endpoint: lanURL},
		{name: "it is not for others", set: func(c *config.Config) { c.Provider, c.API.BaseURL = "anthropic", lanURL }, env: allKeys, provider: "anthropic", endpoint: anthropicURL, key: "k-a"},
		{name: "the variable of all is OpenAI's", set: named("openrouter"), env: map[string]string{"LLM_API_KEY": "k-l"}, provider: "openrouter", problem: "OPENROUTER_API_KEY"},
		{name: "no key for one's own server", set: func(c *config.Config) { c.Provider, c.AnthropicBaseURL = "anthropic", "http://127.0.0.1:9" }, provider: "anthropic", endpoint: "http://127.0.0.1:9"},
		{name: "a file that is not there", set: func(c *config.Config) { c.Provider, c.API.KeyFile = "gemini", "/nowhere/key" }, provider: "gemini", problem: "/nowhere/key"},
		{name: "a credential that is no key", set: named("gemini"), unit: map[string]string{"zino-gemini": "k- u"}, provider: "gemini", problem: "zino-gemini"},
		{name: "ollama", set: named("ollama"), env: allKeys, provider: "ollama", endpoint: ollamaURL},
		{name: "ollama elsewhere", set: func(c *config.Config) { c.Provider, c.API.BaseURL = "ollama", "http://10.0.0.9:1" }, provider: "ollama", endpoint: "http://10.0.0.9:1"},
		{name: "its variable first", set: func(c *config.Config) { c.Provider, c.API.BaseURL = "ollama", "http://10.0.0.9:1" }, env: map[string]string{"OLLAMA_HOST": "10.0.0.8"}, provider: "ollama", endpoint: "http://10.0.0.8:11434"},
		{name: "nobody's name", set: named("opnai"), provider: "opnai", problem: `there is no provider "opnai"`},
	} {
		t.Run(tt.name, tt.check)
	}
}
