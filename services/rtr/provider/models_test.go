package provider

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"zino/pkg/fakellm"
)

func TestPick(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"object":"list","data":[{"id":"a"},{"id":"b"}]}`, "a"},
		{`{"data":[{"id":""},{"id":"` + "\x1b" + `"}]}`, ""},
		{`{"data":[{"id":""},{"id":7}]}`, ""},
		{`{"data":[{"id":"text-embedding"},{"id":"b"}]}`, "b"},
		{`{"data":[{"id":"a\nb"},{"id":"c"}]}`, "c"},
		{`{"data":[]}`, ""},
		{`{"models":["a"]}`, ""},
		{`[]`, ""},
		{`<html>`, ""},
		{``, ""},
		{`{"data":"a"}`, ""},
	} {
		ep, _ := endpointFor(t)
		ep.Client.Transport = answersWith(200, tt.in)
		if got, err := ep.FirstModel(t.Context()); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: got %q, %v", tt.in, got, err)
		}
	}
}

// TestModelsRefused holds what is said of a server that does not list its
// models.
func TestModelsRefused(t *testing.T) {
	for _, tt := range []struct {
		name, body, want string
		status           int
	}{
		{"wants a key", `{"error":{"message":"no key ` + quotedKey + `"}}`, "HTTP 401: no key [hidden]", 401},
		{"has no such list", `not found`, "HTTP 404: not found; or set [service] model", 404},
		{"has a page", `<html>`, "no list of models: set [service] model", 200},
		{"is empty", `{"data":[]}`, "no model: load one there", 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ep, _ := endpointFor(t)
			ep.Client.Transport = answersWith(tt.status, tt.body)
			_, err := ep.FirstModel(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			noSecret(t, "the error", err.Error())
		})
	}
}

// roundTrip is a transport that is a function.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// answersWith is a transport that gives every request the same answer.
func answersWith(status int, body string) roundTrip {
	return func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
	}
}

// TestModelsAsked holds with what a real server is asked for its models, and
// that one which is not there is named with what to check.
func TestModelsAsked(t *testing.T) {
	llm := fakellm.New()
	defer llm.Close()
	llm.SetModels("nomic-embed-text", "its-model")
	ep := realEndpoint(t, llm.URL)
	if got, err := ep.FirstModel(t.Context()); err != nil || got != "its-model" {
		t.Errorf("got %q, %v", got, err)
	}
	req := llm.Requests()[0]
	if req.Method != "GET" || req.Path != "/v1/models" || req.Header.Get("Authorization") != "Bearer "+testKey || len(req.Body) != 0 {
		t.Errorf("asked with %s %s, %v", req.Method, req.Path, req.Header)
	}
	llm.Close()
	_, err := ep.FirstModel(t.Context())
	f, ok := errors.AsType[*Fault](err)
	if !ok || !f.Unsent || !strings.Contains(f.Message, "the_base_url") {
		t.Errorf("after it has gone: got %v", err)
	}
}
