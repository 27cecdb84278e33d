package fakellm

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// ask posts a chat request and returns the response with its body open.
func ask(t *testing.T, ctx context.Context, s *Server, stream bool, text string) *http.Response {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"model": "m", "stream": stream, "stream_options": map[string]any{"include_usage": true},
		"messages": []any{map[string]string{"role": "user", "content": text}},
	})
	zinotest.Must(t, err)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/chat/completions", bytes.NewReader(body))
	zinotest.Must(t, err)
	req.Header.Set("Authorization", "Bearer k")
	resp, err := http.DefaultClient.Do(req)
	zinotest.Must(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// read returns the body and the error that ended it.
func read(resp *http.Response) (string, error) {
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func start(t *testing.T, turns ...Turn) *Server {
	s := New(turns...)
	t.Cleanup(s.Close)
	return s
}

func TestStream(t *testing.T) {
	first := `data: {"choices":[{"delta":{"content":"","role":"assistant"},"finish_reason":null,"index":0}],"created":0,"id":"chatcmpl-fake","model":"m","object":"chat.completion.chunk"}`
	tests := []struct {
		name     string
		turn     Turn
		contains []string // in this order
		lacks    []string
		broken   bool
	}{
		{name: "sized", turn: Turn{Text: "grüße", Size: 3}, contains: []string{
			first, `"content":"grü"`, `"content":"ße"`,
			`"finish_reason":"stop"`, `"choices":[]`, `"usage":{"completion_tokens":7`, "data: [DONE]\n\n",
		}},
		{name: "deltas", turn: Turn{Deltas: []string{"a", "", "b"}}, contains: []string{`"content":"a"`, `"content":""`, `"content":"b"`}},
		{name: "finish", turn: Turn{Text: "x", End: Finish}, contains: []string{`"stop"`}, lacks: []string{"[DONE]", "usage"}},
		{name: "mark", turn: Turn{Text: "x", End: Mark}, contains: []string{"[DONE]"}, lacks: []string{`"stop"`}},
		{name: "cut", turn: Turn{Text: "x", End: Cut}, contains: []string{`"x"`}, lacks: []string{`"stop"`, "[DONE]"}},
		{name: "hangup", turn: Turn{Text: "x", End: Hangup}, contains: []string{`"x"`}, lacks: []string{"[DONE]"}, broken: true},
		{name: "event", turn: Turn{Text: "x", Event: `{"error":"e"}`, End: Cut}, contains: []string{`"x"`, "data: {\"error\":\"e\"}\n\n"}},
		{name: "whole", turn: Turn{Text: "x", Whole: true}, contains: []string{`"message":{"content":"x","role":"assistant"}`}},
		{name: "body in bytes", turn: Turn{Status: 200, Text: "<html>", Type: "text/html", Size: 1}, contains: []string{"<html>"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, tt.turn)
			got, err := read(ask(t, t.Context(), s, true, "hi"))
			if (err != nil) != tt.broken {
				t.Errorf("body ended with %v", err)
			}
			rest := got
			for _, want := range tt.contains {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Errorf("missing or out of order: %q in\n%s", want, got)
				}
				rest = after
			}
			for _, bad := range tt.lacks {
				if strings.Contains(got, bad) {
					t.Errorf("%q in\n%s", bad, got)
				}
			}
		})
	}
}

func TestCollected(t *testing.T) {
	s := start(t, Reply("hello"))
	got, err := read(ask(t, t.Context(), s, false, "hi"))
	if err != nil || !strings.Contains(got, `"content":"hello"`) || !strings.Contains(got, `"object":"chat.completion"`) {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestOrderAndMatch(t *testing.T) {
	s := start(t, Turn{Match: "weather", Text: "rain"}, Turn{Text: "first"}, Turn{Text: "twice", Times: 2})
	for _, tt := range []struct{ ask, want string }{
		{"hello", "first"}, {"hello", "twice"}, {"the weather", "rain"}, {"the weather", "twice"}, {"hello", "no turn"},
	} {
		if got, err := read(ask(t, t.Context(), s, false, tt.ask)); err != nil || !strings.Contains(got, tt.want) {
			t.Errorf("%q: got %s, %v; want %q", tt.ask, got, err, tt.want)
		}
	}
	s.Add(Turn{Text: "ever", Times: Forever})
	for range 3 {
		if got, _ := read(ask(t, t.Context(), s, false, "x")); !strings.Contains(got, "ever") {
			t.Errorf("got %s", got)
		}
	}
	if n := s.Unused(); n != 1 {
		t.Errorf("%d turns unused, want the one that is used forever", n)
	}
}

func TestRecords(t *testing.T) {
	s := start(t, Turn{Status: 429, Text: `{"error":"slow"}`, Header: []string{"Retry-After: 2"}})
	resp := ask(t, t.Context(), s, true, "hi")
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "2" || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %d %v", resp.StatusCode, resp.Header)
	}
	req, err := s.Wait(t.Context(), 1)
	if err != nil || req.Header.Get("Authorization") != "Bearer k" || !strings.Contains(string(req.Body), `"content":"hi"`) {
		t.Errorf("got %+v, %v", req, err)
	}
	models, err := http.Get(s.URL + "/models")
	zinotest.Must(t, err)
	defer models.Body.Close()
	if list, err := read(models); err != nil || !strings.Contains(list, `"id":"fake-model"`) {
		t.Errorf("got %s, %v", list, err)
	}
	if all := s.Requests(); len(all) != 2 || all[1].Method != "GET" || all[1].Path != "/v1/models" {
		t.Errorf("got %d requests", len(all))
	}
	shown, err := http.Get(strings.TrimSuffix(s.URL, "/v1") + "/requests")
	zinotest.Must(t, err)
	defer shown.Body.Close()
	var list []map[string]any
	if err := json.NewDecoder(shown.Body).Decode(&list); err != nil || len(list) != 2 || list[0]["gone"] != false {
		t.Errorf("got %v, %v", list, err)
	}
}

func TestHungUp(t *testing.T) {
	for _, tt := range []struct {
		name string
		turn Turn
	}{
		{"in a stall", Turn{Text: "x", End: Stall}},
		{"at a gate after the text", Turn{Text: "x", Pause: "never"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, tt.turn)
			ctx, cancel := context.WithCancel(t.Context())
			ask(t, ctx, s, true, "hi")
			cancel()
			req, err := s.Wait(t.Context(), 1)
			zinotest.Must(t, err)
			<-req.Gone
			if !req.IsGone() {
				t.Error("not marked as gone")
			}
		})
	}
}

func TestGates(t *testing.T) {
	s := start(t, Turn{Text: "x", Wait: "one", Pause: "two"})
	opened, err := http.Post(strings.TrimSuffix(s.URL, "/v1")+"/open/one", "", nil)
	zinotest.Must(t, err)
	opened.Body.Close()
	resp := ask(t, t.Context(), s, true, "hi") // returns with the first bytes
	s.Open("two")
	s.Open("two")
	if got, err := read(resp); err != nil || !strings.Contains(got, "[DONE]") {
		t.Errorf("got %s, %v", got, err)
	}
	if s.Requests()[0].IsGone() {
		t.Error("a complete answer counts as hung up")
	}
}

func TestSilent(t *testing.T) {
	s := start(t, Turn{Silent: true, End: Hangup}, Turn{Silent: true, End: Stall})
	if resp, err := http.Post(s.URL+"/chat/completions", "", strings.NewReader("{}")); err == nil {
		t.Errorf("an answer to a request with the end hangup: %s", resp.Status)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := http.Post(s.URL+"/chat/completions", "", strings.NewReader("{}"))
		failed <- err
	}()
	if _, err := s.Wait(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if <-failed == nil {
		t.Error("an answer to a request with the end stall")
	}
}
