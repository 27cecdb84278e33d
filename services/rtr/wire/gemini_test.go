package wire

import (
	"io"
	"slices"
	"strings"
	"testing"
)

// geminiEvents writes responses as Gemini streams them.
func geminiEvents(list ...string) string {
	return "data: " + strings.Join(list, "\r\n\r\ndata: ") + "\r\n\r\n"
}

// geParts is a response with parts, and geStop the last one, without any.
func geParts(parts string) string {
	return `{"candidates":[{"content":{"parts":[` + parts + `]}}],"usageMetadata":{"promptTokenCount":10}}`
}

const (
	geStop = `{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"modelVersion":"gemini-3-flash",` +
		`"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":60,"candidatesTokenCount":12,"toolUsePromptTokenCount":5,"thoughtsTokenCount":30,"totalTokenCount":147}}`
	geUsed   = `used {"input_tokens":105,"output_tokens":42,"cache_read_tokens":60,"reasoning_tokens":30}`
	geUsed10 = `used {"input_tokens":10,"output_tokens":0}`
)

// geTools is an answer with thoughts, text in pieces, two calls and a part that
// nobody knows.
var geTools = []string{
	geParts(`{"text":"**Thin","thought":true}`),
	geParts(`{"thought":true,"text":"king** \u2026\n"}`),
	geParts(`{"text":"Let me \"look\" \ud83c"}`),
	geParts(`{"text":"\udf0d\n"},{"text":"Grüße 🌍"}`),
	geParts(`{"functionCall":{"name":"bash","args":{"code": "ls"},"id":"a1"},"thoughtSignature":"EpwC/+=="},{"functionCall":{"name":"clock"}}`),
	geParts(`{"executableCode":{"language":"PYTHON","code":"1"}}`),
	geStop,
}

var geToolsWant = []string{
	"reasoning 0 **Thinking** …\n", "text 0 Let me \"look\" \uFFFD\uFFFD\nGrüße 🌍",
	"tool 0 a1 bash", `args 0 {"code": "ls"}`, "tool 1  clock", geUsed,
	`state {"provider":"gemini","model":"m","content":[{"thought":true,"text":"**Thinking** \u2026\n"},{"text":"Let me \"look\" \ud83c\udf0d\nGrüße 🌍"},` +
		`{"functionCall":{"name":"bash","args":{"code": "ls"},"id":"a1"},"thoughtSignature":"EpwC/+=="},{"functionCall":{"name":"clock"}},` +
		`{"executableCode":{"language":"PYTHON","code":"1"}}]}`,
	"finish tool_calls",
}

// TestGeminiForms holds that the same events are read from every form that a
// stream may have.
func TestGeminiForms(t *testing.T) {
	t.Parallel()
	plain := strings.ReplaceAll(geminiEvents(geTools...), "\r", "")
	for name, stream := range map[string]string{
		"CRLF": geminiEvents(geTools...), "LF": plain, "CR": strings.ReplaceAll(plain, "\n", "\r"), "BOM": "\xef\xbb\xbf" + plain,
		"no blank":       strings.ReplaceAll(plain, "data: ", "data:"),
		"noise":          ": ping\n\n\nevent: x\nid: 7\n" + strings.ReplaceAll(plain, "\n\n", "\n\n\n: ping\ndata: {\"future\":[1]}\n\n"),
		"no last end":    strings.TrimSpace(plain),
		"split":          strings.ReplaceAll(plain, `{"content"`, "\ndata: {\"content\""),
		"without blanks": strings.ReplaceAll(plain, "\n\n", "\n") + "\n",
		"in one list":    "data: [" + strings.Join(geTools, ",") + "]\n\n",
		"several lines":  strings.ReplaceAll(plain, `{"functionCall"`, "\ndata: {\ndata: \"functionCall\""),
		"end mark":       plain + "data: [DONE]\n\n",
	} {
		want := slices.Clone(geToolsWant)
		if name == "several lines" { // they are joined by blanks in what is kept
			want[6] = strings.ReplaceAll(want[6], `{"functionCall"`, `{ "functionCall"`)
		}
		t.Run(name, func(t *testing.T) { completeTwoWays(t, Gemini, stream, want) })
	}
	everyWay(t, Gemini, ask(t, nil), geminiEvents(geTools...), geToolsWant, "")
}

// completeTwoWays is everyWay for a long stream: it is fed whole and byte by byte.
func completeTwoWays(t *testing.T, infer Func, stream string, want []string) {
	t.Helper()
	for how, body := range map[string]io.Reader{"whole": strings.NewReader(stream), "byte by byte": byteByByte(stream)} {
		if got, err := outcome(t, infer, ask(t, nil), body); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\n%v", how, strings.Join(got, "\n"), err)
		}
	}
}

// TestGeminiAnswers goes through parts and candidates of every form.
func TestGeminiAnswers(t *testing.T) {
	state := func(parts string) string { return `state {"provider":"gemini","model":"m","content":[` + parts + `]}` }
	call := `{"functionCall":{"name":"f","args":{}}}`
	signed := `{"functionCall":{"name":"f","args":{}},"thoughtSignature":"c2ln"}`
	calling := []string{"tool 0  f", "args 0 {}", geUsed}
	for _, tt := range []struct {
		name   string
		events []string
		want   []string
	}{
		{"text", []string{geParts(`{"text":"a"}`), geParts(`{"text":"b\n"}`), geStop}, []string{"text 0 ab\n", geUsed, "finish stop"}},
		{"the reason with the text", []string{`{"candidates":[{"finishReason":"STOP","content":{"parts":[{"text":"a"}]}}]}`}, []string{"text 0 a", "finish stop"}},
		{"text behind a reason", []string{`{"candidates":[{"finishReason":"STOP","content":{"parts":[{"text":"a"}]}}]}`, geParts(`{"text":"b"}`), geStop}, []string{"text 0 ab", geUsed, "finish stop"}},
		{"usage behind the reason", []string{`{"candidates":[{"finishReason":"STOP"}]}`, `{"usageMetadata":{"promptTokenCount":10}}`}, []string{geUsed10, "finish stop"}},
		{"no usage", []string{`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":"x","candidatesTokenCount":-1}}`}, []string{"finish stop"}},
		{"no state without calls", []string{geParts(`{"text":"a","thoughtSignature":"c2ln"}`), geStop}, []string{"text 0 a", geUsed, "finish stop"}},
		{"no state without signatures", []string{geParts(`{"text":"a"},` + call), geStop}, append([]string{"text 0 a"}, append(calling, "finish tool_calls")...)},
		{
			"a signature on text",
			[]string{geParts(`{"text":"a"}`), geParts(`{"text":"b","thoughtSignature":"c2ln"}`), geParts(`{"text":"c"},` + call), geStop},
			append([]string{"text 0 abc"}, append(calling, state(`{"text":"a"},{"text":"b","thoughtSignature":"c2ln"},{"text":"c"},`+call), "finish tool_calls")...),
		},
		{
			"a signature on no text",
			[]string{geParts(call), geParts(`{"text":"","thoughtSignature":"c2ln"}`), geStop},
			append(calling, state(call+`,{"text":"","thoughtSignature":"c2ln"}`), "finish tool_calls"),
		},
		{
			"what is left out",
			[]string{geParts(`{"text":""},{"text":"","thought":true},{"text":null},{},null,5,` + signed), geStop},
			append(calling, state(signed), "finish tool_calls"),
		},
		{
			"other parts",
			[]string{geParts(`{"inlineData":{"data":"AA=="}},{"text":"a","partMetadata":{}},{"thought":false,"text":"b"},` + signed), geStop},
			append([]string{"text 0 ab"}, append(calling, state(`{"inlineData":{"data":"AA=="}},{"text":"a","partMetadata":{}},{"thought":false,"text":"b"},`+signed), "finish tool_calls")...),
		},
		{"a call without a name", []string{geParts(`{"functionCall":{}},{"functionCall":{"name":"","args":{}}},{"functionCall":null}`), geStop}, []string{geUsed, "finish stop"}},
		{"a call with null", []string{geParts(`{"functionCall":{"id":null,"name":"f","args":null,"willContinue":false,"partialArgs":[]}}`), geStop}, []string{"tool 0  f", geUsed, "finish tool_calls"}},
		{"another candidate", []string{`{"candidates":[{"index":1,"content":{"parts":[{"text":"no"}]},"finishReason":"STOP"},{"index":null,"content":{"parts":[{"text":"a"}]}}]}`, geStop}, []string{"text 0 a", geUsed, "finish stop"}},
		{"nothing", []string{`{}`, `{"candidates":null,"promptFeedback":null,"error":null}`, `{"candidates":[]}`, `{"candidates":[{"content":null,"finishReason":null}]}`, `{"candidates":[{"content":{"parts":null}}]}`, geStop}, []string{geUsed, "finish stop"}},
		{"feedback that blocks nothing", []string{`{"promptFeedback":{"safetyRatings":[]}}`, `{"promptFeedback":{"blockReason":"BLOCKED_REASON_UNSPECIFIED"}}`, geStop}, []string{geUsed, "finish stop"}},
	} {
		t.Run(tt.name, func(t *testing.T) { completeTwoWays(t, Gemini, geminiEvents(tt.events...), tt.want) })
	}
}

func TestGeminiReasons(t *testing.T) {
	for reason, want := range map[string]string{
		"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "filter", "RECITATION": "filter", "LANGUAGE": "filter", "BLOCKLIST": "filter",
		"PROHIBITED_CONTENT": "filter", "SPII": "filter", "IMAGE_SAFETY": "filter", "SOMETHING_NEW": "SOMETHING_NEW",
	} {
		got, err := outcome(t, Gemini, ask(t, nil), strings.NewReader(geminiEvents(strings.Replace(geStop, "STOP", reason, 1))))
		if err != nil || len(got) != 2 || got[1] != "finish "+want {
			t.Errorf("%s: got %q, %v", reason, got, err)
		}
	}
	cut := geminiEvents(geParts(`{"functionCall":{"name":"f"}}`), strings.Replace(geStop, "STOP", "MAX_TOKENS", 1))
	everyWay(t, Gemini, ask(t, nil), cut, []string{"tool 0  f", geUsed, "finish length"}, "")
}
