package rtr

import (
	"errors"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/rtr/wire"
)

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
	r.probes = []server{{"openai", "http://127.0.0.1:1/v1"}, {"openai", page.URL}, {"openai", llm.URL}, {"openai", "http://example.com/v1"}}
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
	r.probes = []server{{"openai", llm.URL}} // between two requests nothing reads it
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
	if e := failure(t, err); e.Code != proto.CodeUnavailable || !strings.Contains(e.Message, "[api] base_url") || !strings.Contains(e.Message, "ANTHROPIC_API_KEY") {
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
		if wire.IsLocal(raw) != want {
			t.Errorf("%s: got %v", raw, !want)
		}
	}
}

func TestStatsOfAModel(t *testing.T) {
	r, llm := openaiRouter(t)
	r.caps(t)
	stats, err := rpc.Call(t.Context(), r.client, proto.GetStats, proto.StatsRequest{})
	if err != nil || stats.Info["endpoint"] != llm.URL || stats.Info["model"] != "m" || stats.Info["provider"] != "openai" || len(stats.Problems) != 0 {
		t.Errorf("got %+v, %v", stats, err)
	}
}
