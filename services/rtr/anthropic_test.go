package rtr

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/proto"
)

// anthropicRouter serves a router that asks a scripted provider on Anthropic's
// wire, with what the environment says.
func anthropicRouter(t *testing.T, key string, env map[string]string, script ...fakellm.Turn) (*router, *fakellm.Server) {
	t.Helper()
	alone(t)
	for name, value := range env {
		t.Setenv(name, value)
	}
	llm := fakellm.New(script...)
	t.Cleanup(llm.Close)
	return onWire(t, "anthropic", llm.Host, func(cfg *config.Config) { cfg.API.Key = key }), llm
}

// sent is the header of the first request.
func sent(t *testing.T, r *router, llm *fakellm.Server) http.Header {
	t.Helper()
	if _, err := r.infer(t.Context(), ask("hi", true), &chunks{}); err != nil {
		t.Fatal(err)
	}
	return llm.Requests()[0].Header
}

// TestAnthropicToken holds that a token is sent as one, where there is no key.
func TestAnthropicToken(t *testing.T) {
	token := map[string]string{"ANTHROPIC_AUTH_TOKEN": " k-token\n"}
	for _, tt := range []struct{ name, configured, variable, key, bearer string }{
		{"alone", "", "", "", "Bearer k-token"},
		{"with a key in the environment", "", "k-env", "k-env", ""},
		{"with a key in the configuration", "k-set", "", "k-set", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			alone(t)
			t.Setenv("ANTHROPIC_API_KEY", tt.variable)
			r, llm := anthropicRouter(t, tt.configured, token, fakellm.Reply("yes"))
			h := sent(t, r, llm)
			if h.Get("X-Api-Key") != tt.key || h.Get("Authorization") != tt.bearer || strings.Contains(r.log.String(), "k-token") {
				t.Errorf("sent %q and %q", h.Get("X-Api-Key"), h.Get("Authorization"))
			}
		})
	}
}

// TestAnthropicTokenChooses holds that a token is as good as a key when it is
// decided who is asked.
func TestAnthropicTokenChooses(t *testing.T) {
	for _, tt := range []choice{
		{name: "unnamed", env: map[string]string{"ANTHROPIC_AUTH_TOKEN": "k-t", "OPENAI_API_KEY": "k-o"}, provider: "anthropic", endpoint: anthropicURL, key: "k-t"},
		{name: "named", set: named("anthropic"), env: map[string]string{"ANTHROPIC_AUTH_TOKEN": "k-t"}, provider: "anthropic", endpoint: anthropicURL, key: "k-t"},
		{name: "a stored key before it", env: map[string]string{"ANTHROPIC_AUTH_TOKEN": "k-t"}, stored: map[string]string{"anthropic": "k-s"}, provider: "anthropic", endpoint: anthropicURL, key: "k-s"},
		{name: "none that could be sent", set: named("anthropic"), env: map[string]string{"ANTHROPIC_AUTH_TOKEN": "k- t"}, provider: "anthropic", problem: "ANTHROPIC_AUTH_TOKEN"},
		{name: "it is nobody else's", set: named("gemini"), env: map[string]string{"ANTHROPIC_AUTH_TOKEN": "k-t"}, provider: "gemini", problem: "GEMINI_API_KEY"},
	} {
		t.Run(tt.name, tt.check)
	}
}

// TestAnthropicTokenRefused: the error says which variable it is about.
func TestAnthropicTokenRefused(t *testing.T) {
	r, _ := anthropicRouter(t, "", map[string]string{"ANTHROPIC_AUTH_TOKEN": "k-token"}, refusal(401))
	_, err := r.infer(t.Context(), ask("hi", true), &chunks{})
	if e := failure(t, err); e.Code != proto.CodeDenied || !strings.Contains(e.Details, "ANTHROPIC_AUTH_TOKEN") || strings.Contains(e.Error()+e.Details, "k-token") {
		t.Errorf("got %+v", *e)
	}
}

const headerLines = "anthropic-beta: one,two\nUser-Agent: mine\nX-Tenant:  s3cret-t \n\nx-api-key: s3cret-1\nAuthorization: Bearer s3cret-2\nHost: s3cret-3\n" +
	"Content-Type: s3cret/4\nTransfer-Encoding: s3cret-5\nProxy-Authorization: s3cret-6\nAccept-Encoding: s3cret-7\r\ns3cret-8\nbad name: s3cret-9\nX-Bad: s3cret\x01"

// TestAnthropicHeaders holds that the user's own headers are sent, but for
// those that are ours, and that no value of them shows.
func TestAnthropicHeaders(t *testing.T) {
	env := map[string]string{"ANTHROPIC_CUSTOM_HEADERS": headerLines}
	r, llm := anthropicRouter(t, testKey, env, fakellm.Reply("yes"))
	h := sent(t, r, llm)
	if h.Get("Anthropic-Beta") != "one,two" || h.Get("User-Agent") != "mine" || h.Get("X-Tenant") != "s3cret-t" || h.Get("X-Api-Key") != testKey || h.Get("Content-Type") != "application/json" {
		t.Errorf("sent %v", h)
	}
	delete(h, "X-Tenant")
	for name, values := range h {
		if strings.Contains(strings.Join(values, " "), "s3cret") {
			t.Errorf("%s was sent: %q", name, values)
		}
	}
	stats, err := rpc.Call(t.Context(), r.client, proto.GetStats, proto.StatsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	problems := strings.Join(stats.Problems, "\n")
	for _, want := range []string{"line 5: X-Api-Key", "line 6: Authorization", "line 7: Host", "line 8: Content-Type", "line 9: Transfer-Encoding", "line 10: Proxy-Authorization", "line 11: Accept-Encoding", "line 12 is not", "line 13 is not", "line 14 is not"} {
		if n := strings.Count(problems, "ANTHROPIC_CUSTOM_HEADERS, "+want); n != 1 {
			t.Errorf("%q stands %d times in\n%s", want, n, problems)
		}
	}
	if strings.Contains(problems+r.log.String(), "s3cret") {
		t.Errorf("a value shows in\n%s\n%s", problems, r.log.String())
	}
}

// TestAnthropicHeadersStay: they are for this wire, and a provider that repeats
// one in its error does not make it known.
func TestAnthropicHeadersStay(t *testing.T) {
	env := map[string]string{"ANTHROPIC_CUSTOM_HEADERS": "X-Tenant: s3cret-t"}
	said := refusal(400)
	said.Text = `{"error":{"type":"invalid_request_error","message":"no tenant s3cret-t"}}`
	r, _ := anthropicRouter(t, testKey, env, said)
	_, err := r.infer(t.Context(), ask("hi", true), &chunks{})
	if e := failure(t, err); !strings.Contains(e.Message, "no tenant [hidden]") || strings.Contains(e.Message+e.Details+r.log.String(), "s3cret") {
		t.Errorf("got %+v", *e)
	}
	other, llm := openaiRouter(t, fakellm.Reply("yes"))
	if h := sent(t, other, llm); slices.Contains(h["X-Tenant"], "s3cret-t") {
		t.Error("another provider was sent them")
	}
}

// TestAnthropicUnstreamed: where streaming is off the provider is not asked for
// a stream, whatever the caller wants.
func TestAnthropicUnstreamed(t *testing.T) {
	for _, stream := range []bool{false, true} {
		llm := fakellm.New(fakellm.Reply("yes"))
		t.Cleanup(llm.Close)
		r := onWire(t, "anthropic", llm.Host, func(cfg *config.Config) { cfg.Rtr.Streaming = false })
		if text, err := r.infer(t.Context(), ask("hi", stream), &chunks{}); text != "yes" || err != nil {
			t.Errorf("got %q, %v", text, err)
		}
		if body := string(llm.Requests()[0].Body); !strings.Contains(body, `"stream":false`) {
			t.Errorf("asked with %s", body)
		}
	}
}
