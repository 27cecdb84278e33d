package rtr

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/proto"
	"zino/services/rtr/wire"
)

func TestStreamed(t *testing.T) {
	r, _ := openaiRouter(t, fakellm.Turn{Text: "Grüße an die 🌍, <tool_call> & \"so\"", Size: 1})
	var got chunks
	text, err := r.infer(t.Context(), ask("hi", true), &got)
	if want := "Grüße an die 🌍, <tool_call> & \"so\""; err != nil || text != want || got.text() != want {
		t.Errorf("got %q, streamed %q, %v", text, got.text(), err)
	}
	for _, c := range got.list {
		if c == "" {
			t.Error("an empty chunk")
		}
	}
}

func TestCollected(t *testing.T) {
	r, llm := openaiRouter(t, fakellm.Reply("whole"))
	var got chunks
	text, err := r.infer(t.Context(), ask("hi", false), &got)
	if err != nil || text != "whole" || len(got.list) != 0 {
		t.Errorf("got %q, chunks %q, %v", text, got.list, err)
	}
	if body := string(llm.Requests()[0].Body); !strings.Contains(body, `"stream":false`) || strings.Contains(body, "stream_options") {
		t.Errorf("asked with %s", body)
	}
}

// TestStreamingOff holds that stream: true is then answered whole, and that
// the provider is asked for the whole as well.
func TestStreamingOff(t *testing.T) {
	llm := fakellm.New(fakellm.Reply("whole"))
	defer llm.Close()
	r := start(t, func(cfg *config.Config) { cfg.API.BaseURL, cfg.Rtr.Streaming = llm.URL, false })
	var got chunks
	text, err := r.infer(t.Context(), ask("hi", true), &got)
	if err != nil || text != "whole" || got.text() != "whole" || len(got.list) != 1 {
		t.Errorf("got %q in %q, %v", text, got.list, err)
	}
	if body := string(llm.Requests()[0].Body); !strings.Contains(body, `"stream":false`) {
		t.Errorf("asked with %s", body)
	}
	if r.caps(t).Streaming {
		t.Error("capabilities promise streaming")
	}
}

// TestFlushes holds that text reaches the caller before the provider's stream
// goes on: the gate opens only when the caller has the first part.
func TestFlushes(t *testing.T) {
	r, llm := openaiRouter(t, fakellm.Turn{Text: "first", Pause: "seen"})
	var got chunks
	got.onChunk = func() { llm.Open("seen") }
	if text, err := r.infer(t.Context(), ask("hi", true), &got); err != nil || text != "first" {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestCancel holds that the provider sees at once that the caller has gone.
func TestCancel(t *testing.T) {
	for _, tt := range []struct {
		name   string
		turn   fakellm.Turn
		stream bool
	}{
		{"before the answer", fakellm.Turn{Silent: true, End: fakellm.Stall}, true},
		{"in the answer", fakellm.Turn{Text: "x", End: fakellm.Stall}, true},
		{"collected", fakellm.Turn{Silent: true, End: fakellm.Stall}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, llm := openaiRouter(t, tt.turn)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			failed := make(chan error, 1)
			go func() {
				_, err := r.infer(ctx, ask("hi", tt.stream), &chunks{})
				failed <- err
			}()
			req, err := llm.Wait(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			<-req.Gone
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestConnectionKept holds that the connection of a complete answer serves a
// later request. Its last bytes are read behind the caller's back, so the very
// next request may come too early.
func TestConnectionKept(t *testing.T) {
	r, llm := openaiRouter(t, fakellm.Turn{Text: "x", Times: fakellm.Forever})
	seen := map[string]bool{}
	for range 100 {
		if _, err := r.infer(t.Context(), ask("hi", true), &chunks{}); err != nil {
			t.Fatal(err)
		}
		requests := llm.Requests()
		from := requests[len(requests)-1].From
		if seen[from] {
			return
		}
		seen[from] = true
	}
	t.Error("100 answers took 100 connections")
}

// TestMessagesVerbatim holds that messages cross socket and router unchanged.
func TestMessagesVerbatim(t *testing.T) {
	r, llm := openaiRouter(t, fakellm.Reply("x"))
	messages := `[{"role":"user","content":[{"type":"text","text":"<a> é"}],"name":"n","n":1.0}]`
	if _, err := r.infer(t.Context(), proto.Infer{Messages: proto.Raw(messages), Temperature: 0.25, TopP: 1}, &chunks{}); err != nil {
		t.Fatal(err)
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(llm.Requests()[0].Body, &body); err != nil {
		t.Fatal(err)
	}
	if string(body["messages"]) != messages || string(body["temperature"]) != "0.25" || string(body["top_p"]) != "1" {
		t.Errorf("asked with %s", body)
	}
}

// TestMessageErrors holds which words a list is refused with, and that keys
// have one case.
func TestMessageErrors(t *testing.T) {
	const noList = "Invalid request: messages must be a list of objects, each with a string role"
	for messages, want := range map[string]string{
		`null`: noList, `{}`: noList, `[7]`: noList, `[[]]`: noList, `[{"role":7}]`: noList, `[{}`: noList,
		`[null]`:                                     "Invalid request: messages[0] has no string role",
		`[{"role":"user"},{"Role":"user"}]`:          "Invalid request: messages[1] has no string role",
		`[{"role":"user","role":null}]`:              "Invalid request: messages[0] has no string role",
		"[{\"role\":\"user\",\"content\":\"\xff\"}]": "Invalid request: messages are not UTF-8",
	} {
		if _, err := wire.ReadMessages(proto.Raw(messages)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", messages, err, want)
		}
	}
}

func TestInvalidMessages(t *testing.T) {
	r, llm := openaiRouter(t)
	for _, messages := range []string{`{}`, `"x"`, `7`, `[7]`, `["a"]`, `[[]]`, `[null]`, `[{}]`, `[{"role":null}]`, `[{"role":7}]`, `[{"role":"user",}]`, `[{"role":"user"} {"role":"user"}]`} {
		_, err := r.infer(t.Context(), proto.Infer{Messages: proto.Raw(messages), TopP: 1}, &chunks{})
		if e := failure(t, err); e.Code != proto.CodeInvalid {
			t.Errorf("%s: got %+v", messages, *e)
		}
	}
	if n := len(llm.Requests()); n != 0 {
		t.Errorf("the provider got %d requests", n)
	}
	if _, err := wire.ReadMessages(proto.Raw("[{\"role\":\"user\",\"content\":\"\xff\"}]")); !errors.Is(err, proto.ErrInvalid) {
		t.Errorf("bad UTF-8: got %v", err)
	}
}

// TestRequestFields holds what a request may say beside its messages.
func TestRequestFields(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   proto.Infer
		want map[string]string // members of the body, as JSON; empty: not there
	}{
		{"nothing", proto.Infer{}, map[string]string{"model": `"m"`, "max_tokens": "77", "tools": ""}},
		{"system", proto.Infer{System: "be \"kind\""}, map[string]string{"messages": `[{"role":"system","content":"be \"kind\""},{"role":"user","content":"hi"}]`}},
		{"max_tokens", proto.Infer{MaxTokens: 5}, map[string]string{"max_tokens": "5"}},
		{"model", proto.Infer{Model: "other"}, map[string]string{"model": `"other"`}},
		{"provider and model", proto.Infer{Provider: "openrouter", Model: "x/y"}, map[string]string{"model": `"x/y"`, "usage": `{"include":true}`}},
		{"provider alone", proto.Infer{Provider: "openrouter"}, map[string]string{"model": `"openrouter/auto"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			alone(t)
			llm := fakellm.New(fakellm.Reply("x"))
			defer llm.Close()
			t.Setenv("OPENAI_BASE_URL", llm.URL)
			t.Setenv("OPENROUTER_BASE_URL", llm.Host+"/api/v1")
			r := start(t, func(c *config.Config) { c.Provider, c.MaxTokens = "openai", 77 })
			in := tt.in
			in.Messages, in.TopP = ask("hi", false).Messages, 1
			text, err := r.answer(t.Context(), in, &chunks{})
			if err != nil || text.Content != "x" {
				t.Fatalf("got %q, %v", text.Content, err)
			}
			var body map[string]json.RawMessage
			if err := json.Unmarshal(llm.Requests()[0].Body, &body); err != nil {
				t.Fatal(err)
			}
			for key, want := range tt.want {
				if string(body[key]) != want {
					t.Errorf("%s is %s, want %s", key, body[key], want)
				}
			}
			if provider := map[bool]string{true: "openrouter", false: "openai"}[in.Provider != ""]; text.Provider != provider || `"`+text.Model+`"` != string(body["model"]) {
				t.Errorf("answered by %s %s", text.Provider, text.Model)
			}
		})
	}
}

// TestRequestRefused holds that a wrong field costs no request.
func TestRequestRefused(t *testing.T) {
	r, llm := openaiRouter(t)
	for _, tt := range []struct {
		name, want string
		code       proto.Code
		set        func(*proto.Infer)
	}{
		{"max_tokens", `field "max_tokens"`, proto.CodeInvalid, func(in *proto.Infer) { in.MaxTokens = -1 }},
		{"tools", "tools must be a list", proto.CodeInvalid, func(in *proto.Infer) { in.Tools = proto.Raw(`{}`) }},
		{"a tool", "tools[0] has no function", proto.CodeInvalid, func(in *proto.Infer) { in.Tools = proto.Raw(`[{}]`) }},
		{"provider", `there is no provider "gpt": it is one of`, proto.CodeInvalid, func(in *proto.Infer) { in.Provider = "gpt" }},
		{"provider without a key", "ANTHROPIC_API_KEY", proto.CodeUnavailable, func(in *proto.Infer) { in.Provider = "anthropic" }},
	} {
		in := ask("hi", true)
		tt.set(&in)
		_, err := r.infer(t.Context(), in, &chunks{})
		if e := failure(t, err); e.Code != tt.code || !strings.Contains(e.Message, tt.want) {
			t.Errorf("%s: got %+v", tt.name, *e)
		}
	}
	if n := len(llm.Requests()); n != 0 {
		t.Errorf("the provider got %d requests", n)
	}
}
