package wire

import (
	"encoding/json"

	"zino/pkg/wire"
)

// ollamaRequest is the body of a request. keep_alive is the server's: what is
// set there was set by the owner of the memory.
type ollamaRequest struct {
	Model    string          `json:"model"`
	Messages json.RawMessage `json:"messages"`
	Tools    json.RawMessage `json:"tools,omitzero"`
	Options  ollamaOptions   `json:"options,omitzero"`
	Stream   bool            `json:"stream"`
	Think    json.RawMessage `json:"think,omitzero"` // a boolean, or a level
	// Truncate false makes a conversation that is too long an error; the server
	// would drop its beginning without a word. Servers that are too old to know
	// it do that still.
	Truncate bool `json:"truncate"`
}

type ollamaOptions struct {
	Temperature *float64 `json:"temperature,omitzero"`
	TopP        *float64 `json:"top_p,omitzero"`
	NumCtx      int      `json:"num_ctx,omitzero"`
	NumPredict  int      `json:"num_predict,omitzero"`
}

func ollamaBody(req *Request) ([]byte, error) {
	r := ollamaRequest{Model: req.Model, Messages: ollamaMessages(req), Tools: completionTools(req.Tools), Stream: true}
	r.Options = ollamaOptions{NumCtx: max(req.Context, 0), NumPredict: max(req.MaxTokens, 0)}
	switch req.Effort {
	case "":
	case "true", "false":
		r.Think = json.RawMessage(req.Effort)
	default:
		r.Think = wire.AppendString(nil, req.Effort)
	}
	r.Options.Temperature, r.Options.TopP = req.Traits.sampling(req)
	body, err := wire.AppendObject(make([]byte, 0, len(r.Messages)+len(r.Tools)+roomAround), "", r)
	if err != nil {
		return nil, invalid("%v", err)
	}
	return mendSurrogates(body), nil
}

// ollamaMessages writes the messages. System messages stay where they are; of
// the others the user's is the first.
func ollamaMessages(req *Request) json.RawMessage {
	list := legal(req.Messages)
	w := ollamaWriter{b: append(make([]byte, 0, len(req.Raw)+roomAround), '['), model: req.Model}
	for _, m := range list {
		switch m.Role {
		case "system":
			w.message("system", m.Said())
		case "assistant":
			w.answer(m)
		case "tool":
			w.result(m)
		default:
			w.user(m.Said())
		}
	}
	if !w.begun || req.Traits.NoAssistantLast && endsWithAssistant(list) {
		w.user(continuation)
	}
	return append(w.b, "}]"...)
}

// ollamaWriter writes messages. The last one is open.
type ollamaWriter struct {
	b     []byte
	model string
	begun bool   // the user has spoken
	calls []Call // whose results come next
}

// message begins a message.
func (w *ollamaWriter) message(role, content string) {
	if len(w.b) > 1 {
		w.b = append(w.b, "},"...)
	}
	w.b = append(append(append(w.b, `{"role":"`...), role...), `","content":`...)
	w.b = wire.AppendString(w.b, content)
}

func (w *ollamaWriter) user(content string) {
	w.begun = true
	w.message("user", content)
}

// answer writes what the model said. The thinking before calls goes back with
// them; templates show it to the model within the same turn.
func (w *ollamaWriter) answer(m Message) {
	if !w.begun {
		w.user(continuation)
	}
	w.message("assistant", m.Said())
	if w.calls = sendable(m.Calls); len(w.calls) == 0 {
		return
	}
	if thinking := text(memberOf(stateOf(m, "ollama", w.model), "thinking")); thinking != "" {
		w.b = wire.AppendString(append(w.b, `,"thinking":`...), thinking)
	}
	w.b = append(w.b, `,"tool_calls":[`...)
	for i, c := range w.calls {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, '{')
		if c.ID != "" {
			w.b = append(wire.AppendString(append(w.b, `"id":`...), c.ID), ',')
		}
		w.b = wire.AppendString(append(w.b, `"function":{"name":`...), c.Name)
		w.b = append(append(append(w.b, `,"arguments":`...), c.object()...), "}}"...)
	}
	w.b = append(w.b, ']')
}

// result writes a tool's result, as legal has it in the order of the calls.
// Servers go by the id, older ones by the name.
func (w *ollamaWriter) result(m Message) {
	c := w.calls[0]
	w.calls = w.calls[1:]
	w.message("tool", m.Said())
	w.b = wire.AppendString(append(w.b, `,"tool_name":`...), c.Name)
	if c.ID != "" {
		w.b = wire.AppendString(append(w.b, `,"tool_call_id":`...), c.ID)
	}
}
