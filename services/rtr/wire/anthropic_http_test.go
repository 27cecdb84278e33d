package wire

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"zino/pkg/fakellm"
	"zino/proto"
	"zino/services/rtr/retry"
)

// anthropicServer runs a script and returns an endpoint for it.
func anthropicServer(t *testing.T, script ...fakellm.Turn) (*fakellm.Server, *Endpoint) {
	t.Helper()
	server := fakellm.New(script...)
	t.Cleanup(server.Close)
	base, err := url.Parse(server.Host)
	if err != nil {
		t.Fatal(err)
	}
	client := NewClient()
	t.Cleanup(client.CloseIdleConnections)
	ep := NewEndpoint(client, base, testKey, time.Minute)
	ep.KeyHint, ep.BaseHint = "ANTHROPIC_API_KEY", "anthropic_base_url"
	return server, ep
}

// TestAnthropicLoop goes through a turn with calls of tools: each request is
// legal, and reasoning goes back with its signature.
func TestAnthropicLoop(t *testing.T) {
	server, ep := anthropicServer(t,
		fakellm.Turn{Reasoning: "hm", Text: "I look.", Size: 2, Calls: []fakellm.Call{{Name: "a", Args: `{"x": 1}`}, {Name: "b", Args: "{}", Whole: true}}},
		fakellm.Turn{Calls: []fakellm.Call{{Name: "a"}}, Match: "result 2"},
		fakellm.Turn{Text: "Done.", Finish: "length", Usage: &fakellm.Usage{In: 9, Out: 5, CacheRead: 4, CacheWrite: 3}},
	)
	messages := `{"role":"user","content":"hi"}`
	var last proto.Text
	for n := 1; n <= 3; n++ {
		var g gathered
		req := ask(t, func(r *Request) { r.Raw = json.RawMessage("[" + messages + "]") })
		if err := Anthropic(t.Context(), ep, req, &g); err != nil {
			t.Fatal(err)
		}
		got, err := server.Wait(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		if err := got.Legal(); err != nil {
			t.Errorf("request %d: %v in %s", n, err, got.Body)
		}
		last = g.Finished()
		messages += nextMessages(t, last)
	}
	second := string(server.Requests()[1].Body)
	if !strings.Contains(second, `[{"signature":"sig-1","thinking":"hm","type":"thinking"},{"text":"I look.","type":"text"},{"id":"call_1","input":{"x": 1},"name":"a","type":"tool_use"}`) {
		t.Errorf("the answer did not go back as it came: %s", second)
	}
	want := proto.Usage{InputTokens: 9, OutputTokens: 5, CacheReadTokens: 4, CacheWriteTokens: 3}
	if last.Content != "Done." || last.StopReason != "length" || last.Usage == nil || *last.Usage != want {
		t.Errorf("got %+v", last)
	}
}

// nextMessages are an answer and the results of its calls, as messages.
func nextMessages(t *testing.T, answer proto.Text) string {
	t.Helper()
	if len(answer.ToolCalls) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString(`,{"role":"assistant","content":"` + answer.Content + `","tool_calls":` + string(answer.ToolCalls))
	if len(answer.State) > 0 {
		out.WriteString(`,"reasoning_state":` + string(answer.State))
	}
	out.WriteString("}")
	for i, call := range readCalls(answer.ToolCalls) {
		out.WriteString(`,{"role":"tool","tool_call_id":"` + call.ID + `","content":"result ` + string(rune('1'+i)) + `"}`)
	}
	return out.String()
}

// TestAnthropicFaults holds what becomes of answers with something wrong.
func TestAnthropicFaults(t *testing.T) {
	const incomplete = "ended before the answer was complete"
	for fault, wantErr := range map[fakellm.Fault]string{
		fakellm.HTML: "web page", fakellm.JSON: "where a stream was asked for", fakellm.ErrorEvent: "the provider reports: fakellm: the model failed",
		fakellm.ErrorBody: "the provider reports: fakellm: the model failed", fakellm.BadJSON: "not JSON", fakellm.BadUTF8: "not JSON",
		fakellm.NoFinish: incomplete, fakellm.CutChar: "", fakellm.OpenArgs: "", fakellm.Unknown: "", fakellm.CRLF: "",
		fakellm.NoSpace: "", fakellm.BOM: "", fakellm.NoEvent: "", fakellm.SplitData: "", fakellm.EmptyFinish: "",
	} {
		t.Run(string(fault), func(t *testing.T) {
			_, ep := anthropicServer(t, fakellm.Turn{
				Text: "Grüße 🌍", Size: 3, Reasoning: "hm", Calls: []fakellm.Call{{Name: "f", Args: `{"a":"ü"}`}}, Faults: []fakellm.Fault{fault},
			})
			var g gathered
			err := Anthropic(t.Context(), ep, ask(t, nil), &g)
			if wantErr != "" {
				if _, ok := errors.AsType[*Fault](err); !ok || !strings.Contains(err.Error(), wantErr) {
					t.Errorf("got %v, want %q", err, wantErr)
				}
				return
			}
			text := g.Text()
			if err != nil || !strings.HasPrefix(text, "Grüße 🌍") || !slices.Contains(g.words, "reasoning 0 hm") || !slices.Contains(g.words, "tool 0 call_1 f") {
				t.Errorf("got %.300q, %v", g.words, err)
			}
		})
	}
}

func TestAnthropicEnds(t *testing.T) {
	for end, want := range map[fakellm.End]string{
		fakellm.Done: "", fakellm.Mark: "", fakellm.Finish: "no end mark", fakellm.Cut: "no end mark", fakellm.Hangup: "broke", fakellm.Stall: "sent nothing for 0.1s",
	} {
		t.Run("end "+string(end), func(t *testing.T) {
			_, ep := anthropicServer(t, fakellm.Turn{Text: "half", End: end})
			ep.Stall = 100 * time.Millisecond
			var g gathered
			err := Anthropic(t.Context(), ep, ask(t, nil), &g)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("got %v, want %q", err, want)
			}
			if g.Text() != "half" {
				t.Errorf("%q is left of the text", g.Text())
			}
		})
	}
}

// TestAnthropicRefusals holds what the caller is told of a refusal, and that
// the key is not part of it.
func TestAnthropicRefusals(t *testing.T) {
	refusal := func(kind, message string) string {
		return `{"type":"error","error":{"type":"` + kind + `","message":"` + message + `"},"request_id":"req_1"}`
	}
	for _, tt := range []struct {
		status int
		body   string
		want   string
		class  retry.Class
	}{
		{400, refusal("invalid_request_error", "max_tokens: too large"), "HTTP 400: max_tokens: too large", retry.Stop},
		{401, refusal("authentication_error", "invalid x-api-key: "+quotedKey), "HTTP 401: invalid x-api-key: [hidden]", retry.Stop},
		{402, refusal("billing_error", "pay"), "HTTP 402: pay", retry.WaitLong},
		{404, refusal("not_found_error", "model: m"), "HTTP 404: model: m", retry.Stop},
		{429, refusal("rate_limit_error", "slow"), "HTTP 429: slow", retry.Retry},
		{429, `{"type":"error","error":{"type":"rate_limit_error","message":"spent","details":{"error_code":"enforced_spend_limit_reached"}}}`, "HTTP 429: spent", retry.WaitLong},
		{529, refusal("overloaded_error", "Overloaded"), "HTTP 529: Overloaded", retry.Retry},
	} {
		turn := fakellm.Failure(tt.status, tt.body)
		turn.Header = []string{"Retry-After: 7", "X-Echo: " + testKey}
		_, ep := anthropicServer(t, turn)
		f, ok := errors.AsType[*Fault](Anthropic(t.Context(), ep, ask(t, nil), &gathered{}))
		if !ok || f.Message != tt.want || f.Verdict.Class != tt.class || f.Status != tt.status {
			t.Fatalf("got %+v, want %s", f, tt.want)
		}
		if f.Verdict.Class == retry.Retry && f.Verdict.Wait != 7*time.Second {
			t.Errorf("%d: waits %v", tt.status, f.Verdict.Wait)
		}
		if all := f.Error() + f.Message + f.Details; strings.Contains(all, testKey) || strings.Contains(all, quotedKey) {
			t.Errorf("%d: the key stands in %q", tt.status, all)
		}
	}
}

// leaving is a caller that goes when the first text has come.
type leaving struct {
	gathered
	leave context.CancelFunc
}

func (l *leaving) Event(e Event) error {
	if e.Kind == Text {
		l.leave()
	}
	return l.gathered.Event(e)
}

func TestAnthropicCallerGoes(t *testing.T) {
	server, ep := anthropicServer(t, fakellm.Turn{Text: "half", Pause: "never"})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	if err := Anthropic(ctx, ep, ask(t, nil), &leaving{leave: leave}); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	select {
	case <-server.Requests()[0].Gone:
	case <-t.Context().Done():
		t.Error("the request goes on")
	}
}
