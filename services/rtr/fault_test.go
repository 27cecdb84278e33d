package rtr

import (
	"net/http"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/proto"
)

// quotedKey is testKey inside a JSON string.
const quotedKey = `sk-te\"st/0123+45\\6789`

// stream is a body that is sent as an event stream.
func stream(body string) fakellm.Turn {
	return fakellm.Turn{Status: 200, Type: "text/event-stream", Text: body}
}

const hello = `data: {"choices":[{"delta":{"content":"hel"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"content":"lo"}}]}` + "\n\n"

// faults are what providers do wrong, and what a streaming caller then sees.
var faults = []struct {
	name    string
	turn    fakellm.Turn
	text    string     // streamed before the error
	message string     // the beginning of the error; empty: none
	code    proto.Code // and its code
	status  int
	details string // stands in the details
}{
	{
		"401", fakellm.Failure(401, `{"error":{"message":"Incorrect API key provided: `+quotedKey+`","type":"invalid_request_error","code":"invalid_api_key"}}`),
		"", "HTTP 401: Incorrect API key provided: [hidden]", proto.CodeDenied, 401, `"code":"invalid_api_key"`,
	},
	{"403 as text", fakellm.Failure(403, `{"error":"no access for Bearer `+quotedKey+`"}`), "", "HTTP 403: no access for Bearer [hidden]", proto.CodeDenied, 403, "Check [api] key"},
	{"404", fakellm.Failure(404, `{"error":{"message":"model 'm' not found"}}`), "", "HTTP 404: model 'm' not found", proto.CodeNotFound, 404, "[service] model"},
	{"429", fakellm.Failure(429, `{"error":{"message":"slow\n\u001b[31mdown\u0007"}}`), "", "HTTP 429: slow [31mdown", proto.CodeBusy, 429, ""},
	{"500 with a code only", fakellm.Failure(500, `{"error":{"code":500}}`), "", "HTTP 500: Internal Server Error", proto.CodeUnavailable, 500, ""},
	{"503 list", fakellm.Failure(503, `[{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}]`), "", "HTTP 503: overloaded", proto.CodeUnavailable, 503, ""},
	{"422 detail", fakellm.Failure(422, `{"detail":[{"msg":"field required","loc":["body"]}]}`), "", "HTTP 422: field required", proto.CodeInvalid, 422, "loc"},
	{"413", fakellm.Failure(413, ``), "", "HTTP 413: Request Entity Too Large", proto.CodeTooLarge, 413, ""},
	{"408", fakellm.Failure(408, `{}`), "", "HTTP 408: Request Timeout", proto.CodeTimeout, 408, ""},
	{"400 as plain text", fakellm.Turn{Status: 400, Type: "text/plain", Text: "bad\r\nrequest " + testKey}, "", "HTTP 400: bad request [hidden]", proto.CodeInvalid, 400, ""},
	{"502 web page", fakellm.Turn{Status: 502, Type: "text/html", Text: "<html>Bad Gateway</html>"}, "", "HTTP 502: Bad Gateway (a web page", proto.CodeUnavailable, 502, "<html>"},
	{"web page with status 200", fakellm.Turn{Status: 200, Type: "text/html", Text: "\n <!doctype html><p>Welcome"}, "", "http://127.0.0.1:", proto.CodeUnavailable, 0, ""},
	{"empty", stream(""), "", "http://127.0.0.1:", proto.CodeUnavailable, 0, ""},
	{"plain text", stream("Hello, I am a server.\n"), "", "http://127.0.0.1:", proto.CodeUnavailable, 0, ""},
	{
		"redirect to another host",
		fakellm.Turn{Status: 307, Header: []string{"Location: http://localhost:9/v1/chat/completions?k=v"}},
		"",
		"the provider redirects to http://localhost:9/v1, which is not followed", proto.CodeUnavailable, 307, "",
	},
	{"redirect that drops the question", fakellm.Turn{Status: 302, Header: []string{"Location: /v1/models"}}, "", "the provider redirects to", proto.CodeUnavailable, 302, ""},
	{"hangs up at once", fakellm.Turn{Silent: true, End: fakellm.Hangup}, "", "the connection to the model at", proto.CodeUnavailable, 0, ""},

	{"error first", stream(hello + `data: {"error":{"message":"boom ` + quotedKey + `","code":529}}` + "\n\n"), "hello", "the provider reports: boom [hidden]", proto.CodeUnavailable, 529, `529`},
	{"error last", stream(hello + `data: {"choices":[{"delta":{"content":""},"finish_reason":"error"}],"error":{"message":"upstream"}}` + "\n\n"), "hello", "the provider reports: upstream", proto.CodeUnavailable, 0, ""},
	{"error as text", stream(hello + `data: {"id":"x","error":"overloaded"}` + "\n\n"), "hello", "the provider reports: overloaded", proto.CodeUnavailable, 0, ""},
	{"error with a code only", stream(hello + `data: {"error":{"code":500}}` + "\n\n"), "hello", "the provider reports: error 500, Internal Server Error", proto.CodeUnavailable, 500, ""},
	{"error 429 in the stream", stream(`data: {"error":{"code":429,"message":"quota"}}` + "\n\n"), "", "the provider reports: quota", proto.CodeBusy, 429, ""},
	{"error event", stream(hello + "event: error\ndata: {\"message\":\"lost\"}\n\n"), "hello", "the provider reports: lost", proto.CodeUnavailable, 0, ""},
	{"error field", stream(hello + "error: {\"code\":500,\"message\":\"slot\"}\n\n"), "hello", "the provider reports: slot", proto.CodeUnavailable, 500, ""},
	{"bare error line", stream(hello + "{\"error\":{\"message\":\"bare\"}}\n"), "hello", "the provider reports: bare", proto.CodeUnavailable, 0, ""},
	{"error object", stream(`data: {"object":"error","message":"too long","code":400}` + "\n\n"), "", "the provider reports: too long", proto.CodeInvalid, 400, ""},
	{"finish reason error", stream(hello + `data: {"choices":[{"delta":{},"finish_reason":"error"}]}` + "\n\n"), "hello", "the provider reports: no completion", proto.CodeUnavailable, 0, "finish_reason"},
	{"error as JSON", fakellm.Turn{Status: 200, Text: `{"error":{"message":"nope","code":"x"}}`}, "", "the provider reports: nope", proto.CodeUnavailable, 0, ""},
	{"JSON that is no completion", fakellm.Turn{Status: 200, Text: `{"hello":"world"}`}, "", "the provider reports: no completion", proto.CodeUnavailable, 0, "hello"},
	{"broken JSON", fakellm.Turn{Status: 200, Text: `{"choices":[{"message":{"content":"x`}, "", "http://127.0.0.1:", proto.CodeUnavailable, 0, ""},
	{"not JSON", stream(hello + "data: <oops> " + testKey + "\n\n"), "hello", "the provider sent data that is not JSON", proto.CodeUnavailable, 0, "<oops> [hidden]"},

	{"cut between events", stream(hello), "hello", "the provider's stream ended before", proto.CodeUnavailable, 0, ""},
	{"cut in an event", stream(hello + `data: {"choices":[{"del`), "hello", "the provider's stream ended before", proto.CodeUnavailable, 0, ""},
	{"connection breaks", fakellm.Turn{Text: "hello", End: fakellm.Hangup}, "hello", "the connection to the model at", proto.CodeUnavailable, 0, ""},

	{"no finish reason but the mark", fakellm.Turn{Text: "hello", End: fakellm.Mark}, "hello", "", "", 0, ""},
	{"finish reason but no mark", fakellm.Turn{Text: "hello", End: fakellm.Finish}, "hello", "", "", 0, ""},
	{"mark without its line end", stream(hello + "data: [DONE]"), "hello", "", "", 0, ""},
	{"JSON for a stream", fakellm.Turn{Text: "hello", Whole: true}, "hello", "", "", 0, ""},
	{"pretty JSON for a stream", fakellm.Turn{Status: 200, Text: "\n{\n \"choices\": [\n  {\"message\": {\"content\": \"hello\"}}\n ]\n}\n"}, "hello", "", "", 0, ""},
	{"null content", fakellm.Turn{Status: 200, Text: `{"choices":[{"message":{"content":null},"finish_reason":"tool_calls"}]}`}, "", "", "", 0, ""},
	{"a refusal", fakellm.Turn{Status: 200, Text: `{"choices":[{"message":{"content":null,"refusal":"I will not"}}]}`}, "I will not", "", "", 0, ""},
	{"content in parts", stream(`data: {"choices":[{"delta":{"content":[{"type":"text","text":"he"},{"type":"thinking"},{"text":"llo"}]},"finish_reason":"stop"}]}` + "\n\n"), "hello", "", "", 0, ""},
	{"empty and null things", stream("data:\n\n" + `data: {"error":null,"choices":null}` + "\n\n" + `data: {"choices":[{"delta":null},{"index":1,"delta":{"content":"other"}}]}` + "\n\n" +
		`data: {"choices":[{"delta":{"content":null}}]}` + "\n\n" + hello + `data: {"choices":[{"delta":{"content":""},"finish_reason":"length"}],"usage":null}` + "\n\ndata: {\"choices\":[],\"usage\":{}}\n\ndata: [DONE]\n\n"), "hello", "", "", 0, ""},
	{"comments, marks and split data", stream("\xef\xbb\xbf\r\n: hi\r\n\r\nevent: x\r\nid: 1\r\ndata: {\"choices\":[{\"delta\":\r\ndata: {\"content\":\"hello\"}}]}\r\n\r\n: ping\r\n\r\ndata: [DONE]\r\n\r\n"), "hello", "", "", 0, ""},
	{"broken after the end", fakellm.Turn{Status: 200, Type: "text/event-stream", Text: hello + `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n", End: fakellm.Hangup}, "hello", "", "", 0, ""},
}

func TestFaults(t *testing.T) {
	for _, tt := range faults {
		t.Run(tt.name, func(t *testing.T) {
			r, llm := openaiRouter(t, tt.turn)
			var got chunks
			text, err := r.infer(t.Context(), ask("hi", true), &got)
			if got.text() != tt.text {
				t.Errorf("streamed %q, want %q", got.text(), tt.text)
			}
			if tt.message == "" {
				if err != nil || text != tt.text {
					t.Errorf("got %q, %v", text, err)
				}
				return
			}
			e := failure(t, err)
			if !strings.HasPrefix(e.Message, tt.message) || e.Code != tt.code || e.Status != tt.status || !strings.Contains(e.Details, tt.details) {
				t.Errorf("got %+v", *e)
			}
			if strings.ContainsAny(e.Message+e.Details, "\n\r\x1b\x07") {
				t.Errorf("control characters in %+v", *e)
			}
			noSecret(t, "the error", e.Message+e.Details)
			noSecret(t, "the log", r.log.String())
			if llm.Requests()[0].Header.Get("Authorization") != "Bearer "+testKey {
				t.Error("the provider did not get the key")
			}
		})
	}
}

// TestFaultsCollected holds that a collected caller gets the same faults.
func TestFaultsCollected(t *testing.T) {
	for _, tt := range faults {
		if tt.turn.Whole || tt.turn.Status == 0 {
			continue // fakellm words those turns for streams only
		}
		t.Run(tt.name, func(t *testing.T) {
			r, _ := openaiRouter(t, tt.turn)
			text, err := r.infer(t.Context(), ask("hi", false), &chunks{})
			if tt.message == "" {
				if err != nil || text != tt.text {
					t.Errorf("got %q, %v", text, err)
				}
				return
			}
			if e := failure(t, err); !strings.HasPrefix(e.Message, tt.message) || e.Code != tt.code {
				t.Errorf("got %+v", *e)
			}
		})
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
			if e := failure(t, err); e.Code != proto.CodeTimeout || !strings.Contains(e.Message, "stall_timeout") {
				t.Errorf("got %+v", *e)
			}
			if got.text() != tt.text {
				t.Errorf("streamed %q, want %q", got.text(), tt.text)
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
	if e.Code != proto.CodeUnavailable || !strings.HasPrefix(e.Message, "cannot reach the model at http://127.0.0.1:1/v1: ") {
		t.Errorf("got %+v", *e)
	}
	if strings.Contains(e.Message+r.log.String(), "s3cret-pass") {
		t.Error("the password of the URL shows")
	}
	if caps := r.caps(t); caps.Endpoint != "http://127.0.0.1:1/v1" {
		t.Errorf("the endpoint is shown as %s", caps.Endpoint)
	}
}

func TestCodes(t *testing.T) {
	for status, want := range map[int]proto.Code{
		304: proto.CodeUnavailable, 400: proto.CodeInvalid, 401: proto.CodeDenied, 402: proto.CodeDenied, 403: proto.CodeDenied,
		404: proto.CodeNotFound, 408: proto.CodeTimeout, 409: proto.CodeBusy, 413: proto.CodeTooLarge, 429: proto.CodeBusy,
		http.StatusInternalServerError: proto.CodeUnavailable, 529: proto.CodeUnavailable,
	} {
		if got := codeOf(status); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}
