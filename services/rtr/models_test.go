package rtr

import (
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/proto"
)

// list asks the router for its models, and also returns them as "provider name".
func (r *router) list(t *testing.T, of string) (models []proto.Model, names, problems []string, err error) {
	t.Helper()
	reply, err := rpc.Call(t.Context(), r.client, proto.RtrModels, proto.ModelsRequest{Provider: of})
	for _, m := range reply.Models {
		names = append(names, m.Provider+" "+m.Name)
	}
	return reply.Models, names, reply.Problems, err
}

// TestModels checks that every wire lists its models, followed by built-in models and
// those that the configuration names.
func TestModels(t *testing.T) {
	alone(t)
	llm := fakellm.New()
	defer llm.Close()
	llm.SetModels("text-embedding-x", "first", "gpt-5-mini", "claude-sonnet-4-5-20250929")
	for name, url := range map[string]string{
		"ANTHROPIC_BASE_URL": llm.Host, "OPENAI_BASE_URL": llm.URL, "GEMINI_BASE_URL": llm.Host, "OPENROUTER_BASE_URL": llm.Host + "/api/v1", "OLLAMA_HOST": llm.Host,
	} {
		t.Setenv(name, url)
	}
	t.Setenv("ANTHROPIC_API_KEY", testKey)
	r := start(t, func(c *config.Config) {
		c.Provider = "anthropic"
		c.Rtr.Model = []config.Model{{Name: "first", Provider: "gemini", Context: 7}, {Name: "mine", Provider: "openai"}, {Name: "x*", Provider: "openai"}}
	})
	for of, want := range map[string][]string{
		"anthropic":  {"anthropic first", "anthropic gpt-5-mini", "anthropic claude-sonnet-4-5-20250929", "anthropic claude-sonnet-5-5"},
		"openai":     {"openai first", "openai gpt-5-mini", "openai claude-sonnet-4-5-20250929", "openai gpt-6-luna", "openai mine"},
		"gemini":     {"gemini first", "gemini gpt-5-mini", "gemini claude-sonnet-4-5-20250929", "gemini gemini-flash-latest"},
		"openrouter": {"openrouter first", "openrouter gpt-5-mini", "openrouter claude-sonnet-4-5-20250929", "openrouter openrouter/auto"},
		"ollama":     {"ollama first", "ollama gpt-5-mini", "ollama claude-sonnet-4-5-20250929"},
	} {
		models, names, problems, err := r.list(t, of)
		if err != nil || problems != nil || !slices.Equal(names, want) {
			t.Errorf("%s: got %q, %q, %v", of, names, problems, err)
			continue
		}
		switch of {
		case "anthropic":
			if m := models[2]; m.Context != 200_000 || len(m.Efforts) == 0 {
				t.Errorf("got %+v", m)
			}
		case "openai":
			if m := models[1]; m.Context != 400_000 || !reflect.DeepEqual(m.Efforts, []string{"low", "medium", "high", "max"}) {
				t.Errorf("got %+v", m)
			}
		case "gemini":
			if models[0].Context != 7 || models[1].Context != 32768 {
				t.Errorf("got %+v", models)
			}
		}
	}
	_, all, problems, err := r.list(t, "")
	if err != nil || problems != nil || len(all) != 4+5+4+4+3 || all[0] != "anthropic first" {
		t.Errorf("all: %q, %q, %v", all, problems, err)
	}
	if _, _, _, err := r.list(t, "acme"); failure(t, err).Code != proto.CodeInvalid {
		t.Errorf("got %v", err)
	}
}

// TestModelsUnreachable checks that an unreachable provider is an error with a
// remedy, or a problem in the reply if other providers have models.
func TestModelsUnreachable(t *testing.T) {
	alone(t)
	llm := fakellm.New()
	defer llm.Close()
	gone := fakellm.New()
	gone.Close()
	t.Setenv("ANTHROPIC_BASE_URL", gone.Host)
	t.Setenv("ANTHROPIC_API_KEY", testKey)
	r := start(t, func(c *config.Config) {})
	_, _, _, err := r.list(t, "")
	if e := failure(t, err); !strings.HasPrefix(e.Message, "cannot list the models of anthropic ("+gone.Host+"): ") || !strings.Contains(e.Message, "ANTHROPIC_BASE_URL") || strings.Contains(e.Message, testKey) {
		t.Errorf("got %+v", e)
	}
	t.Setenv("OPENAI_BASE_URL", llm.URL)
	r = start(t, func(c *config.Config) {})
	_, names, problems, err := r.list(t, "")
	if err != nil || !slices.Equal(names, []string{"openai fake-model", "openai gpt-6-luna"}) || len(problems) != 1 || !strings.Contains(problems[0], gone.Host) {
		t.Errorf("got %q, %q, %v", names, problems, err)
	}
	_, _, _, err = r.list(t, "gemini")
	if e := failure(t, err); e.Code != proto.CodeUnavailable || !strings.Contains(e.Message, "zino auth set gemini") {
		t.Errorf("got %+v", e)
	}
}

// TestModelsNone checks that the error without any model says how to connect one, and
// that a server on this host is found.
func TestModelsNone(t *testing.T) {
	r := start(t, func(c *config.Config) {})
	_, _, _, err := r.list(t, "")
	if e := failure(t, err); e.Code != proto.CodeUnavailable || !strings.Contains(e.Message, "zino auth set") {
		t.Errorf("got %+v", e)
	}
	llm := fakellm.New()
	defer llm.Close()
	r.probes = []server{{"openai", llm.URL}}
	if _, names, _, err := r.list(t, ""); err != nil || !slices.Equal(names, []string{"openai fake-model"}) {
		t.Errorf("got %q, %v", names, err)
	}
}

// TestModelsCached checks that the list of a remote provider is cached, except after
// an error or a change of the key.
func TestModelsCached(t *testing.T) {
	alone(t)
	t.Setenv("OPENAI_API_KEY", testKey)
	r := start(t, func(c *config.Config) {})
	status, asked := 500, 0
	r.Service.client.Transport = transport(func(req *http.Request) (*http.Response, error) {
		asked++
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"data":[{"id":"m1"}]}`)), Request: req}, nil
	})
	if _, _, _, err := r.list(t, ""); failure(t, err).Status != 500 {
		t.Errorf("got %v", err)
	}
	status = 200
	for range 3 {
		if _, names, _, err := r.list(t, "openai"); err != nil || !slices.Equal(names, []string{"openai m1", "openai gpt-6-luna"}) {
			t.Errorf("got %q, %v", names, err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times, want 2", asked)
	}
	t.Setenv("OPENAI_API_KEY", "another-key")
	if _, _, _, err := r.list(t, "openai"); err != nil || asked != 3 {
		t.Errorf("asked %d times, want 3: %v", asked, err)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
