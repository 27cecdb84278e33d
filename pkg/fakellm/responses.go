package fakellm

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
)

// responses is the wire of OpenAI's Responses API.
var responses = dialect{
	read: readResponses, stream: responsesStream, whole: responsesWhole, failure: openaiFailure, unknown: responsesUnknown,
	failed: responsesFailed, named: true,
}

func readResponses(_ *http.Request, raw []byte) (asked, error) {
	var in struct {
		Model  string          `json:"model"`
		Stream bool            `json:"stream"`
		Input  json.RawMessage `json:"input"`
	}
	if json.Unmarshal(raw, &in) != nil {
		return asked{}, errNoChat
	}
	out := asked{model: in.Model, stream: in.Stream, last: plain(in.Input)}
	var items []struct {
		Content json.RawMessage `json:"content"`
		Output  json.RawMessage `json:"output"`
	}
	if json.Unmarshal(in.Input, &items) == nil && len(items) > 0 {
		last := items[len(items)-1]
		out.last = plain(last.Content) + plain(last.Output)
	}
	return out, nil
}

// responsesItems returns the complete items of the output.
func (r reply) responsesItems(text string) (items []object) {
	if r.Reasoning != "" {
		items = append(items, object{
			"type": "reasoning", "id": "rs_" + r.signature, "encrypted_content": r.signature,
			"summary": []object{{"type": "summary_text", "text": r.Reasoning}},
		})
	}
	if text != "" || len(items)+len(r.Calls) == 0 {
		items = append(items, object{
			"type": "message", "id": "msg_fake", "role": "assistant", "status": "completed",
			"content": []object{{"type": "output_text", "text": text, "annotations": []object{}}},
		})
	}
	for i, call := range r.Calls {
		item := object{"type": "function_call", "id": fmt.Sprintf("fc_%d", i), "name": call.Name, "arguments": call.Args, "status": "completed"}
		if !call.NoID {
			item["call_id"] = call.ID
		}
		items = append(items, item)
	}
	return items
}

// responsesFlow collects numbered events.
type responsesFlow struct {
	events []event
	index  int    // of the current item
	item   string // id of the current item
	loose  bool   // its events have no index
}

func (f *responsesFlow) add(typ string, members object) {
	members["type"], members["sequence_number"] = typ, len(f.events)
	f.events = append(f.events, event{typ, members})
}

// of adds an event of the current item.
func (f *responsesFlow) of(typ string, members object) {
	members["item_id"] = f.item
	if !f.loose {
		members["output_index"] = f.index
	}
	f.add(typ, members)
}

// deltas adds a delta event for each of the texts, and the done event with the whole.
func (f *responsesFlow) deltas(typ, key string, texts []string, whole string, members object) {
	for _, text := range texts {
		f.of(typ+".delta", with(members, "delta", text))
	}
	f.of(typ+".done", with(members, key, whole))
}

// with returns a copy of an object with one more member.
func with(members object, key string, value any) object {
	out := object{key: value}
	maps.Copy(out, members)
	return out
}

func responsesStream(r reply) flow {
	var f responsesFlow
	f.add("response.created", object{"response": r.response("in_progress", []object{})})
	f.add("response.in_progress", object{"response": r.response("in_progress", []object{})})
	text := strings.ReplaceAll(r.content(), longMark, "") // only the delta contains it
	items := r.responsesItems(text)
	first := len(items) - len(r.Calls)
	for i, item := range items {
		f.index, f.item = i, item["id"].(string)
		f.loose = i >= first && r.Calls[i-first].NoIndex
		switch item["type"] {
		case "reasoning":
			begun := with(with(item, "summary", []object{}), "encrypted_content", "begun")
			f.of("response.output_item.added", object{"item": begun})
			part := object{"summary_index": 0}
			f.of("response.reasoning_summary_part.added", with(part, "part", object{"type": "summary_text", "text": ""}))
			f.deltas("response.reasoning_summary_text", "text", r.cut(r.Reasoning), r.Reasoning, part)
			f.of("response.reasoning_summary_part.done", with(part, "part", object{"type": "summary_text", "text": r.Reasoning}))
		case "message":
			f.of("response.output_item.added", object{"item": with(with(item, "content", []object{}), "status", "in_progress")})
			part := object{"content_index": 0}
			f.of("response.content_part.added", with(part, "part", object{"type": "output_text", "text": ""}))
			f.deltas("response.output_text", "text", r.pieces(), text, part)
			f.of("response.content_part.done", with(part, "part", item["content"].([]object)[0]))
		default:
			call := r.Calls[i-first]
			f.of("response.output_item.added", object{"item": with(with(item, "arguments", ""), "status", "in_progress")})
			f.deltas("response.function_call_arguments", "arguments", r.fragments(call), call.Args, object{})
		}
		f.of("response.output_item.done", object{"item": item})
	}
	body := len(f.events)
	last := r.responsesEnd(items)
	f.add("response."+last["status"].(string), object{"response": last})
	return flow{body: f.events[:body], finish: f.events[body:], mark: r.responsesMark()}
}

// responsesMark returns [DONE] for the end Mark. It is the end mark of other wires and
// meaningless here, where the last event is finish reason and mark.
func (r reply) responsesMark() []event {
	if r.End != Mark {
		return nil
	}
	return []event{{data: "[DONE]"}}
}

func (r reply) response(status string, output []object) object {
	return object{"id": "resp_fake", "object": "response", "created_at": 0, "model": r.model, "status": status, "output": output, "error": nil, "incomplete_details": nil}
}

func responsesWhole(r reply) (int, object) {
	return http.StatusOK, r.responsesEnd(r.responsesItems(r.content()))
}

func (r reply) responsesEnd(items []object) object {
	body := r.response("completed", items)
	if reason := r.reason("", "", "max_output_tokens", "content_filter"); reason != "" {
		body["status"], body["incomplete_details"] = "incomplete", object{"reason": reason}
	}
	if n, ok := r.tokens(); ok {
		body["usage"] = object{
			"input_tokens": n.In, "output_tokens": n.Out, "total_tokens": n.In + n.Out,
			"input_tokens_details":  object{"cached_tokens": n.CacheRead, "cache_write_tokens": n.CacheWrite},
			"output_tokens_details": object{"reasoning_tokens": n.Reasoning},
		}
	}
	return body
}

// responsesFailed returns an error inside a stream.
func responsesFailed(message string) object {
	return object{"type": "error", "code": "server_error", "message": message, "param": nil}
}

func responsesUnknown(_ reply, _ event) []event {
	return []event{
		{"response.future", object{"type": "response.future", "future": object{"a": 1}}},
		{"response.output_item.added", object{"type": "response.output_item.added", "output_index": 99, "item": object{"type": "future_item", "id": "x_1"}}},
		{"response.output_item.done", object{"type": "response.output_item.done", "output_index": 99, "item": object{"type": "future_item", "id": "x_1"}}},
	}
}
