package rtr

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/proto"
)

// misfortune is something that goes wrong at a provider, and what a caller then
// sees: all of the text, or the text that had come and one error.
type misfortune struct {
	name string
	turn fakellm.Turn
	fine bool   // the whole text comes in spite of it
	want string // stands in the error
	text string // streamed before the error
	code proto.Code
	only string // wires on which it exists, all if empty
	slow bool   // nothing comes, and the time limit is to tell
}

const bread = "Brot für 🍞 alle"

func faultTurn(f fakellm.Fault) fakellm.Turn {
	return fakellm.Turn{Text: bread, Size: 3, Faults: []fakellm.Fault{f}, Times: fakellm.Forever}
}

func refusal(status int, header ...string) fakellm.Turn {
	return fakellm.Turn{Status: status, Text: `{"error":{"message":"the provider's own words","type":"x"}}`, Header: header, Times: fakellm.Forever}
}

// misfortunes are tried on each wire.
var misfortunes = []misfortune{
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
	{name: "no blank behind data:", turn: faultTurn(fakellm.NoSpace), fine: true},
	{name: "byte order mark", turn: faultTurn(fakellm.BOM), fine: true},
	{name: "no event lines", turn: faultTurn(fakellm.NoEvent), fine: true},
	{name: "data in several lines", turn: faultTurn(fakellm.SplitData), fine: true, only: "anthropic openai responses gemini openrouter"},
	{name: "ends without its mark", turn: faultTurn(fakellm.NoFinish), want: "ended before the answer was complete", text: bread, code: proto.CodeUnavailable},
	{name: "hangs up in the middle", turn: fakellm.Turn{Text: bread, End: fakellm.Hangup, Times: fakellm.Forever}, want: "connection", text: bread, code: proto.CodeUnavailable},
	{name: "stalls", turn: fakellm.Turn{Text: bread, End: fakellm.Stall, Times: fakellm.Forever}, want: "sent nothing for", text: bread, code: proto.CodeTimeout, slow: true},
	{name: "stalls at once", turn: fakellm.Turn{Silent: true, End: fakellm.Stall, Times: fakellm.Forever}, want: "sent nothing for", code: proto.CodeTimeout, slow: true},
	{name: "hangs up at once", turn: fakellm.Turn{Silent: true, End: fakellm.Hangup, Times: fakellm.Forever}, want: "asked 5 times", code: proto.CodeUnavailable},
	{name: "400", turn: refusal(400), want: "HTTP 400: the provider's own words", code: proto.CodeInvalid},
	{name: "401", turn: refusal(401), want: "HTTP 401: the provider's own words", code: proto.CodeDenied},
	{name: "429 for ever", turn: refusal(429, "Retry-After-Ms: 3"), want: "own words (asked 5 times)", code: proto.CodeBusy},
	{name: "429 until tomorrow", turn: refusal(429, "Retry-After: 86400"), want: "come back in 24h", code: proto.CodeBusy},
	{name: "500 for ever", turn: refusal(500), want: "own words (asked 5 times)", code: proto.CodeUnavailable},
	{name: "529 for ever", turn: refusal(529), want: "own words (asked 5 times)", code: proto.CodeUnavailable},
	{name: "redirect to another host", turn: fakellm.Turn{Redirect: "http://localhost:1/v1", Times: fakellm.Forever}, want: "redirects to http://localhost:1", code: proto.CodeUnavailable},
}

// wireNames are the wires, with the setting that leads each to a server.
var wireNames = []string{"anthropic", "openai", "responses", "gemini", "openrouter", "ollama"}

// providerOf is the provider of a wire.
func providerOf(wire string) string {
	if wire == "responses" {
		return "openai"
	}
	return wire
}

// onWire serves a router that asks a server on a wire.
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

// TestFaultTable holds what a caller sees of everything that goes wrong, on
// every wire. With -v it prints the table.
func TestFaultTable(t *testing.T) {
	for _, wire := range wireNames {
		for _, m := range misfortunes {
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
		t.Run(wire+"/a certificate that nobody trusts", func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.StartTLS()
			defer server.Close()
			misfortune{want: "no safe connection", code: proto.CodeUnavailable}.check(t, onWire(t, wire, server.URL, nil))
		})
	}
}

func (m misfortune) check(t *testing.T, r *router) {
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

// TestKeysOfEachWire holds that a key travels in the header of its wire and
// nowhere else.
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
