package wire

import (
	"fmt"
	"testing"
)

const openAIBase = "https://api.openai.com/v1"

func TestTraits(t *testing.T) {
	claude := Traits{MaxTokensField: "max_tokens", OneSampling: true, NoAssistantLast: true}
	newClaude := claude
	newClaude.NoTemperature, newClaude.NoTopP = true, true
	for _, tt := range []struct {
		named       bool
		base, model string
		want        Traits
	}{
		{false, "http://127.0.0.1:11434/v1", "llama", Traits{MaxTokensField: "max_tokens", TextTools: true}},
		{true, "http://127.0.0.1:11434", "llama", Traits{MaxTokensField: "max_tokens"}},
		{true, openAIBase, "gpt-4.1-mini", Traits{MaxTokensField: "max_completion_tokens"}},
		{false, openAIBase, "gpt-4.1-mini", Traits{MaxTokensField: "max_completion_tokens"}},
		{true, openAIBase, "gpt-5-mini", Traits{MaxTokensField: "max_completion_tokens", NoTemperature: true, NoTopP: true}},
		{true, openAIBase, "o3", Traits{MaxTokensField: "max_completion_tokens", NoTemperature: true, NoTopP: true}},
		{true, openAIBase, "gpt-6-luna", Traits{MaxTokensField: "max_completion_tokens", NoTemperature: true, NoTopP: true, Responses: true}},
		{true, openAIBase, "gpt-6.1-sol", Traits{MaxTokensField: "max_completion_tokens", NoTemperature: true, NoTopP: true, Responses: true}},
		{false, "http://gateway/v1", "gpt-6-luna", Traits{MaxTokensField: "max_completion_tokens", NoTemperature: true, NoTopP: true, Responses: true}},
		{true, "https://openrouter.ai/api/v1", "openai/gpt-6-luna", Traits{MaxTokensField: "max_tokens", NoTemperature: true, NoTopP: true}},
		{false, "http://gateway/v1", "openai/gpt-5", Traits{MaxTokensField: "max_completion_tokens", NoTemperature: true, NoTopP: true, TextTools: true}},
		{true, "https://openrouter.ai/api/v1", "openai/gpt-5", Traits{MaxTokensField: "max_tokens", NoTemperature: true, NoTopP: true}},
		{true, "https://openrouter.ai/api/v1", "anthropic/claude-x", claude},
		{true, "https://openrouter.ai/api/v1", "anthropic/claude-opus-4.8", newClaude},
		{true, "https://api.anthropic.com", "claude-haiku-4-5", claude},
		{true, "https://api.anthropic.com", "claude-sonnet-5-5", newClaude},
		{false, "https://api.mistral.ai/v1", "large", Traits{MaxTokensField: "max_tokens", NoStreamOptions: true, NoAssistantLast: true}},
		{false, "https://generativelanguage.googleapis.com/v1beta/openai", "g", Traits{MaxTokensField: "max_tokens", NoAssistantLast: true}},
		{false, "::no URL", "x", Traits{MaxTokensField: "max_tokens", TextTools: true}},
	} {
		if got := TraitsOf(tt.named, tt.base, tt.model); got != tt.want {
			t.Errorf("%v %s %s: got %+v, want %+v", tt.named, tt.base, tt.model, got, tt.want)
		}
	}
}

// TestSampling holds which of the two parameters go out: both, 0 included,
// where nothing is known; the temperature where only one may.
func TestSampling(t *testing.T) {
	for _, tt := range []struct {
		traits      Traits
		temperature float64
		topP        float64
		want        string
	}{
		{Traits{}, 0.7, 1, "0.7 1"},
		{Traits{}, 0, 0, "0 0"},
		{Traits{OneSampling: true}, 0, 1, "0 -"},
		{Traits{OneSampling: true}, 0.7, 0.9, "0.7 -"},
		{Traits{OneSampling: true, NoTemperature: true}, 0.7, 0.9, "- 0.9"},
		{Traits{OneSampling: true, NoTemperature: true}, 0.7, 1, "- -"},
		{Traits{NoTemperature: true}, 0.7, 1, "- 1"},
		{Traits{NoTopP: true}, 0.7, 1, "0.7 -"},
		{Traits{NoTemperature: true, NoTopP: true, OneSampling: true}, 0.7, 0.9, "- -"},
	} {
		temperature, topP := tt.traits.sampling(&Request{Temperature: tt.temperature, TopP: tt.topP})
		if got := number(temperature) + " " + number(topP); got != tt.want {
			t.Errorf("%+v with %v, %v: got %s, want %s", tt.traits, tt.temperature, tt.topP, got, tt.want)
		}
	}
}

func number(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}
