package rtr

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/proto"
)

// three are an OpenAI, an OpenRouter and a Gemini, to be asked in this order.
type three struct {
	*router
	llms [3]*fakellm.Server
}

// startThree has the first asked with a configured key, the second with one in
// the environment and the third with none.
func startThree(t *testing.T, change func(*config.Config), scripts ...fakellm.Turn) three {
	t.Helper()
	alone(t)
	var all three
	for i := range all.llms {
		all.llms[i] = fakellm.New(scripts[i])
		t.Cleanup(all.llms[i].Close)
	}
	t.Setenv("OPENAI_BASE_URL", all.llms[0].URL)
	t.Setenv("OPENROUTER_BASE_URL", all.llms[1].Host+"/api/v1")
	t.Setenv("OPENROUTER_API_KEY", "k-r")
	t.Setenv("GEMINI_BASE_URL", all.llms[2].Host)
	all.router = start(t, func(c *config.Config) {
		c.Provider, c.API.Key = "openai", testKey
		c.Rtr.Fallback = []config.Fallback{{Provider: "openrouter", Model: "x/y"}, {Provider: "gemini"}, {Provider: "gemini"}}
		if change != nil {
			change(c)
		}
	})
	return all
}

// asked is how often each was asked.
func (a three) asked() (n [3]int) {
	for i, llm := range a.llms {
		n[i] = len(llm.Requests())
	}
	return n
}

// TestFallback holds who answers when others cannot, and that no key goes where
// it does not belong.
func TestFallback(t *testing.T) {
	ever := func(turn fakellm.Turn) fakellm.Turn { return times(fakellm.Forever, turn) }
	for _, tt := range []struct {
		name          string
		first, second fakellm.Turn
		asked         [3]int
		by            string
	}{
		{"nobody needs it", fakellm.Reply("1"), fakellm.Reply("2"), [3]int{1, 0, 0}, "openai m"},
		{"a key that is refused", refused(401), fakellm.Reply("2"), [3]int{1, 1, 0}, "openrouter x/y"},
		{"no such model", refused(404), fakellm.Reply("2"), [3]int{1, 1, 0}, "openrouter x/y"},
		{"a spending limit", refused(402), fakellm.Reply("2"), [3]int{1, 1, 0}, "openrouter x/y"},
		{"too long a wait", refused(429, "Retry-After: 900"), fakellm.Reply("2"), [3]int{1, 1, 0}, "openrouter x/y"},
		{"a pause that others have to wait for", refused(429, "Retry-After: 50"), fakellm.Reply("2"), [3]int{1, 1, 0}, "openrouter x/y"},
		{"down for good", ever(refused(500)), ever(refused(503)), [3]int{5, 5, 1}, "gemini gemini-flash-latest"},
		{"a web page, then a cut", fakellm.Turn{Faults: []fakellm.Fault{fakellm.HTML}}, ever(stream("data: {}\n\n")), [3]int{1, 5, 1}, "gemini gemini-flash-latest"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := startThree(t, nil, tt.first, tt.second, fakellm.Reply("3"))
			var got chunks
			in := ask("hi", true)
			in.Events = true
			text, err := all.answer(t.Context(), in, &got)
			by := text.Provider + " " + text.Model
			if err != nil || by != tt.by || got.text() != text.Content || all.asked() != tt.asked {
				t.Errorf("got %q by %s, %v, asked %v", text.Content, by, err, all.asked())
			}
			if instead := "; asking " + strings.TrimSuffix(by, " gemini-flash-latest") + " instead"; by != "openai m" && !strings.Contains(got.events[len(got.events)-1], instead) {
				t.Errorf("told %q, want %q", got.events, instead)
			}
			all.checkKeys(t)
		})
	}
}

// checkKeys holds that each provider got its own key and no other.
func (a three) checkKeys(t *testing.T) {
	t.Helper()
	for i, want := range []string{"Bearer " + testKey, "Bearer k-r", ""} {
		for _, req := range a.llms[i].Requests() {
			if got := req.Header.Get("Authorization"); got != want || req.Header.Get("X-Goog-Api-Key") != "" {
				t.Errorf("provider %d got %q", i+1, got)
			}
		}
	}
}

// TestNoFallback holds when nobody else is asked.
func TestNoFallback(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first fakellm.Turn
		in    func(*proto.Infer)
		set   func(*config.Config)
		want  string
		asked int
	}{
		{"400", refused(400), nil, nil, "HTTP 400: not now", 1},
		{"413", refused(413), nil, nil, "HTTP 413: not now", 1},
		{"422", refused(422), nil, nil, "HTTP 422: not now", 1},
		{"a provider is named", refused(401), func(in *proto.Infer) { in.Provider = "openai" }, nil, "HTTP 401: not now", 1},
		{"a model is named", refused(401), func(in *proto.Infer) { in.Model = "other" }, nil, "HTTP 401: not now", 1},
		{"a part has gone out", stream(hello), nil, nil, "no end mark", 1},
		{"the request is wrong", fakellm.Reply("x"), func(in *proto.Infer) { in.Messages = proto.Raw(`[7]`) }, nil, "messages must be a list", 0},
		{"the budget", fakellm.Reply("x"), nil, func(c *config.Config) { c.Budget.TokensPerDay = 1 }, "tokens_per_day", 0},
		{"no fallback", refused(401), nil, func(c *config.Config) { c.Rtr.Fallback = nil }, "HTTP 401: not now", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := startThree(t, tt.set, tt.first, fakellm.Reply("2"), fakellm.Reply("3"))
			in := ask("hi", true)
			if tt.in != nil {
				tt.in(&in)
			}
			_, err := all.infer(t.Context(), in, &chunks{})
			if e := failure(t, err); !strings.Contains(e.Message, tt.want) || all.asked() != [3]int{tt.asked, 0, 0} {
				t.Errorf("got %+v, asked %v", *e, all.asked())
			}
		})
	}
}

// TestFallbackUnset holds that a provider which cannot even be asked is passed
// over, and that the error is that of the last one.
func TestFallbackUnset(t *testing.T) {
	all := startThree(t, func(c *config.Config) { c.Provider, c.API.Key = "anthropic", "" }, fakellm.Reply("1"), refused(401), fakellm.Reply("3"))
	in := ask("hi", true)
	in.Events = true
	var got chunks
	if text, err := all.infer(t.Context(), in, &got); err != nil || text != "3" || all.asked() != [3]int{0, 1, 1} {
		t.Errorf("got %q, %v, asked %v", text, err, all.asked())
	}
	if len(got.events) != 2 || !strings.Contains(got.events[0], "ANTHROPIC_API_KEY") {
		t.Errorf("told %q", got.events)
	}
	all.llms[2].Add(refused(403))
	all.llms[1].Add(refused(404))
	_, err := all.infer(t.Context(), ask("hi", false), &chunks{})
	if e := failure(t, err); e.Status != 403 {
		t.Errorf("got %+v", *e)
	}
}

// TestFallbackHangUp holds that nobody is asked for a caller who has gone.
func TestFallbackHangUp(t *testing.T) {
	all := startThree(t, nil, fakellm.Turn{Silent: true, End: fakellm.Stall}, fakellm.Reply("2"), fakellm.Reply("3"))
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := all.infer(ctx, ask("hi", true), &chunks{})
		failed <- err
	}()
	req, err := all.llms[0].Wait(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-req.Gone
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	all.quiet(t)
	if all.asked() != [3]int{1, 0, 0} {
		t.Errorf("asked %v", all.asked())
	}
}

// TestFallbackKeys holds that the ways of giving a key to the first provider
// give it to no other, even one of the same kind.
func TestFallbackKeys(t *testing.T) {
	for _, tt := range []struct {
		name string
		how  choice
	}{
		{"key", choice{set: apiKey("k-1")}},
		{"key_file", choice{file: "k-1"}},
		{"ZINO_API_KEY", choice{env: map[string]string{"ZINO_API_KEY": "k-1"}}},
		{"LLM_API_KEY", choice{env: map[string]string{"LLM_API_KEY": "k-1"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			alone(t)
			first, second := fakellm.New(refused(401)), fakellm.New(fakellm.Reply("2"))
			defer first.Close()
			defer second.Close()
			t.Setenv("OPENAI_BASE_URL", second.URL)
			set := tt.how.set
			tt.how.set = func(c *config.Config) {
				if set != nil {
					set(c)
				}
				c.API.BaseURL, c.Rtr.Fallback = first.URL, []config.Fallback{{Provider: "openai", Model: "m2"}}
			}
			r := tt.how.start(t)
			text, err := r.infer(t.Context(), ask("hi", true), &chunks{})
			if err != nil || text != "2" {
				t.Fatalf("got %q, %v", text, err)
			}
			got := []string{first.Requests()[0].Header.Get("Authorization"), second.Requests()[0].Header.Get("Authorization")}
			if !slices.Equal(got, []string{"Bearer k-1", ""}) {
				t.Errorf("they got %q", got)
			}
		})
	}
}
