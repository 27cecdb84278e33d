package rtr

import (
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

// TestWrongBases holds that a provider whose URL is none cannot be asked and
// says which setting is wrong, but not what it is: it may hold a password.
// Others are asked, and the statistics name it all the same.
func TestWrongBases(t *testing.T) {
	for _, tt := range []struct {
		provider, problem, env string
		set                    func(*config.Config)
	}{
		{"gemini", "gemini_base_url: not a URL", "", func(c *config.Config) { c.GeminiBaseURL = "s3cret" }},
		{"anthropic", "ANTHROPIC_BASE_URL: not a URL", "ANTHROPIC_BASE_URL=s3cret", nil},
		{"openai", "OPENAI_BASE_URL: not a URL", "OPENAI_BASE_URL=http://u:s3cret@", nil},
		{"openrouter", "OPENROUTER_BASE_URL: a base URL has no '?'", "OPENROUTER_BASE_URL=http://host?s3cret", nil},
		{"ollama", "OLLAMA_HOST: a base URL has no '?'", "OLLAMA_HOST=host:1?s3cret", nil},
		{"ollama", "OLLAMA_HOST: not a URL", "OLLAMA_HOST=http://[s3cret", nil},
	} {
		t.Run(tt.problem, func(t *testing.T) {
			alone(t)
			name, value, _ := strings.Cut(tt.env, "=")
			if name != "" {
				t.Setenv(name, value)
			}
			r := start(t, func(c *config.Config) {
				if c.Provider = "offline"; tt.set != nil {
					tt.set(c)
				}
			})
			if err := r.ask(t, tt.provider); err == nil || !strings.Contains(err.Error(), tt.problem) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: got %v, want %q", tt.provider, err, tt.problem)
			}
			if err := r.ask(t, ""); err != nil {
				t.Errorf("the configured provider: %v", err)
			}
			stats, err := rpc.Call(t.Context(), r.client, proto.GetStats, proto.StatsRequest{})
			if err != nil || len(stats.Problems) != 1 || !strings.Contains(stats.Problems[0], tt.problem) {
				t.Errorf("statistics: %+v, %v", stats, err)
			}
		})
	}
}

// ask asks a provider something.
func (r *router) ask(t *testing.T, provider string) error {
	t.Helper()
	req := proto.Infer{Provider: provider, Messages: proto.Raw(`[{"role":"user","content":"hello"}]`)}
	_, err := rpc.CallText(t.Context(), r.client, proto.RtrInfer, req, nil)
	return err
}

// TestWrongBaseIsImplied holds that a wrong URL is no reason to ask somebody
// else, nor to say that no model is connected.
func TestWrongBaseIsImplied(t *testing.T) {
	for _, provider := range []string{"", "auto", "openai"} {
		c := choice{
			env: map[string]string{"OPENAI_BASE_URL": "localhost:1"}, provider: "openai", problem: "OPENAI_BASE_URL: not a URL",
			set: func(c *config.Config) { c.Provider = provider },
		}
		t.Run(provider, func(t *testing.T) { c.check(t) })
	}
	r := choice{env: map[string]string{"OPENAI_BASE_URL": "localhost:1"}}.start(t)
	r.caps(t)
	stats := proto.Stats{}
	if r.stats(&stats); len(stats.Problems) != 1 {
		t.Errorf("statistics: %+v", stats)
	}
}
