package rtr

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/proto"
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

// TestNoResponses checks that a model is asked on chat completions, at once, where
// the endpoint has no Responses API, and that this is remembered for the endpoint
// and reported once to a session.
func TestNoResponses(t *testing.T) {
	for _, refusal := range []fakellm.Turn{
		fakellm.Failure(404, "404 page not found"),
		fakellm.Failure(404, `{"error":{"message":"Invalid URL (POST /v1/responses)","type":"invalid_request_error","param":null,"code":null}}`),
		fakellm.Failure(404, `{"detail":"Not Found"}`),
		fakellm.Failure(405, `{"detail":"Method Not Allowed"}`),
		fakellm.Failure(501, `{"error":{"message":"no responses for this model"}}`),
	} {
		llm := fakellm.New(refusal, fakellm.Turn{Text: "x", Times: fakellm.Forever})
		r := onWire(t, "openai", llm.Host, nil)
		var got chunks
		for i, in := range []proto.Infer{
			{Model: "gpt-6-luna", SessionID: "s"},
			{Model: "gpt-6-luna", SessionID: "s", Effort: "high"},
			{Model: "gpt-5.4", SessionID: "s", Effort: "off"},
			{Model: "gpt-6-luna", SessionID: "other"},
		} {
			in.Messages, in.Tools, in.Temperature, in.TopP, in.Events = ask("hi", true).Messages, oneTool, config.Default().Agent.Temperature, 1, true
			if text, err := r.infer(t.Context(), in, &got); err != nil || text != "x" {
				t.Errorf("HTTP %d, answer %d: %q, %v", refusal.Status, i, text, err)
			}
		}
		var asked []string
		for _, req := range llm.Requests() {
			if err := req.Legal(); err != nil {
				t.Errorf("%v in %s", err, req.Body)
			}
			var body struct {
				Effort string            `json:"reasoning_effort"`
				Tools  []json.RawMessage `json:"tools"`
			}
			if err := json.Unmarshal(req.Body, &body); err != nil {
				t.Error(err)
			}
			asked = append(asked, fmt.Sprintf("%s %d %s", req.Path, len(body.Tools), body.Effort))
		}
		want := []string{
			"/v1/responses 1 ", "/v1/chat/completions 1 ", "/v1/chat/completions 1 high", "/v1/chat/completions 1 none", "/v1/chat/completions 1 ",
		}
		if !slices.Equal(asked, want) || len(r.paused()) != 0 {
			t.Errorf("HTTP %d: asked %q, paused %v", refusal.Status, asked, r.paused())
		}
		notice := fmt.Sprintf("%s has no Responses API (HTTP %d: ", llm.URL, refusal.Status)
		if len(got.events) != 2 || !strings.Contains(got.events[0], notice) || !strings.Contains(got.events[1], notice) {
			t.Errorf("HTTP %d: notices %q", refusal.Status, got.events)
		}
		llm.Close()
	}
}

// TestNoResponsesAtOnce checks that concurrent requests are all answered by the
// endpoint of [api] base_url, and that Responses are not asked for after them.
func TestNoResponsesAtOnce(t *testing.T) {
	llm := fakellm.New(fakellm.Turn{Text: "x", Times: fakellm.Forever})
	defer llm.Close()
	host, err := url.Parse(llm.Host)
	if err != nil {
		t.Fatal(err)
	}
	gateway := http.NewServeMux()
	gateway.Handle("/v1/chat/completions", httputil.NewSingleHostReverseProxy(host))
	server := httptest.NewServer(gateway)
	defer server.Close()
	r := start(t, func(cfg *config.Config) { cfg.API.BaseURL, cfg.Service.Model = server.URL+"/v1", "gpt-6-astra" })
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			if text, err := r.infer(t.Context(), askTools(i%2 == 0), &chunks{}); err != nil || text != "x" {
				t.Errorf("got %q, %v", text, err)
			}
		})
	}
	group.Wait()
	for _, req := range llm.Requests() {
		if !strings.Contains(string(req.Body), `"tools":[`) {
			t.Errorf("asked without tools: %s", req.Body)
		}
	}
	if target, err := r.target(t.Context(), selector{}); err != nil || target.wire() != "openai" || len(llm.Requests()) != 16 {
		t.Errorf("wire %q, %v, %d requests", target.wire(), err, len(llm.Requests()))
	}
}

// TestResponsesRefused checks which refusals on the wire of Responses are errors:
// those that are about the model or an item, and all where the wire is configured.
func TestResponsesRefused(t *testing.T) {
	for _, tt := range []struct{ wire, body string }{
		{"", `{"error":{"message":"The model does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}`},
		{"", `{"error":{"message":"no endpoints for openai/GPT-6-luna","code":404}}`},
		{"", `{"error":{"message":"Item with id 'rs_1' not found. Items are not persisted when store is set to false.","type":"invalid_request_error","param":"input","code":null}}`},
		{"", `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`},
		{"responses", "404 page not found"},
	} {
		llm := fakellm.New(fakellm.Failure(404, tt.body), fakellm.Reply("x"))
		r := onWire(t, "openai", llm.Host, func(cfg *config.Config) {
			cfg.Service.Model, cfg.Rtr.Model = "gpt-6-luna", []config.Model{{Name: "gpt-*", Wire: tt.wire}}
		})
		_, err := r.infer(t.Context(), ask("hi", true), &chunks{})
		if e := failure(t, err); e.Status != 404 || !strings.Contains(e.Details, `set wire = "chat" in [[rtr.model]]`) || llm.Unused() != 1 {
			t.Errorf("%s: got %+v, %d turns left", tt.body, *e, llm.Unused())
		}
		llm.Close()
	}
}

// TestToolsWithReasoning checks that a refusal of tools with reasoning on chat
// completions is an error with a remedy, and that the model is not asked to stop
// reasoning.
func TestToolsWithReasoning(t *testing.T) {
	const refusal = "Function tools with reasoning_effort are not supported for this model in /v1/chat/completions. Please use /v1/responses instead."
	for model, want := range map[string]string{"gpt-6-luna": `Set tools = "text" in [[rtr.model]], or ask with --effort off. `, "gpt-6-astra": `Set tools = "text" in [[rtr.model]]. `} {
		llm := fakellm.New(fakellm.Failure(404, "404 page not found"), fakellm.Failure(400, `{"error":{"message":"`+refusal+`","param":"reasoning_effort"}}`))
		r := onWire(t, "openai", llm.Host, func(cfg *config.Config) { cfg.Service.Model = model })
		_, err := r.answer(t.Context(), askTools(true), &chunks{})
		if e := failure(t, err); e.Message != "HTTP 400: "+refusal || !strings.HasPrefix(e.Details, strings.TrimSpace(want)) {
			t.Errorf("%s: got %+v", model, *e)
		}
		requests := llm.Requests()
		if len(requests) != 2 || requests[1].Path != "/v1/chat/completions" || strings.Contains(string(requests[1].Body), "effort") {
			t.Errorf("%s: %d requests, the last at %s: %s", model, len(requests), requests[1].Path, requests[1].Body)
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
