package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"zino/pkg/wire"
	"zino/proto"
)

// responsesAnswer reads an answer of the Responses wire to its last event,
// response.completed or response.incomplete, which holds the whole response.
type responsesAnswer struct {
	x       *exchange
	events  *events
	items   []outputItem
	calls   int
	reason  string
	known   bool // an event of this wire has come
	stopped bool // the last event has come
	kept    int  // bytes of the items that go back
	scratch []byte
}

// outputItem is an item of the output.
type outputItem struct {
	index, id string // as they stand on the wire, "" for none
	kind      string
	call      int    // its place among the calls of tools
	said      bool   // a piece of its text or arguments has come
	thoughts  string // the kind of event that its reasoning comes in
	done      bool
	raw       json.RawMessage // as it goes back
}

func (a *responsesAnswer) read() error {
	if err := a.events.readNamed(a.take, &a.known, &a.stopped); err != nil {
		return err
	}
	return a.end()
}

// end gives the last events of a complete answer.
func (a *responsesAnswer) end() error {
	if state := a.state(); state != nil {
		if err := a.x.emit(Event{Kind: State, Delta: state}); err != nil {
			return err
		}
	}
	return a.x.emit(Event{Kind: Finish, Reason: stopReason(a.reason)})
}

// state is what goes back with the results of the calls: all items, if there is
// reasoning among them. An answer that is too large with them goes without.
func (a *responsesAnswer) state() []byte {
	thinks := slices.ContainsFunc(a.items, func(i outputItem) bool { return i.kind == "reasoning" && i.done })
	if a.calls == 0 || !thinks || a.x.size+a.kept >= MaxAnswer-blockCost {
		return nil
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
	return newState("responses", a.x.req.Model, append(b, ']'))
}

// responsesEvent are the members of an event that count, as they stand.
type responsesEvent struct {
	kind                                    []byte
	index, id, delta, text, item, part, all []byte
}

func readResponsesEvent(name string, data []byte) (e responsesEvent) {
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
	return e
}

// paragraph stands between the parts of a summary.
var paragraph = []byte(`"\n\n"`)

// take reads one event. Events of a type that is not known are skipped.
func (a *responsesAnswer) take(name string, data []byte) error {
	if name == "error" {
		return a.x.failed(data)
	}
	if data[0] != '{' || !wire.Valid(data) {
		return a.x.unparsed(data)
	}
	e := readResponsesEvent(name, data)
	a.known = a.known || bytes.HasPrefix(e.kind, []byte("response."))
	if a.events.in == nil && text(memberOf(data, "object")) == "response" {
		return a.whole(data)
	}
	switch string(e.kind) {
	case "response.output_text.delta", "response.refusal.delta":
		return a.piece(e, Text, e.delta)
	case "response.function_call_arguments.delta":
		return a.piece(e, ToolArgs, e.delta)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return a.reasoning(e, e.delta)
	case "response.reasoning_summary_part.added":
		if len(e.part) > 0 && string(e.part) != "0" {
			return a.reasoning(responsesEvent{kind: []byte("response.reasoning_summary_text.delta"), index: e.index, id: e.id}, paragraph)
		}
	case "response.output_text.done", "response.refusal.done":
		return a.unsaid(e, Text, e.text)
	case "response.function_call_arguments.done":
		return a.unsaid(e, ToolArgs, e.text)
	case "response.output_item.added":
		_, err := a.begin(e.index, e.item)
		return err
	case "response.output_item.done":
		return a.done(e.index, e.item)
	case "response.completed", "response.incomplete":
		return a.whole(e.all)
	case "response.failed":
		return a.failed(e.all)
	case "error":
		return a.x.failed(data)
	}
	if says(memberOf(data, "error")) {
		return a.x.failed(data)
	}
	return nil
}

// begin begins an item.
func (a *responsesAnswer) begin(index, raw []byte) (*outputItem, error) {
	if err := a.keep(blockCost); err != nil {
		return nil, err
	}
	item := outputItem{index: string(index), call: -1}
	var name, call string
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "type":
			item.kind = text(value)
		case "id":
			item.id = string(value)
		case "call_id":
			call = text(value)
		case "name":
			name = text(value)
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
	return begun, a.x.emit(Event{Kind: ToolStart, Index: item.call, ID: call, Name: name})
}

// find returns the item of an index, else of an id, else the last one.
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

// piece hands on a piece of an item's text or arguments. Text for an item whose
// beginning has not come begins one.
func (a *responsesAnswer) piece(e responsesEvent, kind Kind, value []byte) (err error) {
	a.scratch = appendContent(a.scratch[:0], value)
	if len(a.scratch) == 0 {
		return nil
	}
	item := a.find(e.index, e.id)
	if item == nil && kind == Text {
		item, err = a.begin(e.index, []byte(`{"type":"message"}`))
	}
	if item == nil || err != nil || kind == ToolArgs && item.call < 0 {
		return err
	}
	item.said = true
	return a.x.emit(Event{Kind: kind, Index: max(item.call, 0), Delta: a.scratch})
}

// unsaid hands on the whole of an item's text or arguments, if no piece of it has
// come before.
func (a *responsesAnswer) unsaid(e responsesEvent, kind Kind, value []byte) error {
	if item := a.find(e.index, e.id); item != nil && item.said {
		return nil
	}
	return a.piece(e, kind, value)
}

// reasoning hands on a piece of the reasoning. Where both a summary and the text
// come, the first of them counts.
func (a *responsesAnswer) reasoning(e responsesEvent, value []byte) error {
	item := a.find(e.index, e.id)
	if item != nil {
		if item.thoughts != "" && item.thoughts != string(e.kind) {
			return nil
		}
		item.thoughts = string(e.kind)
	}
	if a.scratch = appendContent(a.scratch[:0], value); len(a.scratch) == 0 {
		return nil
	}
	return a.x.emit(Event{Kind: Reasoning, Delta: a.scratch})
}

// done ends an item, which now is as it goes back. What has not come of it in
// pieces is handed on.
func (a *responsesAnswer) done(index, raw []byte) (err error) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	item := a.find(index, memberOf(raw, "id"))
	if item == nil || item.done {
		if item, err = a.begin(index, raw); err != nil {
			return err
		}
	}
	item.done = true
	if a.kept += len(raw) + 1; a.kept < MaxAnswer {
		item.raw = flat(raw)
	}
	at := responsesEvent{index: index, id: memberOf(raw, "id")}
	switch item.kind {
	case "function_call":
		return a.unsaid(at, ToolArgs, memberOf(raw, "arguments"))
	case "message":
		if item.said {
			return nil
		}
		for part := range wire.Items(memberOf(raw, "content")) {
			for _, name := range []string{"text", "refusal"} {
				if err := a.piece(at, Text, memberOf(part, name)); err != nil {
					return err
				}
			}
		}
	case "reasoning":
		if item.thoughts != "" {
			return nil
		}
		for _, name := range []string{"summary", "content"} {
			if list := memberOf(raw, name); len(list) > 2 && list[0] == '[' {
				at.kind = []byte(name)
				between := []byte(nil)
				for part := range wire.Items(list) {
					if err := a.reasoning(at, between); err != nil {
						return err
					}
					between = paragraph
					if err := a.reasoning(at, memberOf(part, "text")); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// whole reads a response at its end: what it used, why it ended, and its items
// unless they have come before. A response that has not ended is not an end.
func (a *responsesAnswer) whole(raw []byte) error {
	status := text(memberOf(raw, "status"))
	switch {
	case says(memberOf(raw, "error")) || status == "failed" || status == "cancelled":
		return a.failed(raw)
	case len(raw) == 0 || raw[0] != '{' || status == "in_progress" || status == "queued":
		return nil
	}
	a.known, a.stopped = true, true
	if len(a.items) == 0 {
		for item := range wire.Items(memberOf(raw, "output")) {
			if err := a.done(strconv.AppendInt(nil, int64(len(a.items)), 10), item); err != nil {
				return err
			}
		}
	}
	a.reason = text(memberOf(memberOf(raw, "incomplete_details"), "reason"))
	if a.reason == "" && status == "incomplete" {
		a.reason = "length"
	}
	return a.used(memberOf(raw, "usage"))
}

// failed is the error of a response that failed, without the request that the
// response repeats.
func (a *responsesAnswer) failed(response []byte) error {
	if failure := memberOf(response, "error"); says(failure) {
		return a.x.failed(failure)
	}
	return a.x.failed([]byte(`{"message":"the response failed, and no reason is given"}`))
}

// used reads the usage: input_tokens include what came from the cache.
func (a *responsesAnswer) used(raw []byte) error {
	var u proto.Usage
	for key, value := range wire.Members(raw) {
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
	return a.x.emit(Event{Kind: Used, Usage: &u})
}

// keep counts bytes that are kept without being handed on.
func (a *responsesAnswer) keep(n int) error {
	if a.x.size += n; a.x.size > MaxAnswer {
		return a.x.tooLarge()
	}
	return nil
}
