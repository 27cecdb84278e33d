package wire

import (
	"slices"
	"strings"

	"zino/pkg/config"
)

// efforts lists how models are asked for a level of reasoning effort: the words
// for off, low, medium, high and max, "-" for a level that a model does not
// have. A row applies to a wire and to models whose names begin with one of
// models (none: any); the last row that applies counts. max is the highest
// level of a model, whatever its name.
//
// Numbers are budgets: percent of max_tokens at Anthropic, tokens at Gemini.
//
// Sources: OpenAI's reasoning guide, and its errors for gpt-6 ("none" and
// "minimal" are refused by astra; "max" exists on /v1/responses only);
// Anthropic's pages on extended and adaptive thinking and on effort; Gemini's
// thinking guide; OpenRouter's reasoning tokens; Ollama's server/routes.go, which
// takes a level for gpt-oss and a boolean for all others.
var efforts = []struct {
	wires  string
	models []string
	words  string
}{
	{"openai responses", nil, "none low medium high high"},
	{"openai responses", []string{"gpt-3", "gpt-4", "chatgpt-4"}, "- - - - -"},
	{"openai responses", []string{"o1", "o3", "o4", "gpt-5"}, "- low medium high high"},
	{"openai responses", []string{"gpt-5-chat"}, "- - - - -"},
	{"openai responses", []string{"gpt-5.1"}, "none low medium high high"},
	{"openai responses", []string{"gpt-5.2", "gpt-5.3", "gpt-5.4", "gpt-5.5"}, "none low medium high xhigh"},
	{"openai", []string{"gpt-5.6", "gpt-6"}, "none low medium high xhigh"},
	{"openai", []string{"gpt-6-astra", "gpt-6.1-sol"}, "- low medium high xhigh"},
	{"responses", []string{"gpt-5.6", "gpt-6"}, "none low medium high max"},
	{"responses", []string{"gpt-6-astra", "gpt-6.1-sol"}, "- low medium high max"},
	{"openrouter", nil, "none low medium high xhigh"},
	{"anthropic", nil, "disabled 25 50 75 90"},
	{"anthropic", []string{"claude-3-5", "claude-3-haiku", "claude-3-opus", "claude-3-sonnet"}, "- - - - -"},
	{"anthropic", []string{
		"claude-opus-4-6", "claude-opus-4-7", "claude-opus-4-8", "claude-opus-5", "claude-sonnet-4-6", "claude-sonnet-5", "claude-haiku-5",
	}, "disabled low medium high max"},
	{"anthropic", []string{"claude-fable", "claude-mythos"}, "- low medium high max"},
	{"gemini", nil, "MINIMAL LOW MEDIUM HIGH HIGH"},
	{"gemini", []string{"gemini-pro", "gemini-3.1-pro"}, "- LOW MEDIUM HIGH HIGH"},
	{"gemini", []string{"gemini-3-pro"}, "- LOW - HIGH HIGH"},
	{"gemini", []string{"gemini-2.5"}, "0 2048 8192 16384 24576"},
	{"gemini", []string{"gemini-2.5-pro"}, "- 2048 8192 16384 24576"},
	{"gemini", []string{"gemini-1", "gemini-2.0", "gemma", "learnlm"}, "- - - - -"},
	{"ollama", nil, "false true true true true"},
	{"ollama", []string{"gpt-oss"}, "- low medium high high"},
}

// EffortsOf returns the levels of reasoning effort that a model takes, in the
// order of config.Efforts. wire is the provider's name, or "responses".
func EffortsOf(wire, model string) (levels []string) {
	for _, level := range config.Efforts {
		if EffortWord(wire, model, level) != "" {
			levels = append(levels, level)
		}
	}
	return levels
}

// EffortWord returns what Request.Effort is for a level, "" if the model does
// not take the level.
func EffortWord(wire, model, level string) string {
	i := slices.Index(config.Efforts, level)
	if i < 0 {
		return ""
	}
	words := ""
	model = bareName(model)
	for _, row := range efforts {
		if slices.Contains(strings.Fields(row.wires), wire) && beginsWith(model, row.models) {
			words = row.words
		}
	}
	if words == "" {
		return "" // the offline provider
	}
	return strings.TrimPrefix(strings.Fields(words)[i], "-")
}

// refusesEffort reports whether an error is about the reasoning that the request
// asked for: its message, or the parameter that it names, says so.
func (x *exchange) refusesEffort(status int, body []byte) bool {
	if x.req == nil || x.req.Effort == "" || status != 400 && status != 422 {
		return false
	}
	text := errorText(body)
	return slices.ContainsFunc([]string{"effort", "thinking", "think value", "reasoning"}, func(word string) bool {
		return strings.Contains(text, word)
	})
}
