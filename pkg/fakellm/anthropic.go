package fakellm

import (
	"encoding/json"
	"net/http"
	"strings"
)

// anthropic is the wire of Anthropic's messages.
var anthropic = dialect{
	read: readAnthropic, stream: anthropicStream, whole: anthropicWhole, failure: anthropicFailure, unknown: anthropicUnknown,
	named: true,
}

func readAnthropic(_ *http.Request, raw []byte) (asked, error) {
	var in struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if json.Unmarshal(raw, &in) != nil {
		return asked{}, errNoChat
	}
	out := asked{model: in.Model, stream: in.Stream}
	if n := len(in.Messages); n > 0 {
		out.last = blockText(in.Messages[n-1].Content)
	}
	return out, nil
}

// blockText returns the text of a content, including tool results.
func blockText(content json.RawMessage) string {
	var blocks []struct {
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(content, &blocks) != nil {
		return plain(content)
	}
	var texts []string
	for _, b := range blocks {
		if b.Text != "" {
			texts = append(texts, b.Text)
		}
		if len(b.Content) > 0 {
			texts = append(texts, blockText(b.Content))
		}
	}
	return strings.Join(texts, "\n")
}

// blocks collects the events of content blocks.
type blocks struct {
	events []event
	count  int
}

// add adds the events of a block with its deltas.
func (b *blocks) add(start object, deltas ...object) {
	b.event("content_block_start", object{"index": b.count, "content_block": start})
	for _, delta := range deltas {
		b.event("content_block_delta", object{"index": b.count, "delta": delta})
	}
	b.event("content_block_stop", object{"index": b.count})
	b.count++
}

func (b *blocks) event(name string, data object) {
	data["type"] = name
	b.events = append(b.events, event{name, data})
}

func anthropicStream(r reply) flow {
	var b, finish, mark blocks
	message := r.anthropicMessage([]object{}, nil)
	if usage := r.anthropicUsage(); usage != nil {
		usage["output_tokens"] = 1 // the total is in message_delta
		message["usage"] = usage
	}
	b.event("message_start", object{"message": message})
	b.event("ping", object{})
	if r.has(Unknown) {
		b.add(object{"type": "future_block", "future": "x"}, object{"type": "future_delta", "future": "x"})
	}
	if r.Reasoning != "" {
		thoughts := deltas("thinking_delta", "thinking", r.cut(r.Reasoning))
		b.add(object{"type": "thinking", "thinking": "", "signature": ""},
			append(thoughts, object{"type": "signature_delta", "signature": r.signature})...)
	}
	if r.content() != "" {
		b.add(object{"type": "text", "text": ""}, deltas("text_delta", "text", r.pieces())...)
	}
	for _, call := range r.Calls {
		b.add(anthropicCall(call, object{}), deltas("input_json_delta", "partial_json", r.fragments(call))...)
	}
	end := object{"delta": object{"stop_reason": r.anthropicReason(), "stop_sequence": nil}}
	if usage := r.anthropicUsage(); usage != nil {
		end["usage"] = object{"output_tokens": usage["output_tokens"]}
	}
	finish.event("message_delta", end)
	mark.event("message_stop", object{})
	return flow{body: b.events, finish: finish.events, mark: mark.events}
}

// deltas returns a delta for each of the texts.
func deltas(typ, key string, texts []string) (list []object) {
	for _, text := range texts {
		list = append(list, object{"type": typ, key: text})
	}
	return list
}

func anthropicCall(call Call, input any) object {
	out := object{"type": "tool_use", "name": call.Name, "input": input}
	if !call.NoID {
		out["id"] = call.ID
	}
	return out
}

func (r reply) anthropicReason() string {
	return r.reason("end_turn", "tool_use", "max_tokens", "refusal")
}

func (r reply) anthropicMessage(content []object, reason any) object {
	return object{
		"id": "msg_fake", "type": "message", "role": "assistant", "model": r.model, "content": content,
		"stop_reason": reason, "stop_sequence": nil,
	}
}

// anthropicUsage returns the usage, nil if the turn reports none. On this wire
// input_tokens exclude cached tokens.
func (r reply) anthropicUsage() object {
	n, ok := r.tokens()
	if !ok {
		return nil
	}
	return object{
		"input_tokens": n.In - n.CacheRead - n.CacheWrite, "output_tokens": n.Out,
		"cache_read_input_tokens": n.CacheRead, "cache_creation_input_tokens": n.CacheWrite,
	}
}

func anthropicWhole(r reply) (int, object) {
	content := []object{}
	if r.Reasoning != "" {
		content = append(content, object{"type": "thinking", "thinking": r.Reasoning, "signature": r.signature})
	}
	if text := r.content(); text != "" {
		content = append(content, object{"type": "text", "text": text})
	}
	for _, call := range r.Calls {
		input, ok := arguments(call)
		if !ok {
			input = call.Args // not an object, but valid JSON
		}
		content = append(content, anthropicCall(call, input))
	}
	body := r.anthropicMessage(content, r.anthropicReason())
	if usage := r.anthropicUsage(); usage != nil {
		body["usage"] = usage
	}
	return http.StatusOK, body
}

// arguments returns a call's arguments as JSON; false if they are not JSON.
func arguments(call Call) (any, bool) {
	if call.Args == "" {
		return object{}, true
	}
	return json.RawMessage(call.Args), json.Valid([]byte(call.Args))
}

func anthropicFailure(status int, message string) object {
	typ := "api_error"
	switch status {
	case http.StatusBadRequest:
		typ = "invalid_request_error"
	case http.StatusServiceUnavailable:
		typ = "overloaded_error"
	}
	return object{"type": "error", "error": object{"type": typ, "message": message}, "request_id": "req_fake"}
}

func anthropicUnknown(_ reply, after event) []event {
	list := []event{{"future_event", object{"type": "future_event", "future": object{"a": 1}}}}
	if after.name == "content_block_start" || after.name == "content_block_delta" {
		index := after.data.(object)["index"]
		list = append(list, event{"content_block_delta", object{
			"type": "content_block_delta", "index": index, "delta": object{"type": "future_delta", "future": "x"},
		}})
	}
	return list
}
