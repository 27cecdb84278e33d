package rtr

import (
	"encoding/json"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/proto"
)

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, model string
		want           bool
	}{
		{"m", "m", true},
		{"m", "mm", false},
		{"*", "", true},
		{"*", "any/thing:7b", true},
		{"gpt-*", "gpt-6", true},
		{"gpt-*", "x/gpt-6", false},
		{"*:free", "a/b:free", true},
		{"*:free", ":free2", false},
		{"a*b*c", "a-b-c", true},
		{"a*b*c", "abc", true},
		{"a*b*c", "acb", false},
		{"a*bc*c", "abc", false},
		{"*a*a*", "a", false},
		{"*a*a*", "xaya", true},
		{"a**b", "ab", true},
		{"", "", true},
		{"", "m", false},
	} {
		if got := matches(tt.pattern, tt.model); got != tt.want {
			t.Errorf("%q, %q: got %v", tt.pattern, tt.model, got)
		}
	}
}

// TestKnown holds what the configuration can say of a model's habits, key by
// key.
func TestKnown(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rules  []config.Model
		want   string // in the body
		absent string // of the body
	}{
		{"nothing", nil, `"max_tokens":5`, "max_completion_tokens"},
		{"no temperature", []config.Model{{Name: "m", Refuses: &[]string{"temperature"}}}, `"top_p":1`, `"temperature"`},
		{"no top_p", []config.Model{{Name: "m", Refuses: &[]string{"top_p"}}}, `"temperature":0`, `"top_p"`},
		{"no stream_options", []config.Model{{Name: "m", Refuses: &[]string{"stream_options"}}}, `"stream":true`, `"stream_options"`},
		{"the user speaks last", []config.Model{{Name: "m", Refuses: &[]string{"assistant_last"}}}, `{"role":"user","content":"Continue."}]`, "\x00"},
		{"nothing refused after all", []config.Model{{Name: "m", Refuses: &[]string{}}, {Name: "*", Refuses: &[]string{"top_p"}}}, `"top_p":1`, "\x00"},
		{"another field", []config.Model{{Name: "*", Tools: "text"}, {Name: "m", MaxTokensField: "max_completion_tokens"}}, `"max_completion_tokens":5`, `"max_tokens"`},
		{"of another provider", []config.Model{{Name: "*", Provider: "gemini", Refuses: &[]string{"top_p"}}}, `"top_p":1`, "\x00"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, llm := toolRouter(t, func(c *config.Config) { c.Rtr.Model = tt.rules }, fakellm.Reply("x"))
			in := ask("hi", true)
			in.Messages, in.MaxTokens = proto.Raw(`[{"role":"user","content":"u"},{"role":"assistant","content":"a"}]`), 5
			if _, err := r.infer(t.Context(), in, &chunks{}); err != nil {
				t.Fatal(err)
			}
			if body := string(llm.Requests()[0].Body); !strings.Contains(body, tt.want) || strings.Contains(body, tt.absent) {
				t.Errorf("asked with %s", body)
			}
		})
	}
}

// TestLearn holds that Ollama is asked once what a model can do, before it is
// asked anything else, and that the configuration knows better.
func TestLearn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		can    []string
		rules  []config.Model
		native bool
		length int // options.num_ctx
	}{
		{"tools", []string{"completion", "tools"}, nil, true, 32768},
		{"none", []string{"completion"}, nil, false, 32768},
		{"configured", []string{"completion"}, []config.Model{{Name: "m", Tools: "native", Context: 9000}}, true, 9000},
		{"configured as text", []string{"completion", "tools"}, []config.Model{{Name: "m", Provider: "ollama", Tools: "text"}}, false, 32768},
	} {
		t.Run(tt.name, func(t *testing.T) {
			alone(t)
			llm := fakellm.New(times(2, fakellm.Reply("x")))
			defer llm.Close()
			llm.SetCapabilities(tt.can...)
			t.Setenv("OLLAMA_HOST", llm.Host)
			r := start(t, func(c *config.Config) { c.Provider, c.Rtr.Model = "ollama", tt.rules })
			if caps := r.caps(t); caps.NativeTools != tt.native {
				t.Errorf("got %+v", caps)
			}
			for range 2 {
				if text, err := r.infer(t.Context(), askTools(true), &chunks{}); err != nil || text != "x" {
					t.Errorf("got %q, %v", text, err)
				}
			}
			requests := llm.Requests()
			if len(requests) != 3 || requests[0].Path != "/api/show" {
				t.Fatalf("%d requests, the first for %s", len(requests), requests[0].Path)
			}
			var body struct {
				Tools   []any
				Options struct {
					NumCtx int `json:"num_ctx"`
				}
			}
			if err := json.Unmarshal(requests[2].Body, &body); err != nil {
				t.Fatal(err)
			}
			if len(body.Tools) > 0 != tt.native || body.Options.NumCtx != tt.length {
				t.Errorf("asked with %s", requests[2].Body)
			}
		})
	}
}

// TestProbeOllama holds that an Ollama on this host is found, and spoken to in
// its own way.
func TestProbeOllama(t *testing.T) {
	llm := fakellm.New(fakellm.Reply("x"))
	defer llm.Close()
	llm.SetModels("its-model")
	r := start(t, func(c *config.Config) { c.Provider, c.Service.Model = "auto", "" })
	r.probes = []server{{"ollama", llm.Host}}
	if caps := r.caps(t); caps.Provider != "ollama" || caps.Model != "its-model" || !caps.Found || !caps.NativeTools || caps.Endpoint != llm.Host {
		t.Errorf("got %+v", caps)
	}
	if text, err := r.infer(t.Context(), ask("hi", true), &chunks{}); err != nil || text != "x" {
		t.Errorf("got %q, %v", text, err)
	}
	if last := llm.Requests()[len(llm.Requests())-1]; last.Path != "/api/chat" || !strings.Contains(string(last.Body), `"its-model"`) {
		t.Errorf("asked at %s with %s", last.Path, last.Body)
	}
}

// TestOllamaModel holds that a configured Ollama is asked for its model when
// none is set, until it has one.
func TestOllamaModel(t *testing.T) {
	alone(t)
	llm := fakellm.New(fakellm.Reply("x"))
	defer llm.Close()
	llm.SetModels()
	t.Setenv("OLLAMA_HOST", llm.Host)
	r := start(t, func(c *config.Config) { c.Provider, c.Service.Model = "ollama", "" })
	if caps := r.caps(t); caps.Endpoint != llm.Host || !strings.Contains(caps.Problem, llm.Host) || !strings.Contains(caps.Problem, "no model") {
		t.Errorf("without a model: got %+v", caps)
	}
	llm.SetModels("its-model")
	if caps := r.caps(t); caps.Model != "its-model" || caps.Provider != "ollama" || caps.Found || caps.Problem != "" || !caps.NativeTools {
		t.Errorf("with one: got %+v", caps)
	}
	if text, err := r.answer(t.Context(), ask("hi", false), &chunks{}); err != nil || text.Content != "x" || text.Model != "its-model" {
		t.Errorf("got %+v, %v", text, err)
	}
}
