package wire

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"zino/services/rtr/retry"
)

// anthropicTwoWays feeds a stream whole and byte by byte, holds that the events are those
// wanted, and returns the error.
func anthropicTwoWays(t *testing.T, stream string, want []string) error {
	t.Helper()
	got, err := outcome(t, Anthropic, ask(t, nil), strings.NewReader(stream))
	slow, slowErr := outcome(t, Anthropic, ask(t, nil), iotest.OneByteReader(strings.NewReader(stream)))
	if !slices.Equal(got, want) || !slices.Equal(slow, want) {
		t.Errorf("got\n%s\nand byte by byte\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(slow, "\n"), strings.Join(want, "\n"))
	}
	if fmt.Sprint(err) != fmt.Sprint(slowErr) {
		t.Errorf("error %v, byte by byte %v", err, slowErr)
	}
	return err
}

func TestAnthropicAnswers(t *testing.T) {
	call := `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{}}}`
	args := `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}`
	state := func(blocks string) string {
		return `state {"provider":"anthropic","model":"m","content":[` + blocks + `{"type":"tool_use","id":"t1","name":"f","input":{}}]}`
	}
	for _, tt := range []struct {
		name   string
		events []string
		want   []string
	}{
		{"a call without arguments", []string{call, anMark}, []string{"tool 0 t1 f", "finish stop"}},
		{"no state for text and calls", []string{anText, anHello, call, args, anMark}, []string{"text 0 Grüße\n🌍", "tool 0 t1 f", "args 0 {}", "finish stop"}},
		{"no state without calls", []string{`{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"x"}}`, anMark}, []string{"finish stop"}},
		{"redacted", []string{
			`{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"x"}}`, anStop0, call, args, anMark,
		}, []string{"tool 0 t1 f", "args 0 {}", state(`{"type":"redacted_thinking","data":"x"},`), "finish stop"}},
		{"a server's tool", []string{
			`{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"query\":1}"}}`, anStop0,
			`{"type":"content_block_start","index":5,"content_block":{"type":"web_search_tool_result","tool_use_id":"s","content":[{"a":1}]}}`, call, args, anMark,
		}, []string{"tool 0 t1 f", "args 0 {}", state(`{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":1}},{"type":"web_search_tool_result","tool_use_id":"s","content":[{"a":1}]},`), "finish stop"}},
		{"blocks that begin with text", []string{
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}`,
			`{"type":"content_block_start","index":3,"content_block":{"signature":"s","type":"thinking","thinking":"c"}}`, call, anMark,
		}, []string{"text 0 ab", "reasoning 0 c", "tool 0 t1 f", state(`{"type":"text","text":"ab"},{"signature":"s","type":"thinking","thinking":"c"},`), "finish stop"}},
		{"pieces without a block", []string{
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`, args, anStop0,
			`{"type":"content_block_delta","delta":{"type":"text_delta","text":"b"}}`,
			`{"type":"content_block_start","index":0,"content_block":null}`, `{"type":"content_block_delta","index":0}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta"}}`, `{"type":"content_block_stop","index":7}`, anMark,
		}, []string{"text 0 ab", "finish stop"}},
		{"reasoning without a block", []string{
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"a"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}`, call, args, anMark,
		}, []string{"reasoning 0 a", "tool 0 t1 f", "args 0 {}", state(`{"type":"thinking","thinking":"a","signature":"s"},`), "finish stop"}},
		{"arguments that are no object", []string{
			`{"type":"content_block_start","index":0,"content_block":{"type":"new","a":1}}`, call,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"oh \"no\""}}`, anMark,
		}, []string{"tool 0 t1 f", `args 0 oh "no"`, strings.Replace(state(`{"type":"new","a":1},`), `"input":{}`, `"input":{"_malformed":"oh \"no\""}`, 1), "finish stop"}},
		{"blank text is not handed back", []string{
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"a","signature":"s"}}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"\n\n"}}`, call, args, anMark,
		}, []string{"reasoning 0 a", "text 0 \n\n", "tool 0 t1 f", "args 0 {}", state(`{"type":"thinking","thinking":"a","signature":"s"},`), "finish stop"}},
		{"blank text between reasoning", []string{
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"a","signature":"s"}}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"\n"}}`,
			`{"type":"content_block_start","index":3,"content_block":{"type":"redacted_thinking","data":"x"}}`, call, args, anMark,
		}, []string{"reasoning 0 a", "text 0 \n", "tool 0 t1 f", "args 0 {}", "finish stop"}},
		{"the type after the rest", []string{
			`{"content_block":{"text":"","type":"text"},"index":0,"type":"content_block_start"}`,
			`{"delta":{"text":"a","type":"text_delta"},"index":0,"type":"content_block_delta"}`, anMark,
		}, []string{"text 0 a", "finish stop"}},
		{"nothing said", []string{anStart, anEnd, anMark}, []string{anUsed, anUsed12, "finish stop"}},
		{"what follows the end mark", []string{anText, anHello, anMark, `{"type":"error"}`, "no JSON"}, []string{"text 0 Grüße\n🌍", "finish stop"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := anthropicTwoWays(t, anthropicEvents(tt.events...), tt.want); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAnthropicStopReasons(t *testing.T) {
	for word, want := range map[string]string{
		`"end_turn"`: "stop", `"stop_sequence"`: "stop", `"tool_use"`: "tool_calls", `"max_tokens"`: "length", `null`: "stop",
		`"model_context_window_exceeded"`: "length", `"refusal"`: "refusal", `"pause_turn"`: "pause_turn", `"of the future"`: "of the future",
	} {
		stream := anthropicEvents(anText, anHello, `{"type":"message_delta","delta":{"stop_reason":`+word+`}}`, anMark)
		got, err := outcome(t, Anthropic, ask(t, nil), strings.NewReader(stream))
		if err != nil || got[len(got)-1] != "finish "+want {
			t.Errorf("%s: got %q, %v", word, got, err)
		}
	}
}

func TestAnthropicUsage(t *testing.T) {
	begun := func(usage string) string { return `{"type":"message_start","message":{"usage":` + usage + `}}` }
	ending := func(usage string) string { return `{"type":"message_delta","delta":{},"usage":` + usage + `}` }
	for _, tt := range []struct {
		name   string
		events []string
		want   string // the last usage
	}{
		{"told at the end alone", []string{ending(`{"input_tokens":3,"output_tokens":4}`)}, `{"input_tokens":3,"output_tokens":4}`},
		{"zero erases nothing", []string{begun(`{"input_tokens":3,"cache_read_input_tokens":5}`), ending(`{"input_tokens":0,"cache_read_input_tokens":null,"output_tokens":4}`)}, `{"input_tokens":8,"output_tokens":4,"cache_read_tokens":5}`},
		{"the last one counts", []string{ending(`{"input_tokens":3,"output_tokens":4}`), ending(`{"input_tokens":2,"output_tokens":9}`)}, `{"input_tokens":2,"output_tokens":9}`},
		{"none", []string{begun(`null`), ending(`{}`), ending(`[1]`), `{"type":"message_start"}`, `{"type":"message_delta"}`}, ""},
		{"what is no number of tokens", []string{ending(`{"input_tokens":-3,"output_tokens":4.5,"cache_read_input_tokens":9223372036854775807,"cache_creation_input_tokens":"7","output_tokens_details":1}`)}, ""},
	} {
		got, err := outcome(t, Anthropic, ask(t, nil), strings.NewReader(anthropicEvents(append(tt.events, anMark)...)))
		last := ""
		for _, word := range got {
			if used, ok := strings.CutPrefix(word, "used "); ok {
				last = used
			}
		}
		if err != nil || last != tt.want {
			t.Errorf("%s: got %q, %v", tt.name, got, err)
		}
	}
}

// TestAnthropicErrors holds that nothing but the end mark is a complete answer,
// and that what was said before an error is not lost.
func TestAnthropicErrors(t *testing.T) {
	said := []string{anUsed0, "text 0 Grüße\n🌍"}
	broken := `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded by ` + quotedKey + `"}}`
	for _, tt := range []struct {
		name, stream, err string
		want              []string
	}{
		{"error", anthropicEvents(anBegin, anText, anHello, broken), "the provider reports: Overloaded", said},
		{"error without its name", "data: " + broken + "\n\n", "the provider reports: Overloaded", nil},
		{"error without its type", anthropicEvents(anBegin, anText, anHello) + "event: error\ndata: {\"message\":\"boom\"}\n\n", "the provider reports: boom", said},
		{"error of a proxy", "data: {\"error\":{\"message\":\"boom\"}}\n\n", "the provider reports: boom", nil},
		{"error as a bare line", anthropicEvents(anBegin, anText, anHello) + broken + "\n\n", "the provider reports: Overloaded", said},
		{"error after the stop reason", anthropicEvents(anBegin, anText, anHello, anEnd, broken), "the provider reports: Overloaded", append(said[:2:2], anUsed9)},
		{"no end mark", anthropicEvents(anBegin, anText, anHello, anStop0, anEnd), "ended before the answer was complete", append(said[:2:2], anUsed9)},
		{"a ping alone", anthropicEvents(anPing), "ended before the answer was complete", nil},
		{"no stop reason", anthropicEvents(anBegin, anText, anHello), "ended before the answer was complete", said},
		{"another wire's end mark", anthropicEvents(anBegin, anText, anHello, anEnd) + "data: [DONE]\n\n", "ended before the answer was complete", append(said[:2:2], anUsed9)},
		{"cut in an event", strings.TrimSuffix(anthropicEvents(anBegin, anText, anHello, anMark), "}\n\n"), "ended before the answer was complete", said},
		{"not JSON", anthropicEvents(anBegin, anText, anHello) + "data: {\"type\": oops}\n\n", "not JSON", said},
		{"not an object", anthropicEvents(anBegin, anText, anHello) + "data: [1]\n\n", "not JSON", said},
		{"not UTF-8", anthropicEvents(anBegin, anText, anHello) + "data: {\"type\":\"ping\",\"a\":\"\xff\"}\n\n", "not JSON", said},
		{"another wire", "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n", "nothing that is a model's answer: check the_base_url", nil},
		{"nothing", "", "nothing that is a model's answer", nil},
		{"comments alone", ": hi\n\n: there\n\n", "nothing that is a model's answer", nil},
		{"a web page", "<!doctype html><h1>Sign in</h1>", "web page", nil},
		{"an error as JSON", broken, "the provider reports: Overloaded", nil},
		{"a whole message", `{"type":"message","content":[{"type":"text","text":"x"}]}`, "JSON where a stream was asked for", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, ok := errors.AsType[*Fault](anthropicTwoWays(t, tt.stream, tt.want))
			if !ok || !strings.Contains(f.Message, tt.err) {
				t.Fatalf("got %v", f)
			}
			if all := f.Message + f.Details; strings.Contains(all, testKey) || strings.Contains(all, quotedKey) {
				t.Errorf("the key stands in %q", all)
			}
			retries := strings.Contains(tt.err, "Overloaded") || strings.Contains(tt.err, "complete")
			if retries != (f.Verdict.Class == retry.Retry) {
				t.Errorf("judged as %v", f.Verdict)
			}
		})
	}
}

// TestAnthropicTooMuch holds that what is kept of an answer has an end, also
// where nothing of it is handed on.
func TestAnthropicTooMuch(t *testing.T) {
	kib := strings.Repeat("x", 1<<10)
	for name, data := range map[string]string{
		"text":       `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + kib + `"}}`,
		"signatures": `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"` + kib + `"}}`,
		"blocks":     `{"type":"content_block_start","index":0,"content_block":{"type":"future"}}`,
	} {
		ep, _ := endpointFor(t)
		a := anthropicAnswer{x: &exchange{Endpoint: ep, sink: &gathered{}, size: MaxAnswer - 9<<10}}
		err := a.take("", []byte(anText))
		for n := 0; err == nil && n < 10; n++ {
			err = a.take("", []byte(data))
		}
		if err == nil || !strings.Contains(err.Error(), "longer than 16 MiB") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestAnthropicLong holds that a long line is read, and that an answer does not
// fail for what would be handed back of it.
func TestAnthropicLong(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	stream := anthropicEvents(append([]string{strings.Replace(anText, `"text":""`, `"text":"`+long+`"`, 1)}, anTools[1:]...)...)
	ep, _ := endpointFor(t, strings.NewReader(stream))
	var g gathered
	if err := Anthropic(t.Context(), ep, ask(t, nil), &g); err != nil || g.Text() != long {
		t.Errorf("%d bytes of text, %v", len(g.Text()), err)
	}
	for room, want := range map[int]int{4 << 10: 1, 1 << 10: 0} {
		var g gathered
		a := anthropicAnswer{x: &exchange{Endpoint: ep, sink: &g, req: ask(t, nil)}}
		for _, data := range anTools {
			if err := a.take("", []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
		a.x.size = MaxAnswer - room
		if err := a.end(); err != nil || strings.Count(strings.Join(g.words, "\n"), "state ") != want {
			t.Errorf("with %d bytes left: got %q, %v", room, g.words, err)
		}
	}
}
