package rtr

import (
	"log/slog"
	"net/url"
	"os"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/keys"
)

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

// TestBases holds where each provider is: by the variable, else by the
// configuration, else at its own address, and that what is empty is not set.
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
				continue // Ollama's is in no configuration
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

// TestStoreChanges holds that a key is used from when it is set until it is
// removed, without a restart.
func TestStoreChanges(t *testing.T) {
	r := choice{}.start(t)
	store, err := keys.OpenUser(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
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
