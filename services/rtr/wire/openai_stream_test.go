package wire

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"zino/proto"
)

// sseData makes a stream of events, each with its blank line, and the end mark.
func sseData(list ...string) string {
	return "data: " + strings.Join(append(list, "[DONE]"), "\n\ndata: ") + "\n\n"
}

// delta is an event with one delta of the first choice.
func delta(members string) string {
	return `{"choices":[{"index":0,"delta":{` + members + `},"finish_reason":null}]}`
}

// finish is an event that says why the model stopped.
func finish(reason string) string {
	return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

// TestStreams feeds what servers of OpenAI's wire send, as they send it.
func TestStreams(t *testing.T) {
	for _, tt := range []struct {
		name, stream string
		want         []string
		err          string
	}{
		{
			"OpenRouter", ": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n" + sseData(
				`{"id":"gen-1","provider":"X","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"so","reasoning_details":[{"type":"reasoning.text","text":"so","index":0}]},"finish_reason":null,"native_finish_reason":null}]}`,
				delta(`"role":"assistant","content":"hi","reasoning":null`), finish("stop"),
				`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"cost":0.5}}`),
			[]string{"reasoning 0 so", "text 0 hi", `used {"input_tokens":3,"output_tokens":4}`, "finish stop"},
			"",
		},
		{
			"OpenRouter fails in the middle", sseData(delta(`"content":"par"`),
				`{"id":"gen-1","error":{"code":502,"message":"upstream broke","metadata":{"raw":"x"}},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`),
			[]string{"text 0 par"},
			"the provider reports: upstream broke",
		},
		{
			"OpenRouter fails, the choice first", sseData(delta(`"content":"par"`),
				`{"choices":[{"index":0,"delta":{"content":"tial"},"finish_reason":"error"}],"error":{"code":502,"message":"upstream broke"}}`),
			[]string{"text 0 partial"},
			"the provider reports: upstream broke",
		},
		{
			"llama.cpp", sseData(delta(`"role":"assistant","content":null`), delta(`"reasoning_content":"hm"`), delta(`"content":"Grü"`), delta(`"content":"ße"`),
				`{"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"timings":{"cache_n":2,"prompt_n":1},"usage":{"completion_tokens":4,"prompt_tokens":3,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":2}}}`),
			[]string{"reasoning 0 hm", "text 0 Grüße", `used {"input_tokens":3,"output_tokens":4,"cache_read_tokens":2}`, "finish stop"},
			"",
		},
		{
			"llama.cpp fails", "data: " + delta(`"content":"x"`) + "\n\nerror: {\"code\":500,\"message\":\"context is full\",\"type\":\"server_error\"}\n\n",
			[]string{"text 0 x"},
			"the provider reports: context is full",
		},
		{
			"vLLM, which counts in every event", sseData(
				`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":{"prompt_tokens":5,"completion_tokens":0}}`,
				`{"choices":[{"index":0,"delta":{"reasoning":"why"}}],"usage":{"prompt_tokens":5,"completion_tokens":1}}`,
				`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"length","stop_reason":null}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`,
				`{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":null}}`),
			[]string{`used {"input_tokens":5,"output_tokens":0}`, "reasoning 0 why", `used {"input_tokens":5,"output_tokens":1}`, "text 0 a", `used {"input_tokens":5,"output_tokens":2}`, `used {"input_tokens":5,"output_tokens":2}`, "finish length"},
			"",
		},
		{
			"vLLM fails", sseData(delta(`"content":"a"`), `{"object":"error","message":"engine died","type":"InternalServerError","code":500}`),
			[]string{"text 0 a"},
			"the provider reports: engine died",
		},
		{
			"LM Studio", sseData(`{"id":"chatcmpl-1","object":"chat.completion.chunk","system_fingerprint":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"logprobs":null,"finish_reason":null}]}`, finish("stop")),
			[]string{"text 0 a", "finish stop"},
			"",
		},
		{
			"LM Studio fails", "event: error\ndata: {\"error\":{\"message\":\"the model crashed\"}}\n\n",
			nil, "the provider reports: the model crashed",
		},
		{
			"DeepSeek", ": keep-alive\n\n: keep-alive\n\n" + sseData(delta(`"role":"assistant","content":null,"reasoning_content":""`), delta(`"content":null,"reasoning_content":"well"`), delta(`"content":"ok","reasoning_content":null`),
				`{"choices":[{"index":0,"delta":{"content":"","reasoning_content":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8},"completion_tokens_details":{"reasoning_tokens":1},"prompt_cache_hit_tokens":8}}`),
			[]string{"reasoning 0 well", "text 0 ok", `used {"input_tokens":9,"output_tokens":3,"cache_read_tokens":8,"reasoning_tokens":1}`, "finish stop"},
			"",
		},
		{
			"Ollama", sseData(delta(`"role":"assistant","content":"","reasoning":"mm"`),
				delta(`"content":"","tool_calls":[{"id":"call_x","index":0,"type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]`),
				finish("tool_calls"), `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`),
			[]string{"reasoning 0 mm", "tool 0 call_x f", `args 0 {"a":1}`, `used {"input_tokens":3,"output_tokens":4}`, "finish tool_calls"},
			"",
		},
		{"both names of reasoning", sseData(delta(`"reasoning":"x","reasoning_content":"x"`), delta(`"content":"a"`), finish("stop")), []string{"reasoning 0 x", "text 0 a", "finish stop"}, ""},
		{"a byte order mark and CRLF", "\xef\xbb\xbf" + strings.ReplaceAll(sseData(delta(`"content":"ä🌍"`), finish("stop")), "\n", "\r\n"), []string{"text 0 ä🌍", "finish stop"}, ""},
		{"CR alone", strings.ReplaceAll(sseData(delta(`"content":"ä"`), finish("stop")), "\n", "\r"), []string{"text 0 ä", "finish stop"}, ""},
		{"split data", "data: {\"choices\":\ndata:[{\"delta\":{\"content\":\ndata: \"a\"}}]}\n\n" + sseData(finish("stop")), []string{"text 0 a", "finish stop"}, ""},
		{"no blank lines", "data: " + delta(`"content":"a"`) + "\ndata: " + delta(`"content":"b"`) + "\n: c\ndata: " + finish("stop") + "\ndata: [DONE]\n", []string{"text 0 ab", "finish stop"}, ""},
		{"no blank lines and no reason", "data: " + delta(`"content":"a"`) + "\ndata: " + delta(`"content":"b"`) + "\ndata: [DONE]\n\n", []string{"text 0 ab", "finish "}, ""},
		{"no blank lines, cut in the last", "data: " + delta(`"content":"a"`) + "\ndata: " + delta(`"content":"b"`) + "\ndata: {\"cho", []string{"text 0 ab"}, "no end mark"},
		{"no blank lines, cut off", "data: " + delta(`"content":"a"`) + "\ndata: " + delta(`"content":"b"`) + "\n\n", []string{"text 0 ab"}, "no end mark"},
		{"unknown things", "event: future\nid: 7\nretry: 5\ndata: {\"type\":\"future\",\"a\":[1]}\n\n" + sseData(`{"choices":[{"future":{},"delta":{"future":[1],"content":"a"}}],"future":null}`, finish("new_reason")), []string{"text 0 a", "finish new_reason"}, ""},
		{"a reason without the mark", "data: " + delta(`"content":"a"`) + "\n\ndata: " + finish("content_filter") + "\n\n", []string{"text 0 a", "finish filter"}, ""},
		{"nothing but a mark", sseData(), []string{"finish "}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) { everyWay(t, OpenAI, ask(t, nil), tt.stream, tt.want, tt.err) })
	}
}

// TestCost holds that OpenRouter's word on the cost counts, and nobody else's.
func TestCost(t *testing.T) {
	stream := sseData(delta(`"content":"a"`), finish("stop"), `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"cost":0.0125}}`)
	for _, tt := range []struct {
		infer Func
		want  string
	}{
		{OpenRouter, `used {"input_tokens":3,"output_tokens":4,"cost_usd":0.0125}`},
		{OpenAI, `used {"input_tokens":3,"output_tokens":4}`},
	} {
		got, err := outcome(t, tt.infer, ask(t, nil), strings.NewReader(stream))
		if err != nil || len(got) != 3 || got[1] != tt.want {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

// anyCuts is a stream with all that can stand at a cut: characters of several
// bytes, CRLF, comments, data in several lines.
const anyCuts = "\xef\xbb\xbf: c\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"Grü\"}}]}\r\n\r\ndata:{\"choices\":\ndata: [{\"delta\":{\"content\":\"ße 🌍\"}}]}\n\n" +
	"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\r\rdata: [DONE]\n\n"

func TestCuts(t *testing.T) {
	everyWay(t, OpenAI, ask(t, nil), anyCuts, []string{"text 0 Grüße 🌍", "finish stop"}, "")
}

// TestTruncated holds that no beginning of a stream is taken for an answer
// until its finish reason or end mark is there.
func TestTruncated(t *testing.T) {
	complete := strings.Index(anyCuts, `]}`+"\r\r")
	for i := range complete {
		ep, _ := endpointFor(t, strings.NewReader(anyCuts[:i]))
		var g gathered
		err := OpenAI(t.Context(), ep, ask(t, nil), &g)
		if !errors.Is(err, proto.ErrUnavailable) || !strings.HasPrefix("Grüße 🌍", g.Text()) {
			t.Errorf("cut off at %d: got %q, %v", i, g.words, err)
		}
	}
}

// FuzzAnswer holds that no provider can break the router, make it call half an
// answer whole, or have it repeat the key, and that how bytes are cut into
// reads makes no difference.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(anyCuts))
	for _, tt := range append(wrongAnywhere, wrongStreams...) {
		if tt.turn.Status == 200 {
			f.Add([]byte(tt.turn.Text))
		}
	}
	f.Add([]byte(sseData(delta(`"reasoning":"r","tool_calls":[{"id":"1","index":0,"function":{"name":"f","arguments":"{\"a\""}},{"extra_content":{"b":1},"function":{"arguments":":1}"}}]`), finish("stop"))))
	f.Fuzz(func(t *testing.T, body []byte) {
		run := func(r io.Reader) (string, error) {
			ep, _ := endpointFor(t, r)
			var g gathered
			err := OpenAI(context.Background(), ep, ask(t, nil), &g)
			return strings.Join(g.words, "\n"), err
		}
		got, err := run(strings.NewReader(string(body)))
		again, err2 := run(iotest.OneByteReader(strings.NewReader(string(body))))
		if got != again || (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Fatalf("whole: %q, %v; byte by byte: %q, %v", got, err, again, err2)
		}
		if err == nil {
			return
		}
		fault, ok := errors.AsType[*Fault](err)
		if !ok || fault.Message == "" || fault.Kind == "" || strings.ContainsAny(fault.Message+fault.Details, "\n\r\x1b\x00") {
			t.Fatalf("got %#v", err)
		}
		noSecret(t, "the error", fault.Message+fault.Details)
	})
}

// TestNoBlankLines holds that events without blank lines between them are told
// apart, also where the input ends without one, and in its middle.
func TestNoBlankLines(t *testing.T) {
	const hel, lo, end = `data: {"choices":[{"delta":{"content":"hel"}}]}` + "\n", `data: {"choices":[{"delta":{"content":"lo"}}]}` + "\n", `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n"
	for _, stream := range []string{
		hel + lo + end + "data: [DONE]\n", hel + lo + end + "data: [DONE]", hel + "\n" + lo + end + "data: [DONE]\n\n", hel + lo + end, hel + lo + end[:len(end)-1], hel + lo + end + `data: {"choi`,
	} {
		everyWay(t, OpenAI, ask(t, nil), stream, []string{"text 0 hello", "finish stop"}, "")
	}
	everyWay(t, OpenAI, ask(t, nil), hel+lo+`data: {"choi`, []string{"text 0 hello"}, "ended before")
}
