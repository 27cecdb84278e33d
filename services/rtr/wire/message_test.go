package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"zino/pkg/attach/kind"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// answerOf gives events to an answer and returns it.
func answerOf(list ...Event) *Answer {
	a := &Answer{}
	for _, e := range list {
		a.Event(e)
	}
	return a
}

func piece(kind Kind, text string) Event { return Event{Kind: kind, Delta: []byte(text)} }

func callStart(i int, id, name string) Event {
	return Event{Kind: ToolStart, Index: i, ID: id, Name: name}
}

func callArgs(i int, text string) Event { return Event{Kind: ToolArgs, Index: i, Delta: []byte(text)} }

func TestAnswer(t *testing.T) {
	usage := &proto.Usage{InputTokens: 1, OutputTokens: 2}
	a := answerOf(piece(Text, "a"), piece(Reasoning, "not"), piece(Text, "b"), callStart(0, "1", "f"), callArgs(0, `{"x":`), callStart(1, "2", "g"), callArgs(0, `1}`),
		Event{Kind: Used, Usage: usage}, piece(State, `{"s":1}`), Event{Kind: Finish, Reason: "stop"})
	if a.Text() != "ab" || a.Size() != 12 || a.Usage() != usage {
		t.Errorf("got %q, %d bytes, %v", a.Text(), a.Size(), a.Usage())
	}
	got := a.Finished()
	calls := `[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"2","type":"function","function":{"name":"g","arguments":"{}"}}]`
	if string(got.ToolCalls) != calls || string(got.State) != `{"s":1}` || got.StopReason != "tool_calls" || got.Content != "ab" || got.Usage != usage {
		t.Errorf("got %+v", got)
	}
}

func TestAnswerEnds(t *testing.T) {
	stop := func(why string) Event { return Event{Kind: Finish, Reason: why} }
	for _, tt := range []struct {
		name        string
		events      []Event
		calls, stop string
	}{
		{"nothing", nil, "", ""},
		{"a state without calls goes", []Event{piece(Text, "x"), piece(State, "{}"), stop("stop")}, "", "stop"},
		{"calls and stop", []Event{callStart(0, "1", "f"), stop("stop")}, "f{}", "tool_calls"},
		{"calls and no reason", []Event{callStart(0, "1", "f"), stop("")}, "f{}", "tool_calls"},
		{"calls and another reason", []Event{callStart(0, "1", "f"), stop("filter")}, "f{}", "filter"},
		{"blank arguments", []Event{callStart(0, "1", "f"), callArgs(0, " \n"), stop("stop")}, "f{}", "tool_calls"},
		{"no JSON at all", []Event{callStart(0, "1", "f"), callArgs(0, "ls -l"), stop("stop")}, "fls -l", "tool_calls"},
		{"more behind the object", []Event{callStart(0, "1", "f"), callArgs(0, `{"a":1}}`), stop("stop")}, `f{"a":1}}`, "tool_calls"},
		{"never closed", []Event{callStart(0, "1", "f"), callArgs(0, `{"a":"`), stop("stop")}, `f{"a":"`, "tool_calls"},
		{"never closed, second", []Event{callStart(0, "1", "f"), callStart(1, "2", "g"), callArgs(1, `{`), stop("tool_calls")}, "f{} g{", "tool_calls"},
		{"cut by the limit", []Event{callStart(0, "1", "f"), callStart(1, "2", "g"), callArgs(1, `{"a":"`), stop("length")}, "f{}", "length"},
		{"only one, cut by the limit", []Event{piece(State, "{}"), callStart(0, "1", "f"), callArgs(0, `{`), stop("length")}, "", "length"},
		{"arguments of no call", []Event{callArgs(3, `{"a"`), stop("stop")}, "", "stop"},
		{"an index out of all bounds", []Event{callStart(1<<40, "1", "f"), callArgs(-1, `{"a"`), stop("stop")}, "", "stop"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := answerOf(tt.events...).Finished()
			if calls := callWords(t, got.ToolCalls); calls != tt.calls || got.StopReason != tt.stop || len(got.State) > 0 && tt.calls == "" {
				t.Errorf("got %s, %q", calls, got.StopReason)
			}
		})
	}
}

// callWords writes the names and arguments of calls.
func callWords(t *testing.T, raw proto.Raw) string {
	t.Helper()
	var list []struct {
		ID, Type string
		Function struct{ Name, Arguments string }
	}
	if len(raw) == 0 {
		return ""
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	var out []string
	for _, c := range list {
		if c.ID == "" || c.Type != "function" {
			t.Errorf("a call without an id or type: %s", raw)
		}
		out = append(out, c.Function.Name+c.Function.Arguments)
	}
	return strings.Join(out, " ")
}

// TestNewIDs checks that calls without ids get ones of their own.
func TestNewIDs(t *testing.T) {
	got := answerOf(callStart(0, "", "f"), callStart(1, "", "f"), callStart(2, "mine", "f")).Finished()
	ids := regexp.MustCompile(`"id":"([^"]*)"`).FindAllStringSubmatch(string(got.ToolCalls), -1)
	if len(ids) != 3 || ids[0][1] == ids[1][1] || ids[2][1] != "mine" || !regexp.MustCompile(`^call_[a-z0-9]{16}$`).MatchString(ids[0][1]) {
		t.Errorf("got %v", ids)
	}
}

// sketch writes a conversation in few letters: s, u, a for a message with
// text, "-" for an assistant's without, c1,2 for calls, t1 for a result, l1 for
// a result that was lost.
func sketch(list []Message) string {
	var words []string
	for _, m := range list {
		switch {
		case m.Role == "tool" && m.Said() == lost:
			words = append(words, "l"+m.CallID)
		case m.Role == "tool":
			words = append(words, "t"+m.CallID)
		case len(m.Calls) > 0:
			var ids []string
			for _, c := range m.Calls {
				ids = append(ids, c.ID)
			}
			words = append(words, "c"+strings.Join(ids, ","))
		case m.Role == "assistant" && m.Said() == "":
			words = append(words, "-")
		case m.Said() == continuation:
			words = append(words, "go")
		default:
			words = append(words, m.Role[:1])
		}
	}
	return strings.Join(words, " ")
}

// drawn is the conversation of a sketch.
func drawn(t *testing.T, words string) []Message {
	t.Helper()
	var parts []string
	for w := range strings.FieldsSeq(words) {
		part := map[byte]string{
			's': `{"role":"system","content":"s"}`, 'u': `{"role":"user","content":"u"}`,
			'a': `{"role":"assistant","content":"a"}`, '-': `{"role":"assistant","content":""}`,
			't': fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"r"}`, w[1:]),
		}[w[0]]
		if w[0] == 'c' {
			var calls []string
			for id := range strings.SplitSeq(w[1:], ",") {
				calls = append(calls, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"f","arguments":"{}"}}`, id))
			}
			part = `{"role":"assistant","content":null,"tool_calls":[` + strings.Join(calls, ",") + "]}"
		}
		parts = append(parts, part)
	}
	list, err := ReadMessages(proto.Raw("[" + strings.Join(parts, ",") + "]"))
	zinotest.Must(t, err)
	return list
}

func TestLegal(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"s u a u", "s u a u"},
		{"u c1,2 t1 t2 a", "u c1,2 t1 t2 a"},
		{"u c1,2 t2 t1", "u c1,2 t1 t2"},
		{"u c1,2 t1 u", "u c1,2 t1 l2 u"},
		{"u c1", "u c1 l1"},
		{"u t1 a", "u a"},
		{"u c1 t2 u", "u c1 l1 u"},
		{"u c1 t1 t1 a", "u c1 t1 a"},
		{"u c1,1 t1 t1", "u c1,1 t1 t1"},
		{"u - u", "u u"},
		{"c1 u t1", "c1 l1 u"},
		{"", ""},
	} {
		in := drawn(t, tt.in)
		if got := sketch(legal(in)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.in, got, tt.want)
		}
		if got := sketch(in); got != tt.in {
			t.Errorf("%s: the list that came was changed to %s", tt.in, got)
		}
		if !isLegal(legal(in)) {
			t.Errorf("%s: what came out is not legal", tt.in)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct{ in, system, want string }{
		{"s s u a u", "s\n\ns", "u a u"},
		{"a u", "", "go a u"},
		{"u s u", "", "u u u"},
		{"u a", "", "u a go"},
		{"s", "s", "go"},
		{"s a", "s", "go a go"},
		{"u c1 t1", "", "u c1 t1"},
	} {
		system, rest := split(drawn(t, tt.in))
		if system != tt.system || sketch(rest) != tt.want {
			t.Errorf("%s: got %q and %s, want %q and %s", tt.in, system, sketch(rest), tt.system, tt.want)
		}
	}
}

// TestState checks that a state goes back to the wire and model that gave it,
// and to no other.
func TestState(t *testing.T) {
	m := Message{State: newState("anthropic", "claude", []byte(`[{"a":1}]`))}
	if got := string(stateOf(m, "anthropic", "claude")); got != `[{"a":1}]` {
		t.Errorf("got %s", got)
	}
	for _, who := range [][2]string{{"gemini", "claude"}, {"anthropic", "other"}} {
		if got := stateOf(m, who[0], who[1]); got != nil {
			t.Errorf("%s gets %s", who, got)
		}
	}
	if got := stateOf(Message{State: []byte(`[1,"x"]`)}, "anthropic", "claude"); got != nil {
		t.Errorf("a foreign state gives %s", got)
	}
}

func TestReadMessages(t *testing.T) {
	list, err := ReadMessages(proto.Raw(`[{"role":"developer","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{}},{"type":"text","text":"b"}]},
		{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"function":{"name":"g","arguments":{"y": 2}}}],"reasoning_state":{"a":1}},
		{"role":"tool","tool_call_id":"1","content":"{\"ok\":false}"}]`))
	zinotest.Must(t, err)
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

// FuzzMessages checks that ReadMessages accepts only lists of messages, that
// repairSurrogates leaves valid JSON of the same meaning except for lone surrogates,
// and that the messages sent are legal and can be read again.
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
		repaired := bytes.Clone(raw)
		wire.ReplaceSurrogates(repaired)
		after, err := ReadMessages(repaired)
		if err != nil || len(after) != len(before) {
			t.Fatalf("repaired: %d messages of %d, %v", len(after), len(before), err)
		}
		for i := range after {
			if after[i].Said() != before[i].Said() || after[i].Role != before[i].Role {
				t.Fatalf("repaired: %q became %q", before[i].Said(), after[i].Said())
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

// TestMalformedArguments checks that the arguments of a call are sent as an object,
// and that everything else stays as received.
func TestMalformedArguments(t *testing.T) {
	const before = `[{"role":"user","content":"u"},{"role":"assistant","content":"x","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":`
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
		zinotest.Must(t, err)
		if got := string(completionMessages(&Request{Raw: json.RawMessage(raw), Messages: list}, "openai")); got != before+tt.want+after {
			t.Errorf("%s: got %s", tt.args, got)
		}
	}
}

func TestTemplate(t *testing.T) {
	event := []byte(`{"a":1,"text":"one","b":"}"}`)
	var tpl template
	if _, ok := tpl.read(nil, event); ok {
		t.Error("an empty template knows an event")
	}
	tpl.learn(event, event[14:19])
	for _, tt := range []struct {
		in, want string
		ok       bool
	}{
		{`{"a":1,"text":"one","b":"}"}`, "one", true},
		{`{"a":1,"text":"","b":"}"}`, "", true},
		{`{"a":1,"text":"Gr\u00fc\nße","b":"}"}`, "Grü\nße", true},
		{`{"a":1,"text":"x\"","b":"}"}`, `x"`, true},
		{`{"a":1,"text":"x\","b":"}"}`, "", false}, // the string goes on
		{`{"a":1,"text":"x","c":"y","b":"}"}`, "", false},
		{`{"a":1,"text":null,"b":"}"}`, "", false},
		{`{"a":2,"text":"one","b":"}"}`, "", false},
		{`{"a":1,"text":"one","b":"]"}`, "", false},
		{`{"a":1,"text":","b":"}"}`, "", false},
		{"{\"a\":1,\"text\":\"\xff\",\"b\":\"}\"}", "", false},
		{`{"a":1`, "", false},
		{``, "", false},
	} {
		got, ok := tpl.read(nil, []byte(tt.in))
		if ok != tt.ok || ok && string(got) != tt.want {
			t.Errorf("%s: got %q, %v", tt.in, got, ok)
		}
	}
}

// FuzzTemplate checks that a recognized event is JSON that differs from the learned
// one in the one string only.
func FuzzTemplate(f *testing.F) {
	f.Add("one", "two", 3)
	f.Add(`a"b`, "\u2028", 0)
	f.Add("", `","t":"`, 1)
	f.Fuzz(func(t *testing.T, first, second string, cut int) {
		frame := func(s string) []byte {
			b, err := json.Marshal(map[string]any{"a": "}", "t": s, "z": []int{1}})
			zinotest.Must(t, err)
			return b
		}
		event := frame(first)
		var tpl template
		tpl.learn(event, event[len(`{"a":"}","t":`):len(event)-len(`,"z":[1]}`)])
		next := frame(second)
		if cut = max(cut, 0) % (len(next) + 1); cut%3 == 0 {
			next = append(next[:cut:cut], next[min(cut+1, len(next)):]...) // one byte is missing
		}
		got, ok := tpl.read(nil, next)
		var v struct {
			A, T string
			Z    []int
		}
		if err := json.Unmarshal(next, &v); ok && (err != nil || v.T != string(got) || v.A != "}" || len(v.Z) != 1) {
			t.Fatalf("%s read as %q: %v", next, got, err)
		}
	})
}

// someTools are tools as a session offers them.
func someTools(t *testing.T) []Tool {
	t.Helper()
	tools, err := ReadTools(proto.Raw(`[
	 {"type":"function","function":{"name":"bash","description":"Runs a\n command.  ","parameters":{"type":"object",
	  "properties":{"command":{"type":"string","description":"a \"b\" <c>"}}, "required":["command"]}}},
	 {"type":"function","function":{"name":"bare"}},
	 {"type":"function","function":{"name":"task","description":"Hands it on.","parameters":{"type":"object"}}}]`))
	zinotest.Must(t, err)
	return tools
}

func TestWithTextTools(t *testing.T) {
	const lines = "\n- bash: Runs a command. {\"type\":\"object\",\"properties\":{\"command\":{\"type\":\"string\",\"description\":\"a \\\"b\\\" <c>\"}},\"required\":[\"command\"]}" +
		"\n- bare: {\"type\":\"object\",\"properties\":{}}\n- task: Hands it on. {\"type\":\"object\"}"
	for _, tt := range []struct{ in, first, rest string }{
		{`[{"role":"system","content":"Be brief.\n"},{"role":"user","content":"u"}]`, "Be brief.\n\n" + lesson + lines, "u"},
		{`[{"role":"developer","content":[{"type":"text","text":"Be brief."}]},{"role":"system","content":"s"}]`, "Be brief.\n\n" + lesson + lines, "s"},
		{`[{"role":"user","content":"u"},{"role":"system","content":"s"}]`, lesson + lines, "u s"},
		{`[{"role":"system","content":""},{"role":"user","content":"u"}]`, lesson + lines, "u"},
		{`[]`, lesson + lines, ""},
	} {
		list, err := ReadMessages(proto.Raw(tt.in))
		zinotest.Must(t, err)
		before := sketch(list)
		got := WithTextTools(list, someTools(t))
		if got[0].Role != "system" || got[0].Said() != tt.first || sketch(got[1:]) != tt.rest {
			t.Errorf("%s: got %q, then %s", tt.in, got[0].Said(), sketch(got[1:]))
		}
		if sketch(list) != before || len(list) > 0 && list[0].Text != "" {
			t.Errorf("%s: the list that came was changed", tt.in)
		}
		if again := WithTextTools(list, someTools(t)); again[0].Said() != got[0].Said() {
			t.Errorf("%s: the second time it is another text", tt.in)
		}
		if same := WithTextTools(list, nil); len(same) != len(list) {
			t.Errorf("%s: without tools there are %d messages", tt.in, len(same))
		}
	}
}

// TestLesson checks that the lesson is short, and that it teaches the form in which
// AsText shows earlier calls.
func TestLesson(t *testing.T) {
	if tokens := len(lesson) / 4; tokens >= 200 {
		t.Errorf("it has about %d tokens", tokens)
	}
	call := Message{Role: "assistant", Calls: []Call{{ID: "1", Name: "NAME", Args: `{"PARAMETER": "value"}`}}}
	shown := AsText([]Message{call, {Role: "tool", CallID: "1", Text: "r"}})[0].Said()
	block := func(text string) string {
		_, rest, _ := strings.Cut(text, "<tool_call>\n")
		raw, _, ok := strings.Cut(rest, "\n</tool_call>")
		var line bytes.Buffer
		if err := json.Compact(&line, []byte(raw)); err != nil || !ok {
			t.Errorf("no block in %q: %v", text, err)
		}
		return line.String()
	}
	if block(lesson) != block(shown) {
		t.Errorf("taught %s, shown %s", block(lesson), block(shown))
	}
	for _, tag := range []string{"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"} {
		if strings.Count(lesson, tag) != 1 || strings.Count(shown, tag) != 1 {
			t.Errorf("%s does not stand once in both", tag)
		}
	}
}

// TestTextToolsCache checks that a conversation that grows begins with the same
// bytes, on a wire that sends messages as they came.
func TestTextToolsCache(t *testing.T) {
	bodyOf := func(words string) string {
		req := &Request{Model: "m", Messages: WithTextTools(AsText(drawn(t, words)), someTools(t))}
		body, err := completionBody(req, "openai")
		zinotest.Must(t, err)
		return string(memberOf(body, "messages"))
	}
	before := ""
	for _, words := range []string{"s u", "s u c1 t1 a u", "s u c1 t1 a u a u"} {
		now := bodyOf(words)
		if !strings.HasPrefix(now, strings.TrimSuffix(before, "]")) {
			t.Errorf("%s: %s does not begin with %s", words, now, before)
		}
		before = now
	}
}

// TestMarkedResults checks that the member ok of a stored tool message says whether
// the tool failed, with any content, and that no provider sees it.
func TestMarkedResults(t *testing.T) {
	const calls = `[{"role":"user","content":"u","ok":1},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"2","type":"function","function":{"name":"f","arguments":"{}"}}]},`
	raw := calls + `{"role":"tool","tool_call_id":"1","content":"{\"ok\":true}","ok":false},{"role":"tool", "ok":true,"tool_call_id":"2","content":"{\"ok\":false}"}]`
	list, err := ReadMessages(proto.Raw(raw))
	if err != nil || !list[2].Failed || list[3].Failed || list[0].Failed {
		t.Fatalf("got %+v, %v", list, err)
	}
	req := &Request{Model: "m", Raw: json.RawMessage(raw), Messages: list}
	want := calls + `{"role":"tool","tool_call_id":"1","content":"{\"ok\":true}"},{"role":"tool","tool_call_id":"2","content":"{\"ok\":false}"}]`
	if got := string(completionMessages(req, "openai")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for name, body := range map[string]func(*Request) ([]byte, error){"anthropic": anthropicBody, "gemini": geminiBody, "ollama": ollamaBody, "responses": responsesBody} {
		got, err := body(req)
		if err != nil || strings.Contains(string(got), `"ok":`) && name != "gemini" {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if body, err := anthropicBody(req); err != nil || strings.Count(string(body), `"is_error":true`) != 1 {
		t.Errorf("got %s, %v", body, err)
	}
}

// TestOldestFilesLeftOut checks the limits of a wire on the number and the sum of images.
func TestOldestFilesLeftOut(t *testing.T) {
	message := func(bytes ...int) (m Message) {
		m.Role = "user"
		for _, n := range bytes {
			m.Files = append(m.Files, File{Attachment: proto.Attachment{ID: kind.ID(nil), Name: "shot.png", MediaType: kind.PNG, Bytes: n}})
		}
		return m
	}
	const large = 3 << 20 // 4 MiB in base64, of 28
	for name, tt := range map[string]struct {
		list []Message
		left string // for each image
	}{
		"number":                   {[]Message{message(make([]int, 60)...), message(make([]int, 42)...)}, strings.Repeat("x", 2) + strings.Repeat(".", 100)},
		"sum":                      {[]Message{message(large, large, large), message(large, large, large, large, large, large)}, "xx......."},
		"nothing older fits again": {[]Message{message(1, large, large), message(large, large, large, large, large, large)}, "xx......."},
		"all fit":                  {[]Message{message(large, large, large), message(large, large, large, large)}, "......."},
	} {
		fitted, n, err := FitFiles(tt.list, "anthropic", "m", true)
		zinotest.Must(t, err)
		var left strings.Builder
		for _, m := range fitted {
			for _, f := range m.Files {
				left.WriteString(map[bool]string{true: ".", false: "x"}[f.Left == ""])
			}
		}
		zinotest.Equal(t, name, left.String(), tt.left)
		zinotest.Equal(t, name+": count", n, strings.Count(tt.left, "x"))
		if n > 0 {
			zinotest.Contains(t, name, PlaceFiles(fitted, "anthropic", true)[0].Text, "[image shot.png left out]")
		}
	}
}
