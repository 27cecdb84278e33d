package rtr

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/proto"
)

// priced is what the configuration says of a model's price; a negative one is
// not said.
func priced(name string, input, output, read, write float64) config.Model {
	m := config.Model{Name: name}
	for _, p := range []struct {
		to    **float64
		price float64
	}{{&m.Input, input}, {&m.Output, output}, {&m.CacheRead, read}, {&m.CacheWrite, write}} {
		if p.price >= 0 {
			*p.to = &p.price
		}
	}
	return m
}

func prices(list ...config.Model) func(*config.Config) {
	return func(c *config.Config) { c.Rtr.Model = list }
}

// TestUsage holds that an answer tells what it took, and what that cost where
// anybody knows.
func TestUsage(t *testing.T) {
	used := &fakellm.Usage{In: 120, Out: 30, CacheRead: 100, CacheWrite: 5, Reasoning: 7}
	counted := proto.Usage{InputTokens: 120, OutputTokens: 30, CacheReadTokens: 100, CacheWriteTokens: 5, ReasoningTokens: 7}
	plain := proto.Usage{InputTokens: 120, OutputTokens: 30}
	const unknown = -1
	for _, tt := range []struct {
		name string
		set  func(*config.Config)
		turn fakellm.Turn
		in   proto.Infer
		want proto.Usage
		cost float64 // in millionths of a dollar
	}{
		{"no price", nil, fakellm.Turn{Usage: used}, proto.Infer{}, counted, unknown},
		{"all prices", prices(priced("m", 1, 10, 0.1, 2)), fakellm.Turn{Usage: used}, proto.Infer{}, counted, 15*1 + 100*0.1 + 5*2 + 30*10},
		{"no prices of the cache", prices(priced("m", 1, 10, -1, -1)), fakellm.Turn{Usage: used}, proto.Infer{}, counted, 120*1 + 30*10},
		{"half a price", prices(priced("m", 1, -1, -1, -1)), fakellm.Turn{Usage: used}, proto.Infer{}, counted, unknown},
		{"two halves", prices(priced("m", 1, -1, -1, -1), priced("other", 9, 9, 9, 9), priced("*", 5, 10, -1, -1)), fakellm.Turn{Usage: used}, proto.Infer{}, counted, 120*1 + 30*10},
		{"free", prices(priced("m", 0, 0, -1, -1)), fakellm.Turn{Usage: used}, proto.Infer{}, counted, 0},
		{"a cost that this provider cannot tell", nil, fakellm.Turn{Usage: &fakellm.Usage{In: 120, Out: 30}, Cost: "0.25"}, proto.Infer{}, plain, unknown},
		{"a cost that is told", prices(priced("x/y", 1, 1, 1, 1)), fakellm.Turn{Usage: &fakellm.Usage{In: 120, Out: 30}, Cost: "0.25"}, proto.Infer{Provider: "openrouter", Model: "x/y"}, plain, 250000},
		{"a cost that is not told", nil, fakellm.Turn{Usage: &fakellm.Usage{In: 120, Out: 30}}, proto.Infer{Provider: "openrouter", Model: "x/y"}, plain, unknown},
		{"OpenRouter's free ones", nil, fakellm.Turn{Usage: &fakellm.Usage{In: 120, Out: 30}}, proto.Infer{Provider: "openrouter", Model: "x/y:free"}, plain, 0},
	} {
		for _, stream := range []bool{true, false} {
			t.Run(tt.name, func(t *testing.T) {
				r, _ := toolRouter(t, tt.set, tt.turn)
				in := ask("hi", stream)
				in.Provider, in.Model = tt.in.Provider, tt.in.Model
				text, err := r.answer(t.Context(), in, &chunks{})
				if err != nil || text.Usage == nil {
					t.Fatalf("stream %v: got %+v, %v", stream, text, err)
				}
				got, cost := *text.Usage, float64(unknown)
				if got.CostUSD != nil {
					cost = *got.CostUSD * 1e6
				}
				got.CostUSD = nil
				if got != tt.want || math.Abs(cost-tt.cost) > 1e-6 {
					t.Errorf("stream %v: got %+v, %v millionths; want %+v, %v", stream, got, cost, tt.want, tt.cost)
				}
			})
		}
	}
}

// TestBuiltInPrices: the default models have a price and a window without any
// configuration, entries override single fields, and nothing is built in for a
// server that only has OpenAI's wire.
func TestBuiltInPrices(t *testing.T) {
	for _, v := range vendors {
		if _, ok := builtInFor(v.name, v.model); !ok && v.name != "openrouter" && v.name != "ollama" {
			t.Errorf("nothing is built in for the default model %s", v.model)
		}
	}
	used := &fakellm.Usage{In: 120, Out: 30, CacheRead: 100, CacheWrite: 5}
	sonnet := 15*3 + 100*0.3 + 5*3.75 + 30*15.0 // in millionths of a dollar
	for _, tt := range []struct {
		name   string
		model  config.Model
		ask    string // of Anthropic
		cost   float64
		window int
		dated  bool
	}{
		{"default", config.Model{Name: "-"}, "", sonnet, 200_000, true},
		{"snapshot", config.Model{Name: "-"}, "claude-sonnet-4-5-20250929", sonnet, 200_000, true},
		{"longer name", config.Model{Name: "-"}, "claude-sonnet-5-5-max", -1, 0, false},
		{"one field", config.Model{Name: "claude-*", Output: new(1.0)}, "", sonnet - 30*14, 200_000, true},
		{"all fields", priced("claude-*", 1, 1, 1, 1), "", 150, 200_000, false},
		{"context only", config.Model{Name: "claude-*", Context: 1000}, "", sonnet, 1000, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			alone(t)
			llm := fakellm.New(fakellm.Turn{Text: "x", Usage: used})
			defer llm.Close()
			t.Setenv("ANTHROPIC_BASE_URL", llm.Host)
			r := start(t, func(c *config.Config) {
				c.Provider, c.Service.Model, c.Rtr.Model = "anthropic", tt.ask, []config.Model{tt.model}
				c.Budget.USDPerDay = 1
			})
			text, err := r.answer(t.Context(), ask("hi", true), &chunks{})
			if tt.cost < 0 {
				if e := failure(t, err); e.Code != proto.CodeBudget {
					t.Errorf("got %+v, want a refusal", text)
				}
				return
			}
			if err != nil || math.Abs(*text.Usage.CostUSD*1e6-tt.cost) > 1e-6 || text.ContextWindow != tt.window {
				t.Errorf("got %+v, %+v, %v; want %v millionths", text, text.Usage, err, tt.cost)
			}
			report, err := r.report(t, proto.UsageRequest{})
			if err != nil || report.Budgets[0].Spent == 0 || tt.dated != (report.PricesOf == pricesDate) {
				t.Errorf("report %+v, %v", report, err)
			}
		})
	}
	llm := fakellm.New(fakellm.Turn{Text: "x", Usage: used})
	defer llm.Close()
	r := start(t, func(c *config.Config) { c.API.BaseURL, c.Service.Model = llm.URL, "gpt-6-luna" })
	if text, err := r.answer(t.Context(), ask("hi", true), &chunks{}); err != nil || text.Usage.CostUSD != nil || text.ContextWindow != 0 {
		t.Errorf("another server: %+v, %v", text, err)
	}
}

// TestNoUsage holds that an answer whose provider does not count says so.
func TestNoUsage(t *testing.T) {
	r, _ := toolRouter(t, prices(priced("m", 1, 1, 1, 1)), times(2, fakellm.Turn{Text: "x", NoUsage: true}))
	for _, stream := range []bool{true, false} {
		if text, err := r.answer(t.Context(), ask("hi", stream), &chunks{}); err != nil || text.Usage != nil {
			t.Errorf("got %+v, %v", text.Usage, err)
		}
	}
	report, err := r.report(t, proto.UsageRequest{By: "model"})
	if err != nil || len(report.Rows) != 1 || report.Rows[0].Key != "openai/m" || report.Rows[0].Requests != 2 || report.Rows[0].Unpriced != 2 {
		t.Errorf("got %+v, %v", report, err)
	}
}

// TestReport holds what the books tell of requests that ended well, and of
// those that did not.
func TestReport(t *testing.T) {
	r, _ := toolRouter(t, prices(priced("m", 1, 10, -1, -1)),
		fakellm.Turn{Text: "x", Usage: &fakellm.Usage{In: 100, Out: 10}},
		refused(400), refused(500),
		fakellm.Turn{Text: "x", Usage: &fakellm.Usage{In: 200, Out: 20}})
	in := ask("hi", true)
	in.SessionID = "s1"
	if _, err := r.answer(t.Context(), in, &chunks{}); err != nil {
		t.Error(err)
	}
	if _, err := r.answer(t.Context(), in, &chunks{}); failure(t, err).Status != 400 {
		t.Error(err)
	}
	in.SessionID = ""
	if _, err := r.answer(t.Context(), in, &chunks{}); err != nil { // after one retry
		t.Error(err)
	}
	report, err := r.report(t, proto.UsageRequest{By: "session"})
	if err != nil || len(report.Rows) != 2 || report.Total.Requests != 2 || report.Total.Usage.InputTokens != 300 || math.Abs(*report.Total.Usage.CostUSD-600e-6) > 1e-12 {
		t.Fatalf("got %+v, %v", report, err)
	}
	if one := report.Rows[1]; one.Key != "s1" || one.Usage.OutputTokens != 10 {
		t.Errorf("got %+v", one)
	}
	if _, err := r.report(t, proto.UsageRequest{By: "moon"}); failure(t, err).Code != proto.CodeInvalid {
		t.Errorf("got %v", err)
	}
}

// TestUnkept holds that a budget which cannot be kept lets nothing be asked,
// and that without one the books may be missing.
func TestUnkept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, limited := range []bool{true, false} {
		r, llm := toolRouter(t, func(c *config.Config) {
			if c.Rtr.DataDir = file + "/below"; limited {
				c.Budget.TokensPerDay = 1000
			}
		}, fakellm.Reply("x"))
		text, err := r.infer(t.Context(), ask("hi", true), &chunks{})
		stats, statsErr := rpc.Call(t.Context(), r.client, proto.GetStats, proto.StatsRequest{})
		if statsErr != nil {
			t.Fatal(statsErr)
		}
		if !limited {
			if err != nil || text != "x" || len(stats.Problems) != 0 {
				t.Errorf("got %q, %v, %q", text, err, stats.Problems)
			}
			continue
		}
		e := failure(t, err)
		if e.Code != proto.CodeUnavailable || !strings.Contains(e.Message, file) || len(llm.Requests()) != 0 || len(stats.Problems) != 1 || stats.Problems[0] != e.Message {
			t.Errorf("got %+v after %d requests; %q", *e, len(llm.Requests()), stats.Problems)
		}
		if _, err := r.report(t, proto.UsageRequest{}); failure(t, err).Code != proto.CodeUnavailable {
			t.Errorf("the report: %v", err)
		}
	}
}
