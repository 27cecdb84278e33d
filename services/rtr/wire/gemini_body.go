package wire

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"

	"zino/pkg/wire"
)

// geminiRequest is the body of a request to generate content.
type geminiRequest struct {
	SystemInstruction json.RawMessage `json:"systemInstruction,omitzero"`
	Contents          json.RawMessage `json:"contents"`
	Tools             json.RawMessage `json:"tools,omitzero"`
	GenerationConfig  geminiConfig    `json:"generationConfig,omitzero"`
}

type geminiConfig struct {
	Temperature     *float64        `json:"temperature,omitzero"`
	TopP            *float64        `json:"topP,omitzero"`
	MaxOutputTokens int             `json:"maxOutputTokens,omitzero"`
	Thinking        *geminiThinking `json:"thinkingConfig,omitzero"`
}

// geminiThinking has a level, or a budget for models before Gemini 3.
type geminiThinking struct {
	Budget   *int   `json:"thinkingBudget,omitzero"`
	Level    string `json:"thinkingLevel,omitzero"`
	Thoughts bool   `json:"includeThoughts,omitzero"`
}

func geminiEffort(word string) *geminiThinking {
	if word == "" {
		return nil
	}
	if budget, err := strconv.Atoi(word); err == nil {
		return &geminiThinking{Budget: &budget, Thoughts: budget > 0}
	}
	return &geminiThinking{Level: word, Thoughts: word != "MINIMAL"}
}

func geminiBody(req *Request) ([]byte, error) {
	system, list := split(legal(req.Messages))
	r := geminiRequest{Contents: geminiContents(list, req.Model), Tools: geminiTools(req.Tools)}
	if system != "" {
		r.SystemInstruction = append(wire.AppendString([]byte(`{"parts":[{"text":`), system), "}]}"...)
	}
	r.GenerationConfig.Temperature, r.GenerationConfig.TopP = req.Traits.sampling(req)
	r.GenerationConfig.MaxOutputTokens, r.GenerationConfig.Thinking = req.MaxTokens, geminiEffort(req.Effort)
	body, err := wire.AppendObject(make([]byte, 0, len(r.Contents)+len(r.Tools)+len(r.SystemInstruction)+roomAround), "", r)
	if err != nil {
		return nil, invalid("%v", err)
	}
	return mendSurrogates(body), nil
}

func geminiTools(tools []Tool) json.RawMessage {
	if len(tools) == 0 {
		return nil
	}
	b := []byte(`[{"functionDeclarations":[`)
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendString(append(b, `{"name":`...), t.Name)
		if t.Description != "" {
			b = wire.AppendString(append(b, `,"description":`...), t.Description)
		}
		b = append(append(b, `,"parametersJsonSchema":`...), t.Parameters...)
		b = append(b, '}')
	}
	return append(b, "]}]"...)
}

// contentWriter writes contents. Neighbours of one role become one content, and
// the user has the first word and the last.
type contentWriter struct {
	b     []byte
	model string
	role  string // of the content under way, "" before the first
	open  []Call // calls whose results come next, with the ids that they were sent with
}

func geminiContents(list []Message, model string) json.RawMessage {
	size := roomAround
	for i := range list {
		size += len(list[i].Raw)
	}
	w := contentWriter{b: append(make([]byte, 0, size), '['), model: model}
	for _, m := range list {
		switch m.Role {
		case "assistant":
			w.answer(m)
		case "tool":
			w.result(m)
		default:
			w.text("user", m.Said())
		}
	}
	if w.role != "user" {
		w.text("user", continuation)
	}
	return append(w.b, "]}]"...)
}

// part makes ready for a part of a content of that role.
func (w *contentWriter) part(role string) {
	if w.role == "" && role == "model" {
		w.text("user", continuation)
	}
	switch w.role {
	case role:
		w.b = append(w.b, ',')
		return
	case "":
	default:
		w.b = append(w.b, "]},"...)
	}
	w.role = role
	w.b = append(append(append(w.b, `{"role":"`...), role...), `","parts":[`...)
}

// text writes a text; an empty one is refused by Gemini and left out.
func (w *contentWriter) text(role, text string) {
	if text == "" {
		return
	}
	w.part(role)
	w.b = append(wire.AppendString(append(w.b, `{"text":`...), text), '}')
}

// answer writes what the model said: the parts as they came from this very
// model, where they were kept, else parts made of what is known.
func (w *contentWriter) answer(m Message) {
	if parts, calls, ok := geminiKept(stateOf(m, "gemini", w.model), m.Calls); ok {
		for _, part := range parts {
			w.part("model")
			w.b = append(w.b, part...)
		}
		w.open = calls
		return
	}
	w.text("model", m.Said())
	w.open = sendable(m.Calls)
	for i, c := range w.open {
		w.part("model")
		b := append(appendGeminiName(append(w.b, `{"functionCall":{`...), c), `,"args":`...)
		b = append(append(b, c.object()...), '}')
		if i == 0 && wantsSignature(w.model) {
			b = append(b, unsigned...)
		}
		w.b = append(b, '}')
	}
}

// unsigned stands in the place of a signature that is not there: Gemini 3
// refuses the first call of an answer without one, and documents this one for
// calls that another model made. Older models have no need of it.
var unsigned = `,"thoughtSignature":"` + base64.StdEncoding.EncodeToString([]byte("skip_thought_signature_validator")) + `"`

func wantsSignature(model string) bool {
	model = model[strings.LastIndexByte(model, '/')+1:]
	return !beginsWith(model, []string{"gemini-1", "gemini-2", "gemma", "learnlm"})
}

// result writes a tool's result, as legal has it in the order of the calls. All
// results of an answer are in one content.
func (w *contentWriter) result(m Message) {
	w.part("user")
	b := append(appendGeminiName(append(w.b, `{"functionResponse":{`...), w.open[0]), `,"response":`...)
	w.open = w.open[1:]
	if isEnvelope(m.Said()) {
		b = append(b, m.Said()...)
	} else {
		b = append(wire.AppendString(append(b, `{"result":`...), m.Said()), '}')
	}
	w.b = append(b, "}}"...)
}

// appendGeminiName writes the members id and name of a call and of its result. Gemini
// tells calls apart by their ids where both have one, else by name and order.
func appendGeminiName(b []byte, c Call) []byte {
	if c.ID != "" {
		b = append(wire.AppendString(append(b, `"id":`...), c.ID), ',')
	}
	return wire.AppendString(append(b, `"name":`...), c.Name)
}

// sendable returns calls as a wire takes them: each with a name, and with ids
// only if no two are the same, as some providers give them.
func sendable(calls []Call) []Call {
	out := make([]Call, len(calls))
	seen := make(map[string]bool, len(calls))
	for i, c := range calls {
		seen[c.ID] = true
		out[i] = Call{ID: c.ID, Name: plainName(c.Name), Args: c.Args}
	}
	if len(seen) < len(calls) {
		for i := range out {
			out[i].ID = ""
		}
	}
	return out
}

// isEnvelope reports whether a tool's result is an object with a member "ok",
// the form that our tools give it: with "error" in it for a failure, as Gemini
// has it, and with no number that a float64 would not hold. Any other result is
// passed on as text, so that the model sees it unchanged.
func isEnvelope(result string) bool {
	if !strings.HasPrefix(result, "{") || !wire.Valid([]byte(result)) {
		return false
	}
	for key := range wire.Members([]byte(result)) {
		if string(key) == "ok" {
			return true
		}
	}
	return false
}
