package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/proto"
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
		if got, err := FirstModel(t.Context(), OpenAIModels, ep); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: got %q, %v", tt.in, got, err)
		}
	}
}

// TestModelsRefused checks the errors for servers that do not list their models.
func TestModelsRefused(t *testing.T) {
	for _, tt := range []struct {
		name, body, want string
		status           int
	}{
		{"wants a key", `{"error":{"message":"no key ` + quotedKey + `"}}`, "HTTP 401: no key [hidden]", 401},
		{"has no such list", `not found`, "HTTP 404: not found; or set [service] model", 404},
		{"has a page", `<html>`, "no list of models; or set [service] model", 200},
		{"is empty", `{"data":[]}`, "no model: load one there", 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ep, _ := endpointFor(t)
			ep.Client.Transport = answersWith(tt.status, tt.body)
			_, err := FirstModel(t.Context(), OpenAIModels, ep)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			noSecret(t, "the error", err.Error())
		})
	}
}

// TestLists checks how each wire asks for its list and what is read of it.
func TestLists(t *testing.T) {
	for _, tt := range []struct {
		name           string
		list           Lister
		base, url, key string // key: the header that carries it
		body           string
		want           []Model
	}{
		{
			"openai", OpenAIModels, "http://h/v1", "/v1/models", "Authorization",
			`{"data":[{"id":"a","created":1,"extra":{}},{"id":"whisper-1"},{"id":"b"}]}`,
			[]Model{{"a", 0}, {"b", 0}},
		},
		{
			"anthropic", AnthropicModels, "http://h/v1", "/v1/models?limit=1000", "X-Api-Key",
			`{"data":[{"type":"model","id":"a","display_name":"A"},{"id":"b","max_input_tokens":200000}],"has_more":false}`,
			[]Model{{"a", 0}, {"b", 200000}},
		},
		{
			"gemini", GeminiModels, "http://h", "/v1beta/models?pageSize=1000", "X-Goog-Api-Key",
			`{"models":[{"name":"models/a","inputTokenLimit":1048576,"supportedGenerationMethods":["generateContent"]},{"name":"models/x","supportedGenerationMethods":["predict"]},{"name":"b"}]}`,
			[]Model{{"a", 1048576}, {"b", 0}},
		},
		{
			"openrouter", OpenRouterModels, "http://h/api/v1", "/api/v1/models", "Authorization",
			`{"data":[{"id":"x/a","context_length":8192},{"id":"x/b","context_length":null}]}`,
			[]Model{{"x/a", 8192}, {"x/b", 0}},
		},
		{"ollama", OllamaModels, "http://h/v1", "/api/tags", "Authorization", `{"models":[{"name":"c","remote_host":"h"},{"name":"a"}]}`, []Model{{"a", 0}, {"c", 0}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ep := endpointAt(t, tt.base)
			var asked *http.Request
			answer := func(status int, body string) {
				ep.Client = &http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
					asked = req
					return answersWith(status, body)(req)
				})}
			}
			answer(200, tt.body)
			got, err := tt.list(t.Context(), ep)
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %v, %v", got, err)
			}
			if asked.Method != "GET" || asked.URL.RequestURI() != tt.url || !strings.Contains(asked.Header.Get(tt.key), testKey) || !strings.HasPrefix(asked.Header.Get("User-Agent"), "zino/") {
				t.Errorf("asked %s %s with %v", asked.Method, asked.URL, asked.Header)
			}
			for _, body := range []string{"", "<html>", "[]", `{"data":7,"models":7}`, `{"data":[{"id":7}],"models":[{"name":7}]}`} {
				answer(200, body)
				if got, err := tt.list(t.Context(), ep); !errors.Is(err, errNoList) {
					t.Errorf("%s: got %v, %v", body, got, err)
				}
			}
			for _, body := range []string{`{"error":{"message":"bad ` + quotedKey + `","type":"t","code":"c"}}`, `{"error":"bad ` + quotedKey + `"}`, "bad " + testKey} {
				answer(401, body)
				_, err := tt.list(t.Context(), ep)
				e, ok := errors.AsType[*proto.Error](err)
				if !ok || e.Status != 401 || e.Message != "HTTP 401: bad [hidden]" || !strings.Contains(e.Details, "THE_KEY") {
					t.Errorf("%s: got %+v", body, err)
				}
			}
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

// TestModelsAsked checks the request for the models over a real connection, and the
// remedy in the error for a server that does not listen.
func TestModelsAsked(t *testing.T) {
	llm := fakellm.New()
	defer llm.Close()
	llm.SetModels("nomic-embed-text", "its-model")
	ep := endpointAt(t, llm.URL)
	if got, err := FirstModel(t.Context(), OpenAIModels, ep); err != nil || got != "its-model" {
		t.Errorf("got %q, %v", got, err)
	}
	req := llm.Requests()[0]
	if req.Method != "GET" || req.Path != "/v1/models" || req.Header.Get("Authorization") != "Bearer "+testKey || len(req.Body) != 0 {
		t.Errorf("asked with %s %s, %v", req.Method, req.Path, req.Header)
	}
	llm.Close()
	_, err := FirstModel(t.Context(), OpenAIModels, ep)
	f, ok := errors.AsType[*Fault](err)
	if !ok || !f.Unsent || !strings.Contains(f.Message, "the_base_url") {
		t.Errorf("after it has gone: got %v", err)
	}
}

// FuzzLists checks that a list from any answer holds only names that can be shown.
func FuzzLists(f *testing.F) {
	for _, body := range []string{`{"data":[{"id":"a"}]}`, `{"models":[{"name":"models/a","inputTokenLimit":1}]}`, `{"data":[{"id":"a\u001b","max_input_tokens":1e400}]}`, `{"error":"x"}`, ``} {
		f.Add(200, body)
		f.Add(500, body)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 {
			return
		}
		ep, _ := endpointFor(t)
		ep.Client.Transport = answersWith(status, body)
		for _, list := range []Lister{OpenAIModels, AnthropicModels, GeminiModels, OpenRouterModels, OllamaModels} {
			models, err := list(t.Context(), ep)
			for _, m := range models {
				if err != nil || m.Name == "" || m.Name != oneLine(m.Name, 200) {
					t.Errorf("%q, %v", m.Name, err)
				}
			}
		}
	})
}

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
			able, err := OllamaModel(context.Background(), ep, `a"b`)
			context, tools := able.Context, able.Tools
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
	if _, err := OllamaModel(context.Background(), ep, "m"); err == nil || !strings.Contains(err.Error(), "says nothing that can be read of the model m") {
		t.Errorf("got %v", err)
	}
	ep.Base = "http://h\x00"
	if _, err := OllamaModel(context.Background(), ep, "m"); err == nil || !strings.Contains(err.Error(), "check the_base_url") {
		t.Errorf("got %v", err)
	}
	ep.Base, ep.Client = "http://h", &http.Client{Transport: missing{}}
	_, err := OllamaModel(context.Background(), ep, "m")
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

// TestOllamaServer checks the requests to a server over a real connection.
func TestOllamaServer(t *testing.T) {
	server := fakellm.New()
	defer server.Close()
	server.SetModels("nomic-embed", "qwen3:8b")
	ep := endpointAt(t, server.Host+"/v1")
	model, err := FirstModel(context.Background(), OllamaModels, ep)
	if err != nil || model != "qwen3:8b" {
		t.Fatalf("got %q, %v", model, err)
	}
	if able, err := OllamaModel(context.Background(), ep, model); err != nil || able.Context != 32768 || !able.Tools {
		t.Errorf("got %+v, %v", able, err)
	}
	server.SetCapabilities("completion")
	if able, err := OllamaModel(context.Background(), ep, model); err != nil || able.Tools {
		t.Errorf("got %+v, %v", able, err)
	}
}

// FuzzOllamaModel checks that any answer about a model gives a length
// that can be asked for.
func FuzzOllamaModel(f *testing.F) {
	f.Add(`{"capabilities":["tools"],"parameters":"num_ctx 4096","model_info":{"general.architecture":"a","a.context_length":8192}}`)
	f.Add(`{"template":".Tools","model_info":{"a.context_length":1e9}}`)
	f.Add(`{"parameters":"num_ctx 1e400\nnum_ctx NaN\nnum_ctx 0x10","model_info":null}`)
	f.Fuzz(func(t *testing.T, shown string) {
		ep, _ := endpointFor(t, strings.NewReader(shown))
		able, err := OllamaModel(context.Background(), ep, "m")
		length := able.Context
		if length < 0 || length > 1<<31 || err != nil && length != 0 {
			t.Fatalf("%s: %d, %v", shown, length, err)
		}
	})
}
