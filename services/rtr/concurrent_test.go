package rtr

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/proto"
)

// TestManyAtOnce holds that answers do not mix, with their calls and usages.
func TestManyAtOnce(t *testing.T) {
	const many = 50
	alone(t)
	var script []fakellm.Turn
	for i := range many {
		script = append(script, fakellm.Turn{
			Match: fmt.Sprintf("question %02d.", i), Text: fmt.Sprintf("answer %02d", i), Size: 1, Usage: &fakellm.Usage{In: 100 + i, Out: 1},
			Calls: []fakellm.Call{{Name: "f", ID: fmt.Sprintf("id-%02d", i), Args: fmt.Sprintf(`{"n":%d}`, i)}},
		})
	}
	llm := fakellm.New(script...)
	defer llm.Close()
	t.Setenv("OPENAI_BASE_URL", llm.URL)
	r := start(t, func(c *config.Config) { c.Provider, c.Budget.TokensPerDay = "openai", 1<<40 })
	var asking sync.WaitGroup
	for i := range many {
		asking.Go(func() {
			var got chunks
			in := ask(fmt.Sprintf("question %02d.", i), i%5 != 0)
			in.Tools, in.SessionID = oneTool, fmt.Sprintf("s%d", i)
			text, err := r.answer(t.Context(), in, &got)
			want := fmt.Sprintf("answer %02d", i)
			calls := fmt.Sprintf(`[{"id":"id-%02d","type":"function","function":{"name":"f","arguments":"{\"n\":%d}"}}]`, i, i)
			if err != nil || text.Content != want || in.Stream && got.text() != want || string(text.ToolCalls) != calls || text.Usage == nil || text.Usage.InputTokens != int64(100+i) {
				t.Errorf("question %d: got %+v, streamed %q, %v", i, text, got.text(), err)
			}
		})
	}
	asking.Wait()
	if n := llm.Unused(); n != 0 {
		t.Errorf("%d answers nobody asked for", n)
	}
	report, err := r.report(t, proto.UsageRequest{By: "session"})
	if err != nil || len(report.Rows) != many || report.Total.Usage.InputTokens != many*100+many*(many-1)/2 || report.Budgets[0].Reserved != 0 {
		t.Errorf("the books hold %d sessions, %+v, %+v, %v", len(report.Rows), report.Total, report.Budgets, err)
	}
}

// TestCancelWhileDeciding holds that a caller who goes while somebody else
// looks for a model does not wait, and that what failed then is not kept.
func TestCancelWhileDeciding(t *testing.T) {
	r := start(t, func(c *config.Config) { c.Provider = "auto" })
	<-r.resolving // somebody looks
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.target(ctx, selector{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r.replace(ctx, nil, nil)
	stats := proto.Stats{}
	r.stats(&stats) // does not wait either
	r.resolving <- struct{}{}
	if _, err := r.target(ctx, selector{}); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if caps := r.caps(t); caps.Provider != "offline" {
		t.Errorf("got %+v", caps)
	}
}
