package rtr

import (
	"encoding/json"
	"testing"
)

func TestComplaint(t *testing.T) {
	for _, tt := range []struct {
		in, message string
		status      int
	}{
		{`{"error":{"message":"m","code":500}}`, "m", 500},
		{`{"error":{"message":"m","code":"rate_limit_exceeded"}}`, "m", 0},
		{`{"error":{"message":"m","code":7}}`, "m", 0},
		{`{"error":"text"}`, "text", 0},
		{`{"error":"text","status":404}`, "text", 404},
		{`{"error":{"code":500}}`, "", 500},
		{`{"error":{"type":"overloaded_error","message":""}}`, "overloaded_error", 0},
		{`{"type":"error","error":{"type":"x","message":"m"}}`, "m", 0},
		{`{"error":null,"message":"m"}`, "m", 0},
		{`{"object":"error","message":"m","code":400}`, "m", 400},
		{`{"detail":"m"}`, "m", 0},
		{`{"detail":[{"msg":"m","type":"missing"}]}`, "m", 0},
		{`[{"error":{"message":"m","code":429}}]`, "m", 429},
		{`{"error":{"error":{"error":"deep"}}}`, "deep", 0},
		{`{"error":[]}`, "", 0},
		{`[]`, "", 0},
		{`{}`, "", 0},
		{`7`, "", 0},
		{`null`, "", 0},
		{`<html>`, "", 0},
		{``, "", 0},
		{`"  text "`, "text", 0},
	} {
		if message, status := complaint([]byte(tt.in)); message != tt.message || status != tt.status {
			t.Errorf("%s: got %q, %d; want %q, %d", tt.in, message, status, tt.message, tt.status)
		}
	}
}

func TestContent(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`null`, ""},
		{`""`, ""},
		{`"a\u00fc\n"`, "aü\n"},
		{`7`, ""},
		{`{"text":"a"}`, ""},
		{`[]`, ""},
		{`true`, ""},
		{`[{"type":"text","text":"a"},{"type":"image_url","image_url":{}},{"type":"text","text":"b"}]`, "ab"},
		{`[{"text":null},{"text":7}]`, ""},
		{`["a"]`, ""},
		{`"\ud800"`, "\uFFFD"},
	} {
		var got content
		if err := json.Unmarshal([]byte(tt.in), &got); err != nil || string(got) != tt.want {
			t.Errorf("%s: got %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}

func TestTraits(t *testing.T) {
	for _, tt := range []struct {
		base, model string
		want        traits
	}{
		{"http://127.0.0.1:11434/v1", "llama", traits{maxTokens: "max_tokens"}},
		{openAI, "gpt-4.1-mini", traits{maxTokens: "max_completion_tokens"}},
		{openAI, "gpt-5-mini", traits{maxTokens: "max_completion_tokens", noSampling: true}},
		{openAI, "o3", traits{maxTokens: "max_completion_tokens", noSampling: true}},
		{"https://openrouter.ai/api/v1", "openai/gpt-5", traits{maxTokens: "max_tokens"}},
		{"https://openrouter.ai/api/v1", "anthropic/claude-x", traits{maxTokens: "max_tokens", oneSampling: true, needsUser: true}},
		{"https://api.mistral.ai/v1", "large", traits{maxTokens: "max_tokens", noStreamOptions: true, needsUser: true}},
		{"https://generativelanguage.googleapis.com/v1beta/openai", "g", traits{maxTokens: "max_tokens", needsUser: true}},
	} {
		if got := traitsOf(tt.base, tt.model); got != tt.want {
			t.Errorf("%s %s: got %+v, want %+v", tt.base, tt.model, got, tt.want)
		}
	}
}

func TestComplete(t *testing.T) {
	const more = `,{"role":"user","content":"Continue."}]`
	for _, tt := range []struct{ in, want string }{
		{`[]`, `[]`},
		{`[{"role":"user"}]`, `[{"role":"user"}]`},
		{`[{"role":"tool"}]`, `[{"role":"tool"}]`},
		{`[{"role":"assistant"}]`, `[{"role":"assistant"}` + more},
		{"[ {\"role\":\"user\"} , {\"role\":\"assistant\",\"content\":\"]\"} ]\n", "[ {\"role\":\"user\"} , {\"role\":\"assistant\",\"content\":\"]\"} " + more},
		{`[{"role":"assistant","tool_calls":[{}]}]`, `[{"role":"assistant","tool_calls":[{}]}]`},
	} {
		if got := string(traits{needsUser: true}.complete([]byte(tt.in))); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.in, got, tt.want)
		}
		if got := string(traits{}.complete([]byte(tt.in))); got != tt.in {
			t.Errorf("%s: became %s where nothing is needed", tt.in, got)
		}
	}
}

func TestCommand(t *testing.T) {
	for _, tt := range []struct{ in, word, rest string }{
		{"run date", "run", "date"},
		{"RUN  a  b ", "run", "a  b"},
		{"run\n\tx\ny", "run", "x\ny"},
		{"python 1", "python", "1"},
		{"tour", "tour", ""},
		{"Tour ", "tour", ""},
		{"tour me", "", ""},
		{"run", "", ""},
		{"python \n", "", ""},
		{"", "", ""},
		{"date", "", ""},
		{"rundate x", "", ""},
	} {
		if word, rest := command(tt.in); word != tt.word || rest != tt.rest {
			t.Errorf("%q: got %q, %q; want %q, %q", tt.in, word, rest, tt.word, tt.rest)
		}
	}
}
