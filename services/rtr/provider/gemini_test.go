package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"zino/proto"
	"zino/services/rtr/limit"
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

// TestGeminiFaults holds that what is no complete answer is an error, that what
// came before it is not lost, and what may be done about it.
func TestGeminiFaults(t *testing.T) {
	hello, said := geParts(`{"text":"a"}`), []string{"text 0 a", geUsed10}
	for _, tt := range []struct {
		name, stream string
		want         []string
		err          string
		class        limit.Class
	}{
		{"cut", geminiEvents(hello), said, "ended before the answer was complete", limit.Retry},
		{"cut in an event", geminiEvents(hello) + `data: {"candidates":[{"finishReason":"STOP"`, said, "ended before the answer was complete", limit.Retry},
		{"a reason that is none", geminiEvents(hello, strings.Replace(geStop, "STOP", "FINISH_REASON_UNSPECIFIED", 1)), []string{"text 0 a", geUsed}, "ended before the answer was complete", limit.Retry},
		{"nothing", "", nil, "nothing that is a model's answer", limit.Stop},
		{"a web page", " <html>\n", nil, "with a web page", limit.Stop},
		{"JSON", geStop, nil, "JSON where a stream was asked for", limit.Stop},
		{"an error in JSON", `[{"error":{"code":429,"message":"Quota!","status":"RESOURCE_EXHAUSTED"}}]`, nil, "reports: Quota!", limit.Retry},
		{"an error", geminiEvents(hello, `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`), said, "reports: The model is overloaded.", limit.Retry},
		{"an error in a list", geminiEvents(hello, `[{"error":{"code":400,"message":"Bad."}}]`), said, "reports: Bad.", limit.Stop},
		{"an error as it stands", geminiEvents(hello) + `{"error":{"code":500,"message":"Oops."}}` + "\n\n", said, "reports: Oops.", limit.Retry},
		{"no JSON", geminiEvents(hello, `{"candidates":[`), said, "not JSON", limit.Stop},
		{"no object", geminiEvents(hello, `5`), said, "not JSON", limit.Stop},
		{"candidates that are none", geminiEvents(hello, `{"candidates":{"a":1}}`), said, "not JSON", limit.Stop},
		{"parts that are none", geminiEvents(hello, `{"candidates":[{"content":{"parts":{}}}]}`), said, "not JSON", limit.Stop},
		{"bad UTF-8", geminiEvents(hello, geParts("{\"text\":\"\xff\"}")), said, "not JSON", limit.Stop},
		{"a broken call", geminiEvents(hello, `{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: f(\n"}]}`), said, "(MALFORMED_FUNCTION_CALL: Malformed function call: f()", limit.Stop},
		{"a call of nothing", geminiEvents(hello, `{"candidates":[{"finishReason":"UNEXPECTED_TOOL_CALL"}]}`), said, "(UNEXPECTED_TOOL_CALL)", limit.Stop},
		{"a call in pieces", geminiEvents(hello, geParts(`{"functionCall":{"name":"f","willContinue":true}}`)), said, "arguments of a call in pieces", limit.Stop},
		{"more pieces", geminiEvents(hello, geParts(`{"functionCall":{"partialArgs":[{"jsonPath":"$.x","stringValue":"a"}]}}`)), said, "arguments of a call in pieces", limit.Stop},
		{"lists in lists", geminiEvents(hello, "[["+geStop+"]]"), said, "not JSON", limit.Stop},
		{"blocked beside null", geminiEvents(`{"candidates":null,"promptFeedback":{"blockReason":"JAILBREAK"}}`), nil, "blocked the prompt (JAILBREAK)", limit.Stop},
		{"a blocked prompt", geminiEvents(`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":10}}`), []string{geUsed10}, "blocked the prompt (PROHIBITED_CONTENT)", limit.Stop},
		{"and why", geminiEvents(`{"promptFeedback":{"blockReason":"SAFETY","blockReasonMessage":"It is ` + quotedKey + `"}}`), nil, "blocked the prompt (SAFETY: It is [hidden])", limit.Stop},
	} {
		t.Run(tt.name, func(t *testing.T) {
			everyWay(t, Gemini, ask(t, nil), tt.stream, tt.want, tt.err)
			_, err := outcome(t, Gemini, ask(t, nil), strings.NewReader(tt.stream))
			if f, ok := errors.AsType[*Fault](err); !ok || f.Verdict.Class != tt.class {
				t.Errorf("got %#v, want the class %v", err, tt.class)
			}
		})
	}
}

// TestGeminiBlockedCode holds that a blocked prompt is told from a server that
// fails.
func TestGeminiBlockedCode(t *testing.T) {
	_, err := outcome(t, Gemini, ask(t, nil), strings.NewReader(geminiEvents(`{"promptFeedback":{"blockReason":"OTHER"}}`)))
	if got, ok := errors.AsType[*proto.Error](err); !ok || got.Code != proto.CodeDenied || got.Kind != kindAPI {
		t.Errorf("got %#v", err)
	}
}

// fullSink is a sink that takes a number of events and no more.
type fullSink struct{ left int }

var errFull = errors.New("the sink is full")

func (f *fullSink) Event(Event) error {
	if f.left--; f.left < 0 {
		return errFull
	}
	return nil
}

func (f *fullSink) Flush() error { return nil }

// sinksFail holds that an error of the sink ends the reading, wherever it comes,
// and is returned as it is.
func sinksFail(t *testing.T, infer Func, stream string, events int) {
	t.Helper()
	for n := range events {
		ep, _ := endpointFor(t, strings.NewReader(stream))
		if err := infer(context.Background(), ep, ask(t, nil), &fullSink{left: n}); err != errFull {
			t.Errorf("a sink that takes %d events: %v", n, err)
		}
	}
	ep, _ := endpointFor(t, strings.NewReader(stream))
	if err := infer(context.Background(), ep, ask(t, nil), &fullSink{left: events}); err != nil {
		t.Errorf("a sink that takes %d events: %v", events, err)
	}
}

func TestGeminiSinkFails(t *testing.T) { sinksFail(t, Gemini, geminiEvents(geTools...), 11) }

// TestGeminiTooLarge holds that what is kept to go back has a limit too.
func TestGeminiTooLarge(t *testing.T) {
	part := geminiEvents(geParts(`{"inlineData":{"data":"`+strings.Repeat("A", 6<<20)+`"}}`), geParts(`{"text":"a"}`))
	got, err := outcome(t, Gemini, ask(t, nil), strings.NewReader(strings.Repeat(part, 3)))
	if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeTooLarge || got[0] != "text 0 aa" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestGeminiAddress goes through base URLs and models as people write them.
func TestGeminiAddress(t *testing.T) {
	for _, tt := range []struct{ base, model, want string }{
		{"http://h", "gemini-3-flash", "/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse"},
		{"http://h/", "models/gemini-3-flash", "/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse"},
		{"http://h/v1beta", "m", "/v1beta/models/m:streamGenerateContent?alt=sse"},
		{"http://h/v1beta/", "m", "/v1beta/models/m:streamGenerateContent?alt=sse"},
		{"http://h/gate/v1alpha", "m", "/gate/v1alpha/models/m:streamGenerateContent?alt=sse"},
		{"http://v1.test", "m", "/v1beta/models/m:streamGenerateContent?alt=sse"},
		{"http://h/gate", "../a b?c#d%", "/gate/v1beta/models/..%2Fa%20b%3Fc%23d%25:streamGenerateContent?alt=sse"},
	} {
		ep, s := endpointFor(t, strings.NewReader(geminiEvents(geStop)))
		ep.Base = tt.base
		if err := Gemini(context.Background(), ep, ask(t, func(r *Request) { r.Model = tt.model }), &gathered{}); err != nil {
			t.Error(err)
		}
		if s.paths[0] != tt.want || s.header.Get("X-Goog-Api-Key") != testKey || s.header.Get("Authorization") != "" || ep.Base != tt.base {
			t.Errorf("%s, %s: asked %s with %v", tt.base, tt.model, s.paths[0], s.header)
		}
	}
}

// TestGeminiNoKey holds that a gateway without a key gets no empty one.
func TestGeminiNoKey(t *testing.T) {
	ep, s := endpointFor(t, strings.NewReader(geminiEvents(geStop)))
	ep.Key = ""
	if err := Gemini(context.Background(), ep, ask(t, nil), &gathered{}); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.header["X-Goog-Api-Key"]; ok {
		t.Errorf("sent %v", s.header)
	}
}

func TestGeminiUnusable(t *testing.T) {
	ep, _ := endpointFor(t)
	ep.Base = "http://h\x00"
	if err := Gemini(context.Background(), ep, ask(t, nil), &gathered{}); err == nil || !strings.Contains(err.Error(), "no usable base URL") {
		t.Errorf("got %v", err)
	}
}

// readBare reads an answer without HTTP around it, whose goroutines make fuzzing
// slow.
func readBare(t *testing.T, read func(*exchange) error, stream io.Reader) ([]string, error) {
	t.Helper()
	var g gathered
	ep, _ := endpointFor(t)
	x := ep.begin(t.Context(), ask(t, nil), nil, true, &g)
	defer x.detach()
	defer x.close()
	x.resp = &http.Response{Body: io.NopCloser(stream)}
	err := read(x)
	return g.words, err
}

// sameHowever holds that how a stream is cut into reads changes neither the
// events nor the error, and that only a complete answer ends with a finish.
func sameHowever(t *testing.T, read func(*exchange) error, stream string, at uint) []string {
	t.Helper()
	n := int(at % uint(len(stream)+1))
	want, wantErr := readBare(t, read, strings.NewReader(stream))
	for how, body := range map[string]io.Reader{
		"byte by byte": byteByByte(stream), "in two": io.MultiReader(strings.NewReader(stream[:n]), strings.NewReader(stream[n:])),
		"at the end": iotest.DataErrReader(strings.NewReader(stream)),
	} {
		got, err := readBare(t, read, body)
		if !slices.Equal(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%s: got\n%q, %v\nand whole\n%q, %v", how, got, err, want, wantErr)
		}
	}
	finished := len(want) > 0 && strings.HasPrefix(want[len(want)-1], "finish ")
	if finished != (wantErr == nil) {
		t.Fatalf("got %q and the error %v", want, wantErr)
	}
	return want
}

func readGemini(x *exchange) (err error) {
	answer := geminiAnswer{x: x}
	if answer.events, err = x.open(); err != nil {
		return err
	}
	return answer.read()
}

// FuzzGeminiStream holds that no stream makes the reader fail in another way
// than by an error, that cuts change nothing, and that what is kept goes back.
func FuzzGeminiStream(f *testing.F) {
	f.Add(geminiEvents(geTools...), uint(100))
	f.Add(geminiEvents(geParts(`{"text":"","thoughtSignature":"c2ln"},{"functionCall":{"name":"f"}}`), geStop), uint(7))
	f.Add("data: ["+geTools[0]+","+geStop+"]\n\ndata: {\"error\":{}}\n\n", uint(33))
	f.Add("data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"}}\n\n", uint(3))
	f.Add("\xef\xbb\xbf<html>", uint(1))
	f.Fuzz(func(t *testing.T, stream string, at uint) {
		handedBack(t, sameHowever(t, readGemini, stream, at), geminiBody)
	})
}
