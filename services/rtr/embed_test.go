package rtr

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/rtr/retry"
)

// embedRouter serves a router that has a provider for embeddings, as OpenAI's wire and
// as Ollama.
func embedRouter(t *testing.T, change func(*config.Config)) (*router, *fakellm.Server) {
	t.Helper()
	alone(t)
	llm := fakellm.New()
	t.Cleanup(llm.Close)
	t.Setenv("OLLAMA_HOST", llm.Host)
	r := start(t, func(cfg *config.Config) {
		cfg.API.BaseURL, cfg.API.Key = llm.URL, testKey
		cfg.Rtr.Fallback = []config.Fallback{{Provider: "ollama", Model: "other"}}
		cfg.Rtr.StallTimeout = 20
		if change != nil {
			change(cfg)
		}
	})
	return r, llm
}

func (r *router) embed(t *testing.T, provider string, texts ...string) (proto.Embeddings, error) {
	t.Helper()
	return rpc.Call(t.Context(), r.client, proto.RtrEmbed, proto.Embed{Texts: texts, Provider: provider, Model: "nomic-embed-text"})
}

// vectorOf decodes a vector of an answer.
func vectorOf(t *testing.T, text string) (vector []float64) {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	zinotest.Must(t, err)
	for ; len(raw) >= 4; raw = raw[4:] {
		vector = append(vector, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))))
	}
	return vector
}

// TestEmbed checks the requests on both wires, and that vectors are in the order of
// the texts and have the length 1.
func TestEmbed(t *testing.T) {
	texts := []string{"the printer is masked", "a cat", "the printer is masked", "x"}
	for provider, want := range map[string]string{
		"openai": `/v1/embeddings {"encoding_format":"float","input":["the printer is masked","a cat","the printer is masked","x"],"model":"nomic-embed-text"}`,
		"ollama": `/api/embed {"model":"nomic-embed-text","input":["the printer is masked","a cat","the printer is masked","x"],"truncate":false}`,
	} {
		t.Run(provider, func(t *testing.T) {
			r, llm := embedRouter(t, nil)
			got, err := r.embed(t, provider, texts...)
			zinotest.Must(t, err)
			zinotest.Equal(t, "provider", got.Provider+" "+got.Model, provider+" nomic-embed-text")
			zinotest.Equal(t, "dimensions", got.Dimensions, fakellm.VectorSize)
			zinotest.Equal(t, "input tokens", got.Usage.InputTokens, 11)
			for i, text := range texts {
				raw, length := fakellm.Vector(text), 0.0
				for _, x := range raw {
					length += float64(x) * float64(x)
				}
				for j, x := range vectorOf(t, got.Vectors[i]) {
					if math.Abs(x-float64(raw[j])/math.Sqrt(length)) > 1e-6 {
						t.Fatalf("text %d has %v at %d, want %v", i, x, j, raw[j])
					}
				}
			}
			req := llm.Requests()[0]
			zinotest.Equal(t, "the request", req.Path+" "+string(req.Body), want)
			if key := req.Header.Get("Authorization"); (provider == "openai") != (key == "Bearer "+testKey) {
				t.Errorf("the key is %q", key)
			}
			report, err := r.report(t, proto.UsageRequest{By: "model"})
			zinotest.Must(t, err)
			if len(report.Rows) != 1 || report.Rows[0].Key != provider+"/nomic-embed-text" || report.Rows[0].Usage.InputTokens != 11 {
				t.Errorf("the ledger: %+v", report.Rows)
			}
		})
	}
}

func TestEmbedInvalid(t *testing.T) {
	r, llm := embedRouter(t, nil)
	long := strings.Repeat("ä", 8000)
	for _, tt := range []struct {
		in   proto.Embed
		want string
	}{
		{proto.Embed{Model: "m"}, `Invalid request: field "texts": expected 1 to 64 texts`},
		{proto.Embed{Model: "m", Texts: make([]string, 65)}, `Invalid request: field "texts": expected 1 to 64 texts`},
		{proto.Embed{Model: "m", Texts: []string{"a", ""}}, `Invalid request: field "texts": text 1 has 0 characters, expected 1 to 8000`},
		{proto.Embed{Model: "m", Texts: []string{long + "a"}}, `Invalid request: field "texts": text 0 has 8001 characters, expected 1 to 8000`},
		{proto.Embed{Texts: []string{"a"}}, `Invalid request: field "model": expected the name of a model for embeddings`},
		{proto.Embed{Model: "m", Provider: "gpt", Texts: []string{"a"}}, unknownProvider("gpt")},
	} {
		_, err := rpc.Call(t.Context(), r.client, proto.RtrEmbed, tt.in)
		if e := failure(t, err); e.Code != proto.CodeInvalid || e.Message != tt.want {
			t.Errorf("got %s: %s, want %s", e.Code, e.Message, tt.want)
		}
	}
	for _, provider := range []string{"anthropic", "gemini", "offline"} { // with or without a key
		_, err := r.embed(t, provider, "a")
		if e := failure(t, err); e.Code != proto.CodeUnavailable || e.Message != provider+" has no embeddings: name another provider" {
			t.Errorf("%s: %+v", provider, *e)
		}
	}
	zinotest.Equal(t, "requests", len(llm.Requests()), 0)
	_, err := r.embed(t, "ollama", long)
	zinotest.Must(t, err)
	unconnected := start(t, func(*config.Config) {})
	_, err = unconnected.embed(t, "", "a")
	if e := failure(t, err); e.Code != proto.CodeUnavailable || !strings.HasPrefix(e.Message, "no model is connected: ") {
		t.Errorf("without a model: %+v", *e)
	}
}

// TestEmbedUnusable checks that an answer that does not fit is an error, is not asked
// for again, and is paid.
func TestEmbedUnusable(t *testing.T) {
	both := func(vectors ...string) map[string]string {
		data := make([]string, len(vectors))
		for i, v := range vectors {
			data[i] = fmt.Sprintf(`{"index":%d,"embedding":%s}`, i, v)
		}
		return map[string]string{
			"openai": `{"data":[` + strings.Join(data, ",") + `],"usage":{"prompt_tokens":3}}`,
			"ollama": `{"embeddings":[` + strings.Join(vectors, ",") + `],"prompt_eval_count":3}`,
		}
	}
	for _, tt := range []struct {
		name    string
		answers map[string]string
		want    string
	}{
		{"too few", both("[1,0]"), "answered with 1 embeddings for 2 texts"},
		{"too many", both("[1,0]", "[1,0]", "[1,0]"), "answered with 3 embeddings for 2 texts"},
		{"none", both(), "answered with 0 embeddings for 2 texts"},
		{"two sizes", both("[1,0]", "[1,0,0]"), "answered with embeddings of 2 and of 3 dimensions"},
		{"an empty one", both("[]", "[]"), "an embedding of 0 dimensions"},
		{"null", both("null", "null"), "an embedding of 0 dimensions"},
		{"an empty second one", both("[1]", "[]"), "embeddings of 1 and of 0 dimensions"},
		{"zero", both("[1,0]", "[0,0]"), "without a direction, for text 1"},
		{"NaN", both("[1,0]", "[NaN,0]"), "JSON that is broken"},
		{"a number out of range", both("[1,0]", "[1e39,0]"), "JSON that is broken or not a list of embeddings"},
		{"text", both("[1,0]", `"AAAA"`), "JSON that is broken or not a list of embeddings"},
		{"two for one text", map[string]string{"openai": `{"data":[{"index":1,"embedding":[1]},{"index":1,"embedding":[1]}]}`}, "two embeddings for a text"},
		{"a foreign index", map[string]string{"openai": `{"data":[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]}`}, "or one of text 2"},
		{"too many dimensions", both("["+strings.Repeat("1,", 16384)+"1]", "[1]"), "an embedding of 16385 dimensions"},
	} {
		for provider, body := range tt.answers {
			t.Run(tt.name+" "+provider, func(t *testing.T) {
				r, llm := embedRouter(t, tokensPerDay(1000))
				llm.SetEmbed(func(w http.ResponseWriter, _ []string) bool {
					_, err := w.Write([]byte(body))
					return err == nil
				})
				_, err := r.embed(t, provider, "a", "b")
				if e := failure(t, err); e.Code != proto.CodeInternal || e.Kind != "parse" || !strings.Contains(e.Message, tt.want) {
					t.Errorf("got %+v, want %s", *e, tt.want)
				}
				zinotest.Equal(t, "requests", len(llm.Requests()), 1)
				report, err := r.report(t, proto.UsageRequest{})
				zinotest.Must(t, err)
				if b := report.Budgets[0]; b.Spent == 0 || b.Reserved != 0 {
					t.Errorf("the ledger: %+v", b)
				}
			})
		}
	}
}

// TestEmbedRetried checks retries, and that no other model is asked.
func TestEmbedRetried(t *testing.T) {
	failing := func(n int, answer func(w http.ResponseWriter)) func(http.ResponseWriter, []string) bool {
		return func(w http.ResponseWriter, _ []string) bool {
			if n--; n < 0 {
				return false
			}
			answer(w)
			return true
		}
	}
	status := func(code int, header string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			if header != "" {
				w.Header().Set("Retry-After", header)
			}
			w.WriteHeader(code)
		}
	}
	truncated := func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"data":[{"index":0,"embedding":[1,`)) // the rest is missing
	}
	for _, tt := range []struct {
		name     string
		fail     int
		answer   func(http.ResponseWriter)
		code     proto.Code // empty: it succeeds
		requests int
		message  string
	}{
		{"429", 2, status(429, "2"), "", 3, ""},
		{"429 for ever", 100, status(429, "2"), proto.CodeBusy, 5, "(asked 5 times)"},
		{"429 with a long pause", 100, status(429, "4000"), proto.CodeBusy, 1, "(come back in"},
		{"500", 1, status(500, ""), "", 2, ""},
		{"404", 100, status(404, ""), proto.CodeNotFound, 1, "HTTP 404"},
		{"401", 100, status(401, ""), proto.CodeDenied, 1, "HTTP 401"},
		{"truncated", 1, truncated, "", 2, ""},
		{"truncated for ever", 100, truncated, proto.CodeUnavailable, 5, "ended before the embeddings were complete"},
	} {
		for _, provider := range []string{"openai", "ollama"} {
			t.Run(tt.name+" "+provider, func(t *testing.T) {
				r, llm := embedRouter(t, nil)
				r.limiters[provider] = retry.New(0, 0, r.now)
				llm.SetEmbed(failing(tt.fail, tt.answer))
				_, err := r.embed(t, provider, "a")
				if tt.code == "" {
					zinotest.Must(t, err)
				} else if e := failure(t, err); e.Code != tt.code || !strings.Contains(e.Message, tt.message) {
					t.Errorf("got %+v", *e)
				}
				zinotest.Equal(t, "requests", len(llm.Requests()), tt.requests)
				for _, req := range llm.Requests() {
					var in struct{ Model string }
					zinotest.Must(t, json.Unmarshal(req.Body, &in))
					zinotest.Equal(t, "model", in.Model, "nomic-embed-text")
				}
			})
		}
	}
}

// TestEmbedDown: a provider that cannot be reached is the error, without a fallback.
func TestEmbedDown(t *testing.T) {
	r, llm := embedRouter(t, nil)
	llm.Close()
	for _, provider := range []string{"openai", "ollama"} {
		_, err := r.embed(t, provider, "a")
		if e := failure(t, err); e.Code != proto.CodeUnavailable || !strings.Contains(e.Message, "cannot reach the model at") {
			t.Errorf("%s: %+v", provider, *e)
		}
	}
}

// TestEmbedDeadline: a caller that would be gone at the end of a pause gets the error of
// the provider at once.
func TestEmbedDeadline(t *testing.T) {
	r, llm := embedRouter(t, nil)
	asked := 0
	llm.SetEmbed(func(w http.ResponseWriter, _ []string) bool {
		asked++
		w.Header().Set("Retry-After", "29")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	_, err := rpc.Call(ctx, r.client, proto.RtrEmbed, proto.Embed{Texts: []string{"a"}, Provider: "openai", Model: "nomic-embed-text"})
	if e := failure(t, err); e.Code != proto.CodeBusy || !strings.Contains(e.Message, "HTTP 429") {
		t.Errorf("got %+v", *e)
	}
	zinotest.Equal(t, "requests", asked, 1)
}

// TestEmbedSlow: an answer that does not come in time is the error timeout.
func TestEmbedSlow(t *testing.T) {
	r, llm := embedRouter(t, func(cfg *config.Config) { cfg.Rtr.StallTimeout = 0.02 })
	end := make(chan struct{})
	defer close(end)
	llm.SetEmbed(func(http.ResponseWriter, []string) bool { <-end; return true })
	_, err := r.embed(t, "openai", "a")
	if e := failure(t, err); e.Code != proto.CodeTimeout || !strings.Contains(e.Message, "gave no embeddings within 0.2s") {
		t.Errorf("got %+v", *e)
	}
}

// TestEmbedBudget: embeddings count against the budget, and reserve no more than their
// texts.
func TestEmbedBudget(t *testing.T) {
	r, llm := embedRouter(t, tokensPerDay(40))
	held := make(chan struct{})
	llm.SetEmbed(func(http.ResponseWriter, []string) bool { <-held; return false })
	first := make(chan error, 1)
	go func() {
		_, err := r.embed(t, "openai", "one two three four five")
		first <- err
	}()
	_, err := llm.Wait(t.Context(), 1)
	zinotest.Must(t, err)
	report, err := r.report(t, proto.UsageRequest{})
	zinotest.Must(t, err)
	zinotest.Equal(t, "reserved", report.Budgets[0].Reserved, 7)
	close(held)
	zinotest.Must(t, zinotest.Receive(t, "the first answer", first))
	for err == nil {
		_, err = r.embed(t, "openai", "one two three four five")
	}
	if e := failure(t, err); e.Code != proto.CodeBudget || !strings.Contains(e.Message, "tokens_per_day = 40") {
		t.Errorf("got %+v", *e)
	}
	if n := len(llm.Requests()); n != 7 {
		t.Errorf("%d requests, want 7 of 5 tokens", n)
	}
}
