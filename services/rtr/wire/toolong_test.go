package wire

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/proto"
	"zino/services/rtr/retry"
)

// complaints are providers' errors about a conversation that is too long.
var complaints = []struct {
	who    string
	status int
	body   string
}{
	{"Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 204141 tokens > 200000 maximum"}}`},
	{"Anthropic, with the answer", 400, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000\"}}"},
	{"Anthropic, in bytes", 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`},
	{"OpenAI", 400, `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`},
	{"OpenAI, the code alone", 400, `{"error":{"message":"no","code":"context_length_exceeded"}}`},
	{"OpenAI's other words", 400, `{"error":{"message":"Your input exceeds the context window of this model."}}`},
	{"Gemini", 400, `[{"error":{"code":400,"message":"The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`},
	{"OpenRouter", 400, `{"error":{"message":"This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens","code":400}}`},
	{"OpenRouter, for another", 400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long\"}}","provider_name":"x"}}}`},
	{"Ollama", 400, `{"error":"the input length exceeds the context length"}`},
	{"Ollama, as its own fault", 500, `{"error":"prompt too long; exceeded max context length by 9 tokens"}`},
	{"llama.cpp", 400, `{"error":{"code":400,"message":"the request exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error"}}`},
	{"LM Studio", 400, `{"error":"The number of tokens to keep from the initial prompt is greater than the context length."}`},
	{"a validation", 422, `{"detail":[{"msg":"Prompt Too Long","input":"x"}]}`},
	{"a proxy", 413, `<html>Request Entity Too Large</html>`},
	{"plain text", 400, `Request too large for gpt-x`},
	{"in a stream", 0, `{"error":{"message":"prompt is too long"}}`},
	{"a response that failed", 0, `{"type":"response.failed","response":{"error":{"code":"context_length_exceeded"}}}`},
}

// others are errors about something else.
var others = []struct {
	who    string
	status int
	body   string
}{
	{"a key", 401, `{"error":{"message":"prompt is too long"}}`},
	{"a rate", 429, `{"error":{"message":"Request too large for model on tokens per minute"}}`},
	{"overloaded", 529, `{"error":{"message":"prompt is too long"}}`},
	{"the answer's limit", 400, `{"error":{"message":"'max_tokens' is too large: 16384. This model's maximum context length is 8192 tokens and your request has 100 input tokens"}}`},
	{"what the user said", 422, `{"detail":[{"msg":"field required","input":{"messages":[{"content":"why is my prompt is too long?"}]}}]}`},
	{"another", 400, `{"error":{"message":"bad"}}`},
	{"nothing", 400, ``},
}

func TestOverflows(t *testing.T) {
	for _, tt := range complaints {
		if !overflows(tt.status, []byte(tt.body)) {
			t.Errorf("%s: not recognized", tt.who)
		}
	}
	for _, tt := range others {
		if overflows(tt.status, []byte(tt.body)) {
			t.Errorf("%s: taken for a conversation that is too long", tt.who)
		}
	}
}

// TestTooLong holds what becomes of such an error on its way: it keeps the
// provider's words and its status, and is not asked about again.
func TestTooLong(t *testing.T) {
	for _, tt := range complaints {
		turn := fakellm.Failure(tt.status, tt.body)
		if tt.status == 0 {
			turn = streamed("data: " + tt.body + "\n\n")
			if strings.Contains(tt.body, "response.failed") {
				continue // no event of this wire
			}
		}
		llm := fakellm.New(turn)
		var g gathered
		err := OpenAI(t.Context(), realEndpoint(t, llm.URL), ask(t, func(r *Request) { r.Stream = true }), &g)
		llm.Close()
		f, ok := errors.AsType[*Fault](err)
		if !ok || !f.TooLong || f.Code != proto.CodeTooLarge || f.Verdict.Class != retry.Stop || tt.status > 0 && (f.Status != tt.status || f.Kind != kindHTTP) {
			t.Errorf("%s: got %+v", tt.who, err)
		}
	}
}

// TestSize holds that what the model reads is counted, and nothing twice.
func TestSize(t *testing.T) {
	list, err := ReadMessages(proto.Raw(`[{"role":"user","content":"123456","other":"not read"},{"role":"assistant","content":null,"reasoning_state":{"a":1},
	 "tool_calls":[{"id":"12","function":{"name":"ab","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"12","content":"x"}]`))
	if err != nil {
		t.Fatal(err)
	}
	req := &Request{Messages: append(list, Message{Role: "user", Text: "made"}), Tools: []Tool{{"n", "de", []byte("{}")}}}
	if got, want := req.Size(), len(`"123456"`)+len("null")+len(`ab{"a":1}`)+len(`"x"`)+len("made")+len("nde{}"); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

// FuzzOverflows holds that nothing but a provider's words makes a conversation
// too long.
func FuzzOverflows(f *testing.F) {
	for _, tt := range append(slices.Clone(complaints), others...) {
		f.Add(tt.status, []byte(tt.body))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		long := overflows(status, body)
		if status == 401 && long || status == 413 && !long {
			t.Fatalf("%d: %v", status, long)
		}
		if f := fault(retry.Retry, proto.CodeInvalid, kindAPI, "m").judgeLength(status, body); f.TooLong != long || (f.Code == proto.CodeTooLarge) != long || (f.Verdict.Class == retry.Stop) != long {
			t.Fatalf("%d %q: got %+v", status, body, f)
		}
	})
}
