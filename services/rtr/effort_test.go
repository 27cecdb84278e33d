package rtr

import (
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
)

// effortOf is what a request asks for, in the words of its wire.
var effortOf = map[string]string{
	"anthropic": `"budget_tokens":`, "openai": `"reasoning_effort":"high"`, "gemini": `"thinkingLevel":"HIGH"`,
	"openrouter": `"reasoning":{"effort":"high"}`, "ollama": `"think":true`, "responses": `"reasoning":{"effort":"high","summary":"auto"}`,
}

// TestEffort checks on every wire that an effort reaches the provider, that a
// model which refuses it is asked again without it at once, and that this is
// remembered and reported once to a session.
func TestEffort(t *testing.T) {
	for _, wire := range wireNames {
		t.Run(wire, func(t *testing.T) {
			llm := fakellm.New(fakellm.Reply("1"), fakellm.Failure(400, `{"error":{"message":"thinking is not supported"}}`),
				fakellm.Reply("2"), fakellm.Reply("3"), fakellm.Reply("4"))
			defer llm.Close()
			r := onWire(t, wire, llm.Host, nil)
			in := ask("hi", true)
			in.Events, in.Effort, in.SessionID = true, "high", "s"
			var got chunks
			for i := range 4 {
				if i == 3 {
					in.SessionID = "other"
				}
				if text, err := r.infer(t.Context(), in, &got); err != nil || text != string(rune('1'+i)) {
					t.Errorf("answer %d: %q, %v", i, text, err)
				}
			}
			var asked []bool
			for _, req := range llm.Requests() {
				if req.Method == "POST" && req.Path != "/api/show" {
					asked = append(asked, strings.Contains(string(req.Body), effortOf[wire]))
					if err := req.Legal(); err != nil {
						t.Errorf("%v in %s", err, req.Body)
					}
				}
			}
			if len(asked) != 5 || !asked[0] || !asked[1] || asked[2] || asked[3] || asked[4] {
				t.Errorf("asked with the effort: %v", asked)
			}
			const notice = `m is asked without the effort \"high\": HTTP 400: thinking is not supported`
			if len(got.events) != 2 || !strings.Contains(got.events[0], notice) || !strings.Contains(got.events[1], notice) || len(r.paused()) != 0 {
				t.Errorf("notices %q, paused %v", got.events, r.paused())
			}
		})
	}
}

// TestEffortTooShort checks that an answer too short for thinking is made without,
// and that the next one is not.
func TestEffortTooShort(t *testing.T) {
	llm := fakellm.New(fakellm.Reply("1"), fakellm.Reply("2"))
	defer llm.Close()
	r := onWire(t, "anthropic", llm.Host, nil)
	in := ask("hi", true)
	in.Events, in.Effort = true, "high"
	var got chunks
	for i, n := range []int{1024, 2048} {
		in.MaxTokens = n
		_, err := r.infer(t.Context(), in, &got)
		req := llm.Requests()[i]
		if legal := req.Legal(); err != nil || legal != nil || strings.Contains(string(req.Body), "thinking") != (n == 2048) {
			t.Errorf("max_tokens %d: %v, %v, asked %s", n, err, legal, req.Body)
		}
	}
	if len(got.events) != 1 || !strings.Contains(got.events[0], `m is asked without the effort \"high\": max_tokens 1024 leaves no room for thinking`) {
		t.Errorf("notices %q", got.events)
	}
}

// TestEffortUnknown checks that a level which a model is known not to have is
// not sent, and that one which does not exist is an error.
func TestEffortUnknown(t *testing.T) {
	llm := fakellm.New(fakellm.Reply("1"))
	defer llm.Close()
	r := onWire(t, "openai", llm.Host, func(cfg *config.Config) { cfg.Service.Model = "o3" })
	in := ask("hi", true)
	in.Events, in.Effort, in.Temperature = true, "off", 0.7
	var got chunks
	if _, err := r.infer(t.Context(), in, &got); err != nil || strings.Contains(string(llm.Requests()[0].Body), "effort") {
		t.Errorf("%v, asked %s", err, llm.Requests()[0].Body)
	}
	if len(got.events) != 1 || !strings.Contains(got.events[0], `o3 is asked without the effort \"off\": it takes low, medium, high, max`) {
		t.Errorf("notices %q", got.events)
	}
	in.Effort = "heroic"
	_, err := r.infer(t.Context(), in, &got)
	if e := failure(t, err); e.Message != `Invalid request: field "effort": expected one of off, low, medium, high, max` {
		t.Errorf("got %+v", *e)
	}
}

// TestWire checks which of OpenAI's wires a model is asked on.
func TestWire(t *testing.T) {
	for _, tt := range []struct{ model, wire, path string }{
		{"gpt-6-luna", "", "/v1/responses"},
		{"gpt-6-astra", "", "/v1/responses"},
		{"gpt-6.1-sol", "", "/v1/responses"},
		{"gpt-6-luna", "chat", "/v1/chat/completions"},
		{"gpt-4.1", "", "/v1/chat/completions"},
		{"gpt-4.1", "responses", "/v1/responses"},
	} {
		llm := fakellm.New(fakellm.Turn{Reasoning: "hm", Text: "x", Calls: []fakellm.Call{{Name: "f", Args: "{}"}}})
		r := onWire(t, "openai", llm.Host, func(cfg *config.Config) {
			cfg.Service.Model, cfg.Rtr.Model = tt.model, []config.Model{{Name: "gpt-*", Provider: "openai", Wire: tt.wire}}
		})
		text, err := r.answer(t.Context(), askTools(true), &chunks{})
		req := llm.Requests()[0]
		if err != nil || req.Path != tt.path || text.Content != "x" || len(text.ToolCalls) == 0 || strings.Contains(string(req.Body), "effort") {
			t.Errorf("%+v: asked at %s with %s: %+v, %v", tt, req.Path, req.Body, text, err)
		}
		if err := req.Legal(); err != nil || !strings.Contains(string(req.Body), `"tools":[`) {
			t.Errorf("%+v: %v in %s", tt, err, req.Body)
		}
		llm.Close()
	}
}

// TestNoSummaries checks that a model whose reasoning is not summarized for this
// organization still gets the effort, and that the refusal is remembered.
func TestNoSummaries(t *testing.T) {
	llm := fakellm.New(
		fakellm.Failure(400, `{"error":{"message":"Your organization must be verified to generate reasoning summaries.","param":"reasoning.summary","code":"unsupported_value"}}`),
		fakellm.Reply("1"), fakellm.Reply("2"))
	defer llm.Close()
	r := onWire(t, "responses", llm.Host, nil)
	in := ask("hi", true)
	in.Events, in.Effort = true, "high"
	var got chunks
	for _, want := range []string{"1", "2"} {
		if text, err := r.infer(t.Context(), in, &got); err != nil || text != want {
			t.Errorf("got %q, %v", text, err)
		}
	}
	requests := llm.Requests()
	if len(requests) != 3 || len(got.events) > 0 {
		t.Fatalf("%d requests, notices %q", len(requests), got.events)
	}
	for i, want := range []string{`"reasoning":{"effort":"high","summary":"auto"}`, `"reasoning":{"effort":"high"}`, `"reasoning":{"effort":"high"}`} {
		if !strings.Contains(string(requests[i].Body), want) {
			t.Errorf("request %d: %s", i, requests[i].Body)
		}
	}
}
