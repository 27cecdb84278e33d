package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
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

// TestSampling checks which sampling parameters are sent: by default both, 0
// included; only the temperature to models that accept one of them.
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

// TestEffortTable checks that each row has a word for each level, and that the
// levels of some models are those of their providers' pages.
func TestEffortTable(t *testing.T) {
	for _, row := range efforts {
		if words := strings.Fields(row.words); len(words) != len(config.Efforts) {
			t.Errorf("%s %v: %q", row.wires, row.models, words)
		}
	}
	for _, tt := range []struct{ wire, model, want string }{
		{"openai", "gpt-4.1", ""},
		{"openai", "o3", "low medium high max"},
		{"openai", "qwen3", "off low medium high max"},
		{"responses", "gpt-6-luna", "off low medium high max"},
		{"responses", "gpt-6-astra", "low medium high max"},
		{"openai", "gpt-6.1-sol", "low medium high max"},
		{"openrouter", "openai/gpt-6-luna", "off low medium high max"},
		{"anthropic", "claude-3-5-haiku-latest", ""},
		{"anthropic", "claude-sonnet-5-5", "off low medium high max"},
		{"anthropic", "claude-fable-5", "low medium high max"},
		{"gemini", "models/gemini-3-pro-preview", "low high max"},
		{"gemini", "gemini-flash-latest", "off low medium high max"},
		{"ollama", "gpt-oss:20b", "low medium high max"},
		{"offline", "", ""},
	} {
		if got := strings.Join(EffortsOf(tt.wire, tt.model), " "); got != tt.want {
			t.Errorf("%s %s takes %q, want %q", tt.wire, tt.model, got, tt.want)
		}
	}
}

// TestEffortBody checks what asks for an effort on each wire, and that nothing
// does where no level is asked for.
func TestEffortBody(t *testing.T) {
	bodies := map[string]func(*Request) ([]byte, error){
		"openai":     func(r *Request) ([]byte, error) { return completionBody(r, "openai") },
		"openrouter": func(r *Request) ([]byte, error) { return completionBody(r, "openrouter") },
		"anthropic":  anthropicBody, "gemini": geminiBody, "ollama": ollamaBody,
	}
	paths := map[string]string{
		"openai": "/v1/chat/completions", "openrouter": "/api/v1/chat/completions", "anthropic": "/v1/messages",
		"gemini": "/v1beta/models/m:generateContent", "ollama": "/api/chat",
	}
	for _, tt := range []struct {
		wire, model, level string
		maxTokens          int
		want               string // members of the body, "key:value" of those that are there
	}{
		{"openai", "m", "", 100, `temperature:0.5`},
		{"openai", "m", "off", 100, `reasoning_effort:"none" temperature:0.5`},
		{"openai", "gpt-6-luna", "max", 100, `reasoning_effort:"xhigh"`},
		{"openrouter", "x/m", "high", 100, `reasoning:{"effort":"high"} temperature:0.5`},
		{"anthropic", "claude-sonnet-4-5", "", 8192, `temperature:0.5`},
		{"anthropic", "claude-sonnet-4-5", "high", 8192, `thinking:{"type":"enabled","budget_tokens":6144}`},
		{"anthropic", "claude-sonnet-4-5", "low", 2000, `thinking:{"type":"enabled","budget_tokens":1024}`},
		{"anthropic", "claude-sonnet-4-5", "max", 1025, `thinking:{"type":"enabled","budget_tokens":1024}`},
		{"anthropic", "claude-sonnet-4-5", "max", 1024, `temperature:0.5`},
		{"anthropic", "claude-sonnet-4-5", "off", 8192, `temperature:0.5 thinking:{"type":"disabled"}`},
		{"anthropic", "claude-sonnet-5-5", "max", 100, `output_config:{"effort":"max"} thinking:{"type":"adaptive","display":"summarized"}`},
		{"gemini", "gemini-flash-latest", "", 100, `temperature:0.5`},
		{"gemini", "gemini-flash-latest", "high", 100, `temperature:0.5 thinkingConfig:{"thinkingLevel":"HIGH","includeThoughts":true}`},
		{"gemini", "gemini-flash-latest", "off", 100, `temperature:0.5 thinkingConfig:{"thinkingLevel":"MINIMAL"}`},
		{"gemini", "gemini-2.5-flash", "off", 100, `temperature:0.5 thinkingConfig:{"thinkingBudget":0}`},
		{"gemini", "gemini-2.5-flash", "low", 100, `temperature:0.5 thinkingConfig:{"thinkingBudget":2048,"includeThoughts":true}`},
		{"ollama", "qwen3", "", 100, `temperature:0.5`},
		{"ollama", "qwen3", "off", 100, `temperature:0.5 think:false`},
		{"ollama", "qwen3", "low", 100, `temperature:0.5 think:true`},
		{"ollama", "gpt-oss:20b", "max", 100, `temperature:0.5 think:"high"`},
	} {
		body, err := bodies[tt.wire](ask(t, func(r *Request) {
			r.Model, r.MaxTokens, r.Effort = tt.model, tt.maxTokens, EffortWord(tt.wire, tt.model, tt.level)
			r.Traits = TraitsOf(true, "http://h/v1", tt.model)
		}))
		zinotest.Must(t, err)
		asked := &fakellm.Request{Path: paths[tt.wire], Header: http.Header{"Anthropic-Version": {anthropicVersion}}, Body: body}
		if err := asked.Legal(); err != nil {
			t.Errorf("%s %s %q: %v in %s", tt.wire, tt.model, tt.level, err, body)
		}
		var got []string
		for _, key := range []string{"output_config", "reasoning", "reasoning_effort", "temperature", "think", "thinking", "thinkingConfig"} {
			for _, place := range [][]byte{body, memberOf(body, "generationConfig"), memberOf(body, "options")} {
				if value := memberOf(place, key); value != nil {
					got = append(got, key+":"+string(value))
				}
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s %s %q: got %q, want %q", tt.wire, tt.model, tt.level, got, tt.want)
		}
	}
}

// TestAnthropicUnsignedLoop checks that no thinking is asked for in the middle of
// a tool loop that began without, as after a change of models.
func TestAnthropicUnsignedLoop(t *testing.T) {
	for model, thinks := range map[string]bool{"claude-sonnet-4-5": false, "claude-sonnet-5-5": true} {
		server := fakellm.New(fakellm.Reply("x"))
		defer server.Close()
		ep := endpointAt(t, server.Host)
		req := ask(t, func(r *Request) {
			r.Model, r.MaxTokens, r.Effort = model, 8192, EffortWord("anthropic", model, "high")
			r.Raw = json.RawMessage(`[{"role":"user","content":"hi"},{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"r"}]`)
		})
		zinotest.Must(t, Anthropic(t.Context(), ep, req, &gathered{}))
		got := server.Requests()[0]
		if err := got.Legal(); err != nil || strings.Contains(string(got.Body), `"thinking"`) != thinks {
			t.Errorf("%s: %v, %s", model, err, got.Body)
		}
	}
}
