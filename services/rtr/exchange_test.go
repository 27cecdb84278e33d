package rtr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/proto"
)

// watching is a sink that looks at the exchange's clock whenever text or a
// flush comes to it.
type watching struct {
	x       *exchange
	running bool // the clock ran while the caller had the turn
	fail    error
}

func (w *watching) Text([]byte) error { return w.Flush() }

func (w *watching) Flush() error {
	if w.x.timer.Stop() {
		w.running = true
	}
	return w.fail
}

// TestSlowCallerIsNoStall holds that the provider's clock stands still while
// the caller is written to.
func TestSlowCallerIsNoStall(t *testing.T) {
	llm := fakellm.New(fakellm.Turn{Text: strings.Repeat("x", 2000), Size: 10})
	defer llm.Close()
	x, sink := beginWatched(t, llm.URL)
	req, err := http.NewRequestWithContext(x.ctx, http.MethodPost, llm.URL+"/chat/completions", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := x.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := io.ReadAll(resp.Body)
	x.end()
	if err != nil || strings.Count(string(lines), `"content":"xxxxxxxxxx"`) != 200 {
		t.Errorf("got %d bytes, %v", len(lines), err)
	}
	if sink.running {
		t.Error("the provider's clock ran while the caller was written to")
	}
}

// beginWatched begins an exchange whose sink watches its clock.
func beginWatched(t *testing.T, base string) (*exchange, *watching) {
	t.Helper()
	u, err := parseBase(base)
	if err != nil {
		t.Fatal(err)
	}
	client := newClient()
	t.Cleanup(client.CloseIdleConnections)
	e := newEndpoint(client, settings{base: u, model: "m", stall: 3600e9})
	sink := &watching{}
	body, err := e.request(ask("hi", true))
	if err != nil {
		t.Fatal(err)
	}
	sink.x = e.begin(t.Context(), body, true, sink)
	return sink.x, sink
}

// TestCallerGone holds that a caller that cannot be written to ends the
// exchange with the error of writing.
func TestCallerGone(t *testing.T) {
	llm := fakellm.New(fakellm.Turn{Text: "x", End: fakellm.Stall})
	defer llm.Close()
	x, sink := beginWatched(t, llm.URL)
	sink.fail = errors.New("broken pipe")
	req, err := http.NewRequestWithContext(x.ctx, http.MethodPost, llm.URL+"/chat/completions", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = x.Do(req); err != sink.fail {
		t.Errorf("got %v", err)
	}
	x.end()
	<-llm.Requests()[0].Gone
}

// TestManyAtOnce holds that answers do not mix.
func TestManyAtOnce(t *testing.T) {
	var script []fakellm.Turn
	for i := range 20 {
		script = append(script, fakellm.Turn{Match: fmt.Sprintf("question %02d.", i), Text: fmt.Sprintf("answer %02d", i), Size: 1})
	}
	r, llm := openaiRouter(t, script...)
	var asking sync.WaitGroup
	for i := range 20 {
		asking.Go(func() {
			var got chunks
			text, err := r.infer(t.Context(), ask(fmt.Sprintf("question %02d.", i), i%2 == 0), &got)
			if want := fmt.Sprintf("answer %02d", i); err != nil || text != want || i%2 == 0 && got.text() != want {
				t.Errorf("question %d: got %q, streamed %q, %v", i, text, got.text(), err)
			}
		})
	}
	asking.Wait()
	if n := llm.Unused(); n != 0 {
		t.Errorf("%d answers nobody asked for", n)
	}
}

// TestCancelWhileDeciding holds that a caller who goes while somebody else
// looks for a model does not wait, and that what failed then is not kept.
func TestCancelWhileDeciding(t *testing.T) {
	r := start(t, func(c *config.Config) { c.Provider = "auto" })
	<-r.deciding // somebody looks
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.backend(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r.forget(ctx, nil)
	stats := proto.Stats{}
	r.stats(&stats) // does not wait either
	r.deciding <- struct{}{}
	if _, err := r.backend(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if caps := r.caps(t); caps.Provider != "offline" {
		t.Errorf("got %+v", caps)
	}
}

func TestStatsOfAModel(t *testing.T) {
	r, llm := openaiRouter(t)
	r.caps(t)
	stats, err := rpc.Call(t.Context(), r.client, proto.GetStats, proto.StatsRequest{})
	if err != nil || stats.Info["endpoint"] != llm.URL || stats.Info["model"] != "m" || stats.Info["provider"] != "openai" || len(stats.Problems) != 0 {
		t.Errorf("got %+v, %v", stats, err)
	}
}

// TestModelsRefused holds what is said of a server that does not list its
// models.
func TestModelsRefused(t *testing.T) {
	for _, tt := range []struct {
		name, body, want string
		status           int
	}{
		{"wants a key", `{"error":{"message":"no key ` + quotedKey + `"}}`, "HTTP 401: no key [hidden]", 401},
		{"has no such list", `not found`, "HTTP 404: not found; or set [service] model", 404},
		{"has a page", `<html>`, "no list of models: set [service] model", 200},
		{"is empty", `{"data":[]}`, "no model: load one there", 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := answering(func() io.Reader { return strings.NewReader(tt.body) })
			e.client.Transport = withStatus(e.client.Transport, tt.status)
			_, err := e.firstModel(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			noSecret(t, "the error", err.Error())
		})
	}
}

func withStatus(rt http.RoundTripper, status int) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		resp, err := rt.RoundTrip(req)
		resp.StatusCode = status
		return resp, err
	})
}

func TestWholeTooLarge(t *testing.T) {
	body := io.MultiReader(strings.NewReader(`{"choices":[`), strings.NewReader(strings.Repeat(" ", 17<<20)))
	_, err := answering(func() io.Reader { return body }).infer(t.Context(), ask("hi", false), &chunks{})
	if !errors.Is(err, proto.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}
