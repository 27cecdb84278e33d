package wire

import (
	"context"
	"errors"
	"strings"
	"testing"

	"zino/proto"
	"zino/services/rtr/retry"
)

// TestGeminiFaults holds that what is no complete answer is an error, that what
// came before it is not lost, and what may be done about it.
func TestGeminiFaults(t *testing.T) {
	t.Parallel()
	hello, said := geParts(`{"text":"a"}`), []string{"text 0 a", geUsed10}
	for _, tt := range []struct {
		name, stream string
		want         []string
		err          string
		class        retry.Class
	}{
		{"cut", geminiEvents(hello), said, "ended before the answer was complete", retry.Retry},
		{"cut in an event", geminiEvents(hello) + `data: {"candidates":[{"finishReason":"STOP"`, said, "ended before the answer was complete", retry.Retry},
		{"a reason that is none", geminiEvents(hello, strings.Replace(geStop, "STOP", "FINISH_REASON_UNSPECIFIED", 1)), []string{"text 0 a", geUsed}, "ended before the answer was complete", retry.Retry},
		{"nothing", "", nil, "nothing that is a model's answer", retry.Stop},
		{"a web page", " <html>\n", nil, "with a web page", retry.Stop},
		{"JSON", geStop, nil, "JSON where a stream was asked for", retry.Stop},
		{"an error in JSON", `[{"error":{"code":429,"message":"Quota!","status":"RESOURCE_EXHAUSTED"}}]`, nil, "reports: Quota!", retry.Retry},
		{"an error", geminiEvents(hello, `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`), said, "reports: The model is overloaded.", retry.Retry},
		{"an error in a list", geminiEvents(hello, `[{"error":{"code":400,"message":"Bad."}}]`), said, "reports: Bad.", retry.Stop},
		{"an error as it stands", geminiEvents(hello) + `{"error":{"code":500,"message":"Oops."}}` + "\n\n", said, "reports: Oops.", retry.Retry},
		{"no JSON", geminiEvents(hello, `{"candidates":[`), said, "not JSON", retry.Stop},
		{"no object", geminiEvents(hello, `5`), said, "not JSON", retry.Stop},
		{"candidates that are none", geminiEvents(hello, `{"candidates":{"a":1}}`), said, "not JSON", retry.Stop},
		{"parts that are none", geminiEvents(hello, `{"candidates":[{"content":{"parts":{}}}]}`), said, "not JSON", retry.Stop},
		{"bad UTF-8", geminiEvents(hello, geParts("{\"text\":\"\xff\"}")), said, "not JSON", retry.Stop},
		{"a broken call", geminiEvents(hello, `{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: f(\n"}]}`), said, "(MALFORMED_FUNCTION_CALL: Malformed function call: f()", retry.Stop},
		{"a call of nothing", geminiEvents(hello, `{"candidates":[{"finishReason":"UNEXPECTED_TOOL_CALL"}]}`), said, "(UNEXPECTED_TOOL_CALL)", retry.Stop},
		{"a call in pieces", geminiEvents(hello, geParts(`{"functionCall":{"name":"f","willContinue":true}}`)), said, "arguments of a call in pieces", retry.Stop},
		{"more pieces", geminiEvents(hello, geParts(`{"functionCall":{"partialArgs":[{"jsonPath":"$.x","stringValue":"a"}]}}`)), said, "arguments of a call in pieces", retry.Stop},
		{"lists in lists", geminiEvents(hello, "[["+geStop+"]]"), said, "not JSON", retry.Stop},
		{"blocked beside null", geminiEvents(`{"candidates":null,"promptFeedback":{"blockReason":"JAILBREAK"}}`), nil, "blocked the prompt (JAILBREAK)", retry.Stop},
		{"a blocked prompt", geminiEvents(`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":10}}`), []string{geUsed10}, "blocked the prompt (PROHIBITED_CONTENT)", retry.Stop},
		{"and why", geminiEvents(`{"promptFeedback":{"blockReason":"SAFETY","blockReasonMessage":"It is ` + quotedKey + `"}}`), nil, "blocked the prompt (SAFETY: It is [hidden])", retry.Stop},
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
	t.Parallel()
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

// fillerStream is a stream that begins with text and goes on with filler for ever.
type fillerStream struct{ text, filler string }

func (e *fillerStream) Read(p []byte) (int, error) {
	if e.text == "" {
		e.text = e.filler
	}
	n := copy(p, e.text)
	e.text = e.text[n:]
	return n, nil
}

// TestEndlessFiller holds that a stream which says nothing is not read for ever.
func TestEndlessFiller(t *testing.T) {
	t.Parallel()
	blanks := strings.Repeat(" ", 1000) // so that it does not take long
	for _, tt := range []struct {
		infer        Func
		text, filler string
	}{
		{Gemini, geminiEvents(geParts(`{"text":"a"}`)), ": ping" + blanks + "\n\n"},
		{Gemini, geminiEvents(geParts(`{"text":"a"}`)), "data: {}" + blanks + "\n\n"},
		{Ollama, olLine(`"content":"a"`), blanks + "\n"},
		{Ollama, olLine(`"content":"a"`), "{}" + blanks + "\n"},
	} {
		got, err := outcome(t, tt.infer, ask(t, nil), &fillerStream{tt.text, tt.filler})
		if err == nil || !strings.Contains(err.Error(), "no part of an answer") || got[0] != "text 0 a" {
			t.Errorf("%q: got %q, %v", strings.TrimSpace(tt.filler), got, err)
		}
	}
}
