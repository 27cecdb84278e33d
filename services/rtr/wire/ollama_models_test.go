package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/proto"
)

func TestOllamaModel(t *testing.T) {
	for _, tt := range []struct {
		name, shown string
		context     int
		tools       bool
	}{
		{"long", `{"capabilities":["completion","tools","thinking"],"model_info":{"general.architecture":"qwen3","qwen3.context_length":262144}}`, 32768, true},
		{"short", `{"capabilities":["completion"],"model_info":{"general.architecture":"llama","llama.context_length":8192}}`, 8192, false},
		{"a float", `{"capabilities":[],"model_info":{"general.architecture":"llama","llama.context_length":8.192e3}}`, 8192, false},
		{"of several", `{"capabilities":["tools"],"model_info":{"clip.context_length":77,"general.architecture":"llama","llama.context_length":2048,"llama.rope.original_context_length":1024}}`, 2048, true},
		{"another architecture", `{"capabilities":["tools"],"model_info":{"general.architecture":"new","old.context_length":2048}}`, 2048, true},
		{"the Modelfile's", `{"capabilities":["tools"],"parameters":"stop                           \"<|im_end|>\"\nnum_ctx                        65536\ntemperature                    1","model_info":{"general.architecture":"llama","llama.context_length":131072}}`, 65536, true},
		{"not the Modelfile's", `{"parameters":"num_ctx x\nnum_ctx -1\nnum_ctx","model_info":{"llama.context_length":2048}}`, 2048, false},
		{"elsewhere", `{"remote_host":"https://ollama.com:443","capabilities":["tools"],"model_info":{"general.architecture":"gptoss","gptoss.context_length":131072}}`, 0, true},
		{"an old server", `{"template":"{{ if .Tools }}…{{ end }}","model_info":{"general.architecture":"llama","llama.context_length":4096}}`, 4096, true},
		{"an old model", `{"template":"{{ .Prompt }}"}`, 0, false},
		{"no number", `{"capabilities":null,"model_info":{"general.architecture":7,"llama.context_length":"x","a.context_length":-1,"b.context_length":1e300}}`, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ep, s := endpointFor(t, strings.NewReader(tt.shown))
			context, tools, err := OllamaModel(context.Background(), ep, `a"b`)
			if err != nil || context != tt.context || tools != tt.tools {
				t.Errorf("got %d, %v, %v; want %d, %v", context, tools, err, tt.context, tt.tools)
			}
			if s.asked[0] != `{"model":"a\"b"}` || s.paths[0] != "/api/show" || s.header.Get("Content-Type") != "application/json" {
				t.Errorf("asked %s for %s", s.paths, s.asked)
			}
		})
	}
}

func TestOllamaModelFails(t *testing.T) {
	ep, _ := endpointFor(t, strings.NewReader("<html>"))
	if _, _, err := OllamaModel(context.Background(), ep, "m"); err == nil || !strings.Contains(err.Error(), "says nothing that can be read of the model m") {
		t.Errorf("got %v", err)
	}
	ep.Base = "http://h\x00"
	if _, _, err := OllamaModel(context.Background(), ep, "m"); err == nil || !strings.Contains(err.Error(), "check the_base_url") {
		t.Errorf("got %v", err)
	}
	ep.Base, ep.Client = "http://h", &http.Client{Transport: missing{}}
	_, _, err := OllamaModel(context.Background(), ep, "m")
	if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeNotFound || err.Error() != "HTTP 404: model 'm' not found" {
		t.Errorf("got %v", err)
	}
}

// missing is a server that has no model.
type missing struct{}

func (missing) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 404, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"error":"model 'm' not found"}`))}, nil
}

// listing is a server that answers a GET.
type listing struct{ body, path string }

func (l *listing) RoundTrip(r *http.Request) (*http.Response, error) {
	l.path = r.Method + " " + r.URL.Path
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(l.body))}, nil
}

// endpointOf is an endpoint of which nothing is asked yet.
func endpointOf(t *testing.T) *Endpoint {
	ep, _ := endpointFor(t)
	return ep
}

func TestOllamaModels(t *testing.T) {
	for _, tt := range []struct{ tags, want, err string }{
		{`{"models":[{"name":"nomic-embed-text:latest"},{"name":"qwen3:8b"},{"name":"llama3"}]}`, "qwen3:8b", ""},
		{`{"models":[{"name":"gpt-oss:120b-cloud","remote_host":"https://ollama.com:443"},{"name":"qwen3:8b"}]}`, "qwen3:8b", ""},
		{`{"models":[{"name":"gpt-oss:120b-cloud","remote_host":"https://ollama.com:443"}]}`, "gpt-oss:120b-cloud", ""},
		{`{"models":[]}`, "", "it has no model"},
		{`{"models":null}`, "", "it has no model"},
		{`{"models":[{"name":"a\u001b[0m"}]}`, "", "it has no model"},
		{`[]`, "", "no list of models"},
	} {
		ep, asked := endpointOf(t), new(listing)
		asked.body, ep.Client = tt.tags, &http.Client{Transport: asked}
		got, err := FirstModel(context.Background(), OllamaModels, ep)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got %q, %v", tt.tags, got, err)
		}
		if asked.path != "GET /api/tags" {
			t.Errorf("asked for %s", asked.path)
		}
	}
	ep := endpointOf(t)
	ep.Client = &http.Client{Transport: missing{}}
	if _, err := FirstModel(context.Background(), OllamaModels, ep); err == nil || !strings.Contains(err.Error(), "HTTP 404") {
		t.Errorf("got %v", err)
	}
}

// TestOllamaServer asks a real server what it has.
func TestOllamaServer(t *testing.T) {
	server := fakellm.New()
	defer server.Close()
	server.SetModels("nomic-embed", "qwen3:8b")
	ep := endpointAt(t, server.Host+"/v1")
	model, err := FirstModel(context.Background(), OllamaModels, ep)
	if err != nil || model != "qwen3:8b" {
		t.Fatalf("got %q, %v", model, err)
	}
	if length, tools, err := OllamaModel(context.Background(), ep, model); err != nil || length != 32768 || !tools {
		t.Errorf("got %d, %v, %v", length, tools, err)
	}
	server.SetCapabilities("completion")
	if _, tools, err := OllamaModel(context.Background(), ep, model); err != nil || tools {
		t.Errorf("got %v, %v", tools, err)
	}
}

// FuzzOllamaModel holds that whatever a server says of a model gives a length
// that can be asked for.
func FuzzOllamaModel(f *testing.F) {
	f.Add(`{"capabilities":["tools"],"parameters":"num_ctx 4096","model_info":{"general.architecture":"a","a.context_length":8192}}`)
	f.Add(`{"template":".Tools","model_info":{"a.context_length":1e9}}`)
	f.Add(`{"parameters":"num_ctx 1e400\nnum_ctx NaN\nnum_ctx 0x10","model_info":null}`)
	f.Fuzz(func(t *testing.T, shown string) {
		ep, _ := endpointFor(t, strings.NewReader(shown))
		length, _, err := OllamaModel(context.Background(), ep, "m")
		if length < 0 || length > 1<<31 || err != nil && length != 0 {
			t.Fatalf("%s: %d, %v", shown, length, err)
		}
	})
}
