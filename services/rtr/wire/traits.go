package wire

import (
	"net/url"
	"slices"
	"strings"

	"zino/pkg/config"
)

// Traits are the ways in which a provider or model departs from what is common.
// They are known beforehand: nothing is tried to see whether it is refused.
type Traits struct {
	// MaxTokensField is the parameter that limits the answer, on OpenAI's wire.
	MaxTokensField string
	// NoStreamOptions: stream_options is refused.
	NoStreamOptions bool
	// NoTemperature and NoTopP: the parameter is refused.
	NoTemperature, NoTopP bool
	// OneSampling: both at once are refused. top_p is left out.
	OneSampling bool
	// NoAssistantLast: an assistant's message is refused as the last one, so a
	// user's "Continue." follows it.
	NoAssistantLast bool
	// TextTools: tools are not known to work in the provider's own form.
	TextTools bool
	// NoImages: images and other files are refused.
	NoImages bool
	// Schema: a JSON Schema of the answer is taken in the provider's own form.
	Schema bool
	// SchemaAlone: that is so without tools only.
	SchemaAlone bool
	// Responses: OpenAI takes tools and reasoning together on the wire of
	// Responses only.
	Responses bool
}

// departures lists what is known. A row holds where the host's name ends in host
// (empty: any) and the model's name, without the vendor before its slash, begins
// with one of models (none: any); all rows that hold apply in order.
//
// Sources: OpenAI's errors "Unsupported parameter: 'temperature'", "Function tools
// with reasoning_effort are not supported for gpt-6-… in /v1/chat/completions";
// Anthropic's "temperature is deprecated for this model" and "does not support
// assistant message prefill".
var departures = []struct {
	host   string
	models []string
	set    func(*Traits)
}{
	{"api.openai.com", nil, func(t *Traits) {
		t.MaxTokensField, t.TextTools = "max_completion_tokens", false
	}},
	{"", []string{"o1", "o3", "o4", "gpt-5", "gpt-6"}, func(t *Traits) { t.MaxTokensField = "max_completion_tokens" }},
	{"", []string{"gpt-5.4", "gpt-5.5", "gpt-5.6", "gpt-6"}, func(t *Traits) { t.Responses, t.TextTools = true, false }},
	{"api.mistral.ai", nil, func(t *Traits) { t.NoStreamOptions, t.NoAssistantLast, t.TextTools = true, true, false }},
	{"generativelanguage.googleapis.com", nil, func(t *Traits) { t.NoAssistantLast, t.TextTools = true, false }},
	{"openrouter.ai", nil, func(t *Traits) { t.MaxTokensField, t.TextTools, t.Responses = "max_tokens", false, false }},
	{"", []string{"claude"}, func(t *Traits) { t.OneSampling, t.NoAssistantLast = true, true }},
}

// TraitsOf returns the traits of a model. named is true for an endpoint of a
// provider that is known by its name, whatever its address, and false for a server
// of which nothing but its wire is known.
func TraitsOf(named bool, base, model string) Traits {
	t := Traits{MaxTokensField: "max_tokens", TextTools: !named}
	host := ""
	if u, err := url.Parse(base); err == nil {
		host = u.Hostname()
	}
	model = bareName(model)
	t.NoTemperature, t.NoTopP = config.FixedSampling(model), config.FixedSampling(model)
	for _, d := range departures {
		if strings.HasSuffix(host, d.host) && beginsWith(model, d.models) {
			d.set(&t)
		}
	}
	return t
}

// bareName is a model's name without the vendor before its slash, in the vendor's
// own spelling: gateways write Claude's versions with dots.
func bareName(model string) string {
	model = model[strings.LastIndexByte(model, '/')+1:]
	if strings.HasPrefix(model, "claude") {
		model = strings.ReplaceAll(model, ".", "-")
	}
	return model
}

// beginsWith reports whether s begins with one of beginnings; for an empty
// list it does.
func beginsWith(s string, beginnings []string) bool {
	return len(beginnings) == 0 || slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(s, b) })
}

// sampling returns the sampling parameters to send, nil for those that are not
// sent.
func (t Traits) sampling(req *Request) (temperature, topP *float64) {
	if !t.NoTemperature {
		temperature = &req.Temperature
	}
	if !t.NoTopP && !(t.OneSampling && (req.TopP == 1 || temperature != nil)) {
		topP = &req.TopP
	}
	return temperature, topP
}

// efforts lists how models are asked for a level of reasoning effort: the words
// for off, low, medium, high and max, "-" for a level that a model does not have. A
// row applies to a wire and to models whose names begin with one of models (none:
// any); the last row that applies counts. max is the highest level of a model,
// whatever its name.
//
// Numbers are budgets: percent of max_tokens at Anthropic, tokens at Gemini.
//
// Sources: OpenAI's reasoning guide, and its errors for gpt-6 ("none" and "minimal"
// are refused by astra; "max" exists on /v1/responses only); Anthropic's pages on
// extended and adaptive thinking and on effort; Gemini's thinking guide;
// OpenRouter's reasoning tokens; Ollama's server/routes.go, which takes a level for
// gpt-oss and a boolean for all others.
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

// EffortsOf returns the levels of reasoning effort that a model takes, in the order
// of config.Efforts. wire is the provider's name, or "responses".
func EffortsOf(wire, model string) (levels []string) {
	for _, level := range config.Efforts {
		if EffortWord(wire, model, level) != "" {
			levels = append(levels, level)
		}
	}
	return levels
}

// EffortWord returns Request.Effort for a level, "" if the model does not take the
// level.
func EffortWord(wire, model, level string) string {
	i, words := slices.Index(config.Efforts, level), ""
	model = bareName(model)
	for _, row := range efforts {
		if slices.Contains(strings.Fields(row.wires), wire) && beginsWith(model, row.models) {
			words = row.words
		}
	}
	if i < 0 || words == "" { // the offline provider has no words
		return ""
	}
	return strings.TrimPrefix(strings.Fields(words)[i], "-")
}
