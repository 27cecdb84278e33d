package wire

import (
	"encoding/json"
	"fmt"

	"zino/pkg/wire"
)

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
	TopP            *float64        `json:"top_p,omitzero"`
}

// responsesBody writes the body of a request. The same conversation with more
// at its end gives the same bytes up to that end.
func responsesBody(req *Request) ([]byte, error) {
	system, list := split(legal(req.Messages))
	r := responsesRequest{
		Model: req.Model, Instructions: system, Input: responsesInput(list, req.Model), Tools: responsesTools(req.Tools),
		MaxOutputTokens: req.MaxTokens, Stream: req.Stream,
	}
	r.Temperature, r.TopP = req.Traits.sampling(req)
	if req.Effort != "" {
		r.Reasoning = &reasoning{Effort: req.Effort}
		if req.Effort != "none" && !req.NoSummary {
			r.Reasoning.Summary = "auto"
		}
	}
	if len(EffortsOf("responses", req.Model)) > 0 { // others refuse it
		r.Include = []string{"reasoning.encrypted_content"}
	}
	body, err := wire.AppendObject(make([]byte, 0, len(r.Input)+len(r.Tools)+len(system)+roomAround), "", r)
	if err != nil {
		return nil, invalid("%v", err)
	}
	return mendSurrogates(body), nil
}

// responsesTools writes tools, which are strict here unless it is said that
// they are not: strict ones need schemas of a narrower kind.
func responsesTools(tools []Tool) json.RawMessage {
	if len(tools) == 0 {
		return nil
	}
	b := []byte("[")
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendString(append(b, `{"type":"function","name":`...), t.Name)
		b = wire.AppendString(append(b, `,"description":`...), t.Description)
		b = append(append(b, `,"parameters":`...), t.Parameters...)
		b = append(b, `,"strict":false}`...)
	}
	return append(b, ']')
}

// itemWriter writes the items of an input.
type itemWriter struct {
	b     []byte
	model string
	used  map[string]bool // ids of calls
	open  []string        // ids of the calls whose results come next
}

// responsesInput writes the messages of a legal conversation without its system
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
			w.text("user", m.Said())
		}
	}
	if len(w.b) == 1 {
		w.text("user", continuation)
	}
	return append(w.b, ']')
}

// item begins an item with its first members, the last of which is a text.
func (w *itemWriter) item(begin, text string) {
	if len(w.b) > 1 {
		w.b = append(w.b, ',')
	}
	w.b = wire.AppendString(append(w.b, begin...), text)
}

// text writes a message. An empty one is left out.
func (w *itemWriter) text(role, text string) {
	if text == "" {
		return
	}
	w.item(`{"role":`, role)
	w.b = append(wire.AppendString(append(w.b, `,"content":`...), text), '}')
}

// answer writes what the model said: the items as they came from this very
// model, where they were kept for the calls of the message, else items made of
// what is known.
func (w *itemWriter) answer(m Message) {
	w.open = nil
	if len(w.b) == 1 {
		w.text("user", continuation)
	}
	if w.verbatim(m) {
		return
	}
	w.text("assistant", m.Said())
	for _, c := range m.Calls {
		id := w.id(c.ID)
		w.open = append(w.open, id)
		w.item(`{"type":"function_call","call_id":`, id)
		w.b = wire.AppendString(append(w.b, `,"name":`...), plainName(c.Name))
		w.b = append(wire.AppendString(append(w.b, `,"arguments":`...), c.object()), '}')
	}
}

// verbatim writes the kept items. Where their calls are not those of the
// message, or have ids that are taken, they do not belong here.
func (w *itemWriter) verbatim(m Message) bool {
	items, err := wire.Elements(stateOf(m, "responses", w.model))
	if err != nil || len(items) == 0 || len(m.Calls) == 0 {
		return false
	}
	var ids []string
	for _, item := range items {
		if text(memberOf(item, "type")) == "function_call" {
			ids = append(ids, text(memberOf(item, "call_id")))
		}
	}
	if len(ids) != len(m.Calls) {
		return false
	}
	for i, id := range ids {
		if id != m.Calls[i].ID || w.used[id] {
			return false
		}
	}
	for _, item := range items {
		if len(w.b) > 1 {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, item...)
	}
	for _, id := range ids {
		w.used[id] = true
	}
	w.open = ids
	return true
}

// maxCallID is how long the id of a call may be.
const maxCallID = 64

// id returns a call's own id, or one made of its place where that is missing,
// taken or too long. It depends on the conversation before the call alone.
func (w *itemWriter) id(id string) string {
	for n := len(w.used); id == "" || len(id) > maxCallID || w.used[id]; n++ {
		id = fmt.Sprintf("call_%d", n)
	}
	w.used[id] = true
	return id
}
