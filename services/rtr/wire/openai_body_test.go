package wire

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"zino/proto"
)

// compact takes the blanks out that the tests have between tokens.
func compact(s string) string {
	return strings.NewReplacer("}, {", "},{", "}  ,{", "},{", "\n", "").Replace(s)
}

// bodyFor is the body of a request for a model at a base URL.
func bodyFor(t *testing.T, base, name string, req *Request) string {
	t.Helper()
	var err error
	if req.Messages, err = ReadMessages(proto.Raw(req.Raw)); err != nil {
		t.Fatal(err)
	}
	req.Traits = TraitsOf(true, base, req.Model)
	body, err := completionBody(req, name)
	if err != nil || !json.Valid(body) {
		t.Fatalf("%s: %v", body, err)
	}
	return string(body)
}

func TestCompletionBody(t *testing.T) {
	const empty = `[]`
	const user = `[{"role":"user","content":"a"}]`
	messages := `[{"role":"system","content":"é <b> \u00fc \ud83c\udf0d"}, {"role":"assistant","content":null,"tool_calls":[{"id":"1","x":[1.50]}]},{"role":"tool","tool_call_id":"1","content":"r","extra":{"a":null}}]`
	tool := []Tool{{"f", "does <f>", json.RawMessage(`{"type": "object"}`)}}
	const toolJSON = `"tools":[{"type":"function","function":{"name":"f","description":"does <f>","parameters":{"type": "object"}}}]`
	for _, tt := range []struct {
		name, base string
		req        Request
		want       string
	}{
		{
			"as it came", "http://h/v1",
			Request{Model: "m", Raw: []byte(messages), TopP: 0.5, Stream: true},
			`{"messages":` + messages + `,"model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0,"top_p":0.5}`,
		},
		{
			"collected, limited", "http://h/v1",
			Request{Model: "m", Raw: []byte(empty), Temperature: 0.7, TopP: 1, MaxTokens: 100},
			`{"max_tokens":100,"messages":[],"model":"m","stream":false,"temperature":0.7,"top_p":1}`,
		},
		{
			"openai", openAIBase,
			Request{Model: "gpt-4.1", Raw: []byte(empty), Temperature: 0.7, TopP: 1, MaxTokens: 100},
			`{"max_completion_tokens":100,"messages":[],"model":"gpt-4.1","stream":false,"temperature":0.7,"top_p":1}`,
		},
		{
			"openai, reasoning", openAIBase,
			Request{Model: "gpt-6-luna", Raw: []byte(empty), Temperature: 0.7, TopP: 1},
			`{"messages":[],"model":"gpt-6-luna","stream":false}`,
		},
		{
			"openai, reasoning with tools", openAIBase,
			Request{Model: "gpt-6-luna", Raw: []byte(empty), Tools: tool},
			`{"messages":[],"model":"gpt-6-luna","stream":false,` + toolJSON + `}`,
		},
		{
			"tools", "http://h/v1",
			Request{Model: "m", Raw: []byte(empty), TopP: 1, Tools: tool},
			`{"messages":[],"model":"m","stream":false,"temperature":0,` + toolJSON + `,"top_p":1}`,
		},
		{
			"openrouter", "https://openrouter.ai/api/v1",
			Request{Model: "x/m", Raw: []byte(empty), TopP: 1},
			`{"messages":[],"model":"x/m","stream":false,"temperature":0,"top_p":1,"usage":{"include":true}}`,
		},
		{
			"claude continues", "https://gateway/v1",
			Request{Model: "anthropic/claude-x", Raw: []byte(`[{"role":"assistant","content":"a"}  ] `), TopP: 1},
			`{"messages":[{"role":"assistant","content":"a"},{"role":"user","content":"Continue."}],"model":"anthropic/claude-x","stream":false,"temperature":0}`,
		},
		{
			"claude after a user", "https://gateway/v1",
			Request{Model: "claude-x", Raw: []byte(user), TopP: 0.9},
			`{"messages":` + user + `,"model":"claude-x","stream":false,"temperature":0}`,
		},
		{"a new claude", "https://gateway/v1", Request{Model: "claude-opus-4.8", Raw: []byte(user), TopP: 0.9}, `{"messages":` + user + `,"model":"claude-opus-4.8","stream":false}`},
		{
			"mistral", "https://api.mistral.ai/v1",
			Request{Model: "m", Raw: []byte(`[{"role":"assistant","content":"b","tool_calls":null}]`), TopP: 1, Stream: true},
			`{"messages":[{"role":"assistant","content":"b","tool_calls":null},{"role":"user","content":"Continue."}],"model":"m","stream":true,"temperature":0,"top_p":1}`,
		},
		{
			"surrogates", "http://h/v1",
			Request{Model: "m", Raw: []byte(`[{"role":"user","content":"\ud83c\udf0d \ud800 \udc00\\ud800\uD83Cx\ud800\ud83c\udf0d"}]`)},
			`{"messages":[{"role":"user","content":"\ud83c\udf0d \ufffd \ufffd\\ud800\ufffdx\ufffd\ud83c\udf0d"}],"model":"m","stream":false,"temperature":0,"top_p":0}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := "openai"
			if strings.Contains(tt.base, "openrouter") {
				name = "openrouter"
			}
			if got := bodyFor(t, tt.base, name, &tt.req); compact(got) != compact(tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestContinue holds where the user is made to speak.
func TestContinue(t *testing.T) {
	const more = `,{"role":"user","content":"Continue."}]`
	const called = `[{"role":"assistant","tool_calls":[{"id":"1"}]},{"role":"tool","tool_call_id":"1","content":"r"}]`
	for _, tt := range []struct{ in, want string }{
		{`[]`, `[]`},
		{`[{"role":"user"}]`, `[{"role":"user"}]`},
		{called, called},
		{`[{"role":"assistant","content":"a"}]`, `[{"role":"assistant","content":"a"}` + more},
		{"[ {\"role\":\"user\"} , {\"role\":\"assistant\",\"content\":\"]\"} ]\n", `[{"role":"user"},{"role":"assistant","content":"]"}` + more},
	} {
		for _, needs := range []bool{true, false} {
			req := ask(t, func(r *Request) { r.Raw, r.Traits.NoAssistantLast = json.RawMessage(tt.in), needs })
			want := tt.want
			if !needs {
				want = tt.in // verbatim
			}
			if got := string(completionMessages(req, "openai")); got != want {
				t.Errorf("%s, needed %v: got %s, want %s", tt.in, needs, got, want)
			}
		}
	}
}

// TestMended holds that a conversation which no provider takes is put in order
// for the wire.
func TestMended(t *testing.T) {
	req := ask(t, func(r *Request) {
		r.Raw = json.RawMessage(`[{"role":"user","content":"u"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]},{"role":"user","content":"v"},{"role":"tool","tool_call_id":"9","content":"r"},{"role":"assistant","content":""}]`)
	})
	want := `[{"role":"user","content":"u"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"1","content":` + jsonString(t, lost) + `},{"role":"user","content":"v"}]`
	if got := string(completionMessages(req, "openai")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func jsonString(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestStateGoesBack holds that what came with calls beyond their form goes back
// in its places, to the model that it came from and to no other.
func TestStateGoesBack(t *testing.T) {
	const state = `{"fields":{"reasoning_content":"hm","reasoning_details":[{"type":"reasoning.text","signature":"s"}]},"calls":{"1":{"extra_content":{"google":{"thought_signature":"t"}}}}}`
	for _, tt := range []struct {
		provider, model string
		backs           bool
	}{{"openai", "m", true}, {"openai", "other", false}, {"openrouter", "m", false}} {
		req := ask(t, func(r *Request) {
			r.Raw = json.RawMessage(`[{"role":"user","content":"u"},{"role":"assistant","content":null,"x":1,"tool_calls":[{"id":"1"},{"id":"2","y":2}],"reasoning_state":` + string(newState(tt.provider, tt.model, []byte(state))) +
				`},{"role":"tool","tool_call_id":"1","content":"r"},{"role":"tool","tool_call_id":"2","content":"r"}]`)
		})
		var got []map[string]any
		if err := json.Unmarshal(completionMessages(req, "openai"), &got); err != nil {
			t.Fatal(err)
		}
		second := map[string]any{"id": "2", "y": 2.0}
		want := map[string]any{"role": "assistant", "content": nil, "x": 1.0, "tool_calls": []any{map[string]any{"id": "1"}, second}}
		if tt.backs {
			second["extra_content"] = map[string]any{"google": map[string]any{"thought_signature": "t"}}
			want["reasoning_content"] = "hm"
			want["reasoning_details"] = []any{map[string]any{"type": "reasoning.text", "signature": "s"}}
		}
		if !reflect.DeepEqual(got[1], want) {
			t.Errorf("%s %s: got %v, want %v", tt.provider, tt.model, got[1], want)
		}
	}
}
