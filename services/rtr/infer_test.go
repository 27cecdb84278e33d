package rtr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	"zino/services/rtr/retry"
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

// TestStreamingOff checks that with streaming = false a request with stream: true
// gets its answer in one chunk, and that the provider is not asked to stream.
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
		t.Error("capabilities report streaming")
	}
}

// TestFlushes checks that text reaches the caller before the provider sends more:
// the provider continues only after the caller has received the first chunk.
func TestFlushes(t *testing.T) {
	r, llm := openaiRouter(t, fakellm.Turn{Text: "first", Pause: "seen"})
	var got chunks
	got.onChunk = func() { llm.Open("seen") }
	if text, err := r.infer(t.Context(), ask("hi", true), &got); err != nil || text != "first" {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestCancel checks that a canceled request closes the connection to the provider.
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
			hangUp(t, r, llm, tt.stream)
		})
	}
}

// hangUp cancels a request after the provider has received it, and waits until the
// provider's connection is closed.
func hangUp(t *testing.T, r *router, llm *fakellm.Server, stream bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := r.infer(ctx, ask("hi", stream), &chunks{})
		failed <- err
	}()
	req, err := llm.Wait(t.Context(), 1)
	zinotest.Must(t, err)
	cancel()
	<-req.Gone
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestConnectionKept checks that the connection of a complete answer is reused. Its
// last bytes are read in the background, so the very next request may be too early.
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

// TestMessagesVerbatim checks that messages reach the provider unchanged.
func TestMessagesVerbatim(t *testing.T) {
	r, llm := openaiRouter(t, fakellm.Reply("x"))
	messages := `[{"role":"user","content":[{"type":"text","text":"<a> é"}],"name":"n","n":1.0}]`
	if _, err := r.infer(t.Context(), proto.Infer{Messages: proto.Raw(messages), Temperature: 0.25, TopP: 1}, &chunks{}); err != nil {
		t.Fatal(err)
	}
	var body map[string]json.RawMessage
	zinotest.Must(t, json.Unmarshal(llm.Requests()[0].Body, &body))
	if string(body["messages"]) != messages || string(body["temperature"]) != "0.25" || string(body["top_p"]) != "1" {
		t.Errorf("asked with %s", body)
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

// TestRequestFields checks the optional fields of a request.
func TestRequestFields(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   proto.Infer
		want map[string]string // members of the body, as JSON; "" if absent
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
			zinotest.Must(t, json.Unmarshal(llm.Requests()[0].Body, &body))
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

// TestRequestRefused checks that an invalid field is rejected without a request to
// the provider.
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

// three is a router with the providers OpenAI, OpenRouter and Gemini, in this order
// of fallback.
type three struct {
	*router
	llms [3]*fakellm.Server
}

// startThree starts a router whose first provider has a configured key, the second
// one from the environment and the third none.
func startThree(t *testing.T, change func(*config.Config), scripts ...fakellm.Turn) three {
	t.Helper()
	alone(t)
	var all three
	for i := range all.llms {
		all.llms[i] = fakellm.New(scripts[i])
		t.Cleanup(all.llms[i].Close)
	}
	t.Setenv("OPENAI_BASE_URL", all.llms[0].URL)
	t.Setenv("OPENROUTER_BASE_URL", all.llms[1].Host+"/api/v1")
	t.Setenv("OPENROUTER_API_KEY", "k-r")
	t.Setenv("GEMINI_BASE_URL", all.llms[2].Host)
	all.router = start(t, func(c *config.Config) {
		c.Provider, c.API.Key = "openai", testKey
		c.Rtr.Fallback = []config.Fallback{{Provider: "openrouter", Model: "x/y"}, {Provider: "gemini"}, {Provider: "gemini"}}
		if change != nil {
			change(c)
		}
	})
	return all
}

// asked returns the number of requests to each provider.
func (a three) asked() (n [3]int) {
	for i, llm := range a.llms {
		n[i] = len(llm.Requests())
	}
	return n
}

// TestFallback checks which provider answers when others fail, and that each gets
// its own key only.
func TestFallback(t *testing.T) {
	ever := func(turn fakellm.Turn) fakellm.Turn { return times(fakellm.Forever, turn) }
	for _, tt := range []struct {
		name          string
		first, second fakellm.Turn
		asked         [3]int
		by            string
	}{
		{"not needed", fakellm.Reply("1"), fakellm.Reply("2"), [3]int{1, 0, 0}, "openai m"},
		{"a rejected key", refused(401), fakellm.Reply("2"), [3]int{1, 1, 0}, "openrouter x/y"},
		{"no such model", refused(404), fakellm.Reply("2"), [3]int{1, 1, 0}, "openrouter x/y"},
		{"a spending limit", refused(402), fakellm.Reply("2"), [3]int{1, 1, 0}, "openrouter x/y"},
		{"too long a wait", refused(429, "Retry-After: 900"), fakellm.Reply("2"), [3]int{1, 1, 0}, "openrouter x/y"},
		{"a long pause", refused(429, "Retry-After: 50"), fakellm.Reply("2"), [3]int{1, 1, 0}, "openrouter x/y"},
		{"permanently down", ever(refused(500)), ever(refused(503)), [3]int{5, 5, 1}, "gemini gemini-flash-latest"},
		{"a web page, then a cut", fakellm.Turn{Faults: []fakellm.Fault{fakellm.HTML}}, ever(stream("data: {}\n\n")), [3]int{1, 5, 1}, "gemini gemini-flash-latest"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := startThree(t, nil, tt.first, tt.second, fakellm.Reply("3"))
			var got chunks
			in := ask("hi", true)
			in.Events = true
			text, err := all.answer(t.Context(), in, &got)
			by := text.Provider + " " + text.Model
			if err != nil || by != tt.by || got.text() != text.Content || all.asked() != tt.asked {
				t.Errorf("got %q by %s, %v, asked %v", text.Content, by, err, all.asked())
			}
			if instead := "; asking " + strings.TrimSuffix(by, " gemini-flash-latest") + " instead"; by != "openai m" && !strings.Contains(got.events[len(got.events)-1], instead) {
				t.Errorf("notices %q, want %q", got.events, instead)
			}
			all.checkKeys(t)
		})
	}
}

// checkKeys checks that each provider got its own key and no other.
func (a three) checkKeys(t *testing.T) {
	t.Helper()
	for i, want := range []string{"Bearer " + testKey, "Bearer k-r", ""} {
		for _, req := range a.llms[i].Requests() {
			if got := req.Header.Get("Authorization"); got != want || req.Header.Get("X-Goog-Api-Key") != "" {
				t.Errorf("provider %d got %q", i+1, got)
			}
		}
	}
}

// TestNoFallback checks when no other provider is asked.
func TestNoFallback(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first fakellm.Turn
		in    func(*proto.Infer)
		set   func(*config.Config)
		want  string
		asked int
	}{
		{"400", refused(400), nil, nil, "HTTP 400: not now", 1},
		{"413", refused(413), nil, nil, "HTTP 413: not now", 1},
		{"422", refused(422), nil, nil, "HTTP 422: not now", 1},
		{"a provider is named", refused(401), func(in *proto.Infer) { in.Provider = "openai" }, nil, "HTTP 401: not now", 1},
		{"a model is named", refused(401), func(in *proto.Infer) { in.Model = "other" }, nil, "HTTP 401: not now", 1},
		{"text was already sent", stream(hello), nil, nil, "no end mark", 1},
		{"the request is wrong", fakellm.Reply("x"), func(in *proto.Infer) { in.Messages = proto.Raw(`[7]`) }, nil, "messages must be a list", 0},
		{"the budget", fakellm.Reply("x"), nil, func(c *config.Config) { c.Budget.TokensPerDay = 1 }, "tokens_per_day", 0},
		{"no fallback", refused(401), nil, func(c *config.Config) { c.Rtr.Fallback = nil }, "HTTP 401: not now", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := startThree(t, tt.set, tt.first, fakellm.Reply("2"), fakellm.Reply("3"))
			in := ask("hi", true)
			if tt.in != nil {
				tt.in(&in)
			}
			_, err := all.infer(t.Context(), in, &chunks{})
			if e := failure(t, err); !strings.Contains(e.Message, tt.want) || all.asked() != [3]int{tt.asked, 0, 0} {
				t.Errorf("got %+v, asked %v", *e, all.asked())
			}
		})
	}
}

// TestFallbackUnset checks that a provider without a key is skipped, and that the
// error is that of the last provider.
func TestFallbackUnset(t *testing.T) {
	all := startThree(t, func(c *config.Config) { c.Provider, c.API.Key = "anthropic", "" }, fakellm.Reply("1"), refused(401), fakellm.Reply("3"))
	in := ask("hi", true)
	in.Events = true
	var got chunks
	if text, err := all.infer(t.Context(), in, &got); err != nil || text != "3" || all.asked() != [3]int{0, 1, 1} {
		t.Errorf("got %q, %v, asked %v", text, err, all.asked())
	}
	if len(got.events) != 2 || !strings.Contains(got.events[0], "ANTHROPIC_API_KEY") {
		t.Errorf("notices %q", got.events)
	}
	all.llms[2].Add(refused(403))
	all.llms[1].Add(refused(404))
	_, err := all.infer(t.Context(), ask("hi", false), &chunks{})
	if e := failure(t, err); e.Status != 403 {
		t.Errorf("got %+v", *e)
	}
}

// TestFallbackHangUp checks that no provider is asked after the caller has hung up.
func TestFallbackHangUp(t *testing.T) {
	all := startThree(t, nil, fakellm.Turn{Silent: true, End: fakellm.Stall}, fakellm.Reply("2"), fakellm.Reply("3"))
	hangUp(t, all.router, all.llms[0], true)
	rpctest.WaitIdle(t, all.socket)
	if all.asked() != [3]int{1, 0, 0} {
		t.Errorf("asked %v", all.asked())
	}
}

// TestFallbackKeys checks that a key configured for the first provider is sent to
// no other endpoint, even one of the same kind.
func TestFallbackKeys(t *testing.T) {
	for _, tt := range []struct {
		name string
		how  choice
	}{
		{"key", choice{set: apiKey("k-1")}},
		{"key_file", choice{file: "k-1"}},
		{"ZINO_API_KEY", choice{env: map[string]string{"ZINO_API_KEY": "k-1"}}},
		{"LLM_API_KEY", choice{env: map[string]string{"LLM_API_KEY": "k-1"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			alone(t)
			first, second := fakellm.New(refused(401)), fakellm.New(fakellm.Reply("2"))
			defer first.Close()
			defer second.Close()
			t.Setenv("OPENAI_BASE_URL", second.URL)
			set := tt.how.set
			tt.how.set = func(c *config.Config) {
				if set != nil {
					set(c)
				}
				c.API.BaseURL, c.Rtr.Fallback = first.URL, []config.Fallback{{Provider: "openai", Model: "m2"}}
			}
			r := tt.how.start(t)
			text, err := r.infer(t.Context(), ask("hi", true), &chunks{})
			if err != nil || text != "2" {
				t.Fatalf("got %q, %v", text, err)
			}
			got := []string{first.Requests()[0].Header.Get("Authorization"), second.Requests()[0].Header.Get("Authorization")}
			if !slices.Equal(got, []string{"Bearer k-1", ""}) {
				t.Errorf("the providers got %q", got)
			}
		})
	}
}

// patient is a router with a scripted provider whose limiter uses the router's own
// clock, on which pauses take no time.
func patient(t *testing.T, script ...fakellm.Turn) (*router, *fakellm.Server) {
	t.Helper()
	r, llm := openaiRouter(t, script...)
	r.limiters["openai"] = retry.New(0, 0, r.now)
	return r, llm
}

func refused(status int, header ...string) fakellm.Turn {
	return fakellm.Turn{Status: status, Text: `{"error":{"message":"not now"}}`, Header: header}
}

func times(n int, turn fakellm.Turn) fakellm.Turn {
	turn.Times = n
	return turn
}

// TestRetried checks which requests are retried, and after which pauses: those that
// the provider asks for, else doubling ones with a jitter of at most -25 %.
func TestRetried(t *testing.T) {
	own := func(n int) (waits []time.Duration) {
		for i := range n {
			waits = append(waits, -500*time.Millisecond<<i)
		}
		return waits
	}
	for _, tt := range []struct {
		name   string
		first  fakellm.Turn
		pauses []time.Duration // negative: a pause of the router's, at most that long
		stream bool
	}{
		{"429 with Retry-After", refused(429, "Retry-After: 2"), []time.Duration{2 * time.Second}, true},
		{"429 with Retry-After, collected", refused(429, "Retry-After: 2"), []time.Duration{2 * time.Second}, false},
		{"three times", times(3, refused(429, "Retry-After-Ms: 700")), slices.Repeat([]time.Duration{700 * time.Millisecond}, 3), true},
		{"500", refused(500), own(1), true},
		{"500, collected", refused(500), own(1), false},
		{"four times", times(4, refused(503)), own(4), true},
		{"408", refused(408), own(1), true},
		{"409", refused(409), own(1), true},
		{"529", refused(529), own(1), true},
		{"x-should-retry", refused(418, "X-Should-Retry: true"), own(1), true},
		{"hangs up", fakellm.Turn{Silent: true, End: fakellm.Hangup}, own(1), true},
		{"an error before the text", stream(`data: {"error":{"message":"busy","code":503}}` + "\n\n"), own(1), true},
		{"cut before the text", fakellm.Turn{Reasoning: "hm", Calls: []fakellm.Call{{Name: "f", Args: "{}"}}, End: fakellm.Cut}, own(1), true},
		{"cut in text that was not sent to the caller", stream(hello), own(1), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.first.Times == fakellm.Forever {
				tt.first.Times = 1
			}
			r, llm := patient(t, tt.first, fakellm.Reply("answer"))
			var got chunks
			text, err := r.infer(t.Context(), ask("hi", tt.stream), &got)
			if err != nil || text != "answer" || tt.stream && got.text() != text || len(got.events) != 0 {
				t.Errorf("got %q, streamed %q, %q, %v", text, got.text(), got.events, err)
			}
			pauses := r.paused()
			for i, want := range tt.pauses {
				if want < 0 && i < len(pauses) && pauses[i] <= -want && pauses[i] >= -want*3/4 {
					tt.pauses[i] = pauses[i]
				}
			}
			if !slices.Equal(pauses, tt.pauses) {
				t.Errorf("paused %v, want %v", pauses, tt.pauses)
			}
			if n := len(llm.Requests()); n != len(pauses)+1 || llm.Unused() != 0 {
				t.Errorf("asked %d times, %d answers left", n, llm.Unused())
			}
		})
	}
}

// TestNotRetried checks which requests are not retried.
func TestNotRetried(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		turn       fakellm.Turn
		text       string
	}{
		{"400", "HTTP 400: not now", refused(400), ""},
		{"401", "HTTP 401: not now", refused(401), ""},
		{"401 that wants to be asked again", "HTTP 401: not now", refused(401, "X-Should-Retry: true", "Retry-After: 1"), ""},
		{"403", "HTTP 403: not now", refused(403), ""},
		{"404", "HTTP 404: not now", refused(404), ""},
		{"413", "HTTP 413: not now", refused(413), ""},
		{"422", "HTTP 422: not now", refused(422), ""},
		{"500 that does not want it", "HTTP 500: not now", refused(500, "X-Should-Retry: false"), ""},
		{"no credit", "HTTP 402: not now", refused(402, "Retry-After: 1"), ""},
		{"a spending limit", "HTTP 429: spent", fakellm.Failure(429, `{"error":{"type":"insufficient_quota","code":"project_spend_limit_exceeded","message":"spent"}}`), ""},
		{"Anthropic's", "HTTP 429: spent", fakellm.Failure(429, `{"type":"error","error":{"type":"rate_limit_error","message":"spent","details":{"error_code":"enforced_spend_limit_reached"}}}`), ""},
		{"too long a wait", "HTTP 429: not now (come back in 10m0s)", refused(429, "Retry-After: 600"), ""},
		{"cut in the text", "no end mark", stream(hello), "hello"},
		{"an error in the text", "busy", stream(hello + `data: {"error":{"message":"busy","code":503}}` + "\n\n"), "hello"},
		{"the connection breaks in the text", "broke", fakellm.Turn{Text: "hello", End: fakellm.Hangup}, "hello"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, llm := patient(t, times(fakellm.Forever, tt.turn))
			var got chunks
			_, err := r.infer(t.Context(), ask("hi", true), &got)
			if e := failure(t, err); !strings.Contains(e.Message, tt.want) || got.text() != tt.text {
				t.Errorf("got %+v, streamed %q", *e, got.text())
			}
			n := 0
			for _, req := range llm.Requests() {
				if req.Method == "POST" { // after a 404, the router asks for the list of models
					n++
				}
			}
			if n != 1 || len(r.paused()) != 0 {
				t.Errorf("asked %d times, paused %v", n, r.paused())
			}
		})
	}
}

// TestParkAnswersLimitAtOnce checks that a caller that parks gets the end of a long pause
// in place of a wait, and that other models are asked first.
func TestParkAnswersLimitAtOnce(t *testing.T) {
	const spent = `{"error":{"type":"insufficient_quota","message":"spent"}}`
	for _, tt := range []struct {
		name   string
		turn   fakellm.Turn
		code   proto.Code
		pause  time.Duration // until details; 0: none
		paused int           // waits before the answer
	}{
		{"a short pause is waited for", refused(429, "Retry-After: 30"), proto.CodeBusy, 0, retry.MaxRetries},
		{"a long pause", refused(429, "Retry-After: 60"), proto.CodeLimit, time.Minute, 0},
		{"a day", refused(503, "Retry-After: 86400"), proto.CodeLimit, 24 * time.Hour, 0},
		{"a quota with a reset", fakellm.Turn{Status: 429, Text: spent, Header: []string{"Retry-After: 3600"}}, proto.CodeLimit, time.Hour, 0},
		{"a quota without one", fakellm.Failure(429, spent), proto.CodeBusy, 0, 0},
		{"an error that no pause helps", refused(401, "Retry-After: 60"), proto.CodeDenied, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _ := patient(t, times(fakellm.Forever, tt.turn))
			in := ask("hi", true)
			in.OnLimit = proto.OnLimitPark
			before := time.Now()
			_, err := r.infer(t.Context(), in, &chunks{})
			e := failure(t, err)
			zinotest.Equal(t, "code", e.Code, tt.code)
			zinotest.Equal(t, "waits", len(r.paused()), tt.paused)
			if tt.pause == 0 {
				return
			}
			end, err := time.Parse(time.RFC3339, e.Details)
			if err != nil || end.Before(before.Add(tt.pause)) || end.After(time.Now().Add(tt.pause+time.Second)) {
				t.Errorf("details = %q, %v; asked at %v", e.Details, err, before)
			}
			if _, err = r.infer(t.Context(), in, &chunks{}); failure(t, err).Code != proto.CodeLimit {
				t.Errorf("the next request got %v", err)
			}
		})
	}
	r, _ := patient(t)
	in := ask("hi", true)
	in.OnLimit = "maybe"
	if _, err := r.infer(t.Context(), in, &chunks{}); !errors.Is(err, proto.ErrInvalid) {
		t.Errorf("on_limit maybe: %v", err)
	}
}

// TestReasoningCountsAsPassed checks that a request is not retried after a piece of
// the reasoning was sent to the caller.
func TestReasoningCountsAsPassed(t *testing.T) {
	r, llm := patient(t, fakellm.Turn{Reasoning: "hm", End: fakellm.Cut, Times: fakellm.Forever})
	in := ask("hi", true)
	in.Events = true
	var got chunks
	_, err := r.infer(t.Context(), in, &got)
	if !errors.Is(err, proto.ErrUnavailable) || len(llm.Requests()) != 1 || !slices.Equal(got.events, []string{`{"type":"reasoning","text":"hm"}`}) {
		t.Errorf("got %v, %q after %d requests", err, got.events, len(llm.Requests()))
	}
}

// TestNotices checks that a retry is reported at once to callers that asked for events.
func TestNotices(t *testing.T) {
	for _, events := range []bool{true, false} {
		r, _ := patient(t, times(2, refused(429, "Retry-After: 2")), fakellm.Reply("answer"))
		in := ask("hi", true)
		in.Events = events
		var got chunks
		text, err := r.infer(t.Context(), in, &got)
		var want []string
		if events {
			want = []string{
				`{"type":"notice","kind":"retry","text":"HTTP 429: not now; asking again in 2s (1 of 4)","wait_ms":2000,"provider":"openai"}`,
				`{"type":"notice","kind":"retry","text":"HTTP 429: not now; asking again in 2s (2 of 4)","wait_ms":2000,"provider":"openai"}`,
			}
		}
		if err != nil || text != "answer" || !slices.Equal(got.events, want) {
			t.Errorf("events %v: got %q, %v, %q", events, text, err, got.events)
		}
		if !strings.Contains(r.log.String(), "asking again in 2s") {
			t.Error("the retry is not logged")
		}
	}
}

// TestRefusedThenThere checks that a request to a server which does not listen yet
// is retried.
func TestRefusedThenThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	zinotest.Must(t, err)
	at := l.Addr().String()
	zinotest.Must(t, l.Close())
	r := start(t, func(c *config.Config) { c.API.BaseURL = "http://" + at + "/v1" })
	r.pause = func(context.Context, time.Duration) error {
		llm, err := fakellm.Listen(at, fakellm.Reply("there now"))
		if err == nil {
			t.Cleanup(llm.Close)
		}
		return err
	}
	if text, err := r.infer(t.Context(), ask("hi", true), &chunks{}); err != nil || text != "there now" {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestHangUpInPause checks that a hang-up ends the pause before a retry.
func TestHangUpInPause(t *testing.T) {
	r, llm := patient(t, times(fakellm.Forever, refused(500)))
	began, ended := make(chan struct{}), make(chan error, 1)
	r.pause = func(ctx context.Context, _ time.Duration) error {
		close(began)
		err := pause(ctx, time.Hour)
		ended <- err
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := r.infer(ctx, ask("hi", true), &chunks{})
		failed <- err
	}()
	<-began
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the pause ended with %v", err)
	}
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller got %v", err)
	}
	if n := len(llm.Requests()); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if err := pause(t.Context(), time.Nanosecond); err != nil {
		t.Errorf("a pause ends with %v", err)
	}
}

// TestSampling checks that a sampling parameter is not sent if the model is known to
// reject it, or rejected it with HTTP 400. If it was set, this is reported once per
// session.
func TestSampling(t *testing.T) {
	for _, tt := range []struct {
		name, model string
		temperature float64
		warned      string
	}{
		{"default", "gpt-5-mini", 0.7, ""},
		{"known", "gpt-5-mini", 0.3, "gpt-5-mini does not take temperature: 0.3 is not sent"},
		{"refused default", "m", 0.7, ""},
		{"refused", "m", 0.3, "m does not take temperature: 0.3 is not sent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, llm := toolRouter(t, func(c *config.Config) { c.Service.Model = tt.model }, fakellm.Turn{Text: "x", Refuses: []string{"temperature"}, Times: fakellm.Forever})
			in := proto.Infer{Messages: proto.Raw(`[{"role":"user","content":"hi"}]`), Temperature: tt.temperature, TopP: 1, Events: true, SessionID: "s"}
			var all []string
			for range 3 {
				var got chunks
				if text, err := r.infer(t.Context(), in, &got); err != nil || text != "x" {
					t.Fatalf("got %q, %v", text, err)
				}
				all = append(all, got.events...)
			}
			if notices := strings.Join(all, " "); strings.Count(notices, "does not take") != min(len(tt.warned), 1) || !strings.Contains(notices, tt.warned) {
				t.Errorf("notices %s", notices)
			}
			want := 3
			if tt.model == "m" {
				want = 4 // the first was rejected
			}
			if n := len(llm.Requests()); n != want {
				t.Errorf("asked %d times, want %d", n, want)
			}
		})
	}
	r, llm := toolRouter(t, nil, fakellm.Failure(400, `{"error":{"message":"temperature must be at most 1"}}`))
	if _, err := r.infer(t.Context(), ask("hi", true), &chunks{}); failure(t, err).Status != 400 || len(llm.Requests()) != 1 {
		t.Errorf("a value out of range: %v after %d requests", err, len(llm.Requests()))
	}
}

// effortOf matches the effort in a request's body, by wire.
var effortOf = map[string]string{
	"anthropic": `"budget_tokens":`, "openai": `"reasoning_effort":"high"`, "gemini": `"thinkingLevel":"HIGH"`,
	"openrouter": `"reasoning":{"effort":"high"}`, "ollama": `"think":true`, "responses": `"reasoning":{"effort":"high","summary":"auto"}`,
}

// TestEffort checks on every wire that an effort reaches the provider, that a
// model which rejects it is asked again without it at once, and that this is
// remembered and reported once per session.
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

// TestEffortTooShort checks that an answer too short for thinking is requested without
// it, and that the next one is requested with it.
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

// TestEffortUnknown checks that an effort which the model is known not to support is
// not sent, and that an unknown effort is an error.
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

// TestWire checks which of OpenAI's two wires is used for a model.
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

// TestNoResponses checks that the router switches to chat completions at once if the
// endpoint has no Responses API, and that this is remembered for the endpoint and
// reported once per session.
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

// TestNoResponsesAtOnce checks that concurrent requests to [api] base_url are all
// answered, and that later ones do not try the Responses API.
func TestNoResponsesAtOnce(t *testing.T) {
	llm := fakellm.New(fakellm.Turn{Text: "x", Times: fakellm.Forever})
	defer llm.Close()
	host, err := url.Parse(llm.Host)
	zinotest.Must(t, err)
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

// TestResponsesRefused checks which refusals of the Responses API are errors: those
// about the model or an item, and all of them if the wire is configured.
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
// completions is an error with a remedy, and that reasoning is not switched off.
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

// TestNoSummaries checks that the effort is still sent if the organization may not
// request summaries of the reasoning, and that the refusal is remembered.
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

// oneTool is a list of one tool.
var oneTool = proto.Raw(`[{"type":"function","function":{"name":"f","description":"does it","parameters":{"type":"object","properties":{"n":{"type":"integer"}}}}}]`)

// toolRouter serves a router that asks a scripted provider on OpenAI's wire, with
// native tools.
func toolRouter(t *testing.T, change func(*config.Config), script ...fakellm.Turn) (*router, *fakellm.Server) {
	t.Helper()
	alone(t)
	llm := fakellm.New(script...)
	t.Cleanup(llm.Close)
	t.Setenv("OPENAI_BASE_URL", llm.URL)
	t.Setenv("OPENROUTER_BASE_URL", llm.Host+"/api/v1")
	return start(t, func(c *config.Config) {
		if c.Provider = "openai"; change != nil {
			change(c)
		}
	}), llm
}

func askTools(stream bool) proto.Infer {
	in := ask("hi", stream)
	in.Tools = oneTool
	return in
}

// TestToolsDropped checks which models get native tools: those of providers named in
// the configuration, unless an entry of [[rtr.model]] says otherwise.
func TestToolsDropped(t *testing.T) {
	const came = `[{"role":"user","content":"hi"},{"role":"assistant","content":"so","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"n\":1}"}}]},{"role":"tool","tool_call_id":"1","content":"42"}]`
	const asText = `{"role":"user","content":"hi"},{"role":"assistant","content":"so<tool_call>\n{\"name\":\"f\",\"arguments\":{\"n\":1}}\n</tool_call>\n<tool_response>\n42\n</tool_response>\n"}]`
	tools := func(rules ...config.Model) func(*config.Config) {
		return func(c *config.Config) { c.Rtr.Model = rules }
	}
	for _, tt := range []struct {
		name   string
		base   bool // [api] base_url is set
		set    func(*config.Config)
		native bool
	}{
		{"by name", false, tools(), true},
		{"by address", true, tools(), false},
		{"by address, configured", true, tools(config.Model{Name: "m", Tools: "native"}), true},
		{"by name, configured", false, tools(config.Model{Name: "*", Provider: "openai", Tools: "text"}), false},
		{"of another provider", false, tools(config.Model{Name: "*", Provider: "gemini", Tools: "text"}), true},
		{"the first entry with tools", true, tools(config.Model{Name: "*", Context: 9}, config.Model{Name: "m*", Tools: "native"}, config.Model{Name: "m", Tools: "text"}), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, llm := toolRouter(t, func(c *config.Config) {
				if tt.set(c); tt.base {
					c.API.BaseURL = os.Getenv("OPENAI_BASE_URL")
				}
			}, fakellm.Reply("x"))
			if caps := r.caps(t); caps.NativeTools != tt.native {
				t.Errorf("got %+v", caps)
			}
			in := askTools(true)
			in.Messages = proto.Raw(came)
			if _, err := r.infer(t.Context(), in, &chunks{}); err != nil {
				t.Fatal(err)
			}
			var body struct{ Messages, Tools json.RawMessage }
			zinotest.Must(t, json.Unmarshal(llm.Requests()[0].Body, &body))
			wantMessages, wantTools := came, string(oneTool)
			if !tt.native {
				wantMessages, wantTools = asText, ""
			}
			messages := string(body.Messages)
			if !tt.native {
				messages = withoutLesson(t, messages)
			}
			if messages != wantMessages || string(body.Tools) != wantTools {
				t.Errorf("asked with %s and %s", body.Messages, body.Tools)
			}
		})
	}
}

// withoutLesson removes the description of oneTool from the front of messages.
func withoutLesson(t *testing.T, messages string) string {
	t.Helper()
	lesson, rest, ok := strings.Cut(messages, `"},`)
	if !ok || !strings.HasPrefix(lesson, `[{"role":"system","content":"`) || !strings.HasSuffix(lesson, `\n- f: does it {\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}}}`) {
		t.Errorf("no description of the tool in %s", messages)
	}
	return rest
}

// TestTextTools checks on every wire that a model without native tools gets the form
// of a call after its system prompt, and that a request without tools is unchanged.
func TestTextTools(t *testing.T) {
	for _, wire := range wireNames {
		for _, tools := range []proto.Raw{oneTool, nil} {
			llm := fakellm.New(fakellm.Reply("x"))
			r := onWire(t, wire, llm.Host, func(c *config.Config) { c.Rtr.Model = append(c.Rtr.Model, config.Model{Name: "*", Tools: "text"}) })
			in := ask("hi", true)
			in.System, in.Tools = "Be brief.", tools
			if text, err := r.infer(t.Context(), in, &chunks{}); err != nil || text != "x" {
				t.Errorf("%s: got %q, %v", wire, text, err)
			}
			requests := llm.Requests()
			last := requests[len(requests)-1]
			taught := strings.Contains(string(last.Body), `Be brief.\n\n# Tools\n`) && strings.Contains(string(last.Body), `\n- f: does it {`)
			if err := last.Legal(); err != nil || taught != (tools != nil) || strings.Contains(string(last.Body), `"tools"`) {
				t.Errorf("%s: asked with %s, %v", wire, last.Body, err)
			}
			llm.Close()
		}
	}
}

// TestStateGoesBack checks that a model's state is sent back with its calls, within
// the turn and to the same model only.
func TestStateGoesBack(t *testing.T) {
	const details = `"reasoning_details":[{"format":"fakellm-v1","index":0,`
	for _, tt := range []struct{ provider, key, want string }{
		{"openai", "reasoning_content", `"reasoning_content":"It needs f."`},
		{"openrouter", "reasoning_details", details + `"text":"It needs f.","type":"reasoning.text","signature":"sig-1"}]`},
		{"openai", "extra_content", `"extra_content":{"google":{"thought_signature":"sig-1"}}`},
	} {
		for _, stream := range []bool{true, false} {
			for _, model := range []string{"m", "another"} {
				r, llm := toolRouter(t, func(c *config.Config) { c.Provider = tt.provider },
					fakellm.Turn{Text: "so", Size: 4, Reasoning: "It needs f.", ReasoningKey: tt.key, Calls: []fakellm.Call{{Name: "f", Args: `{"n":1}`}, {Name: "f", Args: `{}`}}}, fakellm.Reply("done"))
				text, err := r.answer(t.Context(), askTools(stream), &chunks{})
				if err != nil || len(text.State) == 0 {
					t.Fatalf("%s: got %+v, %v", tt.key, text, err)
				}
				in := askTools(stream)
				in.Model = model
				in.Messages = proto.Raw(`[{"role":"user","content":"hi"},{"role":"assistant","content":"so","tool_calls":` + string(text.ToolCalls) + `,"reasoning_state":` + string(text.State) +
					`},{"role":"tool","tool_call_id":"call_1","content":"1"},{"role":"tool","tool_call_id":"call_2","content":"2"}]`)
				if text, err = r.answer(t.Context(), in, &chunks{}); err != nil || text.Content != "done" {
					t.Fatalf("%s: got %+v, %v", tt.key, text, err)
				}
				body := string(llm.Requests()[1].Body)
				want := 0
				if model == "m" {
					want = 1
				}
				if strings.Count(compactJSON(t, body), sorted(t, tt.want)) != want || strings.Contains(body, "reasoning_state") {
					t.Errorf("%s, stream %v, asked with %s; want %d times %s", tt.key, stream, body, want, tt.want)
				}
			}
		}
	}
}

// TestManyCalls checks that all calls of a reply are returned, with their state, and
// that the provider accepts the next request with them.
func TestManyCalls(t *testing.T) {
	const n = 140
	calls := make([]fakellm.Call, n)
	for i := range calls {
		calls[i] = fakellm.Call{Name: "f", Args: fmt.Sprintf(`{"n":%d}`, i)}
	}
	for _, wire := range []string{"anthropic", "openai", "gemini", "ollama"} {
		t.Run(wire, func(t *testing.T) {
			alone(t)
			llm := fakellm.New(fakellm.Turn{Text: "so", Reasoning: "It needs f.", Calls: calls}, fakellm.Reply("done"))
			defer llm.Close()
			for name, url := range map[string]string{"ANTHROPIC_BASE_URL": llm.Host, "OPENAI_BASE_URL": llm.URL, "GEMINI_BASE_URL": llm.Host, "OLLAMA_HOST": llm.Host} {
				t.Setenv(name, url)
			}
			r := start(t, func(c *config.Config) { c.Provider = wire })
			text, err := r.answer(t.Context(), askTools(true), &chunks{})
			if got := callWords(t, text.ToolCalls); err != nil || len(got) != n || len(text.State) == 0 {
				t.Fatalf("%d calls, state %s, %v", len(got), text.State, err)
			}
			in := askTools(true)
			var messages strings.Builder
			messages.WriteString(`[{"role":"user","content":"hi"},{"role":"assistant","content":"so","tool_calls":` + string(text.ToolCalls) + `,"reasoning_state":` + string(text.State) + `}`)
			for i := range n {
				messages.WriteString(fmt.Sprintf(`,{"role":"tool","tool_call_id":"call_%d","content":"%d"}`, i+1, i))
			}
			in.Messages = proto.Raw(messages.String() + "]")
			if text, err = r.answer(t.Context(), in, &chunks{}); err != nil || text.Content != "done" {
				t.Fatalf("got %+v, %v", text, err)
			}
			all := llm.Requests()
			if err := all[len(all)-1].Legal(); err != nil {
				t.Error(err)
			}
		})
	}
}

// compactJSON returns JSON with sorted keys and without blanks; sorted does so for a
// member.
func compactJSON(t *testing.T, raw string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	b, err := json.Marshal(v)
	zinotest.Must(t, err)
	return string(b)
}

func sorted(t *testing.T, member string) string {
	t.Helper()
	return strings.Trim(compactJSON(t, "{"+member+"}"), "{}") // also trims braces at the member's end
}

const wayOut = `. Go on in a new session: zino handoff --from-session s-1 --goal "…"`

// TestFits checks that a session longer than a known context window is not sent, and
// that the error says how to continue.
func TestFits(t *testing.T) {
	long := strings.Repeat("word ", 8000) // 10000 tokens
	for _, tt := range []struct {
		name    string
		content string
		context int
		session string
		events  bool
		tools   proto.Raw
		refused string
	}{
		{"it fits", long, 10010, "s-1", true, nil, ""},
		{"it does not", long, 9999, "s-1", true, nil, "about 10000 tokens, more than the 9999 that m holds"},
		{"unknown window", long, 0, "s-1", true, nil, ""},
		{"tools count", "hi", 30, "s-1", false, oneTool, ""},
		{"too many tools", "hi", 13, "s-1", false, oneTool, "more than the 13 that m holds"},
		{"no session", long, 9999, "", true, nil, "more than the 9999 that m holds"},
		{"an invalid session name", long, 9999, "../x; rm", true, nil, "more than the 9999 that m holds"},
		{"a plain request", long, 9999, "", false, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, llm := toolRouter(t, func(c *config.Config) { c.Rtr.Model = []config.Model{{Name: "m", Context: tt.context}} }, fakellm.Reply("x"))
			in := ask(tt.content, true)
			in.SessionID, in.Events, in.Tools = tt.session, tt.events, tt.tools
			text, err := r.infer(t.Context(), in, &chunks{})
			if tt.refused == "" {
				if err != nil || text != "x" {
					t.Errorf("got %q, %v", text, err)
				}
				return
			}
			e := failure(t, err)
			if e.Code != proto.CodeTooLarge || e.Kind != "session" || !strings.Contains(e.Message, tt.refused) || !strings.Contains(e.Message, "set context of [[rtr.model]]") || strings.HasSuffix(e.Message, wayOut) != (tt.session == "s-1") {
				t.Errorf("got %+v", *e)
			}
			if n := len(llm.Requests()); n != 0 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// TestFitsOllama checks that the context length reported by Ollama is used.
func TestFitsOllama(t *testing.T) {
	alone(t)
	llm := fakellm.New(fakellm.Reply("x"))
	defer llm.Close()
	t.Setenv("OLLAMA_HOST", llm.Host)
	r := start(t, func(c *config.Config) { c.Provider = "ollama" })
	in := ask(strings.Repeat("word ", 30000), true)
	in.SessionID = "s-1"
	_, err := r.infer(t.Context(), in, &chunks{})
	if e := failure(t, err); e.Code != proto.CodeTooLarge || !strings.Contains(e.Message, "more than the 32768 that m holds") {
		t.Errorf("got %+v", *e)
	}
	if requests := llm.Requests(); len(requests) != 1 || requests[0].Path != "/api/show" {
		t.Errorf("%d requests", len(requests))
	}
}

// TestTooLong checks that a provider's refusal of a long conversation is reported
// with the same remedy, on every wire and in the middle of a stream.
func TestTooLong(t *testing.T) {
	const body = `{"error":{"message":"prompt is too long: 9 tokens > 8 maximum.","type":"invalid_request_error"}}`
	for _, wire := range wireNames {
		for _, session := range []string{"s-1", "", "unsaved"} {
			llm := fakellm.New(fakellm.Failure(400, body))
			r := onWire(t, wire, llm.Host, nil)
			in := ask("hi", true)
			in.SessionID, in.NoSave = session, session == "unsaved"
			_, err := r.infer(t.Context(), in, &chunks{})
			want := "HTTP 400: prompt is too long: 9 tokens > 8 maximum."
			switch session {
			case "s-1":
				want = strings.TrimSuffix(want, ".") + wayOut
			case "unsaved":
				want += " This session is not stored: begin a new one with what is needed of it"
			}
			if e := failure(t, err); e.Code != proto.CodeTooLarge || e.Kind != "http_status" || e.Status != 400 || e.Message != want {
				t.Errorf("%s: got %+v", wire, *e)
			}
			llm.Close()
		}
	}
	r, _ := openaiRouter(t, stream(hello+`data: {"error":{"message":"no","code":"context_length_exceeded"}}`+"\n\n"))
	in := ask("hi", true)
	in.SessionID = "s-1"
	var got chunks
	_, err := r.infer(t.Context(), in, &got)
	if e := failure(t, err); e.Code != proto.CodeTooLarge || e.Message != "the provider reports: no"+wayOut || got.text() != "hello" {
		t.Errorf("in the stream: got %+v after %q", *e, got.text())
	}
}

// TestTooLongHasNoFallback checks that a too long conversation is not sent to the
// next provider.
func TestTooLongHasNoFallback(t *testing.T) {
	for _, turn := range []fakellm.Turn{
		fakellm.Failure(400, `{"error":{"code":"context_length_exceeded"}}`),
		fakellm.Failure(500, `{"error":"prompt too long"}`),
		stream(`data: {"error":{"code":"context_length_exceeded"}}` + "\n\n"),
	} {
		all := startThree(t, nil, turn, fakellm.Reply("2"), fakellm.Reply("3"))
		_, err := all.infer(t.Context(), ask("hi", true), &chunks{})
		if e := failure(t, err); e.Code != proto.CodeTooLarge || all.asked() != [3]int{1, 0, 0} {
			t.Errorf("got %+v, asked %v", *e, all.asked())
		}
	}
}

// limited serves a router with a rate limit for OpenAI.
func limited(t *testing.T, l config.Limit, script ...fakellm.Turn) (*router, *fakellm.Server) {
	t.Helper()
	l.Provider = "openai"
	return toolRouter(t, func(c *config.Config) { c.Rtr.Limit = []config.Limit{l} }, script...)
}

// begin sends a request in the background.
func (r *router) begin(ctx context.Context, in proto.Infer, got *chunks) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := r.infer(ctx, in, got)
		ended <- err
	}()
	return ended
}

// queued waits until n requests are queued.
func (r *router) queued(t *testing.T, n int) {
	t.Helper()
	for r.limiters["openai"].Queued() != n {
		zinotest.Must(t, t.Context().Err())
	}
}

// TestOneAtATime checks that requests to one provider run one after the other, and
// that those to another provider do not wait.
func TestOneAtATime(t *testing.T) {
	r, llm := limited(t, config.Limit{Concurrent: 1}, fakellm.Turn{Match: "first", Text: "1", Pause: "go"}, fakellm.Turn{Match: "second", Text: "2"}, fakellm.Turn{Match: "other", Text: "3"})
	first := r.begin(t.Context(), ask("first", true), &chunks{})
	if _, err := llm.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	second := r.begin(t.Context(), ask("second", false), &chunks{})
	r.queued(t, 1)
	in := ask("other", true)
	in.Provider = "openrouter"
	if text, err := r.infer(t.Context(), in, &chunks{}); err != nil || text != "3" {
		t.Errorf("another provider: got %q, %v", text, err)
	}
	if n := len(llm.Requests()); n != 2 {
		t.Errorf("%d requests while the first is running", n)
	}
	llm.Open("go")
	if err := errors.Join(<-first, <-second); err != nil {
		t.Error(err)
	}
	r.queued(t, 0)
}

// TestFailuresMakeRoom checks that a failed request does not count as running.
func TestFailuresMakeRoom(t *testing.T) {
	r, _ := limited(t, config.Limit{Concurrent: 1}, refused(400), times(2, refused(500)), fakellm.Reply("x"))
	if _, err := r.infer(t.Context(), ask("hi", true), &chunks{}); failure(t, err).Status != 400 {
		t.Error(err)
	}
	if text, err := r.infer(t.Context(), ask("hi", true), &chunks{}); err != nil || text != "x" {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestHangUpInQueue checks that a hang-up removes the request from the queue.
func TestHangUpInQueue(t *testing.T) {
	r, llm := limited(t, config.Limit{Concurrent: 1}, fakellm.Turn{Text: "1", Pause: "go"})
	first := r.begin(t.Context(), ask("hi", true), &chunks{})
	if _, err := llm.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	second := r.begin(ctx, ask("hi", true), &chunks{})
	r.queued(t, 1)
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r.queued(t, 0)
	llm.Open("go")
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// TestWaits checks that a wait for a limit is reported at once to callers that asked
// for events, and that a long wait requested by the provider is an error at once.
func TestWaits(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit config.Limit
		first fakellm.Turn
		long  bool
	}{
		{"requests a minute", config.Limit{RequestsPerMinute: 1}, fakellm.Reply("x"), false},
		{"the provider's pause", config.Limit{}, refused(429, "Retry-After: 20"), false},
		{"nothing remains", config.Limit{}, fakellm.Turn{Text: "x", Header: []string{"X-RateLimit-Remaining-Requests: 0", "X-RateLimit-Reset-Requests: 20s"}}, false},
		{"a long pause", config.Limit{}, refused(429, "Retry-After: 50"), true},
		{"a long pause and a limit per minute", config.Limit{RequestsPerMinute: 9}, refused(429, "Retry-After: 200"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, llm := limited(t, tt.limit, tt.first)
			failed := errors.New("no pause")
			r.pause = func(context.Context, time.Duration) error { return failed }
			_, err := r.infer(t.Context(), ask("hi", true), &chunks{})
			if (err != nil) != (tt.first.Status != 0) {
				t.Fatalf("the first got %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			in := ask("hi", true)
			in.Events = true
			got := chunks{onEvent: cancel}
			_, err = r.infer(ctx, in, &got)
			if tt.long {
				if e := failure(t, err); e.Code != proto.CodeBusy || !regexp.MustCompile(`^openai asks not to be asked before \d\d:\d\d:\d\d: try again then$`).MatchString(e.Message) || len(got.events) != 0 {
					t.Errorf("the second got %+v, notices %q", *e, got.events)
				}
			} else if !errors.Is(err, context.Canceled) || len(got.events) != 1 || !strings.Contains(got.events[0], `"kind":"wait","text":"waiting until openai may be asked, in about `) {
				t.Errorf("the second got %v, notices %q", err, got.events)
			}
			if n := len(llm.Requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// stream is a turn with the given body as an event stream.
func stream(body string) fakellm.Turn {
	return fakellm.Turn{Status: 200, Type: "text/event-stream", Text: body, Times: fakellm.Forever}
}

const hello = `data: {"choices":[{"delta":{"content":"hel"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"content":"lo"}}]}` + "\n\n"

// TestFaults checks that a provider's fault reaches the caller as one error with the
// router's message, after the text before it.
func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name    string
		turn    fakellm.Turn
		text    string // streamed before the error
		message string // the whole error
		want    proto.Error
		asked   int
	}{
		{
			"401", fakellm.Failure(401, `{"error":{"message":"Incorrect API key provided: `+quotedKey+`","code":"invalid_api_key"}}`), "", "HTTP 401: Incorrect API key provided: [hidden]",
			proto.Error{Code: proto.CodeDenied, Kind: "http_status", Status: 401, Details: "[api] key, LLM_API_KEY or OPENAI_API_KEY, or run `zino auth set openai`"},
			1,
		},
		{"404", fakellm.Failure(404, `{"error":{"message":"no model m"}}`), "", "HTTP 404: no model m", proto.Error{Code: proto.CodeNotFound, Kind: "http_status", Status: 404, Details: `openai has no model "m"; the nearest are fake-model: choose one with --model (zino models lists all). Check [api] base_url (`}, 2},
		{"429", fakellm.Failure(429, `{"error":{"message":"slow down","type":"rate_limit"}}`), "", "HTTP 429: slow down (asked 5 times)", proto.Error{Code: proto.CodeBusy, Kind: "http_status", Status: 429, Details: `Try again later, or ask another model with --model (zino models lists them). {"error":{"type":"rate_limit"}}`}, 5},
		{"quota", fakellm.Failure(429, `{"error":{"message":"no credit","code":"insufficient_quota"}}`), "", "HTTP 429: no credit", proto.Error{Code: proto.CodeBusy, Kind: "http_status", Status: 429, Details: "The quota or the credit of this key is used up: raise it at openai, or ask another model with --model"}, 1},
		{"400", fakellm.Failure(400, `{"error":{"message":"bad"}}`), "", "HTTP 400: bad", proto.Error{Code: proto.CodeInvalid, Kind: "http_status", Status: 400}, 1},
		{"500", fakellm.Failure(500, `{"error":{"code":500}}`), "", "HTTP 500: Internal Server Error (asked 5 times)", proto.Error{Code: proto.CodeUnavailable, Kind: "http_status", Status: 500}, 5},
		{"JSON for a stream", fakellm.Turn{Text: "hello", Whole: true}, "", "@ answered with JSON where a stream was asked for: set [rtr] streaming = false if it cannot stream", proto.Error{Code: proto.CodeUnavailable, Kind: "parse", Details: `"content":"hello"`}, 1},
		{"a web page", fakellm.Turn{Faults: []fakellm.Fault{fakellm.HTML}}, "", "@ answered with a web page, not with a model's answer: check [api] base_url", proto.Error{Code: proto.CodeUnavailable, Kind: "parse", Details: "Sign in"}, 1},
		{"cut", stream(hello), "hello", "the provider's stream ended before the answer was complete (no end mark): try again", proto.Error{Code: proto.CodeUnavailable, Kind: "api_error"}, 1},
		{"cut before anything", stream(`data: {"choices":[{"delta":{"role":"assistant"}}]}` + "\n\n"), "", "the provider's stream ended before the answer was complete (no end mark): try again (asked 5 times)", proto.Error{Code: proto.CodeUnavailable, Kind: "api_error"}, 5},
		{"an error in the stream", stream(hello + `data: {"error":{"message":"boom ` + quotedKey + `","code":503}}` + "\n\n"), "hello", "the provider reports: boom [hidden]", proto.Error{Code: proto.CodeUnavailable, Kind: "api_error", Status: 503}, 1},
		{"no JSON", stream(hello + "data: <oops>\n\n"), "hello", "the provider sent data that is not JSON, or not in the form of an answer", proto.Error{Code: proto.CodeUnavailable, Kind: "parse", Details: "<oops>"}, 1},
		{"arguments in a stream that is cut", fakellm.Turn{Text: "x", Faults: []fakellm.Fault{fakellm.OpenArgs}, End: fakellm.Cut}, "x", "the provider's stream ended before the answer was complete (no end mark): try again", proto.Error{Code: proto.CodeUnavailable, Kind: "api_error"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.turn.Times = fakellm.Forever
			r, llm := openaiRouter(t, tt.turn)
			var got chunks
			_, err := r.infer(t.Context(), ask("hi", true), &got)
			e := failure(t, err)
			if e.Message != strings.Replace(tt.message, "@", llm.URL, 1) || e.Code != tt.want.Code || e.Kind != tt.want.Kind || e.Status != tt.want.Status || !strings.Contains(e.Details, tt.want.Details) {
				t.Errorf("got %+v", *e)
			}
			if got.text() != tt.text || len(got.events) != 0 {
				t.Errorf("streamed %q, %q, want %q", got.text(), got.events, tt.text)
			}
			if n := len(llm.Requests()); n != tt.asked {
				t.Errorf("asked %d times, want %d", n, tt.asked)
			}
			noSecret(t, "the error", e.Message+e.Details)
			noSecret(t, "the log", r.log.String())
		})
	}
}

// TestOpenArguments checks that a call with truncated arguments in a complete answer
// is returned: agr reports it to the model, like other malformed arguments.
func TestOpenArguments(t *testing.T) {
	for _, streaming := range []bool{true, false} {
		r, _ := openaiRouter(t, fakellm.Turn{Text: "x", Faults: []fakellm.Fault{fakellm.OpenArgs}})
		var got chunks
		text, err := r.answer(t.Context(), ask("hi", streaming), &got)
		if err != nil || text.StopReason != "tool_calls" || !strings.Contains(string(text.ToolCalls), `"arguments":"{\"code\":\"ls\""}`) {
			t.Errorf("got %+v, %v", text, err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	r := start(t, func(cfg *config.Config) {
		cfg.API.BaseURL, cfg.API.Key = "http://someone:s3cret-pass@127.0.0.1:1/v1", testKey
	})
	_, err := r.infer(t.Context(), ask("hi", true), &chunks{})
	e := failure(t, err)
	if e.Code != proto.CodeUnavailable || !strings.HasPrefix(e.Message, "cannot reach the model at http://127.0.0.1:1/v1: ") || !strings.HasSuffix(e.Message, "(asked 5 times)") {
		t.Errorf("got %+v", *e)
	}
	if strings.Contains(e.Message+r.log.String(), "s3cret-pass") {
		t.Error("the URL's password is in the error or the log")
	}
	if caps := r.caps(t); caps.Endpoint != "http://127.0.0.1:1/v1" {
		t.Errorf("the reported endpoint is %s", caps.Endpoint)
	}
}

// TestBaseWithoutVersion checks that the error for a 404 names a base URL without
// /v1 as the likely cause.
func TestBaseWithoutVersion(t *testing.T) {
	llm := fakellm.New()
	defer llm.Close()
	r := start(t, func(c *config.Config) { c.API.BaseURL = llm.Host })
	_, err := r.infer(t.Context(), ask("hi", true), &chunks{})
	if e := failure(t, err); e.Status != 404 || !strings.HasPrefix(e.Details, "Nothing answers below "+llm.Host+": the base URL of such a server mostly ends in /v1. ") {
		t.Errorf("got %+v", *e)
	}
}

// faultCase is a fault of a provider and the result for the caller: the whole text,
// or the text before the fault and one error.
type faultCase struct {
	name string
	turn fakellm.Turn
	fine bool   // the caller still gets the whole text
	want string // substring of the error
	text string // streamed before the error
	code proto.Code
	only string // wires to test, all if empty
	slow bool   // the fault is a timeout: set a short one
}

const bread = "Brot für 🍞 alle"

func faultTurn(f fakellm.Fault) fakellm.Turn {
	return fakellm.Turn{Text: bread, Size: 3, Faults: []fakellm.Fault{f}, Times: fakellm.Forever}
}

func refusal(status int, header ...string) fakellm.Turn {
	return fakellm.Turn{Status: status, Text: `{"error":{"message":"the provider's own words","type":"x"}}`, Header: header, Times: fakellm.Forever}
}

// faultCases are tested on each wire.
var faultCases = []faultCase{
	{name: "html", turn: faultTurn(fakellm.HTML), want: "web page", code: proto.CodeUnavailable},
	{name: "json for a stream", turn: faultTurn(fakellm.JSON), want: "JSON", code: proto.CodeUnavailable, only: "anthropic openai responses gemini openrouter"},
	{name: "error in the stream", turn: faultTurn(fakellm.ErrorEvent), want: "the model failed", text: bread},
	{name: "error as a body with 200", turn: faultTurn(fakellm.ErrorBody), want: "the model failed"},
	{name: "endless comments", turn: faultTurn(fakellm.Comments), want: "no part of an answer", text: bread, code: proto.CodeUnavailable},
	{name: "a line of 10 MB", turn: faultTurn(fakellm.LongLine), fine: true, only: "anthropic"},
	{name: "characters cut", turn: faultTurn(fakellm.CutChar), fine: true},
	{name: "arguments never close", turn: faultTurn(fakellm.OpenArgs), fine: true, only: "anthropic openai responses openrouter"},
	{name: "arguments never close, nor does the event", turn: faultTurn(fakellm.OpenArgs), text: bread, only: "gemini ollama"},
	{name: "an event that is not JSON", turn: faultTurn(fakellm.BadJSON), want: "not JSON", text: bread, code: proto.CodeUnavailable},
	{name: "bad UTF-8", turn: faultTurn(fakellm.BadUTF8), want: "not JSON", code: proto.CodeUnavailable},
	{name: "unknown events", turn: faultTurn(fakellm.Unknown), fine: true},
	{name: "CRLF", turn: faultTurn(fakellm.CRLF), fine: true},
	{name: "no blank after data:", turn: faultTurn(fakellm.NoSpace), fine: true},
	{name: "byte order mark", turn: faultTurn(fakellm.BOM), fine: true},
	{name: "no event lines", turn: faultTurn(fakellm.NoEvent), fine: true},
	{name: "data in several lines", turn: faultTurn(fakellm.SplitData), fine: true, only: "anthropic openai responses gemini openrouter"},
	{name: "no end mark", turn: faultTurn(fakellm.NoFinish), want: "ended before the answer was complete", text: bread, code: proto.CodeUnavailable},
	{name: "hangs up in the middle", turn: fakellm.Turn{Text: bread, End: fakellm.Hangup, Times: fakellm.Forever}, want: "connection", text: bread, code: proto.CodeUnavailable},
	{name: "stalls", turn: fakellm.Turn{Text: bread, End: fakellm.Stall, Times: fakellm.Forever}, want: "sent nothing for", text: bread, code: proto.CodeTimeout, slow: true},
	{name: "stalls at once", turn: fakellm.Turn{Silent: true, End: fakellm.Stall, Times: fakellm.Forever}, want: "sent nothing for", code: proto.CodeTimeout, slow: true},
	{name: "hangs up at once", turn: fakellm.Turn{Silent: true, End: fakellm.Hangup, Times: fakellm.Forever}, want: "asked 5 times", code: proto.CodeUnavailable},
	{name: "400", turn: refusal(400), want: "HTTP 400: the provider's own words", code: proto.CodeInvalid},
	{name: "401", turn: refusal(401), want: "HTTP 401: the provider's own words", code: proto.CodeDenied},
	{name: "always 429", turn: refusal(429, "Retry-After-Ms: 3"), want: "own words (asked 5 times)", code: proto.CodeBusy},
	{name: "429 until tomorrow", turn: refusal(429, "Retry-After: 86400"), want: "come back in 24h", code: proto.CodeBusy},
	{name: "always 500", turn: refusal(500), want: "own words (asked 5 times)", code: proto.CodeUnavailable},
	{name: "always 529", turn: refusal(529), want: "own words (asked 5 times)", code: proto.CodeUnavailable},
	{name: "redirect to another host", turn: fakellm.Turn{Redirect: "http://localhost:1/v1", Times: fakellm.Forever}, want: "redirects to http://localhost:1", code: proto.CodeUnavailable},
}

// wireNames lists the wires.
var wireNames = []string{"anthropic", "openai", "responses", "gemini", "openrouter", "ollama"}

// providerOf returns the provider of a wire.
func providerOf(wire string) string {
	if wire == "responses" {
		return "openai"
	}
	return wire
}

// onWire serves a router that asks the server at host on a wire.
func onWire(t *testing.T, wire, host string, change func(*config.Config)) *router {
	t.Helper()
	variable := map[string]string{
		"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL", "responses": "OPENAI_BASE_URL", "gemini": "GEMINI_BASE_URL", "openrouter": "OPENROUTER_BASE_URL", "ollama": "OLLAMA_HOST",
	}[wire]
	path := map[string]string{"openai": "/v1", "responses": "/v1", "openrouter": "/api/v1"}[wire]
	return start(t, func(cfg *config.Config) {
		t.Setenv(variable, host+path)
		cfg.Provider, cfg.Rtr.StallTimeout = providerOf(wire), 20
		if wire == "responses" {
			cfg.Rtr.Model = []config.Model{{Name: "*", Wire: wire}}
		}
		if wire != "ollama" {
			cfg.API.Key = testKey
		}
		if change != nil {
			change(cfg)
		}
	})
}

// TestFaultTable checks the result of every fault on every wire. With -v it prints
// the table.
func TestFaultTable(t *testing.T) {
	for _, wire := range wireNames {
		for _, m := range faultCases {
			if m.only != "" && !strings.Contains(m.only, wire) {
				continue
			}
			t.Run(wire+"/"+m.name, func(t *testing.T) {
				llm := fakellm.New(m.turn)
				defer llm.Close()
				m.check(t, onWire(t, wire, llm.Host, func(cfg *config.Config) {
					if m.slow {
						cfg.Rtr.StallTimeout = 0.3
					}
				}))
			})
		}
		t.Run(wire+"/an untrusted certificate", func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.StartTLS()
			defer server.Close()
			faultCase{want: "no safe connection", code: proto.CodeUnavailable}.check(t, onWire(t, wire, server.URL, nil))
		})
	}
}

func (m faultCase) check(t *testing.T, r *router) {
	t.Helper()
	var got chunks
	text, err := r.infer(t.Context(), ask("hi", true), &got)
	t.Logf("streamed %s, error: %v", shortened(got.text()), err)
	if m.fine {
		if err != nil || !strings.HasPrefix(text, bread) || got.text() != text {
			t.Errorf("got %s, %v", shortened(text), err)
		}
		return
	}
	e := failure(t, err)
	if !strings.Contains(e.Message, m.want) || m.code != "" && e.Code != m.code || got.text() != m.text && m.want != "not JSON" {
		t.Errorf("streamed %q, error %+v", got.text(), *e)
	}
	noSecret(t, "the error", e.Message+e.Details)
	noSecret(t, "the log", r.log.String())
}

func shortened(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%q… (%d bytes)", s[:20], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// TestKeysOfEachWire checks that a key is sent in the header of its wire only.
func TestKeysOfEachWire(t *testing.T) {
	header := map[string]string{"anthropic": "X-Api-Key", "openai": "Authorization", "responses": "Authorization", "gemini": "X-Goog-Api-Key", "openrouter": "Authorization"}
	for _, wire := range wireNames[:5] {
		llm := fakellm.New(fakellm.Reply(bread))
		r := onWire(t, wire, llm.Host, nil)
		if text, err := r.infer(t.Context(), ask("hi", true), &chunks{}); err != nil || text != bread {
			t.Errorf("%s: got %q, %v", wire, text, err)
		}
		req := llm.Requests()[0]
		for name, values := range req.Header {
			if has := strings.Contains(strings.Join(values, " "), testKey); has != (name == header[wire]) {
				t.Errorf("%s: the key in %s: %v", wire, name, has)
			}
		}
		noSecret(t, "the request", req.Path+req.Query+string(req.Body))
		if err := req.Legal(); err != nil {
			t.Errorf("%s: %v", wire, err)
		}
		llm.Close()
	}
	if _, ok := os.LookupEnv("ZINO_API_KEY"); ok && os.Getenv("ZINO_API_KEY") != "" {
		t.Error("a key is left in the environment of the tests")
	}
}

// TestManyAtOnce checks that concurrent answers, calls and usages do not mix.
func TestManyAtOnce(t *testing.T) {
	const many = 50
	alone(t)
	var script []fakellm.Turn
	for i := range many {
		script = append(script, fakellm.Turn{
			Match: fmt.Sprintf("question %02d.", i), Text: fmt.Sprintf("answer %02d", i), Size: 1, Usage: &fakellm.Usage{In: 100 + i, Out: 1},
			Calls: []fakellm.Call{{Name: "f", ID: fmt.Sprintf("id-%02d", i), Args: fmt.Sprintf(`{"n":%d}`, i)}},
		})
	}
	llm := fakellm.New(script...)
	defer llm.Close()
	t.Setenv("OPENAI_BASE_URL", llm.URL)
	r := start(t, func(c *config.Config) { c.Provider, c.Budget.TokensPerDay = "openai", 1<<40 })
	var asking sync.WaitGroup
	for i := range many {
		asking.Go(func() {
			var got chunks
			in := ask(fmt.Sprintf("question %02d.", i), i%5 != 0)
			in.Tools, in.SessionID = oneTool, fmt.Sprintf("s%d", i)
			text, err := r.answer(t.Context(), in, &got)
			want := fmt.Sprintf("answer %02d", i)
			calls := fmt.Sprintf(`[{"id":"id-%02d","type":"function","function":{"name":"f","arguments":"{\"n\":%d}"}}]`, i, i)
			if err != nil || text.Content != want || in.Stream && got.text() != want || string(text.ToolCalls) != calls || text.Usage == nil || text.Usage.InputTokens != int64(100+i) {
				t.Errorf("question %d: got %+v, streamed %q, %v", i, text, got.text(), err)
			}
		})
	}
	asking.Wait()
	if n := llm.Unused(); n != 0 {
		t.Errorf("%d answers were not requested", n)
	}
	report, err := r.report(t, proto.UsageRequest{By: "session"})
	if err != nil || len(report.Rows) != many || report.Total.Usage.InputTokens != many*100+many*(many-1)/2 || report.Budgets[0].Reserved != 0 {
		t.Errorf("the ledger has %d sessions, %+v, %+v, %v", len(report.Rows), report.Total, report.Budgets, err)
	}
}

// TestCancelWhileResolving checks that a canceled request does not wait while another
// one resolves the provider, and that a canceled resolution is not stored.
func TestCancelWhileResolving(t *testing.T) {
	r := start(t, func(c *config.Config) { c.Provider = "auto" })
	<-r.resolving // another request resolves
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.target(ctx, selector{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r.replace(ctx, nil, nil)
	stats := proto.Stats{}
	r.stats(&stats) // does not wait either
	r.resolving <- struct{}{}
	if _, err := r.target(ctx, selector{}); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if caps := r.caps(t); caps.Provider != "offline" {
		t.Errorf("got %+v", caps)
	}
}

func TestWaitInWords(t *testing.T) {
	for _, tt := range []struct {
		wait time.Duration
		want string
	}{
		{0, "0s"},
		{-time.Second, "-1s"},
		{437512 * time.Microsecond, "0.438s"},
		{2 * time.Second, "2s"},
		{59*time.Second + 400*time.Millisecond, "59.4s"},
		{90*time.Second + time.Millisecond, "1m30s"},
		{24 * time.Hour, "24h0m0s"},
	} {
		if got := seconds(tt.wait); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.wait, got, tt.want)
		}
	}
}

func TestFirstLine(t *testing.T) {
	for in, want := range map[string]string{"": "", "one": "one", "one\ntwo": "one"} {
		if got := firstLine(errors.New(in)); got != want {
			t.Errorf("%q: got %q", in, got)
		}
	}
}

// callWords formats calls as "id name arguments", with "?" for an id that the router
// generated.
func callWords(t *testing.T, raw proto.Raw) (out []string) {
	t.Helper()
	var list []struct {
		ID, Type string
		Function struct{ Name, Arguments string }
	}
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	seen := map[string]bool{}
	for _, c := range list {
		if c.ID == "" || c.Type != "function" || seen[c.ID] {
			t.Errorf("not a function, or an empty or duplicate id: %s", raw)
		}
		seen[c.ID] = true
		if strings.HasPrefix(c.ID, "call_") && len(c.ID) > 10 {
			c.ID = "?"
		}
		out = append(out, c.ID+" "+c.Function.Name+" "+c.Function.Arguments)
	}
	return out
}
