package rtr

import (
	"fmt"
	"strings"

	"zino/pkg/config"
	"zino/pkg/keys"
	"zino/services/rtr/wire"
)

// vendor is a kind of provider.
type vendor struct {
	name      string
	infer     wire.Func
	models    wire.Lister
	base      string // where it is, if nothing else is said
	model     string // asked for where none is configured: a current one that is not dear
	maxTokens int    // limit of an answer where none is configured; 0: the provider's own
	baseHint  string // what to set for another address
}

// vendors are all kinds, in the order in which their keys are looked for.
var vendors = []vendor{
	{"anthropic", wire.Anthropic, wire.AnthropicModels, "https://api.anthropic.com", config.DefaultModels["anthropic"], 16384, "ANTHROPIC_BASE_URL and anthropic_base_url"},
	{"openai", wire.OpenAI, wire.OpenAIModels, "https://api.openai.com/v1", config.DefaultModels["openai"], 16384, "OPENAI_BASE_URL and openai_base_url"},
	{"gemini", wire.Gemini, wire.GeminiModels, "https://generativelanguage.googleapis.com", config.DefaultModels["gemini"], 16384, "GEMINI_BASE_URL and gemini_base_url"},
	{"openrouter", wire.OpenRouter, wire.OpenRouterModels, "https://openrouter.ai/api/v1", config.DefaultModels["openrouter"], 8192, "OPENROUTER_BASE_URL and openrouter_base_url"},
	{"ollama", wire.Ollama, wire.OllamaModels, "http://127.0.0.1:11434", "", 0, "OLLAMA_HOST"},
}

func vendorOf(name string) (vendor, bool) {
	for _, v := range vendors {
		if v.name == name {
			return v, true
		}
	}
	return vendor{}, false
}

// howToConnect names what a person can do. A stored key comes first: a running
// rtr reads it at once, while a variable is that of the process that started it.
const howToConnect = "run `zino auth set PROVIDER` or `zino auth login openrouter`, set ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY or OPENROUTER_API_KEY " +
	"before the services start, or set [api] base_url (and key) to an OpenAI-compatible server"

// connectFully is howToConnect with the pages where the keys are made, for
// those who cannot go on without a model.
func connectFully() string {
	text := howToConnect
	for _, a := range keys.Accounts() {
		text = strings.Replace(text, a.Variable, a.Variable+" ("+a.Page+")", 1)
	}
	return text
}

// unknownProvider says which providers there are.
func unknownProvider(name string) string {
	return fmt.Sprintf("there is no provider %.60q: it is one of anthropic, openai, gemini, openrouter, ollama, offline, auto", name)
}

// isProvider reports whether a request may name a provider so.
func isProvider(name string) bool {
	_, ok := vendorOf(name)
	return ok || name == "" || name == "auto" || name == "offline"
}

// keyHint says where a provider's key is from, and how to store one.
func keyHint(a keys.Account, configured bool) string {
	return keyVariables(a, configured) + ", or run `zino auth set " + a.Name + "` (keys: " + a.Page + ")"
}

// keyMissing says how to give a provider a key, the way that takes effect at once
// first.
func keyMissing(a keys.Account, configured bool) string {
	return "run `zino auth set " + a.Name + "`, or set " + keyVariables(a, configured) + " before the services start (keys: " + a.Page + ")"
}

// keyVariables names what rtr reads a key from. [api] and LLM_API_KEY are for the
// provider that is configured.
func keyVariables(a keys.Account, configured bool) string {
	if a.Name == "openai" && configured {
		return "[api] key, LLM_API_KEY or OPENAI_API_KEY"
	}
	return a.Variable
}
