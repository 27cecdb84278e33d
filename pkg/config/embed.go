package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"unicode"
)

// embedProviders are the providers that have embeddings.
var embedProviders = []string{"openai", "openrouter", "ollama"}

// EmbedModel returns the provider and the model of Embed.
func (m *Mem) EmbedModel() (provider, model string) {
	provider, model, _ = strings.Cut(m.Embed, "/")
	return provider, model
}

func isEmbedModel(name string) bool {
	provider, model, _ := strings.Cut(name, "/")
	return slices.Contains(embedProviders, provider) && model != "" && !strings.ContainsFunc(model, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
}

// warnOfEmbedding warns that memories are sent to a provider that is not on this host.
func (f *faults) warnOfEmbedding() {
	if f.c.Mem.Embed == "" || len(f.list) > 0 {
		return
	}
	to, name := "an address that is not valid", ""
	if u, err := url.Parse(f.c.embedsAt()); err == nil {
		name, u.User = u.Hostname(), nil // a password is not shown
		to = u.String()
	}
	ip := net.ParseIP(name)
	cloud := strings.HasPrefix(f.c.Mem.Embed, "ollama/") && strings.HasSuffix(f.c.Mem.Embed, "cloud") // Ollama's suffix for models that it passes on
	switch {
	case cloud:
		to = "Ollama's cloud"
	case name == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified()):
		return
	}
	k := f.at("mem.embed", span{})
	f.c.Warnings = append(f.c.Warnings, fmt.Sprintf("%s:%d:%d: mem.embed sends the memories, and what is searched in them, to %s, which is not on this host", f.file, k.line, k.column, to))
}

// embedsAt returns the address of the provider of Mem.Embed, as zino-rtr finds it.
func (c *Config) embedsAt() string {
	provider, _ := c.Mem.EmbedModel()
	first := c.Provider == provider || provider == "openai" && (c.Provider == "" || c.Provider == "auto")
	at := ""
	switch {
	case first && provider != "openrouter" && c.API.BaseURL != "":
		at = c.API.BaseURL
	case provider == "openai":
		at = cmp.Or(os.Getenv("OPENAI_BASE_URL"), c.OpenAIBaseURL, "https://api.openai.com/v1")
	case provider == "openrouter":
		at = cmp.Or(os.Getenv("OPENROUTER_BASE_URL"), c.OpenRouterBaseURL, "https://openrouter.ai/api/v1")
	default:
		at = cmp.Or(os.Getenv("OLLAMA_HOST"), "127.0.0.1:11434")
		if !strings.Contains(at, "://") {
			at = "http://" + at
		}
	}
	return at
}
