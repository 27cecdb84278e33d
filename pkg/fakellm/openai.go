package fakellm

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

// openai is the wire of OpenAI's chat completions and compatible servers.
var openai = dialect{
	read: readOpenAI, stream: openaiStream, whole: openaiWhole, failure: openaiFailure, unknown: openaiUnknown,
}

var errNoChat = errors.New("the request is not a chat completion")

func readOpenAI(r *http.Request, raw []byte) (asked, error) {
	var in struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if json.Unmarshal(raw, &in) != nil {
		return asked{}, errNoChat
	}
	router := strings.HasPrefix(r.URL.Path, "/api/v1/")
	out := asked{model: in.Model, stream: in.Stream, counts: router || in.StreamOptions.IncludeUsage, router: router}
	if n := len(in.Messages); n > 0 {
		out.last = plain(in.Messages[n-1].Content)
	}
	return out, nil
}

// plain returns the text of a content; for content in parts, its JSON.
func plain(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) != nil {
		return string(content)
	}
	return text
}

func openaiStream(r reply) flow {
	chunk := func(choices ...object) object {
		return object{"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 0, "model": r.model, "choices": choices}
	}
	delta := func(delta object) event { return event{data: chunk(openaiChoice(delta, nil))} }
	out := flow{body: []event{delta(object{"role": "assistant", "content": ""})}}
	for _, d := range r.openaiThoughts() {
		out.body = append(out.body, delta(d))
	}
	for _, text := range r.pieces() {
		out.body = append(out.body, delta(object{"content": text}))
	}
	for i := range r.Calls {
		for _, part := range r.openaiCall(i) {
			out.body = append(out.body, delta(object{"tool_calls": []object{part}}))
		}
	}
	out.finish = []event{{data: chunk(openaiChoice(object{}, r.openaiReason()))}}
	if usage := r.openaiUsage(); usage != nil && r.counts {
		last := chunk()
		last["choices"], last["usage"] = []object{}, usage
		out.usage = []event{{data: last}}
	}
	out.mark = []event{{data: "[DONE]"}}
	return out
}

func openaiChoice(delta object, finish any) object {
	return object{"index": 0, "delta": delta, "finish_reason": finish}
}

func (r reply) openaiReason() string {
	return r.reason("stop", "tool_calls", "length", "content_filter")
}

// openaiThoughts returns the deltas of the reasoning.
func (r reply) openaiThoughts() (list []object) {
	if r.ReasoningKey == keyExtra {
		return nil
	}
	for _, text := range r.cut(r.Reasoning) {
		switch r.ReasoningKey {
		case keyDetails:
			list = append(list, object{keyReasoning: text, keyDetails: []object{openaiDetail("text", text)}})
		case keyReasoning:
			list = append(list, object{keyReasoning: text})
		default:
			list = append(list, object{"reasoning_content": text})
		}
	}
	if r.ReasoningKey == keyDetails && r.Reasoning != "" {
		list = append(list, object{keyDetails: []object{openaiDetail("signature", r.signature)}})
	}
	return list
}

func openaiDetail(key, value string) object {
	return object{"type": "reasoning.text", "format": "fakellm-v1", "index": 0, key: value}
}

// openaiCall returns the parts in which a call is streamed.
func (r reply) openaiCall(i int) []object {
	call := r.Calls[i]
	first := r.openaiWholeCall(i)
	if !call.NoIndex {
		first["index"] = i
	}
	if call.Whole {
		return []object{first}
	}
	first["function"] = object{"name": call.Name, "arguments": ""}
	list := []object{first}
	for _, text := range r.fragments(call) {
		part := object{"function": object{"arguments": text}}
		if !call.NoIndex {
			part["index"] = i
		}
		list = append(list, part)
	}
	return list
}

func (r reply) openaiWholeCall(i int) object {
	call := r.Calls[i]
	out := object{"type": "function", "function": object{"name": call.Name, "arguments": call.Args}}
	if !call.NoID {
		out["id"] = call.ID
	}
	if i == 0 && r.ReasoningKey == keyExtra && r.Reasoning != "" {
		out[keyExtra] = object{"google": object{"thought_signature": r.signature}}
	}
	return out
}

// openaiUsage returns the usage, nil if the turn reports none.
func (r reply) openaiUsage() object {
	n, ok := r.tokens()
	if !ok {
		return nil
	}
	out := object{"prompt_tokens": n.In, "completion_tokens": n.Out, "total_tokens": n.In + n.Out}
	if n.CacheRead+n.CacheWrite > 0 {
		out["prompt_tokens_details"] = object{"cached_tokens": n.CacheRead, "cache_write_tokens": n.CacheWrite}
	}
	if n.Reasoning > 0 {
		out["completion_tokens_details"] = object{"reasoning_tokens": n.Reasoning}
	}
	if r.Cost != "" {
		out["cost"] = r.Cost
	}
	return out
}

func openaiWhole(r reply) (int, object) {
	message := object{"role": "assistant", "content": r.content()}
	r.openaiThought(message)
	var calls []object
	for i := range r.Calls {
		calls = append(calls, r.openaiWholeCall(i))
	}
	if calls != nil {
		message["tool_calls"] = calls
		if r.content() == "" {
			message["content"] = nil
		}
	}
	body := object{
		"id": "chatcmpl-fake", "object": "chat.completion", "created": 0, "model": r.model,
		"choices": []object{{"index": 0, "finish_reason": r.openaiReason(), "message": message}},
	}
	if usage := r.openaiUsage(); usage != nil {
		body["usage"] = usage
	}
	return http.StatusOK, body
}

// openaiThought adds the reasoning to a whole message.
func (r reply) openaiThought(message object) {
	if r.Reasoning == "" {
		return
	}
	switch r.ReasoningKey {
	case keyDetails:
		detail := openaiDetail("text", r.Reasoning)
		detail["signature"] = r.signature
		message[keyReasoning], message[keyDetails] = r.Reasoning, []object{detail}
	case keyReasoning:
		message[keyReasoning] = r.Reasoning
	case keyExtra:
	default:
		message["reasoning_content"] = r.Reasoning
	}
}

func openaiFailure(status int, message string) object {
	return object{"error": object{"message": message, "type": "fakellm_error", "code": status}}
}

func openaiUnknown(r reply, _ event) []event {
	return []event{
		{"future", object{"type": "future", "future": object{"a": 1}}},
		{"", object{"id": "chatcmpl-fake", "model": r.model, "choices": []object{openaiChoice(object{"future": []int{1}}, nil)}}},
	}
}
