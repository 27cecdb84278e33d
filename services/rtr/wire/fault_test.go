package wire

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"zino/pkg/fakellm"
	"zino/proto"
	"zino/services/rtr/retry"
)

// realEndpoint is an endpoint that is asked over the network.
func realEndpoint(t *testing.T, base string) *Endpoint {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	client := NewClient()
	t.Cleanup(client.CloseIdleConnections)
	ep := NewEndpoint(client, u, testKey, 20*time.Second)
	ep.KeyHint, ep.BaseHint = "THE_KEY", "the_base_url"
	return ep
}

// noSecret fails if a form of testKey stands in text.
func noSecret(t *testing.T, where, text string) {
	t.Helper()
	for _, form := range []string{testKey, quotedKey, url.QueryEscape(testKey), url.PathEscape(testKey)} {
		if strings.Contains(text, form) {
			t.Errorf("%s holds the key: %s", where, text)
		}
	}
}

// streamed is a body that is sent as an event stream.
func streamed(body string) fakellm.Turn {
	return fakellm.Turn{Status: 200, Type: "text/event-stream", Text: body}
}

const hello = `data: {"choices":[{"delta":{"content":"hel"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"content":"lo"}}]}` + "\n\n"

// wrong is what a provider does wrong, and what is made of it.
type wrong struct {
	name    string
	turn    fakellm.Turn
	text    string     // before the error
	message string     // the beginning of the error; empty: none
	code    proto.Code // and its code
	kind    string
	status  int
	details string // stands in the details
	class   retry.Class
}

// wrongAnywhere are the same for callers of both kinds.
var wrongAnywhere = []wrong{
	{
		"401", fakellm.Failure(401, `{"error":{"message":"Incorrect API key provided: `+quotedKey+`","type":"invalid_request_error","code":"invalid_api_key"}}`),
		"", "HTTP 401: Incorrect API key provided: [hidden]", proto.CodeDenied, kindHTTP, 401, `"code":"invalid_api_key"`, retry.Stop,
	},
	{"403 as text", fakellm.Failure(403, `{"error":"no access for Bearer `+quotedKey+`"}`), "", "HTTP 403: no access for Bearer [hidden]", proto.CodeDenied, kindHTTP, 403, "Check the key for http://127.0.0.1:", retry.Stop},
	{"404", fakellm.Failure(404, `{"error":{"message":"model 'm' not found"}}`), "", "HTTP 404: model 'm' not found", proto.CodeNotFound, kindHTTP, 404, "[service] model", retry.Stop},
	{"429", fakellm.Failure(429, `{"error":{"message":"slow\n\u001b[31mdown\u0007"}}`), "", "HTTP 429: slow [31mdown", proto.CodeBusy, kindHTTP, 429, "", retry.Retry},
	{"429 for a quota", fakellm.Failure(429, `{"error":{"message":"pay","code":"insufficient_quota"}}`), "", "HTTP 429: pay", proto.CodeBusy, kindHTTP, 429, "", retry.WaitLong},
	{"500 with a code only", fakellm.Failure(500, `{"error":{"code":500}}`), "", "HTTP 500: Internal Server Error", proto.CodeUnavailable, kindHTTP, 500, "", retry.Retry},
	{"503 list", fakellm.Failure(503, `[{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}]`), "", "HTTP 503: overloaded", proto.CodeUnavailable, kindHTTP, 503, "", retry.Retry},
	{"422 detail", fakellm.Failure(422, `{"detail":[{"msg":"field required","loc":["body"]}]}`), "", "HTTP 422: field required", proto.CodeInvalid, kindHTTP, 422, "loc", retry.Stop},
	{"413", fakellm.Failure(413, ``), "", "HTTP 413: Request Entity Too Large", proto.CodeTooLarge, kindHTTP, 413, "", retry.Stop},
	{"408", fakellm.Failure(408, `{}`), "", "HTTP 408: Request Timeout", proto.CodeTimeout, kindHTTP, 408, "", retry.Retry},
	{"400 as plain text", fakellm.Turn{Status: 400, Type: "text/plain", Text: "bad\r\nrequest " + testKey}, "", "HTTP 400: bad request [hidden]", proto.CodeInvalid, kindHTTP, 400, "", retry.Stop},
	{"502 web page", fakellm.Turn{Status: 502, Type: "text/html", Text: "<html>Bad Gateway</html>"}, "", "HTTP 502: Bad Gateway (a web page", proto.CodeUnavailable, kindHTTP, 502, "<html>", retry.Retry},
	{"web page with status 200", fakellm.Turn{Status: 200, Type: "text/html", Text: "\n <!doctype html><p>Welcome"}, "", "http://127.0.0.1:", proto.CodeUnavailable, kindParse, 0, "Welcome", retry.Stop},
	{"empty", streamed(""), "", "http://127.0.0.1:", proto.CodeUnavailable, kindParse, 0, "", retry.Stop},
	{"plain text", streamed("Hello, I am a server.\n"), "", "http://127.0.0.1:", proto.CodeUnavailable, kindParse, 0, "", retry.Stop},
	{
		"redirect to another host",
		fakellm.Turn{Status: 307, Header: []string{"Location: http://localhost:9/v1/chat/completions?k=v"}},
		"", "the provider redirects to http://localhost:9/v1, which is not followed", proto.CodeUnavailable, kindHTTP, 307, "", retry.Stop,
	},
	{"redirect that drops the question", fakellm.Turn{Status: 302, Header: []string{"Location: /v1/models"}}, "", "the provider redirects to", proto.CodeUnavailable, kindHTTP, 302, "", retry.Stop},
	{"hangs up at once", fakellm.Turn{Silent: true, End: fakellm.Hangup}, "", "the connection to the model at", proto.CodeUnavailable, kindAPI, 0, "", retry.Retry},

	{"error first", streamed(hello + `data: {"error":{"message":"boom ` + quotedKey + `","code":529}}` + "\n\n"), "hello", "the provider reports: boom [hidden]", proto.CodeUnavailable, kindAPI, 529, `529`, retry.Retry},
	{"error last", streamed(hello + `data: {"choices":[{"delta":{"content":""},"finish_reason":"error"}],"error":{"message":"upstream"}}` + "\n\n"), "hello", "the provider reports: upstream", proto.CodeUnavailable, kindAPI, 0, "", retry.Stop},
	{"error as text", streamed(hello + `data: {"id":"x","error":"overloaded"}` + "\n\n"), "hello", "the provider reports: overloaded", proto.CodeUnavailable, kindAPI, 0, "", retry.Stop},
	{"error with a code only", streamed(hello + `data: {"error":{"code":500}}` + "\n\n"), "hello", "the provider reports: error 500, Internal Server Error", proto.CodeUnavailable, kindAPI, 500, "", retry.Retry},
	{"error 429 in the stream", streamed(`data: {"error":{"code":429,"message":"quota"}}` + "\n\n"), "", "the provider reports: quota", proto.CodeBusy, kindAPI, 429, "", retry.Retry},
	{"error event", streamed(hello + "event: error\ndata: {\"message\":\"lost\"}\n\n"), "hello", "the provider reports: lost", proto.CodeUnavailable, kindAPI, 0, "", retry.Stop},
	{"error field", streamed(hello + "error: {\"code\":500,\"message\":\"slot\"}\n\n"), "hello", "the provider reports: slot", proto.CodeUnavailable, kindAPI, 500, "", retry.Retry},
	{"bare error line", streamed(hello + "{\"error\":{\"message\":\"bare\"}}\n"), "hello", "the provider reports: bare", proto.CodeUnavailable, kindAPI, 0, "", retry.Stop},
	{"error object", streamed(`data: {"object":"error","message":"too long","code":400}` + "\n\n"), "", "the provider reports: too long", proto.CodeInvalid, kindAPI, 400, "", retry.Stop},
	{"finish reason error", streamed(hello + `data: {"choices":[{"delta":{},"finish_reason":"error"}]}` + "\n\n"), "hello", "the provider reports: no completion", proto.CodeUnavailable, kindAPI, 0, "finish_reason", retry.Stop},
	{"error as JSON", fakellm.Turn{Status: 200, Text: `{"error":{"message":"nope","code":"x"}}`}, "", "the provider reports: nope", proto.CodeUnavailable, kindAPI, 0, "", retry.Stop},
	{"broken JSON", fakellm.Turn{Status: 200, Text: `{"choices":[{"message":{"content":"x`}, "", "the provider answered with JSON that is broken or cut off", proto.CodeUnavailable, kindParse, 0, "choices", retry.Stop},
	{"not JSON", streamed(hello + "data: <oops> " + testKey + "\n\n"), "hello", "the provider sent data that is not JSON", proto.CodeUnavailable, kindParse, 0, "<oops> [hidden]", retry.Stop},

	{"cut between events", streamed(hello), "hello", "the provider's stream ended before", proto.CodeUnavailable, kindAPI, 0, "", retry.Retry},
	{"cut in an event", streamed(hello + `data: {"choices":[{"del`), "hello", "the provider's stream ended before", proto.CodeUnavailable, kindAPI, 0, "", retry.Retry},

	{"mark without its line end", streamed(hello + "data: [DONE]"), "hello", "", "", "", 0, "", 0},
	{"content in parts", streamed(`data: {"choices":[{"delta":{"content":[{"type":"text","text":"he"},{"type":"thinking"},{"text":"llo"}]},"finish_reason":"stop"}]}` + "\n\n"), "hello", "", "", "", 0, "", 0},
	{"empty and null things", streamed("data:\n\n" + `data: {"error":null,"choices":null}` + "\n\n" + `data: {"choices":[{"delta":null},{"index":1,"delta":{"content":"other"}}]}` + "\n\n" +
		`data: {"choices":[{"delta":{"content":null}}]}` + "\n\n" + hello + `data: {"choices":[{"delta":{"content":""},"finish_reason":"length"}],"usage":null}` + "\n\ndata: {\"choices\":[],\"usage\":{}}\n\ndata: [DONE]\n\n"), "hello", "", "", "", 0, "", 0},
	{"comments, marks and split data", streamed("\xef\xbb\xbf\r\n: hi\r\n\r\nevent: x\r\nid: 1\r\ndata: {\"choices\":[{\"delta\":\r\ndata: {\"content\":\"hello\"}}]}\r\n\r\n: ping\r\n\r\ndata: [DONE]\r\n\r\n"), "hello", "", "", "", 0, "", 0},
	{"broken after the end", fakellm.Turn{Status: 200, Type: "text/event-stream", Text: hello + `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n", End: fakellm.Hangup}, "hello", "", "", "", 0, "", 0},
}

// wrongStreams are what a caller of a stream gets.
var wrongStreams = []wrong{
	{"connection breaks", fakellm.Turn{Text: "hello", End: fakellm.Hangup}, "hello", "the connection to the model at", proto.CodeUnavailable, kindAPI, 0, "", retry.Retry},
	{"no finish reason but the mark", fakellm.Turn{Text: "hello", End: fakellm.Mark}, "hello", "", "", "", 0, "", 0},
	{"finish reason but no mark", fakellm.Turn{Text: "hello", End: fakellm.Finish}, "hello", "", "", "", 0, "", 0},
	{"JSON for a stream", fakellm.Turn{Text: "hello", Whole: true}, "", "http://127.0.0.1:", proto.CodeUnavailable, kindParse, 0, `"content":"hello"`, retry.Stop},
	{"JSON that is no completion", fakellm.Turn{Status: 200, Text: `{"hello":"world"}`}, "", "http://127.0.0.1:", proto.CodeUnavailable, kindParse, 0, "hello", retry.Stop},
}

// wrongWholes are what a caller of a whole answer gets.
var wrongWholes = []wrong{
	{"pretty JSON", fakellm.Turn{Status: 200, Text: "\n{\n \"choices\": [\n  {\"message\": {\"content\": \"hello\"}}\n ]\n}\n"}, "hello", "", "", "", 0, "", 0},
	{"null content", fakellm.Turn{Status: 200, Text: `{"choices":[{"message":{"content":null},"finish_reason":"tool_calls"}]}`}, "", "", "", "", 0, "", 0},
	{"a refusal", fakellm.Turn{Status: 200, Text: `{"choices":[{"message":{"content":null,"refusal":"I will not"}}]}`}, "I will not", "", "", "", 0, "", 0},
	{"JSON that is no completion", fakellm.Turn{Status: 200, Text: `{"hello":"world"}`}, "", "the provider reports: no completion", proto.CodeUnavailable, kindAPI, 0, "hello", retry.Stop},
	{"an empty list", fakellm.Turn{Status: 200, Text: `[]`}, "", "the provider sent data that is not JSON, or not", proto.CodeUnavailable, kindParse, 0, "", retry.Stop},
	{"nothing to choose from", fakellm.Turn{Status: 200, Text: `{"choices":[]}`}, "", "the provider reports: no completion", proto.CodeUnavailable, kindAPI, 0, "", retry.Stop},
}

func TestWrongStreamed(t *testing.T) {
	for _, tt := range append(wrongStreams, wrongAnywhere...) {
		t.Run(tt.name, func(t *testing.T) { tt.check(t, true) })
	}
}

func TestWrongWhole(t *testing.T) {
	for _, tt := range append(wrongWholes, wrongAnywhere...) {
		t.Run(tt.name, func(t *testing.T) { tt.check(t, false) })
	}
}

func (tt *wrong) check(t *testing.T, stream bool) {
	llm := fakellm.New(tt.turn)
	defer llm.Close()
	ep := realEndpoint(t, llm.URL)
	var g gathered
	err := OpenAI(t.Context(), ep, ask(t, func(r *Request) { r.Stream = stream }), &g)
	if g.Text() != tt.text {
		t.Errorf("text %q, want %q", g.Text(), tt.text)
	}
	if auth := llm.Requests()[0].Header.Get("Authorization"); auth != "Bearer "+testKey {
		t.Errorf("the provider got %q", auth)
	}
	if tt.message == "" {
		if err != nil {
			t.Error(err)
		}
		return
	}
	f, ok := errors.AsType[*Fault](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	if !strings.HasPrefix(f.Message, tt.message) || f.Code != tt.code || f.Kind != tt.kind || f.Status != tt.status || !strings.Contains(f.Details, tt.details) {
		t.Errorf("got %+v", *f.told)
	}
	if f.Verdict.Class != tt.class || f.Unsent || (f.Header != nil) != (tt.kind == kindHTTP && !strings.HasPrefix(tt.name, "redirect")) {
		t.Errorf("got %+v", *f)
	}
	if strings.ContainsAny(f.Message+f.Details, "\n\r\x1b\x07") {
		t.Errorf("control characters in %+v", *f.told)
	}
	noSecret(t, "the error", f.Message+f.Details)
}
