package rtr

import (
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/proto"
)

// TestSampling: a sampling parameter that the model is known to refuse, or that it
// refuses with HTTP 400, is not sent. If it was set, that is reported once to a
// session.
func TestSampling(t *testing.T) {
	for _, tt := range []struct {
		name, model string
		temperature float64
		warned      string
	}{
		{"default", "gpt-5-mini", 0.7, ""},
		{"known", "gpt-5-mini", 0.3, "gpt-5-mini does not take temperature: 0.3 is not sent"},
		{"refused default", "m", 0.7, ""},
		{"refused", "m", 0.3, "m does not take temperature: 0.3 is not sent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, llm := toolRouter(t, func(c *config.Config) { c.Service.Model = tt.model }, fakellm.Turn{Text: "x", Refuses: []string{"temperature"}, Times: fakellm.Forever})
			in := proto.Infer{Messages: proto.Raw(`[{"role":"user","content":"hi"}]`), Temperature: tt.temperature, TopP: 1, Events: true, SessionID: "s"}
			var all []string
			for range 3 {
				var got chunks
				if text, err := r.infer(t.Context(), in, &got); err != nil || text != "x" {
					t.Fatalf("got %q, %v", text, err)
				}
				all = append(all, got.events...)
			}
			if notices := strings.Join(all, " "); strings.Count(notices, "does not take") != min(len(tt.warned), 1) || !strings.Contains(notices, tt.warned) {
				t.Errorf("notices %s", notices)
			}
			want := 3
			if tt.model == "m" {
				want = 4 // the first was refused
			}
			if n := len(llm.Requests()); n != want {
				t.Errorf("asked %d times, want %d", n, want)
			}
		})
	}
	r, llm := toolRouter(t, nil, fakellm.Failure(400, `{"error":{"message":"temperature must be at most 1"}}`))
	if _, err := r.infer(t.Context(), ask("hi", true), &chunks{}); failure(t, err).Status != 400 || len(llm.Requests()) != 1 {
		t.Errorf("a value out of range: %v after %d requests", err, len(llm.Requests()))
	}
}
