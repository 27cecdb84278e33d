package config

import (
	"slices"
	"strings"
)

// Providers are the kinds of provider that rtr can speak to.
var Providers = []string{"anthropic", "openai", "gemini", "openrouter", "ollama"}

// DefaultModels are the models that are asked for where none is configured.
// Servers of one's own are asked what they have.
var DefaultModels = map[string]string{
	"anthropic": "claude-sonnet-5-5", "openai": "gpt-6-luna", "gemini": "gemini-flash-latest", "openrouter": "openrouter/auto",
}

// Rtr configures the router.
type Rtr struct {
	Socket       string     `toml:"socket"`
	DataDir      string     `toml:"data_dir"`      // where usage.jsonl is kept
	Streaming    bool       `toml:"streaming"`     //
	StallTimeout float64    `toml:"stall_timeout"` // seconds without a byte before a stream is given up; 0: none
	Fallback     []Fallback `toml:"fallback"`
	Limit        []Limit    `toml:"limit"`
	Model        []Model    `toml:"model"`
}

// Fallback is a model to be asked, in order, when those before it cannot answer.
type Fallback struct {
	Provider string `toml:"provider"` // one of Providers
	Model    string `toml:"model"`    // empty: the provider's default
}

// Limit is how often a provider is asked, by all callers together.
type Limit struct {
	Provider          string `toml:"provider"`            // one of Providers
	Concurrent        int    `toml:"concurrent"`          // requests at once; 0: no limit
	RequestsPerMinute int    `toml:"requests_per_minute"` // in any 60 s; 0: no limit
}

// Model adds to what rtr knows of models by itself. The first entry that matches
// a provider and model and has a key decides that key; an absent key changes
// nothing.
type Model struct {
	Name           string    `toml:"name"`             // identifier; '*' stands for any characters
	Provider       string    `toml:"provider"`         // empty: any
	Tools          string    `toml:"tools"`            // "native" or "text"; empty: as known
	Wire           string    `toml:"wire"`             // of Wires, at openai; empty: as known
	Refuses        *[]string `toml:"refuses"`          // of Refusable; absent: as known, empty: nothing
	MaxTokensField string    `toml:"max_tokens_field"` // name of the parameter that limits an answer
	Context        int       `toml:"context"`          // tokens; what Ollama is asked to hold
	Input          *float64  `toml:"input"`            // US dollars per million tokens; absent: as known
	Output         *float64  `toml:"output"`           //
	CacheRead      *float64  `toml:"cache_read"`       // absent: as known, else as input
	CacheWrite     *float64  `toml:"cache_write"`      // absent: as known, else as input
}

// Wires are OpenAI's two wire formats.
var Wires = []string{"responses", "chat"}

// Refusable are what a model may refuse: parameters of a request, and an
// assistant's message as the last one.
var Refusable = []string{"temperature", "top_p", "stream_options", "assistant_last"}

// API is the provider's endpoint.
type API struct {
	BaseURL string `toml:"base_url"`
	Key     string `toml:"key"`
	KeyFile string `toml:"key_file"`
}

// Budget limits what is spent; 0 is no limit. Days are local ones.
type Budget struct {
	USDPerDay        float64 `toml:"usd_per_day"`
	TokensPerDay     int64   `toml:"tokens_per_day"`
	USDPerSession    float64 `toml:"usd_per_session"`
	TokensPerSession int64   `toml:"tokens_per_session"`
}

// fixedSampling are beginnings of names of models that refuse temperature and
// top_p.
var fixedSampling = []string{
	"o1", "o3", "o4", "gpt-5", "gpt-6", "claude-opus-4-7", "claude-opus-4-8", "claude-opus-5", "claude-sonnet-5", "claude-haiku-5", "claude-fable", "claude-mythos",
}

// FixedSampling reports whether a model is known to refuse temperature and top_p.
// The name stands without a vendor before it, and Claude's versions have hyphens.
func FixedSampling(model string) bool {
	return slices.ContainsFunc(fixedSampling, func(beginning string) bool { return strings.HasPrefix(model, beginning) })
}
