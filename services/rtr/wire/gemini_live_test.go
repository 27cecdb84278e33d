package wire

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"zino/pkg/fakellm"
	"zino/proto"
)

// endpointAt is an endpoint of a real server.
func endpointAt(t testing.TB, base string) *Endpoint {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	client := NewClient()
	t.Cleanup(client.CloseIdleConnections)
	ep := NewEndpoint(client, u, testKey, time.Minute)
	ep.KeyHint, ep.BaseHint = "THE_KEY", "the_base_url"
	return ep
}

// wires are wires of a fake provider, with the path of its base URL.
var wires = []struct {
	name  string
	infer Func
	path  string
}{{"gemini", Gemini, ""}, {"ollama", Ollama, ""}, {"responses", Responses, "/v1"}}

// TestLive holds, over real connections, that an answer comes as it was
// scripted, and that connections are used again: at once where the end of the
// body was read, else as soon as it has been read in the background.
func TestLive(t *testing.T) {
	script := fakellm.Turn{
		Reasoning: "It needs the clock.", Deltas: []string{"Grü", "ße 🌍", "\n\"now\""}, Times: fakellm.Forever,
		Calls: []fakellm.Call{{Name: "bash", Args: `{"code":"date"}`}, {Name: "clock", Args: "{}"}},
		Usage: &fakellm.Usage{In: 120, Out: 30, CacheRead: 100, Reasoning: 12},
	}
	for _, tt := range wires {
		t.Run(tt.name, func(t *testing.T) {
			server := fakellm.New(script)
			defer server.Close()
			ep := endpointAt(t, server.Host+tt.path)
			for range 100 {
				if n := connections(server); n < len(server.Requests()) {
					break
				}
				var g gathered
				if err := tt.infer(context.Background(), ep, ask(t, nil), &g); err != nil {
					t.Fatal(err)
				}
				text := g.Finished()
				if text.Content != "Grüße 🌍\n\"now\"" || text.StopReason != "tool_calls" || text.Usage.InputTokens != 120 || text.Usage.OutputTokens != 30 {
					t.Errorf("got %+v", text)
				}
				if !strings.Contains(string(text.ToolCalls), `"name":"bash","arguments":"{\"code\":\"date\"}"`) || g.words[0] != "reasoning 0 It needs the clock." || text.State == nil {
					t.Errorf("got %s, %q", text.ToolCalls, g.words)
				}
			}
			requests := server.Requests()
			if n := connections(server); n == len(requests) || n > 1 && tt.name == "gemini" {
				t.Errorf("%d requests came on %d connections", len(requests), n)
			}
			if err := requests[0].Legal(); err != nil {
				t.Error(err)
			}
		})
	}
}

// connections is the number of connections on which requests came.
func connections(server *fakellm.Server) int {
	from := map[string]bool{}
	for _, r := range server.Requests() {
		from[r.From] = true
	}
	return len(from)
}

// TestLiveLoop goes through a turn with two rounds of calls, and holds that
// what each answer gave goes back in the requests after it.
func TestLiveLoop(t *testing.T) {
	for _, tt := range wires {
		t.Run(tt.name, func(t *testing.T) {
			server := fakellm.New(
				fakellm.Turn{Reasoning: "first", Calls: []fakellm.Call{{Name: "f", Args: `{"a":1}`}, {Name: "g", Args: `{}`, NoID: tt.name != "responses"}}}, // which demands one
				fakellm.Turn{Reasoning: "second", Text: "More.", Calls: []fakellm.Call{{Name: "f", Args: `{"a":2}`}}},
				fakellm.Reply("Done."))
			defer server.Close()
			ep, conversation := endpointAt(t, server.Host+tt.path), `{"role":"user","content":"go"}`
			for range 3 {
				var g gathered
				req := ask(t, func(r *Request) { r.Raw = []byte("[" + conversation + "]") })
				if err := tt.infer(context.Background(), ep, req, &g); err != nil {
					t.Fatal(err)
				}
				text := g.Finished()
				conversation += "," + asMessage(text)
				for _, c := range readCalls(text.ToolCalls) {
					conversation += `,{"role":"tool","tool_call_id":"` + c.ID + `","content":"{\"ok\":true}"}`
				}
			}
			requests := server.Requests()
			for i, r := range requests {
				if err := r.Legal(); err != nil {
					t.Errorf("request %d: %s: %v", i, r.Body, err)
				}
			}
			kept := map[string][]string{"gemini": {`"c2lnLTE="`, `"c2lnLTI="`}, "ollama": {`"thinking":"first"`, `"thinking":"second"`}, "responses": {`"encrypted_content":"sig-1"`, `"encrypted_content":"sig-2"`}}[tt.name]
			last := string(requests[2].Body)
			if !strings.Contains(string(requests[1].Body), kept[0]) || !strings.Contains(last, kept[0]) || !strings.Contains(last, kept[1]) {
				t.Errorf("the last request is %s", last)
			}
		})
	}
}

// TestLiveFaults goes through all that a fake provider can do wrong.
func TestLiveFaults(t *testing.T) {
	want := map[fakellm.Fault]string{
		fakellm.HTML: "with a web page", fakellm.JSON: "JSON where a stream", fakellm.ErrorEvent: "reports: fakellm: the model failed",
		fakellm.ErrorBody: "reports: fakellm: the model failed", fakellm.OpenArgs: "(MALFORMED_FUNCTION_CALL)",
		fakellm.BadJSON: "not JSON", fakellm.BadUTF8: "not JSON", fakellm.NoFinish: "ended before", fakellm.EmptyFinish: "ended before",
	}
	others := map[fakellm.Fault]string{
		fakellm.JSON: "", fakellm.EmptyFinish: "", fakellm.OpenArgs: "reports: error parsing tool call",
	}
	faults := slices.DeleteFunc(fakellm.Faults(), func(f fakellm.Fault) bool {
		return f == fakellm.LongLine || f == fakellm.Comments // take long, and both readers have tests of their own for them
	})
	for _, tt := range wires {
		for _, fault := range faults {
			wanted := want[fault]
			if other, ok := others[fault]; ok && tt.name == "ollama" {
				wanted = other
			}
			if fault == fakellm.OpenArgs && tt.name == "responses" {
				wanted = "" // a text there
			}
			t.Run(tt.name+"/"+string(fault), func(t *testing.T) {
				server := fakellm.New(fakellm.Turn{Text: "Grüße 🌍", Size: 3, Faults: []fakellm.Fault{fault}})
				defer server.Close()
				var g gathered
				err := tt.infer(context.Background(), endpointAt(t, server.Host+tt.path), ask(t, nil), &g)
				if (err == nil) != (wanted == "") || err != nil && !strings.Contains(err.Error(), wanted) {
					t.Errorf("got %v, want %q", err, wanted)
				}
				if text := g.Text(); err == nil && !strings.HasPrefix(text, "Grüße 🌍") || !strings.HasPrefix("Grüße 🌍", text[:min(len(text), 5)]) {
					t.Errorf("got %.100q", text)
				}
			})
		}
	}
}

// TestLiveStatus holds that a refusal is told in the provider's words, and is
// classified.
func TestLiveStatus(t *testing.T) {
	for _, tt := range wires {
		for status, code := range map[int]proto.Code{400: proto.CodeInvalid, 401: proto.CodeDenied, 404: proto.CodeNotFound, 429: proto.CodeBusy, 503: proto.CodeUnavailable} {
			server := fakellm.New(fakellm.Failure(status, `{"error":{"message":"No. `+quotedKey+`"}}`))
			err := tt.infer(context.Background(), endpointAt(t, server.Host+tt.path), ask(t, nil), &gathered{})
			e, ok := errors.AsType[*proto.Error](err)
			if !ok || e.Code != code || !strings.HasSuffix(e.Message, ": No. [hidden]") || strings.Contains(e.Details, testKey) {
				t.Errorf("%s, %d: got %#v", tt.name, status, e)
			}
			server.Close()
		}
	}
}

// TestLiveGone holds that a caller that goes takes the request along, before
// the first byte and in the middle.
func TestLiveGone(t *testing.T) {
	for _, tt := range wires {
		for name, turn := range map[string]fakellm.Turn{"before": {Silent: true, End: fakellm.Stall}, "within": {Text: "a", End: fakellm.Stall}} {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				server := fakellm.New(turn)
				defer server.Close()
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				go func() {
					if _, err := server.Wait(ctx, 1); err == nil {
						cancel()
					}
				}()
				if err := tt.infer(ctx, endpointAt(t, server.Host+tt.path), ask(t, nil), &gathered{}); err != context.Canceled {
					t.Errorf("got %v", err)
				}
				<-server.Requests()[0].Gone
			})
		}
	}
}

// TestLiveStall holds that a provider that goes silent is not waited for
// without end, and that what it said before is not lost.
func TestLiveStall(t *testing.T) {
	for _, tt := range wires {
		server := fakellm.New(fakellm.Turn{Text: "a", End: fakellm.Stall, Times: fakellm.Forever})
		ep, text := endpointAt(t, server.Host+tt.path), ""
		for ep.Stall = 40 * time.Millisecond; text == "" && ep.Stall < time.Minute; ep.Stall *= 4 { // on a busy machine even "a" can take long
			var g gathered
			err := tt.infer(context.Background(), ep, ask(t, nil), &g)
			if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeTimeout {
				t.Errorf("%s: got %v", tt.name, err)
			}
			text = g.Text()
		}
		if text != "a" {
			t.Errorf("%s: got %q", tt.name, text)
		}
		server.Close()
	}
}
