package wire

import (
	"context"
	"errors"
	"strings"
	"testing"

	"zino/proto"
	"zino/services/rtr/retry"
)

// olLine is a line with a message, and olDone the last one.
func olLine(message string) string {
	return `{"model":"qwen3:8b","created_at":"2026-11-21T10:00:00.123456789Z","message":{"role":"assistant",` + message + `},"done":false}` + "\n"
}

const (
	olDone = `{"model":"qwen3:8b","created_at":"2026-11-21T10:00:01Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",` +
		`"total_duration":4883583458,"load_duration":1334875,"prompt_eval_count":26,"prompt_eval_duration":342546000,"eval_count":282,"eval_duration":4535599000}` + "\n"
	olUsed = `used {"input_tokens":26,"output_tokens":282}`
)

// olTools is an answer with thinking, text in pieces and calls.
var olTools = olLine(`"content":"","thinking":"Let me \"look\""`) + olLine(`"content":"","thinking":" ‽\n"`) +
	olLine(`"content":"Gr"`) + olLine(`"content":"\u00fc\u00dfe 🌍\n"`) +
	olLine(`"content":"","tool_calls":[{"id":"call_x1","function":{"index":0,"name":"bash","arguments":{"code": "ls"}}}]`) +
	olLine(`"content":"","tool_calls":[{"function":{"name":"clock","arguments":{}}},{"function":{"name":"read","arguments":"{\"path\":\"a\"}"}}]`) + olDone

var olToolsWant = []string{
	"reasoning 0 Let me \"look\" ‽\n", "text 0 Grüße 🌍\n", "tool 0 call_x1 bash", `args 0 {"code": "ls"}`,
	"tool 1  clock", "args 1 {}", "tool 2  read", `args 2 {"path":"a"}`, olUsed,
	`state {"provider":"ollama","model":"m","content":{"thinking":"Let me \"look\" ‽\n"}}`, "finish tool_calls",
}

// TestOllamaForms holds that the same events are read from every form that a
// stream may have.
func TestOllamaForms(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string]string{
		"plain": olTools, "CRLF": strings.ReplaceAll(olTools, "\n", "\r\n"), "BOM": "\xef\xbb\xbf" + olTools, "blank lines": "\n \r\n" + strings.ReplaceAll(olTools, "\n", "\n\n\t\n"),
		"no last end": strings.TrimSpace(olTools), "blanks": strings.ReplaceAll(olTools, `{"model"`, ` { "model"`),
		"unknown lines": strings.ReplaceAll(olTools, "\n", "\n"+`{"future":{"a":1}}`+"\n"), "what follows the end": olTools + "no JSON\n",
		"long lines": strings.ReplaceAll(olTools, `"done":`, `"pad":"`+strings.Repeat("x", 20_000)+`","done":`),
	} {
		t.Run(name, func(t *testing.T) { completeTwoWays(t, Ollama, stream, olToolsWant) })
	}
	everyWay(t, Ollama, ask(t, nil), olTools, olToolsWant, "")
}

// TestOllamaVeryLongLine holds that a line may be longer than any buffer.
func TestOllamaVeryLongLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("grün ", 1<<17)
	got, err := outcome(t, Ollama, ask(t, nil), strings.NewReader(olLine(`"content":"`+long+`"`)+olDone))
	if err != nil || len(got) != 3 || got[0] != "text 0 "+long {
		t.Errorf("got %d words, %v", len(got), err)
	}
	endless := strings.Repeat(" ", 17<<20)
	for _, stream := range []string{olLine(`"content":"a"`) + "{" + endless, "{\n" + endless} {
		_, err = outcome(t, Ollama, ask(t, nil), strings.NewReader(stream))
		if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeTooLarge {
			t.Errorf("got %v", err)
		}
	}
}

func TestOllamaAnswers(t *testing.T) {
	call := olLine(`"content":"","tool_calls":[{"function":{"name":"f","arguments":{}}}]`)
	for _, tt := range []struct {
		name, stream string
		want         []string
	}{
		{"text", olLine(`"content":"a"`) + olLine(`"content":"b"`) + olDone, []string{"text 0 ab", olUsed, "finish stop"}},
		{"whole", strings.Replace(olDone, `"content":""`, `"content":"a"`, 1), []string{"text 0 a", olUsed, "finish stop"}},
		{"whole in several lines", "{\n" + ` "message": {"content": "a"},` + "\r\n" + ` "done": true` + "\n}\n", []string{"text 0 a", "finish stop"}},
		{"cut by the limit", olLine(`"content":"a"`) + strings.Replace(olDone, `"stop"`, `"length"`, 1), []string{"text 0 a", olUsed, "finish length"}},
		{"no reason", `{"done":true}`, []string{"finish stop"}},
		{"loaded only", `{"message":{"role":"assistant","content":""},"done":true,"done_reason":"load"}`, []string{"finish load"}},
		{"no state without thinking", call + olDone, []string{"tool 0  f", "args 0 {}", olUsed, "finish tool_calls"}},
		{"no state without calls", olLine(`"content":"","thinking":"hm"`) + olDone, []string{"reasoning 0 hm", olUsed, "finish stop"}},
		{"calls and the limit", call + strings.Replace(olDone, `"stop"`, `"length"`, 1), []string{"tool 0  f", "args 0 {}", olUsed, "finish length"}},
		{"what is left out", olLine(`"content":null,"thinking":null,"tool_calls":null`) + olLine(`"content":5,"tool_calls":{}`) + olLine(`"tool_calls":[null,{},{"function":{"arguments":{}}},{"id":7,"function":{"name":"f"}}]`) +
			`{"message":null,"error":null,"done":null,"eval_count":-1}` + "\n" + olDone, []string{"tool 0  f", olUsed, "finish tool_calls"}},
		{"arguments that are none", olLine(`"tool_calls":[{"function":{"name":"f","arguments":"oh \"no\""}},{"function":{"name":"g","arguments":[1]}}]`) + olDone, []string{"tool 0  f", `args 0 oh "no"`, "tool 1  g", olUsed, "finish tool_calls"}},
	} {
		t.Run(tt.name, func(t *testing.T) { completeTwoWays(t, Ollama, tt.stream, tt.want) })
	}
}

// TestOllamaFaults holds that what is no complete answer is an error, that what
// came before it is not lost, and what may be done about it.
func TestOllamaFaults(t *testing.T) {
	t.Parallel()
	hello, said := olLine(`"content":"a"`), []string{"text 0 a"}
	for _, tt := range []struct {
		name, stream string
		want         []string
		err          string
		class        retry.Class
	}{
		{"cut", hello, said, "ended before the answer was complete", retry.Retry},
		{"cut in a line", hello + olDone[:40], said, "ended before the answer was complete", retry.Retry},
		{"cut in the first line", hello[:40], nil, "ended before the answer was complete", retry.Retry},
		{"cut in the first value", "{\n" + `"message": {` + "\n", nil, "ended before the answer was complete", retry.Retry},
		{"nothing", "\n\r\n", nil, "nothing that is a model's answer", retry.Stop},
		{"a web page", "\n <html>", nil, "with a web page", retry.Stop},
		{"an error", hello + `{"error":"llama runner process has terminated"}` + "\n", said, "reports: llama runner process has terminated", retry.Stop},
		{"nothing but an error", `{"error":"model runner has unexpectedly stopped"}`, nil, "reports: model runner", retry.Stop},
		{"an error in several lines", "{\n \"error\": {\n  \"message\": \"Oops. " + quotedKey + "\"\n }\n}\n", nil, "reports: Oops. [hidden]", retry.Stop},
		{"an error with a status", `{"StatusCode":503,"error":{"message":"busy","code":503}}`, nil, "reports: busy", retry.Retry},
		{"no JSON", hello + "{\"message\":\n" + olDone, said, "not JSON", retry.Stop},
		{"no JSON at first", "{\"message\":\n}\n" + olDone, nil, "not JSON", retry.Stop},
		{"no object", hello + "5\n" + olDone, said, "not JSON", retry.Stop},
		{"an event stream", "data: " + hello, nil, "not JSON", retry.Stop},
		{"bad UTF-8", hello + olLine("\"content\":\"\xff\"") + olDone, said, "not JSON", retry.Stop},
	} {
		t.Run(tt.name, func(t *testing.T) {
			everyWay(t, Ollama, ask(t, nil), tt.stream, tt.want, tt.err)
			_, err := outcome(t, Ollama, ask(t, nil), strings.NewReader(tt.stream))
			if f, ok := errors.AsType[*Fault](err); !ok || f.Verdict.Class != tt.class {
				t.Errorf("got %#v, want the class %v", err, tt.class)
			}
		})
	}
}

func TestOllamaSinkFails(t *testing.T) { sinksFail(t, Ollama, olTools, 13) }

// TestOllamaAddress goes through base URLs as people write them.
func TestOllamaAddress(t *testing.T) {
	for base, want := range map[string]string{
		"http://h": "/api/chat", "http://h/": "/api/chat", "http://h/v1": "/api/chat", "http://h/v1/": "/api/chat", "http://h/api": "/api/chat",
		"http://h/gate/v1": "/gate/api/chat", "http://v1": "/api/chat",
	} {
		ep, s := endpointFor(t, strings.NewReader(olDone))
		ep.Base = base
		if err := Ollama(context.Background(), ep, ask(t, nil), &gathered{}); err != nil {
			t.Error(err)
		}
		if s.paths[0] != want || s.header.Get("Authorization") != "Bearer "+testKey || ep.Base != base {
			t.Errorf("%s: asked %s with %v", base, s.paths[0], s.header)
		}
	}
}

// FuzzOllamaStream holds that no stream makes the reader fail in another way
// than by an error, that cuts change nothing, and that what is kept goes back.
func FuzzOllamaStream(f *testing.F) {
	f.Add(olTools, uint(100))
	f.Add("\xef\xbb\xbf"+strings.ReplaceAll(olTools, "\n", "\r\n\r\n"), uint(7))
	f.Add(olLine(`"content":"a"`)+`{"error":"x"}`, uint(200))
	f.Add("{\n\"message\":{\"content\":\"a\"},\n\"done\":true}", uint(3))
	f.Add("{\"message\":{\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"[\"}}]}}\n{\"done\":true", uint(60))
	f.Fuzz(func(t *testing.T, stream string, at uint) {
		read := func(x *exchange) error {
			answer := ollamaAnswer{x: x}
			return answer.read()
		}
		handedBack(t, sameHowever(t, read, stream, at), ollamaBody)
	})
}
