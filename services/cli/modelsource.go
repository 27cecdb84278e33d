package cli

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"

	"zino/pkg/config"
	keystore "zino/pkg/keys"
)

// firstProvider is the provider that the configuration names for requests that
// name none; empty where keys decide.
func firstProvider(cfg *config.Config) string {
	if cfg.Provider == "offline" || slices.Contains(config.Providers, cfg.Provider) {
		return cfg.Provider
	}
	if cfg.API.BaseURL != "" || cfg.API.Key != "" || cfg.API.KeyFile != "" || os.Getenv("LLM_API_KEY") != "" {
		return "openai"
	}
	return ""
}

// keySource finds where the key of an account comes from, in the order of rtr:
// [api] and LLM_API_KEY count for the provider that is asked first, and a stored
// key is not sent to [api] base_url.
func keySource(ctx context.Context, cfg *config.Config, account keystore.Account, store *keystore.Store) (keystore.Source, error) {
	first, keyFile := firstProvider(cfg) == account.Name, ""
	if first {
		if cfg.API.Key != "" {
			return keystore.Source{Kind: "[api] key", Place: "in " + cfg.File}, nil
		}
		keyFile = cfg.API.KeyFile
		if cfg.API.BaseURL != "" {
			store = nil
		}
	}
	if variable := "LLM_API_KEY"; first && account.Name == "openai" && strings.TrimSpace(os.Getenv(variable)) != "" {
		account.Variable = variable
	}
	_, from, err := keystore.Lookup(ctx, account, keyFile, os.Getenv, store)
	if token := "ANTHROPIC_AUTH_TOKEN"; err == nil && from.Kind == "" && account.Name == "anthropic" && strings.TrimSpace(os.Getenv(token)) != "" {
		from = keystore.Source{Kind: "environment", Place: token}
	}
	return from, err
}

// modelSource says who answers in a constellation that zino starts itself, and
// where the key comes from.
type modelSource struct {
	provider, endpoint, model, key string
}

func findModelSource(ctx context.Context, cfg *config.Config) modelSource {
	store, err := keystore.OpenUser(os.Getenv)
	if err != nil {
		store = nil
	}
	m := modelSource{provider: firstProvider(cfg), model: cfg.Service.Model, key: "none"}
	for _, account := range keystore.Accounts() {
		if m.provider != "" && m.provider != account.Name {
			continue
		}
		from, err := keySource(ctx, cfg, account, store)
		if from.Kind != "" || err != nil {
			m.provider, m.key = account.Name, origin(from, err)
		}
	}
	switch m.provider {
	case "offline":
		m.model = "none"
		return m
	case "":
		m.provider = "none: connect one with zino auth login openrouter, or zino auth set PROVIDER"
		if cfg.Provider == "auto" {
			m.provider = "auto: a model server on this host, else the offline provider (no AI)"
		}
		m.model = cmp.Or(m.model, "none")
		return m
	case "openai":
		m.endpoint = cmp.Or(cfg.API.BaseURL, os.Getenv("OPENAI_BASE_URL"), cfg.OpenAIBaseURL)
	case "anthropic":
		m.endpoint = cmp.Or(os.Getenv("ANTHROPIC_BASE_URL"), cfg.AnthropicBaseURL)
	case "gemini":
		m.endpoint = cmp.Or(os.Getenv("GEMINI_BASE_URL"), cfg.GeminiBaseURL)
	case "openrouter":
		m.endpoint = cmp.Or(os.Getenv("OPENROUTER_BASE_URL"), cfg.OpenRouterBaseURL)
	case "ollama":
		m.endpoint = os.Getenv("OLLAMA_HOST")
	}
	m.endpoint = withoutSecrets("", m.endpoint)
	if m.model == "" && cfg.API.BaseURL == "" {
		m.model = config.DefaultModels[m.provider]
	}
	m.model = cmp.Or(m.model, "the first that the server names")
	return m
}
