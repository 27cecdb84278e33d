package rtr

import (
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/proto"
)

// stream is a body that is sent as an event stream.
func stream(body string) fakellm.Turn {
	return fakellm.Turn{Status: 200, Type: "text/event-stream", Text: body, Times: fakellm.Forever}
}

const hello = `data: {"choices":[{"delta":{"content":"hel"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"content":"lo"}}]}` + "\n\n"

// TestFaults holds that what a provider does wrong reaches the caller as one
// error in our words, behind what came before.
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

// TestOpenArguments hands on a call whose arguments break off in an answer that
// is complete: the model is told, as of any that are malformed.
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

func TestStall(t *testing.T) {
	for _, tt := range []struct {
		name   string
		turn   fakellm.Turn
		stream bool
		text   string
	}{
		{"before the first byte", fakellm.Turn{Silent: true, End: fakellm.Stall}, true, ""},
		{"in the stream", fakellm.Turn{Text: "hello", End: fakellm.Stall}, true, "hello"},
		{"collected", fakellm.Turn{Silent: true, End: fakellm.Stall}, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			llm := fakellm.New(tt.turn)
			defer llm.Close()
			r := start(t, func(cfg *config.Config) { cfg.API.BaseURL, cfg.Rtr.StallTimeout = llm.URL, 0.05 })
			var got chunks
			_, err := r.infer(t.Context(), ask("hi", tt.stream), &got)
			if e := failure(t, err); e.Code != proto.CodeTimeout || e.Kind != "timeout" || !strings.Contains(e.Message, "stall_timeout") {
				t.Errorf("got %+v", *e)
			}
			if got.text() != tt.text || len(r.paused()) != 0 {
				t.Errorf("streamed %q, want %q; paused %v", got.text(), tt.text, r.paused())
			}
			<-llm.Requests()[0].Gone
		})
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
		t.Error("the password of the URL shows")
	}
	if caps := r.caps(t); caps.Endpoint != "http://127.0.0.1:1/v1" {
		t.Errorf("the endpoint is shown as %s", caps.Endpoint)
	}
}

// TestBaseWithoutVersion: a base URL that lacks its /v1 is named as the likely
// cause of a 404.
func TestBaseWithoutVersion(t *testing.T) {
	llm := fakellm.New()
	defer llm.Close()
	r := start(t, func(c *config.Config) { c.API.BaseURL = llm.Host })
	_, err := r.infer(t.Context(), ask("hi", true), &chunks{})
	if e := failure(t, err); e.Status != 404 || !strings.HasPrefix(e.Details, "Nothing answers below "+llm.Host+": the base URL of such a server mostly ends in /v1. ") {
		t.Errorf("got %+v", *e)
	}
}
