package wire

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"zino/proto"
)

func TestReadMessages(t *testing.T) {
	list, err := ReadMessages(proto.Raw(`[{"role":"developer","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{}},{"type":"text","text":"b"}]},
		{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"function":{"name":"g","arguments":{"y": 2}}}],"reasoning_state":{"a":1}},
		{"role":"tool","tool_call_id":"1","content":"{\"ok\":false}"}]`))
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i].Text = list[i].Said()
		list[i].Raw, list[i].content = nil, nil
	}
	want := []Message{
		{Role: "system", Text: "ab"},
		{Role: "assistant", Calls: []Call{{"1", "f", `{"x":1}`}, {"", "g", `{"y": 2}`}}, State: json.RawMessage(`{"a":1}`)},
		{Role: "tool", CallID: "1", Text: `{"ok":false}`, Failed: true},
	}
	if !reflect.DeepEqual(list, want) {
		t.Errorf("got %+v", list)
	}
}

func TestReadMessagesRefuses(t *testing.T) {
	for _, tt := range []struct{ raw, want string }{
		{`{}`, "messages must be a list"},
		{`["x"]`, "messages must be a list"},
		{`[{"content":"x"}]`, "messages[0] has no string role"},
		{`[{"role":null}]`, "messages[0] has no string role"},
		{`[{"role":1}]`, "messages must be a list"},
		{`[null]`, "messages[0] has no string role"},
		{"[\"\xff\"]", "not UTF-8"},
		{`[{"role":"user"}`, "messages must be a list"},
	} {
		if _, err := ReadMessages(proto.Raw(tt.raw)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.raw, err, tt.want)
		}
	}
}

func TestReadTools(t *testing.T) {
	tools, err := ReadTools(proto.Raw(`[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}},{"type":"function","function":{"name":"g"}}]`))
	if err != nil || len(tools) != 2 || tools[0].Description != "d" || string(tools[0].Parameters) != `{"type":"object"}` || string(tools[1].Parameters) != `{"type":"object","properties":{}}` {
		t.Errorf("got %+v, %v", tools, err)
	}
	for _, raw := range []string{`{}`, `[{}]`, `[{"function":{"name":""}}]`, `[1]`, "[\"\xff\"]"} {
		if _, err := ReadTools(proto.Raw(raw)); err == nil {
			t.Errorf("%s passed", raw)
		}
	}
	for _, raw := range []string{"", "null", "[]"} {
		if tools, err := ReadTools(proto.Raw(raw)); err != nil || len(tools) != 0 {
			t.Errorf("%q: got %v, %v", raw, tools, err)
		}
	}
}

// FuzzMessages holds that what passes for a list of messages is one, that
// mending it leaves valid JSON of the same meaning for everything but lone
// surrogates, and that what goes out is legal and can be read again.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(`[{"role":"user","content":"\ud83c\udf0d \ud800\\ud800"}]`))
	f.Add([]byte(`[{"role":"assistant","content":[{"type":"text","text":"a"}],"tool_calls":null}]`))
	f.Add([]byte(`[null]`))
	f.Add([]byte(`[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}},{"id":"1"}],"reasoning_state":{"provider":"openai","model":"m","content":{"fields":{"a":1},"calls":{"0":{"b":2}}}}},{"role":"tool","tool_call_id":"1","content":"x"}]`))
	f.Add([]byte(`[{"role":"tool","tool_call_id":"2","content":"x"},{"role":"assistant","content":""}]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		before, err := ReadMessages(raw)
		if err != nil {
			return
		}
		if !json.Valid(raw) || !utf8.Valid(raw) {
			t.Fatalf("%q passed", raw)
		}
		after, err := ReadMessages(mendSurrogates(raw))
		if err != nil || len(after) != len(before) {
			t.Fatalf("mended: %d messages of %d, %v", len(after), len(before), err)
		}
		for i := range after {
			if after[i].Said() != before[i].Said() || after[i].Role != before[i].Role {
				t.Fatalf("mended: %q became %q", before[i].Said(), after[i].Said())
			}
		}
		req := &Request{Model: "m", Raw: raw, Messages: before, Traits: Traits{NoAssistantLast: true}}
		body := completionMessages(req, "openai")
		sent, err := ReadMessages(proto.Raw(body))
		if err != nil || !isLegal(sent) || endsWithAssistant(sent) {
			t.Fatalf("sent %s: %v", body, err)
		}
	})
}

// TestMalformedArguments holds that a call goes back with arguments that are an
// object, whatever the model wrote, and that all else stays as it came.
func TestMalformedArguments(t *testing.T) {
	const before = `[{"role":"assistant","content":"x","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":`
	const after = `}},{"id":"2","type":"function","function":{"name":"g","arguments":"{\"a\": 1}"}}],"more":1},{"role":"tool","tool_call_id":"1","content":"r"},{"role":"tool","tool_call_id":"2","content":"r"}]`
	for _, tt := range []struct{ args, want string }{
		{`"{}"`, `"{}"`},
		{`" {\"a\" : 1}"`, `"{\"a\" : 1}"`},
		{`""`, `"{}"`},
		{`null`, `"{}"`},
		{`"{\"a\":"`, `"{\"_malformed\":\"{\\\"a\\\":\"}"`},
		{`"[1]"`, `"{\"_malformed\":\"[1]\"}"`},
	} {
		raw := before + tt.args + after
		list, err := ReadMessages(proto.Raw(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(completionMessages(&Request{Raw: json.RawMessage(raw), Messages: list}, "openai")); got != before+tt.want+after {
			t.Errorf("%s: got %s", tt.args, got)
		}
	}
}
