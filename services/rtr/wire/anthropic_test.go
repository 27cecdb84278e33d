package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// anthropicEvents writes events as Anthropic sends them: the type of each
// stands in a line of its own too.
func anthropicEvents(list ...string) string {
	var b strings.Builder
	for _, data := range list {
		b.WriteString("event: " + text(memberOf([]byte(data), "type")) + "\ndata: " + data + "\n\n")
	}
	return b.String()
}

// Events of which the streams below are made.
const (
	anStart  = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":70,"output_tokens":1}}}`
	anBegin  = `{"type":"message_start","message":{"usage":{"input_tokens":100}}}`
	anText   = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	anHello  = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Grü\u00dfe\n🌍"}}`
	anStop0  = `{"type":"content_block_stop","index":0}`
	anEnd    = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":12}}`
	anMark   = `{"type":"message_stop"}`
	anPing   = `{"type": "ping"}`
	anUsed   = `used {"input_tokens":100,"output_tokens":1,"cache_read_tokens":70,"cache_write_tokens":20}`
	anUsed0  = `used {"input_tokens":100,"output_tokens":0}`
	anUsed9  = `used {"input_tokens":100,"output_tokens":12}`
	anUsed12 = `used {"input_tokens":100,"output_tokens":12,"cache_read_tokens":70,"cache_write_tokens":20}`
)

func TestAnthropicText(t *testing.T) {
	everyWay(t, Anthropic, ask(t, nil), anthropicEvents(anStart, anText, anPing, anHello,
		`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"cited_text":"x"}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"!"}}`, anStop0, anEnd, anMark),
		[]string{anUsed, "text 0 Grüße\n🌍!", anUsed12, "finish stop"}, "")
}

// anTools is an answer with signed reasoning and two calls, whose arguments
// come in pieces, with fine cuts and with none at all.
var anTools = []string{
	anStart,
	`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me \"look\""}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":" ‽"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB/+=="}}`,
	anStop0,
	`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"bash","input":{}}}`,
	`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}`,
	`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\n\"code\": \"l"}}`,
	`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"s\"}"}}`,
	`{"type":"content_block_stop","index":1}`,
	`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_2","name":"read","input":{"path":"a"}}}`,
	`{"type":"content_block_stop","index":2}`,
	`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":10,"cache_creation_input_tokens":0,"output_tokens":40,"output_tokens_details":{"thinking_tokens":25}}}`,
	anMark,
}

var anToolsWant = []string{
	anUsed, `reasoning 0 Let me "look" ‽`, "tool 0 toolu_1 bash", "args 0 {\n\"code\": \"ls\"}", "tool 1 toolu_2 read", `args 1 {"path":"a"}`,
	`used {"input_tokens":100,"output_tokens":40,"cache_read_tokens":70,"cache_write_tokens":20,"reasoning_tokens":25}`,
	`state {"provider":"anthropic","model":"m","content":[{"type":"thinking","thinking":"Let me \"look\" ‽","signature":"EqQB/+=="},` +
		`{"type":"tool_use","id":"toolu_1","name":"bash","input":{"code":"ls"}},{"type":"tool_use","id":"toolu_2","name":"read","input":{"path":"a"}}]}`,
	"finish tool_calls",
}

func TestAnthropicTools(t *testing.T) {
	everyWay(t, Anthropic, ask(t, nil), anthropicEvents(anTools...), anToolsWant, "")
}

// TestAnthropicForms holds that the same events are read from every form that a
// stream may have.
func TestAnthropicForms(t *testing.T) {
	events := []string{
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"ü"}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}}`,
		`{"type":"content_block_stop","index":1}`, anMark,
	}
	want := []string{
		"reasoning 0 ü", "tool 0 t1 f", `args 0 {"a":1}`, `state {"provider":"anthropic","model":"m","content":[` +
			`{"type":"thinking","thinking":"ü","signature":""},{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]}`, "finish stop",
	}
	plain := anthropicEvents(events...)
	var bare, noisy, split strings.Builder
	for _, data := range events {
		bare.WriteString("data:" + data + "\n\n")
		noisy.WriteString(": comment\n\nid: 7\nretry: 1\n" + anthropicEvents(data, anPing, `{"type":"future","content_block":{}}`) + "\n\n\n")
		var lines bytes.Buffer
		if err := json.Indent(&lines, []byte(data), "data: ", ""); err != nil {
			t.Fatal(err)
		}
		split.WriteString("data: " + lines.String() + "\n\n")
	}
	for name, stream := range map[string]string{
		"plain": plain, "without names": bare.String(), "noise": noisy.String(), "split data": split.String(),
		"CRLF": strings.ReplaceAll(plain, "\n", "\r\n"), "CR": strings.ReplaceAll(plain, "\n", "\r"), "BOM": "\xef\xbb\xbf" + plain,
	} {
		t.Run(name, func(t *testing.T) { everyWay(t, Anthropic, ask(t, nil), stream, want, "") })
	}
}

// refusing is a sink that fails at an event.
type refusing struct {
	gathered
	at   Kind
	wait error
}

func (r *refusing) Event(e Event) error {
	if e.Kind == r.at {
		return r.wait
	}
	return r.gathered.Event(e)
}

func TestAnthropicSink(t *testing.T) {
	gone := errors.New("gone")
	for _, at := range []Kind{Text, Reasoning, ToolStart, ToolArgs, Used, State, Finish} {
		stream := strings.NewReader(anthropicEvents(append([]string{anText, anHello}, anTools...)...))
		ep, _ := endpointFor(t, stream)
		if err := Anthropic(context.Background(), ep, ask(t, nil), &refusing{at: at, wait: gone}); err != gone {
			t.Errorf("at %d: got %v", at, err)
		}
	}
}

func TestAnthropicRequest(t *testing.T) {
	for base, want := range map[string]string{
		"http://h": "/v1/messages", "http://h/": "/v1/messages", "http://h/v1": "/v1/messages", "http://h/v1/": "/v1/messages",
		"http://h/api/anthropic": "/api/anthropic/v1/messages", "http://h/api/v1": "/api/v1/messages",
	} {
		ep, s := endpointFor(t, strings.NewReader(anthropicEvents(anMark)))
		ep.Base = base
		if err := Anthropic(context.Background(), ep, ask(t, func(r *Request) { r.Stream = false }), &gathered{}); err != nil {
			t.Fatal(err)
		}
		if s.paths[0] != want || ep.Base != base {
			t.Errorf("%s: got %s, and the base %s", base, s.paths[0], ep.Base)
		}
		h := s.header
		if h.Get("x-api-key") != testKey || h.Get("anthropic-version") != "2023-06-01" || h.Get("Accept") != "text/event-stream" ||
			h.Get("Content-Type") != "application/json" || h.Get("Authorization") != "" {
			t.Errorf("got the header %v", h)
		}
	}
	ep, s := endpointFor(t, strings.NewReader(anthropicEvents(anMark)))
	ep.Key = ""
	if err := Anthropic(context.Background(), ep, ask(t, nil), &gathered{}); err != nil || len(s.header.Values("x-api-key")) != 0 {
		t.Errorf("without a key: %v, %v", s.header, err)
	}
}
