package rtr

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/keys"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/rtr/wire"
)

// choice is a test case of the choice of a provider: the settings and the result.
type choice struct {
	name     string
	set      func(*config.Config)
	env      map[string]string
	stored   map[string]string // keys in the store, by account
	unit     map[string]string // credentials of the unit, by file
	file     string            // content of the file that key_file names
	provider string
	model    string // "" means "m", "-" means none
	endpoint string
	key      string
	problem  string // substring of the problem, "" for no problem
}

func (c choice) start(t *testing.T) *router {
	t.Helper()
	alone(t)
	t.Setenv("PATH", "") // so that the store finds no program for encryption
	for name, value := range c.env {
		t.Setenv(name, value)
	}
	store, err := keys.OpenUser(os.Getenv)
	zinotest.Must(t, err)
	for name, key := range c.stored {
		if _, err := store.Set(t.Context(), name, key); err != nil {
			t.Fatal(err)
		}
	}
	if c.unit != nil {
		dir := t.TempDir()
		t.Setenv("CREDENTIALS_DIRECTORY", dir)
		for name, key := range c.unit {
			zinotest.Write(t, filepath.Join(dir, name), key)
		}
	}
	return start(t, func(cfg *config.Config) {
		if c.file != "" {
			cfg.API.KeyFile = filepath.Join(t.TempDir(), "key")
			zinotest.Write(t, cfg.API.KeyFile, c.file)
		}
		if c.set != nil {
			c.set(cfg)
		}
	})
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
	zinotest.Must(t, err)
	if key := ""; chosen.ep != nil {
		if key = chosen.ep.Key; key != c.key {
			t.Errorf("asked with the key %q, want %q", key, c.key)
		}
	}
	for _, key := range c.env {
		if strings.HasPrefix(key, "k-") && strings.Contains(caps.Problem+r.log.String(), key) {
			t.Errorf("the key %s is in the problem or the log", key)
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

// TestUnnamed checks the choice of a provider if the configuration names none.
func TestUnnamed(t *testing.T) {
	noModel := func(c *config.Config) { c.Service.Model = "" }
	for _, tt := range []choice{
		{name: "nothing", problem: "ANTHROPIC_API_KEY"},
		{name: "nothing, the base URL", problem: "[api] base_url"},
		{name: "all keys", env: allKeys, provider: "anthropic", endpoint: anthropicURL, key: "k-a"},
		{name: "no anthropic", env: map[string]string{"OPENAI_API_KEY": "k-o", "GEMINI_API_KEY": "k-g"}, provider: "openai", endpoint: openAIURL, key: "k-o"},
		{name: "gemini", env: map[string]string{"GEMINI_API_KEY": "k-g", "OPENROUTER_API_KEY": "k-r"}, provider: "gemini", endpoint: geminiURL, key: "k-g"},
		{name: "openrouter", env: map[string]string{"OPENROUTER_API_KEY": " k-r\n", "GEMINI_API_KEY": " "}, provider: "openrouter", endpoint: openRouterURL, key: "k-r"},
		{name: "anthropic's model", set: noModel, env: map[string]string{"ANTHROPIC_API_KEY": "k-a"}, provider: "anthropic", model: "claude-sonnet-5-5", endpoint: anthropicURL, key: "k-a"},
		{name: "openai's model", set: noModel, env: openAIs, provider: "openai", model: "gpt-6-luna", endpoint: openAIURL, key: "k-l"},
		{name: "gemini's model", set: noModel, env: map[string]string{"GEMINI_API_KEY": "k-g"}, provider: "gemini", model: "gemini-flash-latest", endpoint: geminiURL, key: "k-g"},
		{name: "openrouter's model", set: noModel, env: map[string]string{"OPENROUTER_API_KEY": "k-r"}, provider: "openrouter", model: "openrouter/auto", endpoint: openRouterURL, key: "k-r"},
		{name: "the store", stored: map[string]string{"gemini": "k-s"}, provider: "gemini", endpoint: geminiURL, key: "k-s"},
		{name: "a stored key before another provider's variable", stored: map[string]string{"gemini": "k-s"}, env: map[string]string{"OPENROUTER_API_KEY": "k-r"}, provider: "gemini", endpoint: geminiURL, key: "k-s"},
		{name: "a credential", unit: map[string]string{"zino-openrouter": "k-u\n"}, provider: "openrouter", endpoint: openRouterURL, key: "k-u"},
		{name: "[api] key without a provider", set: apiKey(" k-1 "), env: allKeys, provider: "openai", endpoint: openAIURL, key: "k-1"},
		{name: "the CLI's variable", env: map[string]string{"ZINO_API_KEY": "k-z", "OPENAI_API_KEY": "k-o"}, provider: "openai", endpoint: openAIURL, key: "k-z"},
		{name: "key_file without a provider", file: "k-f\n", env: allKeys, provider: "openai", endpoint: openAIURL, key: "k-f"},
		{name: "the common variable", env: map[string]string{"LLM_API_KEY": "k-l", "ANTHROPIC_API_KEY": "k-a"}, provider: "openai", endpoint: openAIURL, key: "k-l"},
		{name: "a base URL, no key", set: apiBase("http://u:p@10.0.0.1/v1/"), provider: "openai", endpoint: lanURL},
		{name: "a base URL before all keys", set: apiBase(lanURL), env: allKeys, provider: "openai", endpoint: lanURL, key: "k-o"},
		{name: "no stored key for another URL", set: apiBase(lanURL), stored: map[string]string{"openai": "k-s"}, provider: "openai", endpoint: lanURL},
		{name: "a stored key for its own provider's URL", set: apiBase(openAIURL), stored: map[string]string{"openai": "k-s"}, provider: "openai", endpoint: openAIURL, key: "k-s"},
		{name: "another server's model", set: func(c *config.Config) { c.API.BaseURL, c.Service.Model = "https://gateway.example/v1", "" }, provider: "openai", model: "-", endpoint: "https://gateway.example/v1", problem: "[service] model"},
		{name: "the variable of a server, no key", env: map[string]string{"OPENAI_BASE_URL": "http://localhost:9/v1"}, provider: "openai", endpoint: "http://localhost:9/v1"},
		{name: "auto with a key", set: named("auto"), env: allKeys, provider: "anthropic", endpoint: anthropicURL, key: "k-a"},
		{name: "auto with a base URL", set: func(c *config.Config) { c.Provider, c.API.BaseURL = "auto", lanURL }, provider: "openai", endpoint: lanURL},
		{name: "auto with nothing", set: named("auto"), provider: "offline"},
		{name: "offline, with keys", set: named("offline"), env: allKeys, provider: "offline"},
		{name: "an invalid key", env: map[string]string{"ANTHROPIC_API_KEY": "k- a", "OPENAI_API_KEY": "k-o"}, provider: "anthropic", problem: "ANTHROPIC_API_KEY"},
	} {
		t.Run(tt.name, tt.check)
	}
}

// TestNamed checks the endpoint and the key of a provider that the configuration
// names.
func TestNamed(t *testing.T) {
	both := func(name, key string) func(*config.Config) {
		return func(c *config.Config) { c.Provider, c.API.Key = name, key }
	}
	all := choice{env: allKeys, stored: map[string]string{"gemini": "k-s"}, unit: map[string]string{"zino-gemini": "k-u"}, file: "k-f", set: both("gemini", "k-1"), provider: "gemini", endpoint: geminiURL}
	configured, credential, file, variable, store := all, all, all, all, all
	configured.name, configured.key = "first the configuration's key", "k-1"
	credential.name, credential.set, credential.key = "then the unit's credential", named("gemini"), "k-u"
	file.name, file.set, file.unit, file.key = "then the key file", named("gemini"), nil, "k-f"
	variable.name, variable.set, variable.unit, variable.file, variable.key = "then the environment", named("gemini"), nil, "", "k-g"
	store.name, store.set, store.unit, store.file, store.env, store.key = "then the store", named("gemini"), nil, "", nil, "k-s"
	for _, tt := range []choice{
		configured, credential, file, variable, store,
		{name: "anthropic without a key", set: named("anthropic"), env: map[string]string{"OPENAI_API_KEY": "k-o"}, provider: "anthropic", problem: "run `zino auth set anthropic`, or set ANTHROPIC_API_KEY"},
		{name: "gemini without a key", set: named("gemini"), provider: "gemini", problem: "aistudio.google.com"},
		{name: "openai without a key", set: named("openai"), env: map[string]string{"ANTHROPIC_API_KEY": "k-a"}, provider: "openai", problem: "OPENAI_API_KEY"},
		{name: "[api] key for the named provider", set: both("anthropic", "k-1"), provider: "anthropic", endpoint: anthropicURL, key: "k-1"},
		{name: "[api] base_url for openai", set: func(c *config.Config) { c.Provider, c.API.BaseURL = "openai", lanURL }, env: map[string]string{"OPENAI_BASE_URL": "http://10.0.0.2/v1"}, provider: "openai", endpoint: lanURL},
		{name: "[api] base_url not for anthropic", set: func(c *config.Config) { c.Provider, c.API.BaseURL = "anthropic", lanURL }, env: allKeys, provider: "anthropic", endpoint: anthropicURL, key: "k-a"},
		{name: "LLM_API_KEY is for openai only", set: named("openrouter"), env: map[string]string{"LLM_API_KEY": "k-l"}, provider: "openrouter", problem: "OPENROUTER_API_KEY"},
		{name: "a local server without a key", set: func(c *config.Config) { c.Provider, c.AnthropicBaseURL = "anthropic", "http://127.0.0.1:9" }, provider: "anthropic", endpoint: "http://127.0.0.1:9"},
		{name: "a missing key file", set: func(c *config.Config) { c.Provider, c.API.KeyFile = "gemini", "/nowhere/key" }, provider: "gemini", problem: "/nowhere/key"},
		{name: "an invalid credential", set: named("gemini"), unit: map[string]string{"zino-gemini": "k- u"}, provider: "gemini", problem: "zino-gemini"},
		{name: "ollama", set: named("ollama"), env: allKeys, provider: "ollama", endpoint: ollamaURL},
		{name: "ollama elsewhere", set: func(c *config.Config) { c.Provider, c.API.BaseURL = "ollama", "http://10.0.0.9:1" }, provider: "ollama", endpoint: "http://10.0.0.9:1"},
		{name: "OLLAMA_HOST before [api] base_url", set: func(c *config.Config) { c.Provider, c.API.BaseURL = "ollama", "http://10.0.0.9:1" }, env: map[string]string{"OLLAMA_HOST": "10.0.0.8"}, provider: "ollama", endpoint: "http://10.0.0.8:11434"},
		{name: "an unknown name", set: named("opnai"), provider: "opnai", problem: `there is no provider "opnai"`},
	} {
		t.Run(tt.name, tt.check)
	}
}

// TestRequestProvider checks the endpoint, model and key of a request that names a
// provider, with different configurations.
func TestRequestProvider(t *testing.T) {
	configured := func(name, key, base string) func(*config.Config) {
		return func(c *config.Config) { c.Provider, c.API.Key, c.API.BaseURL = name, key, base }
	}
	for _, tt := range []struct {
		choice // provider, model, endpoint, key and problem are the expected result
		asks   string
	}{
		{choice{name: "not the configured provider", set: configured("gemini", "k-1", ""), env: allKeys, provider: "anthropic", model: "claude-sonnet-5-5", endpoint: anthropicURL, key: "k-a"}, "anthropic"},
		{choice{name: "openai", set: configured("gemini", "k-1", lanURL), env: allKeys, provider: "openai", model: "gpt-6-luna", endpoint: openAIURL, key: "k-o"}, "openai"},
		{choice{name: "gemini", env: allKeys, provider: "gemini", model: "gemini-flash-latest", endpoint: geminiURL, key: "k-g"}, "gemini"},
		{choice{name: "openrouter", env: allKeys, provider: "openrouter", model: "openrouter/auto", endpoint: openRouterURL, key: "k-r"}, "openrouter"},
		{choice{name: "ollama", env: map[string]string{"OLLAMA_HOST": "127.0.0.1:1"}, provider: "ollama", model: "-", endpoint: "http://127.0.0.1:1", problem: "http://127.0.0.1:1"}, "ollama"},
		{choice{name: "offline", env: allKeys, provider: "offline"}, "offline"},
		{choice{name: "the configured provider", set: configured("gemini", "k-1", ""), env: allKeys, provider: "gemini", endpoint: geminiURL, key: "k-1"}, "gemini"},
		{choice{name: "the default provider", env: allKeys, provider: "anthropic", endpoint: anthropicURL, key: "k-a"}, "anthropic"},
		{choice{name: "the default endpoint", set: configured("", "k-1", lanURL), env: allKeys, provider: "openai", endpoint: lanURL, key: "k-1"}, "openai"},
		{choice{name: "the default endpoint under auto", set: configured("auto", "k-1", lanURL), provider: "openai", endpoint: lanURL, key: "k-1"}, "openai"},
		{choice{name: "no key", set: configured("gemini", "k-1", ""), provider: "openai", model: "gpt-6-luna", problem: "openai has no key: run `zino auth set openai`, or set OPENAI_API_KEY"}, "openai"},
		{choice{name: "auto with the configured provider", set: configured("gemini", "k-1", ""), env: allKeys, provider: "gemini", endpoint: geminiURL, key: "k-1"}, "auto"},
		{choice{name: "auto, no key for the configured provider", set: configured("gemini", "", ""), env: map[string]string{"OPENROUTER_API_KEY": "k-r"}, provider: "openrouter", model: "openrouter/auto", endpoint: openRouterURL, key: "k-r"}, "auto"},
		{choice{name: "auto with an invalid key file", set: configured("gemini", "", lanURL), file: "k- 1", provider: "offline"}, "auto"},
		{choice{name: "auto with nothing", provider: "offline"}, "auto"},
		{choice{name: "auto with a key", env: allKeys, provider: "anthropic", endpoint: anthropicURL, key: "k-a"}, "auto"},
		{choice{name: "auto, offline configured", set: configured("offline", "", lanURL), provider: "openai", endpoint: lanURL}, "auto"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.start(t)
			got, err := r.target(t.Context(), selector{provider: tt.asks})
			zinotest.Must(t, err)
			switch {
			case tt.model == "-" || tt.provider == "offline":
				tt.model = ""
			case tt.model == "":
				tt.model = "m"
			}
			if c := got.caps; c.Provider != tt.provider || c.Model != tt.model || c.Endpoint != tt.endpoint || (c.Problem == "") != (tt.problem == "") || !strings.Contains(c.Problem, tt.problem) {
				t.Errorf("got %+v", c)
			}
			if got.ep != nil && got.ep.Key != tt.key {
				t.Errorf("asked with the key %q, want %q", got.ep.Key, tt.key)
			}
		})
	}
}

// TestRequestModel checks that every provider is asked for the model that a request
// names.
func TestRequestModel(t *testing.T) {
	r := choice{env: allKeys, set: named("gemini")}.start(t)
	for _, provider := range []string{"", "auto", "anthropic", "openai", "gemini", "openrouter", "ollama"} {
		if got, err := r.target(t.Context(), selector{provider: provider, model: "mine"}); err != nil || got.caps.Model != "mine" || got.caps.Problem != "" {
			t.Errorf("%q: got %+v, %v", provider, got.caps, err)
		}
	}
}

// TestRequestAnswered checks that the requested provider answers.
func TestRequestAnswered(t *testing.T) {
	for _, wire := range wireNames {
		llm := fakellm.New(times(2, fakellm.Reply("x")))
		r := onWire(t, wire, llm.Host, nil)
		name := providerOf(wire)
		for provider, want := range map[string]string{name: name, "auto": name, "offline": "offline", "": name} {
			in := ask("hi", true)
			in.Provider = provider
			llm.Add(fakellm.Reply("x"))
			if text, err := r.answer(t.Context(), in, &chunks{}); err != nil || text.Provider != want {
				t.Errorf("%s, asked for %q: got %+v, %v", wire, provider, text, err)
			}
		}
		llm.Close()
	}
}

// TestUnknownProvider checks that an unknown name is an invalid request.
func TestUnknownProvider(t *testing.T) {
	r := start(t, named("offline"))
	for _, name := range []string{"gpt", "Anthropic", " openai", "anthropic\x1b[31m", strings.Repeat("x", 1000)} {
		in := ask("hi", true)
		in.Provider = name
		_, err := r.infer(t.Context(), in, &chunks{})
		if e := failure(t, err); e.Code != proto.CodeInvalid || !strings.HasSuffix(e.Message, ": it is one of anthropic, openai, gemini, openrouter, ollama, offline, auto") || len(e.Message) > 200 || strings.Contains(e.Message, "\x1b") {
			t.Errorf("%q: got %+v", name, *e)
		}
	}
}

// TestMissingKeys checks that each provider's error names its variable and page, and
// that the error without any provider names them all.
func TestMissingKeys(t *testing.T) {
	for _, a := range keys.Accounts() {
		r := start(t, named(""))
		in := ask("hi", true)
		for _, provider := range []string{a.Name, ""} {
			in.Provider = provider
			_, err := r.infer(t.Context(), in, &chunks{})
			e := failure(t, err)
			for _, want := range []string{a.Variable, "https://", a.Page, "zino auth set"} {
				if e.Code != proto.CodeUnavailable || !strings.Contains(e.Message, want) {
					t.Errorf("%s: %+v lacks %q", a.Name, *e, want)
				}
			}
		}
		in.Provider, in.NeedModel = "auto", true
		_, err := r.infer(t.Context(), in, &chunks{})
		if e := failure(t, err); !strings.Contains(e.Message, a.Variable+" ("+a.Page+")") {
			t.Errorf("auto: %+v", *e)
		}
	}
}

// TestWrongBases checks that a provider with an invalid URL returns an error that
// names the setting, but not its value, which may contain a password. Other
// providers still work, and the statistics report the problem.
func TestWrongBases(t *testing.T) {
	for _, tt := range []struct {
		provider, problem, env string
		set                    func(*config.Config)
	}{
		{"gemini", "gemini_base_url: not a URL", "", func(c *config.Config) { c.GeminiBaseURL = "s3cret" }},
		{"anthropic", "ANTHROPIC_BASE_URL: not a URL", "ANTHROPIC_BASE_URL=s3cret", nil},
		{"openai", "OPENAI_BASE_URL: not a URL", "OPENAI_BASE_URL=http://u:s3cret@", nil},
		{"openrouter", "OPENROUTER_BASE_URL: a base URL has no '?'", "OPENROUTER_BASE_URL=http://host?s3cret", nil},
		{"ollama", "OLLAMA_HOST: a base URL has no '?'", "OLLAMA_HOST=host:1?s3cret", nil},
		{"ollama", "OLLAMA_HOST: not a URL", "OLLAMA_HOST=http://[s3cret", nil},
	} {
		t.Run(tt.problem, func(t *testing.T) {
			alone(t)
			name, value, _ := strings.Cut(tt.env, "=")
			if name != "" {
				t.Setenv(name, value)
			}
			r := start(t, func(c *config.Config) {
				if c.Provider = "offline"; tt.set != nil {
					tt.set(c)
				}
			})
			if err := r.ask(t, tt.provider); err == nil || !strings.Contains(err.Error(), tt.problem) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: got %v, want %q", tt.provider, err, tt.problem)
			}
			if err := r.ask(t, ""); err != nil {
				t.Errorf("the configured provider: %v", err)
			}
			stats, err := rpc.Call(t.Context(), r.client, proto.GetStats, proto.StatsRequest{})
			if err != nil || len(stats.Problems) != 1 || !strings.Contains(stats.Problems[0], tt.problem) {
				t.Errorf("statistics: %+v, %v", stats, err)
			}
		})
	}
}

// ask sends a request to a provider.
func (r *router) ask(t *testing.T, provider string) error {
	t.Helper()
	req := proto.Infer{Provider: provider, Messages: proto.Raw(`[{"role":"user","content":"hello"}]`)}
	_, err := rpc.CallText(t.Context(), r.client, proto.RtrInfer, req, nil)
	return err
}

// TestWrongBaseIsImplied checks that an invalid URL does not make the router choose
// another provider or report that no model is connected.
func TestWrongBaseIsImplied(t *testing.T) {
	for _, provider := range []string{"", "auto", "openai"} {
		c := choice{
			env: map[string]string{"OPENAI_BASE_URL": "localhost:1"}, provider: "openai", problem: "OPENAI_BASE_URL: not a URL",
			set: func(c *config.Config) { c.Provider = provider },
		}
		t.Run(provider, func(t *testing.T) { c.check(t) })
	}
	r := choice{env: map[string]string{"OPENAI_BASE_URL": "localhost:1"}}.start(t)
	r.caps(t)
	stats := proto.Stats{}
	if r.stats(&stats); len(stats.Problems) != 1 {
		t.Errorf("statistics: %+v", stats)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		set        func(*config.Config)
		env        string // NAME=value
	}{
		{"no scheme", "f.toml: [api] base_url: not a URL", func(c *config.Config) { c.API.BaseURL = "user:s3cret@host/v1" }, ""},
		{"other scheme", "[api] base_url: not a URL", func(c *config.Config) { c.API.BaseURL = "ftp://host" }, ""},
		{"query", "[api] base_url: a base URL has no '?'", func(c *config.Config) { c.API.BaseURL = "https://host/v1?key=s3cret" }, ""},
		{"key", "[api] key", func(c *config.Config) { c.API.Key = "s3cret one" }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			alone(t)
			if name, value, ok := strings.Cut(tt.env, "="); ok {
				t.Setenv(name, value)
			}
			cfg := config.Default()
			cfg.File, cfg.Rtr.DataDir = "f.toml", t.TempDir()
			tt.set(cfg)
			_, err := New(cfg, slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestBases checks the base URL of each provider: the variable, else the
// configuration, else the default. An empty value counts as unset.
func TestBases(t *testing.T) {
	for _, p := range []struct {
		name, variable, own string
		configure           func(*config.Config, string)
	}{
		{"anthropic", "ANTHROPIC_BASE_URL", anthropicURL, func(c *config.Config, s string) { c.AnthropicBaseURL = s }},
		{"openai", "OPENAI_BASE_URL", openAIURL, func(c *config.Config, s string) { c.OpenAIBaseURL = s }},
		{"gemini", "GEMINI_BASE_URL", geminiURL, func(c *config.Config, s string) { c.GeminiBaseURL = s }},
		{"openrouter", "OPENROUTER_BASE_URL", openRouterURL, func(c *config.Config, s string) { c.OpenRouterBaseURL = s }},
		{"ollama", "OLLAMA_HOST", ollamaURL, nil},
	} {
		for _, tt := range []struct{ variable, configured, want string }{
			{"", "", p.own},
			{" \n", " ", p.own},
			{"", "http://10.0.0.1:1/x/", "http://10.0.0.1:1/x"},
			{"http://10.0.0.2:1/", "", "http://10.0.0.2:1"},
			{" http://10.0.0.2:1 ", "http://10.0.0.1:1", "http://10.0.0.2:1"},
		} {
			if tt.configured != "" && p.configure == nil {
				continue // the configuration has no URL for Ollama
			}
			t.Run(p.name+" "+tt.variable+" "+tt.configured, func(t *testing.T) {
				choice{
					env: map[string]string{p.variable: tt.variable}, provider: p.name, endpoint: tt.want, key: map[bool]string{true: "k-1"}[p.name != "ollama"],
					set: func(c *config.Config) {
						if c.Provider, c.API.Key = p.name, "k-1"; p.configure != nil {
							p.configure(c, tt.configured)
						}
					},
				}.check(t)
			})
		}
	}
}

func TestOllamaHost(t *testing.T) {
	for value, want := range map[string]string{
		"127.0.0.1":            "http://127.0.0.1:11434",
		"127.0.0.1:8080":       "http://127.0.0.1:8080",
		"box.lan":              "http://box.lan:11434",
		"box.lan:1":            "http://box.lan:1",
		":9000":                "http://127.0.0.1:9000",
		"0.0.0.0":              "http://127.0.0.1:11434",
		"0.0.0.0:9000":         "http://127.0.0.1:9000",
		"[::]:9000":            "http://127.0.0.1:9000",
		"::1":                  "http://[::1]:11434",
		"[::1]":                "http://[::1]:11434",
		"[::1]:5":              "http://[::1]:5",
		"http://box.lan:1":     "http://box.lan:1",
		"http://box.lan":       "http://box.lan",
		"https://box.lan":      "https://box.lan",
		"https://box.lan/deep": "https://box.lan/deep",
		"http://0.0.0.0:7":     "http://127.0.0.1:7",
		"box.lan:1/deep":       "http://box.lan:1/deep",
		"https://u:p@box.lan":  "https://u:p@box.lan",
	} {
		got := ollamaHost(value)
		if u, err := url.Parse(got); got != want || err != nil || u.Host == "" {
			t.Errorf("%q: got %q, want %q; %v", value, got, want, err)
		}
	}
}

// TestStoreChanges checks that setting and removing a key takes effect without a
// restart.
func TestStoreChanges(t *testing.T) {
	r := choice{}.start(t)
	store, err := keys.OpenUser(os.Getenv)
	zinotest.Must(t, err)
	expect := func(provider, key string) {
		t.Helper()
		caps := r.caps(t)
		chosen, err := r.target(t.Context(), selector{})
		if err != nil || caps.Provider != provider || (caps.Problem == "") != (key != "") || key != "" && chosen.ep.Key != key {
			t.Errorf("got %+v, %v; want %s with %s", caps, err, provider, key)
		}
	}
	set := func(name, key string) {
		t.Helper()
		if _, err := store.Set(t.Context(), name, key); err != nil {
			t.Fatal(err)
		}
	}
	expect("", "")
	set("openrouter", "k-1")
	expect("openrouter", "k-1")
	set("openrouter", "k-2")
	expect("openrouter", "k-2")
	set("gemini", "k-3")
	expect("gemini", "k-3")
	for _, name := range []string{"gemini", "openrouter"} {
		if _, err := store.Delete(name); err != nil {
			t.Fatal(err)
		}
	}
	expect("", "")
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, model string
		want           bool
	}{
		{"m", "m", true},
		{"m", "mm", false},
		{"*", "", true},
		{"*", "any/thing:7b", true},
		{"gpt-*", "gpt-6", true},
		{"gpt-*", "x/gpt-6", false},
		{"*:free", "a/b:free", true},
		{"*:free", ":free2", false},
		{"a*b*c", "a-b-c", true},
		{"a*b*c", "abc", true},
		{"a*b*c", "acb", false},
		{"a*bc*c", "abc", false},
		{"*a*a*", "a", false},
		{"*a*a*", "xaya", true},
		{"a**b", "ab", true},
		{"", "", true},
		{"", "m", false},
	} {
		if got := matches(tt.pattern, tt.model); got != tt.want {
			t.Errorf("%q, %q: got %v", tt.pattern, tt.model, got)
		}
	}
}

// TestKnown checks the effect of each key of [[rtr.model]] on a request.
func TestKnown(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rules  []config.Model
		want   string // substring of the body
		absent string // not in the body
	}{
		{"nothing", nil, `"max_tokens":5`, "max_completion_tokens"},
		{"no temperature", []config.Model{{Name: "m", Refuses: &[]string{"temperature"}}}, `"top_p":1`, `"temperature"`},
		{"no top_p", []config.Model{{Name: "m", Refuses: &[]string{"top_p"}}}, `"temperature":0`, `"top_p"`},
		{"no stream_options", []config.Model{{Name: "m", Refuses: &[]string{"stream_options"}}}, `"stream":true`, `"stream_options"`},
		{"a user message last", []config.Model{{Name: "m", Refuses: &[]string{"assistant_last"}}}, `{"role":"user","content":"Continue."}]`, "\x00"},
		{"an empty list first", []config.Model{{Name: "m", Refuses: &[]string{}}, {Name: "*", Refuses: &[]string{"top_p"}}}, `"top_p":1`, "\x00"},
		{"another field", []config.Model{{Name: "*", Tools: "text"}, {Name: "m", MaxTokensField: "max_completion_tokens"}}, `"max_completion_tokens":5`, `"max_tokens"`},
		{"of another provider", []config.Model{{Name: "*", Provider: "gemini", Refuses: &[]string{"top_p"}}}, `"top_p":1`, "\x00"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, llm := toolRouter(t, func(c *config.Config) { c.Rtr.Model = tt.rules }, fakellm.Reply("x"))
			in := ask("hi", true)
			in.Messages, in.MaxTokens = proto.Raw(`[{"role":"user","content":"u"},{"role":"assistant","content":"a"}]`), 5
			if _, err := r.infer(t.Context(), in, &chunks{}); err != nil {
				t.Fatal(err)
			}
			if body := string(llm.Requests()[0].Body); !strings.Contains(body, tt.want) || strings.Contains(body, tt.absent) {
				t.Errorf("asked with %s", body)
			}
		})
	}
}

// TestLearn checks that the router asks Ollama once for a model's capabilities,
// before the first request, and that the configuration overrides them.
func TestLearn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		can    []string
		rules  []config.Model
		native bool
		length int // options.num_ctx
	}{
		{"tools", []string{"completion", "tools"}, nil, true, 32768},
		{"none", []string{"completion"}, nil, false, 32768},
		{"configured", []string{"completion"}, []config.Model{{Name: "m", Tools: "native", Context: 9000}}, true, 9000},
		{"configured as text", []string{"completion", "tools"}, []config.Model{{Name: "m", Provider: "ollama", Tools: "text"}}, false, 32768},
	} {
		t.Run(tt.name, func(t *testing.T) {
			alone(t)
			llm := fakellm.New(times(2, fakellm.Reply("x")))
			defer llm.Close()
			llm.SetCapabilities(tt.can...)
			t.Setenv("OLLAMA_HOST", llm.Host)
			r := start(t, func(c *config.Config) { c.Provider, c.Rtr.Model = "ollama", tt.rules })
			if caps := r.caps(t); caps.NativeTools != tt.native {
				t.Errorf("got %+v", caps)
			}
			for range 2 {
				if text, err := r.infer(t.Context(), askTools(true), &chunks{}); err != nil || text != "x" {
					t.Errorf("got %q, %v", text, err)
				}
			}
			requests := llm.Requests()
			if len(requests) != 3 || requests[0].Path != "/api/show" {
				t.Fatalf("%d requests, the first for %s", len(requests), requests[0].Path)
			}
			var body struct {
				Tools   []any
				Options struct {
					NumCtx int `json:"num_ctx"`
				}
			}
			zinotest.Must(t, json.Unmarshal(requests[2].Body, &body))
			if len(body.Tools) > 0 != tt.native || body.Options.NumCtx != tt.length {
				t.Errorf("asked with %s", requests[2].Body)
			}
		})
	}
}

// TestProbeOllama checks that an Ollama server on this host is found and used with
// its own protocol.
func TestProbeOllama(t *testing.T) {
	llm := fakellm.New(fakellm.Reply("x"))
	defer llm.Close()
	llm.SetModels("its-model")
	r := start(t, func(c *config.Config) { c.Provider, c.Service.Model = "auto", "" })
	r.probes = []server{{"ollama", llm.Host}}
	if caps := r.caps(t); caps.Provider != "ollama" || caps.Model != "its-model" || !caps.Found || !caps.NativeTools || caps.Endpoint != llm.Host {
		t.Errorf("got %+v", caps)
	}
	if text, err := r.infer(t.Context(), ask("hi", true), &chunks{}); err != nil || text != "x" {
		t.Errorf("got %q, %v", text, err)
	}
	if last := llm.Requests()[len(llm.Requests())-1]; last.Path != "/api/chat" || !strings.Contains(string(last.Body), `"its-model"`) {
		t.Errorf("asked at %s with %s", last.Path, last.Body)
	}
}

// TestOllamaModel checks that a configured Ollama server is asked for its models
// until it has one, if the configuration names none.
func TestOllamaModel(t *testing.T) {
	alone(t)
	llm := fakellm.New(fakellm.Reply("x"))
	defer llm.Close()
	llm.SetModels()
	t.Setenv("OLLAMA_HOST", llm.Host)
	r := start(t, func(c *config.Config) { c.Provider, c.Service.Model = "ollama", "" })
	if caps := r.caps(t); caps.Endpoint != llm.Host || !strings.Contains(caps.Problem, llm.Host) || !strings.Contains(caps.Problem, "no model") {
		t.Errorf("without a model: got %+v", caps)
	}
	llm.SetModels("its-model")
	if caps := r.caps(t); caps.Model != "its-model" || caps.Provider != "ollama" || caps.Found || caps.Problem != "" || !caps.NativeTools {
		t.Errorf("with one: got %+v", caps)
	}
	if text, err := r.answer(t.Context(), ask("hi", false), &chunks{}); err != nil || text.Content != "x" || text.Model != "its-model" {
		t.Errorf("got %+v, %v", text, err)
	}
}

// TestProbe checks that a model server on loopback is found, gets neither a key nor
// a prompt from the probe, and is named in the log.
func TestProbe(t *testing.T) {
	page := fakellm.New() // a server without a list of models
	page.SetModels()
	defer page.Close()
	llm := fakellm.New(fakellm.Turn{Text: "found", Times: fakellm.Forever})
	defer llm.Close()
	llm.SetModels("nomic-embed-text", "bad\x1bname", "small-model")
	r := start(t, func(c *config.Config) { c.Provider, c.Service.Model = "auto", "" })
	r.probes = []server{{"openai", "http://127.0.0.1:1/v1"}, {"openai", page.URL}, {"openai", llm.URL}, {"openai", "http://example.com/v1"}}
	want := proto.RouterCapabilities{Streaming: true, Provider: "openai", Model: "small-model", Endpoint: llm.URL, Found: true}
	if got := r.caps(t); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if text, err := r.infer(t.Context(), ask("hi", true), &chunks{}); err != nil || text != "found" {
		t.Errorf("got %q, %v", text, err)
	}
	requests := llm.Requests()
	if len(requests) != 2 || requests[0].Method != "GET" || !strings.Contains(string(requests[1].Body), `"model":"small-model"`) {
		t.Errorf("the server got %d requests", len(requests))
	}
	for _, req := range requests {
		if auth := req.Header.Get("Authorization"); auth != "" {
			t.Errorf("%s %s with %q", req.Method, req.Path, auth)
		}
	}
	if !strings.Contains(r.log.String(), llm.URL) {
		t.Error("the log does not name the server")
	}
}

// TestProbeAgain checks that a server started later is found, and that a stopped one
// is dropped after a failed request.
func TestProbeAgain(t *testing.T) {
	r := start(t, func(c *config.Config) { c.Provider = "auto" })
	if text, err := r.infer(t.Context(), ask("hi", false), &chunks{}); err != nil || !strings.Contains(text, "no AI") {
		t.Errorf("with no server: got %q, %v", text, err)
	}
	llm := fakellm.New(fakellm.Reply("hello"))
	defer llm.Close()
	r.probes = []server{{"openai", llm.URL}} // safe: no request is running
	if text, err := r.infer(t.Context(), ask("hi", false), &chunks{}); err != nil || text != "hello" {
		t.Errorf("with a server: got %q, %v", text, err)
	}
	llm.Close()
	if _, err := r.infer(t.Context(), ask("hi", false), &chunks{}); !errors.Is(err, proto.ErrUnavailable) {
		t.Errorf("first request after it stopped: got %v", err)
	}
	if text, err := r.infer(t.Context(), ask("hi", false), &chunks{}); err != nil || !strings.Contains(text, "no AI") {
		t.Errorf("second request after it stopped: got %q, %v", text, err)
	}
}

// TestNeedModel checks that a request that needs a model gets the offline provider
// only if the configuration names it.
func TestNeedModel(t *testing.T) {
	in := ask("run date", true)
	in.NeedModel = true
	r := start(t, func(c *config.Config) { c.Provider = "auto" })
	_, err := r.infer(t.Context(), in, &chunks{})
	if e := failure(t, err); e.Code != proto.CodeUnavailable || !strings.Contains(e.Message, "[api] base_url") || !strings.Contains(e.Message, "ANTHROPIC_API_KEY") {
		t.Errorf("got %+v", *e)
	}
	r = start(t, func(c *config.Config) { c.Provider = "offline" })
	if text, err := r.infer(t.Context(), in, &chunks{}); err != nil || !strings.Contains(text, "<tool_call>") {
		t.Errorf("offline configured: got %q, %v", text, err)
	}
}

// TestLocalModel checks that a configured local server is asked for its models with
// its key, if the configuration names no model.
func TestLocalModel(t *testing.T) {
	llm := fakellm.New(fakellm.Reply("hello"))
	defer llm.Close()
	llm.SetModels()
	r := start(t, func(c *config.Config) { c.API.BaseURL, c.API.Key, c.Service.Model = llm.URL, testKey, "" })
	if caps := r.caps(t); !strings.Contains(caps.Problem, "[service] model") || caps.Endpoint != llm.URL {
		t.Errorf("without a model: got %+v", caps)
	}
	llm.SetModels("its-model")
	if text, err := r.infer(t.Context(), ask("hi", false), &chunks{}); err != nil || text != "hello" {
		t.Errorf("got %q, %v", text, err)
	}
	if caps := r.caps(t); caps.Model != "its-model" || caps.Found || caps.Problem != "" {
		t.Errorf("got %+v", caps)
	}
	if auth := llm.Requests()[0].Header.Get("Authorization"); auth != "Bearer "+testKey {
		t.Errorf("asked for models with %q", auth)
	}
	noSecret(t, "the log", r.log.String())
}

func TestStats(t *testing.T) {
	r := start(t, func(*config.Config) {})
	stats := func() proto.Stats {
		s, err := rpc.Call(t.Context(), r.client, proto.GetStats, proto.StatsRequest{})
		zinotest.Must(t, err)
		return s
	}
	if s := stats(); len(s.Problems) != 0 {
		t.Errorf("before the first request: %q", s.Problems)
	}
	r.caps(t)
	if s := stats(); len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "base_url") {
		t.Errorf("without a model: %q", s.Problems)
	}
}

func TestLocal(t *testing.T) {
	for raw, want := range map[string]bool{
		"http://127.0.0.1:8080/v1": true, "http://[::1]/v1": true, "http://localhost:1/v1": true, "http://192.168.1.7/v1": true,
		"http://10.1.2.3/v1": true, "https://api.openai.com/v1": false, "http://8.8.8.8/v1": false, "http://localhost.example/v1": false,
	} {
		if wire.IsLocal(raw) != want {
			t.Errorf("%s: got %v", raw, !want)
		}
	}
}

func TestStatsOfAModel(t *testing.T) {
	r, llm := openaiRouter(t)
	r.caps(t)
	stats, err := rpc.Call(t.Context(), r.client, proto.GetStats, proto.StatsRequest{})
	if err != nil || stats.Info["endpoint"] != llm.URL || stats.Info["model"] != "m" || stats.Info["provider"] != "openai" || len(stats.Problems) != 0 {
		t.Errorf("got %+v, %v", stats, err)
	}
}

// anthropicRouter serves a router that asks a scripted provider on Anthropic's wire,
// with the variables of env.
func anthropicRouter(t *testing.T, key string, env map[string]string, script ...fakellm.Turn) (*router, *fakellm.Server) {
	t.Helper()
	alone(t)
	for name, value := range env {
		t.Setenv(name, value)
	}
	llm := fakellm.New(script...)
	t.Cleanup(llm.Close)
	return onWire(t, "anthropic", llm.Host, func(cfg *config.Config) { cfg.API.Key = key }), llm
}

// sent sends a request and returns the header of the first one that the provider got.
func sent(t *testing.T, r *router, llm *fakellm.Server) http.Header {
	t.Helper()
	if _, err := r.infer(t.Context(), ask("hi", true), &chunks{}); err != nil {
		t.Fatal(err)
	}
	return llm.Requests()[0].Header
}

// TestAnthropicToken checks that ANTHROPIC_AUTH_TOKEN is sent as a bearer token if no
// key is set.
func TestAnthropicToken(t *testing.T) {
	token := map[string]string{"ANTHROPIC_AUTH_TOKEN": " k-token\n"}
	for _, tt := range []struct{ name, configured, variable, key, bearer string }{
		{"alone", "", "", "", "Bearer k-token"},
		{"with a key in the environment", "", "k-env", "k-env", ""},
		{"with a key in the configuration", "k-set", "", "k-set", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			alone(t)
			t.Setenv("ANTHROPIC_API_KEY", tt.variable)
			r, llm := anthropicRouter(t, tt.configured, token, fakellm.Reply("yes"))
			h := sent(t, r, llm)
			if h.Get("X-Api-Key") != tt.key || h.Get("Authorization") != tt.bearer || strings.Contains(r.log.String(), "k-token") {
				t.Errorf("sent %q and %q", h.Get("X-Api-Key"), h.Get("Authorization"))
			}
		})
	}
}

// TestAnthropicTokenChooses checks that a token counts like a key in the choice of
// the provider.
func TestAnthropicTokenChooses(t *testing.T) {
	for _, tt := range []choice{
		{name: "unnamed", env: map[string]string{"ANTHROPIC_AUTH_TOKEN": "k-t", "OPENAI_API_KEY": "k-o"}, provider: "anthropic", endpoint: anthropicURL, key: "k-t"},
		{name: "named", set: named("anthropic"), env: map[string]string{"ANTHROPIC_AUTH_TOKEN": "k-t"}, provider: "anthropic", endpoint: anthropicURL, key: "k-t"},
		{name: "a stored key before it", env: map[string]string{"ANTHROPIC_AUTH_TOKEN": "k-t"}, stored: map[string]string{"anthropic": "k-s"}, provider: "anthropic", endpoint: anthropicURL, key: "k-s"},
		{name: "an invalid token", set: named("anthropic"), env: map[string]string{"ANTHROPIC_AUTH_TOKEN": "k- t"}, provider: "anthropic", problem: "ANTHROPIC_AUTH_TOKEN"},
		{name: "not for gemini", set: named("gemini"), env: map[string]string{"ANTHROPIC_AUTH_TOKEN": "k-t"}, provider: "gemini", problem: "GEMINI_API_KEY"},
	} {
		t.Run(tt.name, tt.check)
	}
}

// TestAnthropicTokenRefused checks that the error names the variable.
func TestAnthropicTokenRefused(t *testing.T) {
	r, _ := anthropicRouter(t, "", map[string]string{"ANTHROPIC_AUTH_TOKEN": "k-token"}, refusal(401))
	_, err := r.infer(t.Context(), ask("hi", true), &chunks{})
	if e := failure(t, err); e.Code != proto.CodeDenied || !strings.Contains(e.Details, "ANTHROPIC_AUTH_TOKEN") || strings.Contains(e.Error()+e.Details, "k-token") {
		t.Errorf("got %+v", *e)
	}
}

const headerLines = "anthropic-beta: one,two\nUser-Agent: mine\nX-Tenant:  s3cret-t \n\nx-api-key: s3cret-1\nAuthorization: Bearer s3cret-2\nHost: s3cret-3\n" +
	"Content-Type: s3cret/4\nTransfer-Encoding: s3cret-5\nProxy-Authorization: s3cret-6\nAccept-Encoding: s3cret-7\r\ns3cret-8\nbad name: s3cret-9\nX-Bad: s3cret\x01"

// TestAnthropicHeaders checks that ANTHROPIC_CUSTOM_HEADERS are sent, except for
// reserved ones, and that their values appear neither in problems nor in the log.
func TestAnthropicHeaders(t *testing.T) {
	env := map[string]string{"ANTHROPIC_CUSTOM_HEADERS": headerLines}
	r, llm := anthropicRouter(t, testKey, env, fakellm.Reply("yes"))
	h := sent(t, r, llm)
	if h.Get("Anthropic-Beta") != "one,two" || h.Get("User-Agent") != "mine" || h.Get("X-Tenant") != "s3cret-t" || h.Get("X-Api-Key") != testKey || h.Get("Content-Type") != "application/json" {
		t.Errorf("sent %v", h)
	}
	delete(h, "X-Tenant")
	for name, values := range h {
		if strings.Contains(strings.Join(values, " "), "s3cret") {
			t.Errorf("%s was sent: %q", name, values)
		}
	}
	stats, err := rpc.Call(t.Context(), r.client, proto.GetStats, proto.StatsRequest{})
	zinotest.Must(t, err)
	problems := strings.Join(stats.Problems, "\n")
	for _, want := range []string{"line 5: X-Api-Key", "line 6: Authorization", "line 7: Host", "line 8: Content-Type", "line 9: Transfer-Encoding", "line 10: Proxy-Authorization", "line 11: Accept-Encoding", "line 12 is not", "line 13 is not", "line 14 is not"} {
		if n := strings.Count(problems, "ANTHROPIC_CUSTOM_HEADERS, "+want); n != 1 {
			t.Errorf("%q occurs %d times in\n%s", want, n, problems)
		}
	}
	if strings.Contains(problems+r.log.String(), "s3cret") {
		t.Errorf("a header's value is in\n%s\n%s", problems, r.log.String())
	}
}

// TestAnthropicHeadersStay checks that custom headers are sent on Anthropic's wire
// only, and that a value which the provider echoes in an error is masked.
func TestAnthropicHeadersStay(t *testing.T) {
	env := map[string]string{"ANTHROPIC_CUSTOM_HEADERS": "X-Tenant: s3cret-t"}
	said := refusal(400)
	said.Text = `{"error":{"type":"invalid_request_error","message":"no tenant s3cret-t"}}`
	r, _ := anthropicRouter(t, testKey, env, said)
	_, err := r.infer(t.Context(), ask("hi", true), &chunks{})
	if e := failure(t, err); !strings.Contains(e.Message, "no tenant [hidden]") || strings.Contains(e.Message+e.Details+r.log.String(), "s3cret") {
		t.Errorf("got %+v", *e)
	}
	other, llm := openaiRouter(t, fakellm.Reply("yes"))
	if h := sent(t, other, llm); slices.Contains(h["X-Tenant"], "s3cret-t") {
		t.Error("another provider got the custom headers")
	}
}

// TestAnthropicUnstreamed checks that with streaming = false the provider is not
// asked for a stream, even if the caller is.
func TestAnthropicUnstreamed(t *testing.T) {
	for _, stream := range []bool{false, true} {
		llm := fakellm.New(fakellm.Reply("yes"))
		t.Cleanup(llm.Close)
		r := onWire(t, "anthropic", llm.Host, func(cfg *config.Config) { cfg.Rtr.Streaming = false })
		if text, err := r.infer(t.Context(), ask("hi", stream), &chunks{}); text != "yes" || err != nil {
			t.Errorf("got %q, %v", text, err)
		}
		if body := string(llm.Requests()[0].Body); !strings.Contains(body, `"stream":false`) {
			t.Errorf("asked with %s", body)
		}
	}
}
