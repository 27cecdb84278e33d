package rtr

import (
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/keys"
	"zino/proto"
)

// TestRequestProvider holds whom a request gets that names a provider, beside
// what is configured: where it is asked, for which model and with which key.
func TestRequestProvider(t *testing.T) {
	configured := func(name, key, base string) func(*config.Config) {
		return func(c *config.Config) { c.Provider, c.API.Key, c.API.BaseURL = name, key, base }
	}
	for _, tt := range []struct {
		choice // provider, model, endpoint, key, problem: what is to come of it
		asks   string
	}{
		{choice{name: "another than the configured", set: configured("gemini", "k-1", ""), env: allKeys, provider: "anthropic", model: "claude-sonnet-5-5", endpoint: anthropicURL, key: "k-a"}, "anthropic"},
		{choice{name: "openai", set: configured("gemini", "k-1", lanURL), env: allKeys, provider: "openai", model: "gpt-6-luna", endpoint: openAIURL, key: "k-o"}, "openai"},
		{choice{name: "gemini", env: allKeys, provider: "gemini", model: "gemini-flash-latest", endpoint: geminiURL, key: "k-g"}, "gemini"},
		{choice{name: "openrouter", env: allKeys, provider: "openrouter", model: "openrouter/auto", endpoint: openRouterURL, key: "k-r"}, "openrouter"},
		{choice{name: "ollama", env: map[string]string{"OLLAMA_HOST": "127.0.0.1:1"}, provider: "ollama", model: "-", endpoint: "http://127.0.0.1:1", problem: "http://127.0.0.1:1"}, "ollama"},
		{choice{name: "offline", env: allKeys, provider: "offline"}, "offline"},
		{choice{name: "the configured", set: configured("gemini", "k-1", ""), env: allKeys, provider: "gemini", endpoint: geminiURL, key: "k-1"}, "gemini"},
		{choice{name: "who is asked anyway", env: allKeys, provider: "anthropic", endpoint: anthropicURL, key: "k-a"}, "anthropic"},
		{choice{name: "the endpoint that is asked anyway", set: configured("", "k-1", lanURL), env: allKeys, provider: "openai", endpoint: lanURL, key: "k-1"}, "openai"},
		{choice{name: "the same under auto", set: configured("auto", "k-1", lanURL), provider: "openai", endpoint: lanURL, key: "k-1"}, "openai"},
		{choice{name: "no key", set: configured("gemini", "k-1", ""), provider: "openai", model: "gpt-6-luna", problem: "openai has no key: run `zino auth set openai`, or set OPENAI_API_KEY"}, "openai"},
		{choice{name: "auto with the configured", set: configured("gemini", "k-1", ""), env: allKeys, provider: "gemini", endpoint: geminiURL, key: "k-1"}, "auto"},
		{choice{name: "auto where the configured has no key", set: configured("gemini", "", ""), env: map[string]string{"OPENROUTER_API_KEY": "k-r"}, provider: "openrouter", model: "openrouter/auto", endpoint: openRouterURL, key: "k-r"}, "auto"},
		{choice{name: "auto with another's file", set: configured("gemini", "", lanURL), file: "k- 1", provider: "offline"}, "auto"},
		{choice{name: "auto with nothing", provider: "offline"}, "auto"},
		{choice{name: "auto with a key", env: allKeys, provider: "anthropic", endpoint: anthropicURL, key: "k-a"}, "auto"},
		{choice{name: "auto where offline is configured", set: configured("offline", "", lanURL), provider: "openai", endpoint: lanURL}, "auto"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.start(t)
			got, err := r.target(t.Context(), selector{provider: tt.asks})
			if err != nil {
				t.Fatal(err)
			}
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

// TestRequestModel: a model that a request names is asked for, whoever is.
func TestRequestModel(t *testing.T) {
	r := choice{env: allKeys, set: named("gemini")}.start(t)
	for _, provider := range []string{"", "auto", "anthropic", "openai", "gemini", "openrouter", "ollama"} {
		if got, err := r.target(t.Context(), selector{provider: provider, model: "mine"}); err != nil || got.caps.Model != "mine" || got.caps.Problem != "" {
			t.Errorf("%q: got %+v, %v", provider, got.caps, err)
		}
	}
}

// TestRequestAnswered: the providers are those that answer.
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

// TestUnknownProvider: a name that nobody has is the caller's mistake.
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

// TestMissingKeys: each provider's error names the variable and the page, and
// that of none at all names them all.
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
