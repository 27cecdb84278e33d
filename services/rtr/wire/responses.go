package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"zino/pkg/wire"
	"zino/proto"
)

// Responses sends a request over OpenAI's Responses API, the only one on which its
// newer models accept tools and reason at once. Nothing is stored at the provider:
// reasoning arrives encrypted and is sent back. Source:
// platform.openai.com/docs/api-reference/responses.
func Responses(ctx context.Context, ep *Endpoint, req *Request, sink Sink) error {
	body, err := responsesBody(req)
	if err != nil {
		return err
	}
	c := call{path: "/responses", body: body, stream: req.Stream, answer: &responsesAnswer{}, ownEnd: true, facts: []string{"+responses"}}
	c.header = func(h http.Header) {
		h.Set("Accept", "application/json")
		if req.Stream {
			h.Set("Accept", "text/event-stream")
		}
		ep.bearer(h)
	}
	return ep.do(ctx, req, sink, c)
}

// responsesRequest is the body of a request for a response.
type responsesRequest struct {
	Model           string          `json:"model"`
	Instructions    string          `json:"instructions,omitzero"`
	Input           json.RawMessage `json:"input"`
	Tools           json.RawMessage `json:"tools,omitzero"`
	MaxOutputTokens int             `json:"max_output_tokens,omitzero"`
	Reasoning       *reasoning      `json:"reasoning,omitzero"`
	Include         []string        `json:"include,omitzero"`
	Store           bool            `json:"store"`
	Stream          bool            `json:"stream"`
	Temperature     *float64        `json:"temperature,omitzero"`
	Text            json.RawMessage `json:"text,omitzero"`
	TopP            *float64        `json:"top_p,omitzero"`
}

// responsesBody encodes the body of a request. Appending messages to a conversation
// does not change the bytes of the earlier ones, so that the provider's prompt cache
// matches.
func responsesBody(req *Request) ([]byte, error) {
	system, list := split(legal(req.Messages))
	r := responsesRequest{
		Model: req.Model, Instructions: system, Input: responsesInput(list, req.Model), MaxOutputTokens: req.MaxTokens, Stream: req.Stream,
	}
	r.Temperature, r.TopP = req.Traits.sampling(req)
	if req.Effort != "" {
		r.Reasoning = &reasoning{Effort: req.Effort}
		if req.Effort != "none" && !req.NoSummary {
			r.Reasoning.Summary = "auto"
		}
	}
	if len(EffortsOf("responses", req.Model)) > 0 { // other models reject it
		r.Include = []string{"reasoning.encrypted_content"}
	}
	for i, t := range req.Tools {
		r.Tools = append(r.Tools, "[,"[min(i, 1)])
		r.Tools = wire.AppendString(append(r.Tools, `{"type":"function","name":`...), t.Name)
		r.Tools = wire.AppendString(append(r.Tools, `,"description":`...), t.Description)
		r.Tools = append(append(r.Tools, `,"parameters":`...), t.Parameters...)
		// Tools are strict by default, and strict mode accepts only a subset of JSON Schema.
		r.Tools = append(r.Tools, `,"strict":false}`...)
	}
	if r.Tools != nil {
		r.Tools = append(r.Tools, ']')
	}
	if len(req.Schema) > 0 {
		r.Text = append(append([]byte(`{"format":{"type":"json_schema","name":"answer","schema":`), req.Schema...), `,"strict":true}}`...)
	}
	return encodeBody(r, len(r.Input)+len(r.Tools)+len(system)+len(req.Schema))
}

// itemWriter writes the items of an input.
type itemWriter struct {
	b     []byte
	model string
	used  map[string]bool // call ids written so far
	open  []string        // ids of the calls whose results follow
}

// responsesInput encodes the messages of a legal conversation without its system
// prompt.
func responsesInput(list []Message, model string) json.RawMessage {
	w := itemWriter{b: []byte("["), model: model, used: map[string]bool{}}
	for _, m := range list {
		switch m.Role {
		case "assistant":
			w.answer(m)
		case "tool":
			w.item(`{"type":"function_call_output","call_id":`, w.open[0])
			w.open = w.open[1:]
			w.b = append(wire.AppendString(append(w.b, `,"output":`...), m.Said()), '}')
		default:
			w.user(m)
		}
	}
	if len(w.b) == 1 {
		w.text("user", continuation)
	}
	return append(w.b, ']')
}

// item starts an item with begin followed by text as a JSON string.
func (w *itemWriter) item(begin, text string) {
	if len(w.b) > 1 {
		w.b = append(w.b, ',')
	}
	w.b = wire.AppendString(append(w.b, begin...), text)
}

// text writes a message and skips an empty one.
func (w *itemWriter) text(role, text string) {
	if text == "" {
		return
	}
	w.item(`{"role":`, role)
	w.b = append(wire.AppendString(append(w.b, `,"content":`...), text), '}')
}

// user writes a user's message.
func (w *itemWriter) user(m Message) {
	if len(m.Files) == 0 {
		w.text("user", m.Said())
		return
	}
	w.item(`{"role":`, "user")
	w.b = append(append(append(w.b, `,"content":`...), responsesContent(m.Said(), m.Files)...), '}')
}

// answer writes an assistant's message: the items in the message's state if this
// model sent them, else items built from its text and calls.
func (w *itemWriter) answer(m Message) {
	w.open = nil
	if len(w.b) == 1 {
		w.text("user", continuation)
	}
	if items, ids := w.kept(m); items != nil {
		for _, item := range items {
			if len(w.b) > 1 {
				w.b = append(w.b, ',')
			}
			w.b = append(w.b, item...)
		}
		w.open = ids
		return
	}
	w.text("assistant", m.Said())
	for _, c := range m.Calls {
		// A missing, duplicate or too long id is replaced by a generated one, which
		// depends only on the conversation before the call.
		id := c.ID
		for n := len(w.used); id == "" || len(id) > 64 || w.used[id]; n++ {
			id = fmt.Sprintf("call_%d", n)
		}
		w.used[id] = true
		w.open = append(w.open, id)
		w.item(`{"type":"function_call","call_id":`, id)
		w.b = wire.AppendString(append(w.b, `,"name":`...), plainName(c.Name))
		w.b = append(wire.AppendString(append(w.b, `,"arguments":`...), c.object()), '}')
	}
}

// kept returns the items of a message's state and the ids of their calls, if the
// ids are those of the message and not yet used.
func (w *itemWriter) kept(m Message) (items []json.RawMessage, ids []string) {
	items, err := wire.Elements(stateOf(m, "responses", w.model))
	if err != nil || len(items) == 0 || len(m.Calls) == 0 {
		return nil, nil
	}
	for _, item := range items {
		if stringOf(memberOf(item, "type")) == "function_call" {
			ids = append(ids, stringOf(memberOf(item, "call_id")))
		}
	}
	if len(ids) != len(m.Calls) {
		return nil, nil
	}
	for i, id := range ids {
		if id != m.Calls[i].ID || w.used[id] {
			return nil, nil
		}
	}
	for _, id := range ids {
		w.used[id] = true
	}
	return items, ids
}

// responsesAnswer reads an answer of the Responses API up to its last event,
// response.completed or response.incomplete, which contains the whole response.
type responsesAnswer struct {
	items   []outputItem
	calls   int
	reason  string
	kept    int // bytes of the items to send back
	scratch []byte
}

// outputItem is an item of the output.
type outputItem struct {
	index, id string // as on the wire, "" if missing
	kind      string
	call      int    // index among the tool calls, -1 for other items
	said      bool   // a delta of its text or arguments was emitted
	thoughts  string // type of the events that carry its reasoning
	done      bool
	raw       json.RawMessage // the item to send back
}

// end emits the state to send back with the results of the calls: all items, if
// there is reasoning among them. The state is dropped if it would make the answer
// too large.
func (a *responsesAnswer) end(x *exchange, err error) error {
	if err != nil {
		return err
	}
	thinks := slices.ContainsFunc(a.items, func(i outputItem) bool { return i.kind == "reasoning" && i.done })
	if a.calls == 0 || !thinks || x.size+a.kept >= MaxAnswer-blockCost {
		return x.emitEnd(nil, stopReason(a.reason))
	}
	b := []byte("[")
	for _, item := range a.items {
		if !item.done {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, item.raw...)
	}
	return x.emitEnd(newState("responses", x.model, append(b, ']')), stopReason(a.reason))
}

// responsesEvent holds the members of an event that are used, as raw JSON.
type responsesEvent struct {
	kind                                    []byte
	index, id, delta, text, item, part, all []byte
}

// paragraph separates the parts of a summary.
var paragraph = []byte(`"\n\n"`)

// event reads one event. Events of unknown types are skipped.
func (a *responsesAnswer) event(x *exchange, name string, data []byte) error {
	if data[0] != '{' || !wire.Valid(data) {
		return x.unparsed(data)
	}
	var e responsesEvent
	for key, value := range wire.Members(data) {
		switch string(key) {
		case "type":
			if value[0] == '"' {
				e.kind = value[1 : len(value)-1]
			}
		case "output_index":
			e.index = value
		case "item_id":
			e.id = value
		case "delta":
			e.delta = value
		case "text", "arguments", "refusal":
			e.text = value
		case "item":
			e.item = value
		case "summary_index", "content_index":
			e.part = value
		case "response":
			e.all = value
		}
	}
	if len(e.kind) == 0 {
		e.kind = []byte(name)
	}
	x.any = x.any || bytes.HasPrefix(e.kind, []byte("response."))
	if x.one && stringOf(memberOf(data, "object")) == "response" {
		return a.whole(x, data)
	}
	switch string(e.kind) {
	case "response.output_text.delta", "response.refusal.delta":
		return a.piece(x, e, Text, e.delta)
	case "response.function_call_arguments.delta":
		return a.piece(x, e, ToolArgs, e.delta)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return a.reasoning(x, e, e.delta)
	case "response.reasoning_summary_part.added":
		if len(e.part) > 0 && string(e.part) != "0" {
			return a.reasoning(x, responsesEvent{kind: []byte("response.reasoning_summary_text.delta"), index: e.index, id: e.id}, paragraph)
		}
	case "response.output_text.done", "response.refusal.done":
		return a.unsaid(x, e, Text, e.text)
	case "response.function_call_arguments.done":
		return a.unsaid(x, e, ToolArgs, e.text)
	case "response.output_item.added":
		_, err := a.begin(x, e.index, e.item)
		return err
	case "response.output_item.done":
		return a.done(x, e.index, e.item)
	case "response.completed", "response.incomplete":
		return a.whole(x, e.all)
	case "response.failed":
		return a.failed(x, e.all)
	case "error":
		return x.failed(data)
	}
	if says(memberOf(data, "error")) {
		return x.failed(data)
	}
	return nil
}

// begin adds an item, and emits the start of a call.
func (a *responsesAnswer) begin(x *exchange, index, raw []byte) (*outputItem, error) {
	if err := x.keep(blockCost); err != nil {
		return nil, err
	}
	item := outputItem{index: string(index), call: -1}
	var name, callID string
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "type":
			item.kind = stringOf(value)
		case "id":
			item.id = string(value)
		case "call_id":
			callID = stringOf(value)
		case "name":
			name = stringOf(value)
		}
	}
	if item.kind == "function_call" {
		item.call = a.calls
		a.calls++
	}
	a.items = append(a.items, item)
	begun := &a.items[len(a.items)-1]
	if item.call < 0 {
		return begun, nil
	}
	return begun, x.emitCall(item.call, callID, name, "")
}

// find returns the item with the index, else with the id, else the last one.
func (a *responsesAnswer) find(index, id []byte) *outputItem {
	for i := len(a.items) - 1; i >= 0; i-- {
		item := &a.items[i]
		switch {
		case len(index) > 0 && item.index != "":
			if item.index == string(index) {
				return item
			}
		case len(id) > 0 && item.id != "":
			if item.id == string(id) {
				return item
			}
		case len(index) == 0:
			return item
		}
	}
	return nil
}

// piece emits a delta of an item's text or arguments. Text for an unknown item adds
// one.
func (a *responsesAnswer) piece(x *exchange, e responsesEvent, kind Kind, value []byte) (err error) {
	a.scratch = appendContent(a.scratch[:0], value)
	if len(a.scratch) == 0 {
		return nil
	}
	item := a.find(e.index, e.id)
	if item == nil && kind == Text {
		item, err = a.begin(x, e.index, []byte(`{"type":"message"}`))
	}
	if item == nil || err != nil || kind == ToolArgs && item.call < 0 {
		return err
	}
	item.said = true
	return x.emit(Event{Kind: kind, Index: max(item.call, 0), Delta: a.scratch})
}

// unsaid emits an item's complete text or arguments, unless deltas of it were
// emitted.
func (a *responsesAnswer) unsaid(x *exchange, e responsesEvent, kind Kind, value []byte) error {
	if item := a.find(e.index, e.id); item != nil && item.said {
		return nil
	}
	return a.piece(x, e, kind, value)
}

// reasoning emits a delta of the reasoning. If an item has both a summary and the
// text, only the one that arrives first is used.
func (a *responsesAnswer) reasoning(x *exchange, e responsesEvent, value []byte) error {
	if item := a.find(e.index, e.id); item != nil {
		if item.thoughts != "" && item.thoughts != string(e.kind) {
			return nil
		}
		item.thoughts = string(e.kind)
	}
	if a.scratch = appendContent(a.scratch[:0], value); len(a.scratch) == 0 {
		return nil
	}
	return x.emit(Event{Kind: Reasoning, Delta: a.scratch})
}

// done ends an item, keeps it for sending back, and emits the parts of it that did
// not arrive as deltas.
func (a *responsesAnswer) done(x *exchange, index, raw []byte) (err error) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	at := responsesEvent{index: index, id: memberOf(raw, "id")}
	item := a.find(index, at.id)
	if item == nil || item.done {
		if item, err = a.begin(x, index, raw); err != nil {
			return err
		}
	}
	item.done = true
	if a.kept += len(raw) + 1; a.kept < MaxAnswer {
		item.raw = flat(raw)
	}
	switch {
	case item.kind == "function_call":
		return a.unsaid(x, at, ToolArgs, memberOf(raw, "arguments"))
	case item.kind == "message" && !item.said:
		for part := range wire.Items(memberOf(raw, "content")) {
			for _, name := range []string{"text", "refusal"} {
				if err := a.piece(x, at, Text, memberOf(part, name)); err != nil {
					return err
				}
			}
		}
	case item.kind == "reasoning" && item.thoughts == "":
		for _, name := range []string{"summary", "content"} {
			list := memberOf(raw, name)
			if len(list) <= 2 || list[0] != '[' {
				continue
			}
			at.kind = []byte(name)
			between := []byte(nil)
			for part := range wire.Items(list) {
				for _, value := range [][]byte{between, memberOf(part, "text")} {
					if err := a.reasoning(x, at, value); err != nil {
						return err
					}
				}
				between = paragraph
			}
		}
	}
	return nil
}

// whole reads a finished response: its usage, its reason to stop, and its items
// unless they arrived before. It ignores a response that is still in progress.
func (a *responsesAnswer) whole(x *exchange, raw []byte) error {
	status := stringOf(memberOf(raw, "status"))
	switch {
	case says(memberOf(raw, "error")) || status == "failed" || status == "cancelled":
		return a.failed(x, raw)
	case len(raw) == 0 || raw[0] != '{' || status == "in_progress" || status == "queued":
		return nil
	}
	x.any, x.stopped = true, true
	if len(a.items) == 0 {
		for item := range wire.Items(memberOf(raw, "output")) {
			if err := a.done(x, strconv.AppendInt(nil, int64(len(a.items)), 10), item); err != nil {
				return err
			}
		}
	}
	a.reason = stringOf(memberOf(memberOf(raw, "incomplete_details"), "reason"))
	if a.reason == "" && status == "incomplete" {
		a.reason = "length"
	}
	var u proto.Usage // input_tokens include cached tokens
	for key, value := range wire.Members(memberOf(raw, "usage")) {
		switch string(key) {
		case "input_tokens":
			setTokens(&u.InputTokens, value)
		case "input_tokens_details":
			setTokens(&u.CacheReadTokens, memberOf(value, "cached_tokens"))
			setTokens(&u.CacheWriteTokens, memberOf(value, "cache_write_tokens"))
		case "output_tokens":
			setTokens(&u.OutputTokens, value)
		case "output_tokens_details":
			setTokens(&u.ReasoningTokens, memberOf(value, "reasoning_tokens"))
		}
	}
	if u.InputTokens+u.OutputTokens == 0 {
		return nil
	}
	return x.emit(Event{Kind: Used, Usage: &u})
}

// failed returns the error of a failed response, without the request that the
// response echoes.
func (a *responsesAnswer) failed(x *exchange, response []byte) error {
	if failure := memberOf(response, "error"); says(failure) {
		return x.failed(failure)
	}
	return x.failed([]byte(`{"message":"the response failed, and no reason is given"}`))
}
