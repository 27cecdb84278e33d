package rtr

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// priced returns the configuration of a model's prices; negative ones are unset.
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

// TestUsage checks that an answer contains its token counts, and its cost if the
// prices are known.
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
		{"no cache prices", prices(priced("m", 1, 10, -1, -1)), fakellm.Turn{Usage: used}, proto.Infer{}, counted, 120*1 + 30*10},
		{"no output price", prices(priced("m", 1, -1, -1, -1)), fakellm.Turn{Usage: used}, proto.Infer{}, counted, unknown},
		{"prices from two entries", prices(priced("m", 1, -1, -1, -1), priced("other", 9, 9, 9, 9), priced("*", 5, 10, -1, -1)), fakellm.Turn{Usage: used}, proto.Infer{}, counted, 120*1 + 30*10},
		{"free", prices(priced("m", 0, 0, -1, -1)), fakellm.Turn{Usage: used}, proto.Infer{}, counted, 0},
		{"a cost from a provider without costs", nil, fakellm.Turn{Usage: &fakellm.Usage{In: 120, Out: 30}, Cost: "0.25"}, proto.Infer{}, plain, unknown},
		{"a reported cost", prices(priced("x/y", 1, 1, 1, 1)), fakellm.Turn{Usage: &fakellm.Usage{In: 120, Out: 30}, Cost: "0.25"}, proto.Infer{Provider: "openrouter", Model: "x/y"}, plain, 250000},
		{"no reported cost", nil, fakellm.Turn{Usage: &fakellm.Usage{In: 120, Out: 30}}, proto.Infer{Provider: "openrouter", Model: "x/y"}, plain, unknown},
		{"OpenRouter's free models", nil, fakellm.Turn{Usage: &fakellm.Usage{In: 120, Out: 30}}, proto.Infer{Provider: "openrouter", Model: "x/y:free"}, plain, 0},
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

// TestBuiltInPrices checks that the default models have a price and a window without
// any configuration, that entries override single fields, and that other servers on
// OpenAI's wire have no built-in values.
func TestBuiltInPrices(t *testing.T) {
	for _, v := range vendors {
		if _, ok := builtInFor(v.name, v.model); !ok && v.name != "openrouter" && v.name != "ollama" {
			t.Errorf("no built-in price for the default model %s", v.model)
		}
	}
	used := &fakellm.Usage{In: 120, Out: 30, CacheRead: 100, CacheWrite: 5}
	sonnet := 15*3 + 100*0.3 + 5*3.75 + 30*15.0 // in millionths of a dollar
	for _, tt := range []struct {
		name   string
		model  config.Model
		ask    string // model to request
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

// TestNoUsage checks that an answer without usage is reported without counts, and as
// unpriced in the ledger.
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

// TestReport checks the ledger's report after successful and failed requests.
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

// TestLedgerUnavailable checks that requests fail if the ledger cannot be opened and
// a budget is set, and succeed without a budget.
func TestLedgerUnavailable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	zinotest.Must(t, os.WriteFile(file, nil, 0o600))
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

// small is an answer that uses exactly its reservation: the question has 32 bytes,
// estimated at 8 tokens.
var small = fakellm.Turn{Text: "x", Usage: &fakellm.Usage{In: 8, Out: 16}, Times: fakellm.Forever}

// budgeted returns a function that starts routers over one ledger, with a budget and
// answers of at most 16 tokens.
func budgeted(t *testing.T, turn fakellm.Turn, change func(*config.Config)) (func() *router, *fakellm.Server) {
	t.Helper()
	alone(t)
	llm := fakellm.New(turn)
	t.Cleanup(llm.Close)
	t.Setenv("OPENAI_BASE_URL", llm.URL)
	dir := t.TempDir()
	return func() *router {
		return start(t, func(c *config.Config) {
			c.Provider, c.MaxTokens, c.Rtr.DataDir = "openai", 16, dir
			change(c)
		})
	}, llm
}

func usdPerDay(usd float64) func(*config.Config) {
	return func(c *config.Config) {
		c.Rtr.Model = []config.Model{priced("m", 10, 20, -1, -1)} // 0.0004 for a small answer
		c.Budget.USDPerDay = usd
	}
}

func tokensPerDay(n int64) func(*config.Config) {
	return func(c *config.Config) { c.Budget.TokensPerDay = n }
}

// TestBudget checks that a loop of requests stops at the limit, with two routers and
// a restart of one, streaming or not, and that the error says when the limit resets.
func TestBudget(t *testing.T) {
	silent := small
	silent.NoUsage = true
	for _, tt := range []struct {
		name, want string
		turn       fakellm.Turn
		set        func(*config.Config)
		answers    int
		spent      float64
	}{
		{"tokens", `[budget] tokens_per_day = 240 is reached: 240 tokens spent`, small, tokensPerDay(240), 10, 240},
		{"tokens, with a remainder", `[budget] tokens_per_day = 250 leaves too little for this request, which may take 24 tokens: 240 tokens spent`, small, tokensPerDay(250), 10, 240},
		{"tokens without a count", `[budget] tokens_per_day = 240 is reached: 240 tokens spent`, silent, tokensPerDay(240), 10, 240},
		{"dollars", `[budget] usd_per_day = 0.004 is reached: $0.0040 spent`, small, usdPerDay(0.004), 10, 0.004},
		{"dollars without a count", `[budget] usd_per_day = 0.004 is reached: $0.0040 spent`, silent, usdPerDay(0.004), 10, 0.004},
		{"both", `[budget] tokens_per_day = 72`, small, func(c *config.Config) { usdPerDay(0.004)(c); c.Budget.TokensPerDay = 72 }, 3, 0.0012},
	} {
		t.Run(tt.name, func(t *testing.T) {
			again, llm := budgeted(t, tt.turn, tt.set)
			routers := []*router{again(), again()}
			answers := 0
			var err error
			for ; err == nil && answers <= tt.answers; answers++ {
				if answers == 5 {
					routers[1].close()
					routers[1] = again()
				}
				_, err = routers[answers%2].infer(t.Context(), ask("hi", answers%3 == 0), &chunks{})
			}
			if e := failure(t, err); e.Code != proto.CodeBudget || !strings.HasPrefix(e.Message, tt.want) || answers != tt.answers+1 || len(llm.Requests()) != tt.answers {
				t.Errorf("got %+v after %d answers, %d requests", *e, answers-1, len(llm.Requests()))
			}
			checkEnd(t, err.Error())
			zinotest.Equal(t, "details", failure(t, err).Details, "")
			parking := ask("hi", false)
			parking.OnLimit = proto.OnLimitPark
			_, err = routers[0].infer(t.Context(), parking, &chunks{})
			if end, bad := time.Parse(time.RFC3339, failure(t, err).Details); bad != nil || !end.After(time.Now()) {
				t.Errorf("details with park: %v, %v", failure(t, err).Details, bad)
			}
			for _, r := range append(routers, again()) {
				for _, stream := range []bool{true, false} {
					if _, err := r.infer(t.Context(), ask("hi", stream), &chunks{}); !errors.Is(err, proto.ErrBudget) {
						t.Errorf("afterwards: got %v", err)
					}
				}
				report, err := r.report(t, proto.UsageRequest{})
				if err != nil || len(report.Budgets) == 0 || report.Budgets[0].Spent != tt.spent || report.Budgets[0].Reserved != 0 {
					t.Errorf("the ledger: %+v, %v", report.Budgets, err)
				}
			}
		})
	}
}

// checkEnd checks that a message says when the limit resets: at the next local
// midnight.
func checkEnd(t *testing.T, message string) {
	t.Helper()
	found := regexp.MustCompile(`starts anew at (\S+):`).FindStringSubmatch(message)
	if found == nil {
		t.Fatalf("no time of the reset in %q", message)
	}
	end, err := time.Parse(time.RFC3339, found[1])
	if left := time.Until(end); err != nil || left <= 0 || left > 25*time.Hour || end.Minute() != 0 {
		t.Errorf("ends at %s, %v", found[1], err)
	}
}

// TestBudgetAtOnce checks the limit with concurrent requests to two routers.
func TestBudgetAtOnce(t *testing.T) {
	again, llm := budgeted(t, small, tokensPerDay(240))
	routers := []*router{again(), again()}
	var answered atomic.Int64
	var asking sync.WaitGroup
	for i := range 30 {
		asking.Go(func() {
			_, err := routers[i%2].infer(t.Context(), ask("hi", i%3 == 0), &chunks{})
			if err == nil {
				answered.Add(1)
			} else if !errors.Is(err, proto.ErrBudget) {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	if n := answered.Load(); n != 10 || len(llm.Requests()) != 10 {
		t.Errorf("%d answers, %d requests", n, len(llm.Requests()))
	}
}

// TestBudgetOfSession checks that tokens_per_session limits each session separately.
func TestBudgetOfSession(t *testing.T) {
	again, _ := budgeted(t, small, func(c *config.Config) { c.Budget.TokensPerSession = 48 })
	r := again()
	for i, session := range []string{"a", "a", "b", "a", "", "b", "", "", "b"} {
		in := ask("hi", true)
		in.SessionID = session
		_, err := r.infer(t.Context(), in, &chunks{})
		if refused := i == 3 || i == 8; refused != errors.Is(err, proto.ErrBudget) || refused && !strings.Contains(err.Error(), "tokens_per_session = 48 is reached: 48 tokens spent") {
			t.Errorf("request %d, of %q: got %v", i, session, err)
		}
	}
}

// TestBudgetUnpriced checks that usd_per_day rejects a model without a known price.
func TestBudgetUnpriced(t *testing.T) {
	again, llm := budgeted(t, small, func(c *config.Config) { c.Budget.USDPerDay = 1 })
	_, err := again().infer(t.Context(), ask("hi", true), &chunks{})
	if e := failure(t, err); e.Code != proto.CodeBudget || !strings.Contains(e.Message, "no price is known for the model m of openai") || len(llm.Requests()) != 0 {
		t.Errorf("got %+v", *e)
	}
}

// TestBudgetShortens checks max_tokens of requests without a limit of their own: the
// default while the budget allows it, then half of what is left; and none for a local
// server until the budget runs short.
func TestBudgetShortens(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*config.Config)
		want []int // max_tokens of the requests
	}{
		{"OpenAI", tokensPerDay(40000), []int{16384, 16384, 3604}},
		{"a local server", func(c *config.Config) {
			c.API.BaseURL, c.Budget.TokensPerDay = os.Getenv("OPENAI_BASE_URL"), 40000
		}, []int{0, 0, 3604}},
		{"no budget", tokensPerDay(0), []int{16384, 16384, 16384}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			again, llm := budgeted(t, fakellm.Turn{Usage: &fakellm.Usage{In: 8, Out: 16}, Wait: "all", Times: fakellm.Forever}, func(c *config.Config) {
				tt.set(c)
				c.MaxTokens = 0
			})
			r := again()
			var asking sync.WaitGroup
			for i, want := range tt.want {
				asking.Go(func() {
					if _, err := r.infer(t.Context(), ask("hi", true), &chunks{}); err != nil {
						t.Error(err)
					}
				})
				req, err := llm.Wait(t.Context(), i+1)
				zinotest.Must(t, err)
				if got := askedFor(t, req); got != want {
					t.Errorf("request %d: max_tokens is %d, want %d", i+1, got, want)
				}
			}
			llm.Open("all")
			asking.Wait()
		})
	}
}

// TestBudgetOfFailures checks the cost of failed requests.
func TestBudgetOfFailures(t *testing.T) {
	for _, tt := range []struct {
		name  string
		turn  fakellm.Turn
		spent float64
	}{
		{"refused", refused(400), 0},
		{"always refused", times(fakellm.Forever, refused(500)), 0},
		{"cut, without a count", fakellm.Turn{Text: "x", End: fakellm.Cut}, 24},
		{"cut after the usage", stream(hello + `data: {"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":3}}` + "\n\n"), 11},
	} {
		t.Run(tt.name, func(t *testing.T) {
			again, _ := budgeted(t, tt.turn, tokensPerDay(1000))
			r := again()
			if _, err := r.infer(t.Context(), ask("hi", true), &chunks{}); err == nil {
				t.Error("no error")
			}
			report, err := r.report(t, proto.UsageRequest{})
			if err != nil || report.Budgets[0].Spent != tt.spent || report.Budgets[0].Reserved != 0 {
				t.Errorf("got %+v, %v", report.Budgets, err)
			}
		})
	}
}

// TestBudgetOfCanceled checks that a canceled request costs its whole reservation.
func TestBudgetOfCanceled(t *testing.T) {
	again, llm := budgeted(t, fakellm.Turn{Text: "x", End: fakellm.Stall}, tokensPerDay(1000))
	r := again()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := r.infer(ctx, ask("hi", true), &chunks{onChunk: cancel}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-llm.Requests()[0].Gone
	rpctest.WaitIdle(t, r.socket)
	report, err := r.report(t, proto.UsageRequest{})
	if err != nil || report.Budgets[0].Spent != 24 || report.Budgets[0].Reserved != 0 {
		t.Errorf("got %+v, %v", report.Budgets, err)
	}
}

// askedFor returns max_tokens of a request, 0 if missing.
func askedFor(t *testing.T, req *fakellm.Request) int {
	t.Helper()
	var body struct {
		MaxTokens int `json:"max_tokens"`
	}
	zinotest.Must(t, json.Unmarshal(req.Body, &body))
	return body.MaxTokens
}
