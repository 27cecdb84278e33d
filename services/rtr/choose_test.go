package rtr

import (
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/proto"
)

func TestDecide(t *testing.T) {
	tests := []struct {
		name      string
		set       func(*config.Config)
		env       map[string]string
		want      proto.RouterCapabilities
		key       string
		problem   string // stands in the problem
		noProblem string // does not
	}{
		{name: "nothing", set: func(*config.Config) {}, problem: "[api] base_url", noProblem: "ANTHROPIC", want: proto.RouterCapabilities{Model: "m"}},
		{
			name: "openai without an endpoint", set: func(c *config.Config) { c.Provider = "openai" }, problem: "OPENAI_API_KEY",
			want: proto.RouterCapabilities{Provider: "openai", Model: "m"},
		},
		{
			name: "key", set: func(c *config.Config) { c.API.Key = " k1 " }, key: "k1",
			want: proto.RouterCapabilities{Provider: "openai", Model: "m", Endpoint: openAI},
		},
		{
			name: "first variable", set: func(*config.Config) {}, env: map[string]string{"LLM_API_KEY": "test-a", "OPENAI_API_KEY": "test-b"}, key: "test-a",
			want: proto.RouterCapabilities{Provider: "openai", Model: "m", Endpoint: openAI},
		},
		{
			name: "second variable", set: func(*config.Config) {}, env: map[string]string{"OPENAI_API_KEY": "test-b"}, key: "test-b",
			want: proto.RouterCapabilities{Provider: "openai", Model: "m", Endpoint: openAI},
		},
		{
			name: "the file's key wins", set: func(c *config.Config) { c.API.Key = "k1" }, env: map[string]string{"LLM_API_KEY": "test-a"}, key: "k1",
			want: proto.RouterCapabilities{Provider: "openai", Model: "m", Endpoint: openAI},
		},
		{
			name: "base without a key", set: func(c *config.Config) { c.API.BaseURL = "http://u:p@10.0.0.1/v1/" },
			want: proto.RouterCapabilities{Provider: "openai", Model: "m", Endpoint: "http://10.0.0.1/v1"},
		},
		{
			name: "auto with a key", set: func(c *config.Config) { c.Provider, c.API.Key = "auto", "k1" }, key: "k1",
			want: proto.RouterCapabilities{Provider: "openai", Model: "m", Endpoint: openAI},
		},
		{name: "auto with nothing", set: func(c *config.Config) { c.Provider = "auto" }, want: proto.RouterCapabilities{Provider: "offline", Fallback: true}},
		{name: "offline in spite of a key", set: func(c *config.Config) { c.Provider, c.API.Key = "offline", "k1" }, key: "k1", want: proto.RouterCapabilities{Provider: "offline"}},
		{
			name: "default model", set: func(c *config.Config) { c.API.Key, c.Service.Model = "k1", "" }, key: "k1",
			want: proto.RouterCapabilities{Provider: "openai", Model: defaultModel, Endpoint: openAI},
		},
		{
			name: "no model", set: func(c *config.Config) { c.API.BaseURL, c.Service.Model = "https://gateway.example/v1", "" }, problem: "[service] model",
			want: proto.RouterCapabilities{Provider: "openai", Endpoint: "https://gateway.example/v1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			r := start(t, tt.set)
			got := r.caps(t)
			if !strings.Contains(got.Problem, tt.problem) || (got.Problem == "") != (tt.problem == "") || tt.noProblem != "" && strings.Contains(got.Problem, tt.noProblem) {
				t.Errorf("problem %q, want %q in it", got.Problem, tt.problem)
			}
			problem := got.Problem
			got.Problem, got.Streaming = "", false
			if got != tt.want || r.set.key != tt.key {
				t.Errorf("got %+v with key %q, want %+v with %q", got, r.set.key, tt.want, tt.key)
			}
			if problem == "" {
				return
			}
			_, err := r.infer(t.Context(), ask("hi", true), &chunks{})
			if e := failure(t, err); e.Code != proto.CodeUnavailable || e.Message != problem {
				t.Errorf("infer: got %+v", *e)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		set        func(*config.Config)
	}{
		{"provider", `f.toml: provider = "opnai" is none of "auto", "openai", "offline"`, func(c *config.Config) { c.Provider = "opnai" }},
		{"no scheme", "f.toml: [api] base_url: not a URL", func(c *config.Config) { c.API.BaseURL = "user:s3cret@host/v1" }},
		{"other scheme", "[api] base_url: not a URL", func(c *config.Config) { c.API.BaseURL = "ftp://host" }},
		{"query", "[api] base_url: a base URL has no '?'", func(c *config.Config) { c.API.BaseURL = "https://host/v1?key=s3cret" }},
		{"key", "[api] key", func(c *config.Config) { c.API.Key = "s3cret one" }},
	} {
		cfg := config.Default()
		cfg.File = "f.toml"
		tt.set(cfg)
		_, err := New(cfg, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestProbe holds that a model server on loopback is found, is sent no key and
// no word before, and is named.
func TestProbe(t *testing.T) {
	page := fakellm.New() // a server whose list of models is not one
	page.SetModels()
	defer page.Close()
	llm := fakellm.New(fakellm.Turn{Text: "found", Times: fakellm.Forever})
	defer llm.Close()
	llm.SetModels("nomic-embed-text", "bad\x1bname", "small-model")
	r := start(t, func(c *config.Config) { c.Provider, c.Service.Model = "auto", "" })
	r.probes = []string{"http://127.0.0.1:1/v1", page.URL, llm.URL, "http://example.com/v1"}
	want := proto.RouterCapabilities{Streaming: true, Provider: "openai", Model: "small-model", Endpoint: llm.URL, Found: true}
	if got := r.caps(t); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if text, err := r.infer(t.Context(), ask("hi", true), &chunks{}); err != nil || text != "found" {
		t.Errorf("got %q, %v", text, err)
	}
	requests := llm.Requests()
	if len(requests) != 2 || requests[0].Method != "GET" || !strings.Contains(string(requests[1].Body), `"model":"small-model"`) {
		t.Errorf("the server got %d requests", len(requests))
	}
	for _, req := range requests {
		if auth := req.Header.Get("Authorization"); auth != "" {
			t.Errorf("%s %s with %q", req.Method, req.Path, auth)
		}
	}
	if !strings.Contains(r.log.String(), llm.URL) {
		t.Error("the log does not name the server")
	}
}

// TestProbeAgain holds that a server that comes later is found, and one that
// has gone is not asked for ever.
func TestProbeAgain(t *testing.T) {
	r := start(t, func(c *config.Config) { c.Provider = "auto" })
	if text, err := r.infer(t.Context(), ask("hi", false), &chunks{}); err != nil || !strings.Contains(text, "no AI") {
		t.Errorf("with no server: got %q, %v", text, err)
	}
	llm := fakellm.New(fakellm.Reply("hello"))
	defer llm.Close()
	r.probes = []string{llm.URL} // between two requests nothing reads it
	if text, err := r.infer(t.Context(), ask("hi", false), &chunks{}); err != nil || text != "hello" {
		t.Errorf("with a server: got %q, %v", text, err)
	}
	llm.Close()
	if _, err := r.infer(t.Context(), ask("hi", false), &chunks{}); !errors.Is(err, proto.ErrUnavailable) {
		t.Errorf("as it goes: got %v", err)
	}
	if text, err := r.infer(t.Context(), ask("hi", false), &chunks{}); err != nil || !strings.Contains(text, "no AI") {
		t.Errorf("after it has gone: got %q, %v", text, err)
	}
}

// TestNeedModel holds that whoever needs a model gets the offline provider only
// where it was chosen.
func TestNeedModel(t *testing.T) {
	in := ask("run date", true)
	in.NeedModel = true
	r := start(t, func(c *config.Config) { c.Provider = "auto" })
	_, err := r.infer(t.Context(), in, &chunks{})
	if e := failure(t, err); e.Code != proto.CodeUnavailable || !strings.Contains(e.Message, "[api] base_url") || !strings.Contains(e.Message, "OPENAI_API_KEY") {
		t.Errorf("got %+v", *e)
	}
	r = start(t, func(c *config.Config) { c.Provider = "offline" })
	if text, err := r.infer(t.Context(), in, &chunks{}); err != nil || !strings.Contains(text, "<tool_call>") {
		t.Errorf("offline by choice: got %q, %v", text, err)
	}
}

// TestLocalModel holds that a configured server of one's own is asked for its
// model when none is set, with its key.
func TestLocalModel(t *testing.T) {
	llm := fakellm.New(fakellm.Reply("hello"))
	defer llm.Close()
	llm.SetModels()
	r := start(t, func(c *config.Config) { c.API.BaseURL, c.API.Key, c.Service.Model = llm.URL, testKey, "" })
	if caps := r.caps(t); !strings.Contains(caps.Problem, "[service] model") || caps.Endpoint != llm.URL {
		t.Errorf("without a model: got %+v", caps)
	}
	llm.SetModels("its-model")
	if text, err := r.infer(t.Context(), ask("hi", false), &chunks{}); err != nil || text != "hello" {
		t.Errorf("got %q, %v", text, err)
	}
	if caps := r.caps(t); caps.Model != "its-model" || caps.Found || caps.Problem != "" {
		t.Errorf("got %+v", caps)
	}
	if auth := llm.Requests()[0].Header.Get("Authorization"); auth != "Bearer "+testKey {
		t.Errorf("asked for models with %q", auth)
	}
	noSecret(t, "the log", r.log.String())
}

func TestStats(t *testing.T) {
	r := start(t, func(*config.Config) {})
	stats := func() proto.Stats {
		s, err := rpc.Call(t.Context(), r.client, proto.GetStats, proto.StatsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := stats(); len(s.Problems) != 0 {
		t.Errorf("before anything is decided: %q", s.Problems)
	}
	r.caps(t)
	if s := stats(); len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "base_url") {
		t.Errorf("without a model: %q", s.Problems)
	}
}

func TestLocal(t *testing.T) {
	for raw, want := range map[string]bool{
		"http://127.0.0.1:8080/v1": true, "http://[::1]/v1": true, "http://localhost:1/v1": true, "http://192.168.1.7/v1": true,
		"http://10.1.2.3/v1": true, "https://api.openai.com/v1": false, "http://8.8.8.8/v1": false, "http://localhost.example/v1": false,
	} {
		u, err := url.Parse(raw)
		if err != nil || isLocal(u) != want {
			t.Errorf("%s: got %v, %v", raw, !want, err)
		}
	}
}

func TestPickModel(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"object":"list","data":[{"id":"a"},{"id":"b"}]}`, "a"},
		{`{"data":[{"id":""},{"id":7}]}`, ""},
		{`{"data":[{"id":"text-embedding"},{"id":"b"}]}`, "b"},
		{`{"data":[]}`, ""},
		{`{"models":["a"]}`, ""},
		{`[]`, ""},
		{`<html>`, ""},
		{``, ""},
		{`{"data":"a"}`, ""},
	} {
		if got, err := pickModel([]byte(tt.in)); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: got %q, %v", tt.in, got, err)
		}
	}
}
