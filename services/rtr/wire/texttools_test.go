package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"zino/proto"
)

// someTools are tools as a session offers them.
func someTools(t *testing.T) []Tool {
	t.Helper()
	tools, err := ReadTools(proto.Raw(`[
	 {"type":"function","function":{"name":"bash","description":"Runs a\n command.  ","parameters":{"type":"object",
	  "properties":{"command":{"type":"string","description":"a \"b\" <c>"}}, "required":["command"]}}},
	 {"type":"function","function":{"name":"bare"}},
	 {"type":"function","function":{"name":"task","description":"Hands it on.","parameters":{"type":"object"}}}]`))
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
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

// TestLesson holds that it is short, and that the form it teaches is the one
// in which earlier calls are shown.
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

// TestTextToolsCache holds that a conversation that grows begins with the same
// bytes, on a wire that sends messages as they came.
func TestTextToolsCache(t *testing.T) {
	bodyOf := func(words string) string {
		req := &Request{Model: "m", Messages: WithTextTools(AsText(drawn(t, words)), someTools(t))}
		body, err := completionBody(req, "openai")
		if err != nil {
			t.Fatal(err)
		}
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
