package wire

import (
	"fmt"
	"strings"
	"testing"
)

// toolDelta is an event with fragments of tool calls.
func toolDelta(fragments ...string) string {
	return delta(`"tool_calls":[` + strings.Join(fragments, ",") + `]`)
}

// TestCalls feeds tool calls in the forms in which servers send them.
func TestCalls(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events []string
		want   []string
	}{
		{
			"fragments, as OpenAI sends them",
			[]string{
				toolDelta(`{"index":0,"id":"1","type":"function","function":{"name":"f","arguments":""}}`),
				toolDelta(`{"index":0,"function":{"arguments":"{\"a"}}`), toolDelta(`{"index":0,"function":{"arguments":"\":1}"}}`),
			},
			[]string{"tool 0 1 f", `args 0 {"a":1}`},
		},
		{
			"two, their fragments mixed",
			[]string{
				toolDelta(`{"index":0,"id":"1","function":{"name":"f"}}`, `{"index":1,"id":"2","function":{"name":"g"}}`),
				toolDelta(`{"index":1,"function":{"arguments":"{\"b\":"}}`, `{"index":0,"function":{"arguments":"{}"}}`, `{"index":1,"function":{"arguments":"2}"}}`),
			},
			[]string{"tool 0 1 f", "tool 1 2 g", `args 1 {"b":`, "args 0 {}", "args 1 2}"},
		},
		{"whole", []string{toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{\"a\":1}"}}`)}, []string{"tool 0 1 f", `args 0 {"a":1}`}},
		{
			"two whole ones in an event",
			[]string{toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}}`, `{"index":1,"id":"2","function":{"name":"g","arguments":"{}"}}`)},
			[]string{"tool 0 1 f", "args 0 {}", "tool 1 2 g", "args 1 {}"},
		},
		{
			"whole, the index omitted",
			[]string{toolDelta(`{"id":"1","function":{"name":"f","arguments":"{}"}}`), toolDelta(`{"id":"2","function":{"name":"g","arguments":"{}"}}`)},
			[]string{"tool 0 1 f", "args 0 {}", "tool 1 2 g", "args 1 {}"},
		},
		{
			"fragments, the index omitted",
			[]string{
				toolDelta(`{"id":"1","function":{"name":"f","arguments":"{"}}`), toolDelta(`{"function":{"arguments":"}"}}`),
				toolDelta(`{"id":"2","function":{"name":"g","arguments":"{"}}`), toolDelta(`{"id":"2","function":{"arguments":"}"}}`),
			},
			[]string{"tool 0 1 f", "args 0 {}", "tool 1 2 g", "args 1 {}"},
		},
		{
			"the index omitted in later fragments",
			[]string{toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{"}}`), toolDelta(`{"function":{"arguments":"}"}}`)},
			[]string{"tool 0 1 f", "args 0 {}"},
		},
		{
			"the same index for all",
			[]string{
				toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{"}}`), toolDelta(`{"index":0,"function":{"arguments":"}"}}`),
				toolDelta(`{"index":0,"id":"2","function":{"name":"g","arguments":"{"}}`), toolDelta(`{"index":0,"function":{"arguments":"}"}}`),
			},
			[]string{"tool 0 1 f", "args 0 {}", "tool 1 2 g", "args 1 {}"},
		},
		{
			"the same index for all, and no ids",
			[]string{toolDelta(`{"index":0,"id":"","function":{"name":"f","arguments":"{\"a\":1}"}}`, `{"index":0,"id":"","function":{"name":"f","arguments":"{}"}}`)},
			[]string{"tool 0  f", `args 0 {"a":1}`, "tool 1  f", "args 1 {}"},
		},
		{
			"neither index nor id",
			[]string{toolDelta(`{"function":{"name":"f","arguments":"{}"}}`, `{"function":{"name":"g","arguments":"{}"}}`)},
			[]string{"tool 0  f", "args 0 {}", "tool 1  g", "args 1 {}"},
		},
		{
			"no ids",
			[]string{toolDelta(`{"index":0,"function":{"name":"f","arguments":"{"}}`), toolDelta(`{"index":0,"function":{"arguments":"}"}}`), toolDelta(`{"index":1,"function":{"name":"g","arguments":"{}"}}`)},
			[]string{"tool 0  f", "args 0 {}", "tool 1  g", "args 1 {}"},
		},
		{
			"id and name in every fragment",
			[]string{toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{\"a\":"}}`), toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"1}"}}`)},
			[]string{"tool 0 1 f", `args 0 {"a":1}`},
		},
		{
			"the name after the id",
			[]string{toolDelta(`{"index":0,"id":"1","type":"function"}`), toolDelta(`{"index":0,"function":{"name":"f","arguments":"{}"}}`)},
			[]string{"tool 0 1 f", "args 0 {}"},
		},
		{"arguments as an object", []string{toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":{"a": [1]}}}`)}, []string{"tool 0 1 f", `args 0 {"a": [1]}`}},
		{"no arguments", []string{toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":null}}`), toolDelta(`{"index":1,"id":"2","function":{"name":"g"}}`)}, []string{"tool 0 1 f", "tool 1 2 g"}},
		{"text before and behind", []string{delta(`"content":"a"`), toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}}`), delta(`"content":"b"`)}, []string{"text 0 a", "tool 0 1 f", "args 0 {}", "text 0 b"}},
		{"empty lists", []string{delta(`"tool_calls":[]`), delta(`"tool_calls":null`), delta(`"content":"a"`)}, []string{"text 0 a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			everyWay(t, OpenAI, ask(t, nil), sseData(append(tt.events, finish("tool_calls"))...), append(tt.want, "finish tool_calls"), "")
		})
	}
}

// TestCallsWhole holds that a completion in one piece has the same calls.
func TestCallsWhole(t *testing.T) {
	body := `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"a","reasoning_content":"hm","tool_calls":[` +
		`{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},{"type":"function","function":{"name":"g","arguments":"{\"b\":1}"},"extra_content":{"x":1}}]}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`
	everyWay(t, OpenAI, ask(t, func(r *Request) { r.Stream = false }), body, []string{
		"reasoning 0 hm", "text 0 a", "tool 0 1 f", "args 0 {}", "tool 1  g", `args 1 {"b":1}`, `used {"input_tokens":1,"output_tokens":2}`,
		`state {"provider":"openai","model":"m","content":{"fields":{"reasoning_content":"hm"},"calls":{"1":{"extra_content":{"x":1}}}}}`, "finish stop",
	}, "")
}

// TestOpaque holds that what has to go back with calls is kept: reasoning in
// the field of its provider, OpenRouter's details put together again, and what
// stands beside a call.
func TestOpaque(t *testing.T) {
	const call = `{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}}`
	for _, tt := range []struct {
		name, state string
		infer       Func
		events      []string
	}{
		{"DeepSeek's text", `{"provider":"openai","model":"m","content":{"fields":{"reasoning_content":"so \"it\" is"}}}`, OpenAI, []string{
			delta(`"reasoning_content":"so \"it"`), delta(`"reasoning_content":"\" is"`), toolDelta(call),
		}},
		{"OpenRouter's details", `{"provider":"openrouter","model":"m","content":{"fields":{"reasoning_details":[{"type":"reasoning.text","text":"a\nb","index":0,"signature":"s"},{"type":"reasoning.encrypted","data":"xyz","index":1,"id":"r"}]}}}`, OpenRouter, []string{
			delta(`"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a\n","index":0,"signature":null}]`),
			delta(`"reasoning":"b","reasoning_details":[{"type":"reasoning.text","text":"b","index":0}]`),
			delta(`"reasoning_details":[{"type":"reasoning.text","signature":"s","index":0},{"type":"reasoning.encrypted","data":"x","index":1,"id":"r"}]`),
			delta(`"reasoning_details":[{"type":"reasoning.encrypted","data":"yz","index":1}]`), toolDelta(call),
		}},
		{"details without an index", `{"provider":"openrouter","model":"m","content":{"fields":{"reasoning_details":[{"type":"t","text":"a"},{"type":"t","text":"b"}]}}}`, OpenRouter, []string{
			delta(`"reasoning_details":[{"type":"t","text":"a"}]`), delta(`"reasoning_details":[{"type":"t","text":"b"}]`), delta(`"reasoning_details":null`), toolDelta(call),
		}},
		{"Gemini's signature", `{"provider":"openai","model":"m","content":{"calls":{"0":{"extra_content":{"google":{"thought_signature":"s="}}}}}}`, OpenAI, []string{
			toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s="}}}`, `{"index":1,"id":"2","function":{"name":"g","arguments":"{}"}}`),
		}},
		{"nothing without calls", "", OpenRouter, []string{delta(`"reasoning_details":[{"type":"t","text":"a"}]`), delta(`"content":"a"`)}},
		{"no text of Ollama's", "", OpenAI, []string{delta(`"reasoning":"a"`), toolDelta(call)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := outcome(t, tt.infer, ask(t, nil), strings.NewReader(sseData(append(tt.events, finish("tool_calls"))...)))
			if err != nil {
				t.Fatal(err)
			}
			state := ""
			for _, w := range got {
				if s, ok := strings.CutPrefix(w, "state "); ok {
					state = s
				}
			}
			if state != tt.state {
				t.Errorf("got  %s\nwant %s", state, tt.state)
			}
		})
	}
}

// TestTooManyCalls holds that a stream which begins calls without end is ended.
func TestTooManyCalls(t *testing.T) {
	var events []string
	for i := range 2 * maxCalls {
		events = append(events, toolDelta(fmt.Sprintf(`{"index":%d,"id":"%d","function":{"name":"f","arguments":"{}"}}`, i, i)))
	}
	got, err := outcome(t, OpenAI, ask(t, nil), strings.NewReader(sseData(append(events, finish("tool_calls"))...)))
	if err == nil || !strings.Contains(err.Error(), "calls more than 4096 tools at once") || len(got) > 2*maxCalls+10 {
		t.Errorf("got %d events, %v", len(got), err)
	}
}
