package rtr

import (
	"strings"

	"zino/services/rtr/ledger"
)

// pricesDate is when the table below was last checked.
const pricesDate = "2026-11-22"

// builtIn is what is known of a model without configuration: its context window
// in tokens and its list price. A window informs; it never refuses a request, as
// the provider may have raised it since.
type builtIn struct {
	provider string
	models   []string // names; a dated snapshot (NAME-20…) is the same model
	context  int
	price    ledger.Price // US dollars per million tokens
}

// builtIns holds the default models of vendors and their families, at the list
// prices for text and for short prompts, without discounts for batches. Prompts
// above 200,000 tokens cost more with some models than what stands here.
//
// The rows marked "assumed" are assumptions: the price of the family's previous
// model. OpenRouter reports costs itself, and Ollama's own models cost nothing.
// A model that is not listed has no known price; one listed too low would let a
// budget be exceeded, so names match exactly and never by prefix.
var builtIns = []builtIn{
	{"anthropic", []string{"claude-sonnet-4", "claude-sonnet-4-5", "claude-sonnet-4-6"}, 200_000, ledger.Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}},
	{"anthropic", []string{"claude-sonnet-5", "claude-sonnet-5-5"}, 200_000, ledger.Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}}, // assumed
	{"anthropic", []string{"claude-haiku-4-5"}, 200_000, ledger.Price{Input: 1, Output: 5, CacheRead: 0.1, CacheWrite: 1.25}},
	{"anthropic", []string{"claude-haiku-5"}, 200_000, ledger.Price{Input: 1, Output: 5, CacheRead: 0.1, CacheWrite: 1.25}}, // assumed
	{"anthropic", []string{"claude-opus-4", "claude-opus-4-1"}, 200_000, ledger.Price{Input: 15, Output: 75, CacheRead: 1.5, CacheWrite: 18.75}},
	{"anthropic", []string{"claude-opus-4-5", "claude-opus-4-6"}, 200_000, ledger.Price{Input: 5, Output: 25, CacheRead: 0.5, CacheWrite: 6.25}},
	{"anthropic", []string{"claude-opus-4-7", "claude-opus-4-8", "claude-opus-5"}, 200_000, ledger.Price{Input: 5, Output: 25, CacheRead: 0.5, CacheWrite: 6.25}}, // assumed

	// OpenAI bills nothing extra for what goes to the cache.
	{"openai", []string{"gpt-4.1"}, 1_047_576, ledger.Price{Input: 2, Output: 8, CacheRead: 0.5, CacheWrite: 2}},
	{"openai", []string{"gpt-4.1-mini"}, 1_047_576, ledger.Price{Input: 0.4, Output: 1.6, CacheRead: 0.1, CacheWrite: 0.4}},
	{"openai", []string{"gpt-5", "gpt-5.1"}, 400_000, ledger.Price{Input: 1.25, Output: 10, CacheRead: 0.125, CacheWrite: 1.25}},
	{"openai", []string{"gpt-5-mini"}, 400_000, ledger.Price{Input: 0.25, Output: 2, CacheRead: 0.025, CacheWrite: 0.25}},
	{"openai", []string{"gpt-5-nano"}, 400_000, ledger.Price{Input: 0.05, Output: 0.4, CacheRead: 0.005, CacheWrite: 0.05}},
	{"openai", []string{"gpt-6-luna"}, 400_000, ledger.Price{Input: 1.25, Output: 10, CacheRead: 0.125, CacheWrite: 1.25}}, // assumed

	// Gemini's implicit cache bills no writing.
	{"gemini", []string{"gemini-2.5-flash"}, 1_048_576, ledger.Price{Input: 0.3, Output: 2.5, CacheRead: 0.075, CacheWrite: 0.3}},
	{"gemini", []string{"gemini-2.5-pro"}, 1_048_576, ledger.Price{Input: 1.25, Output: 10, CacheRead: 0.31, CacheWrite: 1.25}},
	{"gemini", []string{"gemini-3-pro", "gemini-3-pro-preview"}, 1_048_576, ledger.Price{Input: 2, Output: 12, CacheRead: 0.5, CacheWrite: 2}},
	{"gemini", []string{"gemini-3-flash", "gemini-3-flash-preview", "gemini-flash-latest"}, 1_048_576, ledger.Price{Input: 0.5, Output: 3, CacheRead: 0.125, CacheWrite: 0.5}}, // assumed
}

// builtInFor returns what is built in for a model of a provider.
func builtInFor(provider, model string) (builtIn, bool) {
	model = strings.TrimPrefix(model, "models/") // as Gemini lists its own
	for _, b := range builtIns {
		if b.provider != provider {
			continue
		}
		for _, name := range b.models {
			if rest, ok := strings.CutPrefix(model, name); ok && (rest == "" || strings.HasPrefix(rest, "-20")) {
				return b, true
			}
		}
	}
	return builtIn{}, false
}
