package wire

import (
	"net/url"
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
	// Responses: OpenAI takes tools and reasoning together on the wire of
	// Responses only.
	Responses bool
}

// departures lists what is known. A row holds where the host's name ends in
// host (empty: any) and the model's name, without the vendor before its slash,
// begins with one of models (none: any); all rows that hold apply in order.
//
// Sources: OpenAI's errors "Unsupported parameter: 'temperature'", "Function
// tools with reasoning_effort are not supported for gpt-6-… in
// /v1/chat/completions"; Anthropic's "temperature is deprecated for this model"
// and "does not support assistant message prefill".
var departures = []struct {
	host   string
	models []string
	set    func(*Traits)
}{
	{"api.openai.com", nil, func(t *Traits) { t.MaxTokensField, t.TextTools = "max_completion_tokens", false }},
	{"", []string{"o1", "o3", "o4", "gpt-5", "gpt-6"}, func(t *Traits) {
		t.MaxTokensField = "max_completion_tokens"
	}},
	{"", []string{"gpt-5.4", "gpt-5.5", "gpt-5.6", "gpt-6"}, func(t *Traits) { t.Responses, t.TextTools = true, false }},
	{"api.mistral.ai", nil, func(t *Traits) { t.NoStreamOptions, t.NoAssistantLast, t.TextTools = true, true, false }},
	{"generativelanguage.googleapis.com", nil, func(t *Traits) { t.NoAssistantLast, t.TextTools = true, false }},
	{"openrouter.ai", nil, func(t *Traits) { t.MaxTokensField, t.TextTools, t.Responses = "max_tokens", false, false }},
	{"", []string{"claude"}, func(t *Traits) { t.OneSampling, t.NoAssistantLast = true, true }},
}

// TraitsOf returns the traits of a model. named is true for an endpoint of a
// provider that is known by its name, whatever its address, and false for a
// server of which nothing but its wire is known.
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

// bareName is a model's name without the vendor before its slash, in the
// vendor's own spelling: gateways write Claude's versions with dots.
func bareName(model string) string {
	model = model[strings.LastIndexByte(model, '/')+1:]
	if strings.HasPrefix(model, "claude") {
		model = strings.ReplaceAll(model, ".", "-")
	}
	return model
}

func beginsWith(s string, beginnings []string) bool {
	for _, b := range beginnings {
		if strings.HasPrefix(s, b) {
			return true
		}
	}
	return len(beginnings) == 0
}

// sampling returns the sampling parameters that go out, nil for those that do
// not.
func (t Traits) sampling(req *Request) (temperature, topP *float64) {
	if !t.NoTemperature {
		temperature = &req.Temperature
	}
	if !t.NoTopP && !(t.OneSampling && (req.TopP == 1 || temperature != nil)) {
		topP = &req.TopP
	}
	return temperature, topP
}
