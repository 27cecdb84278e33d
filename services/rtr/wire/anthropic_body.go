package wire

import (
	"encoding/json"
	"strconv"
	"strings"

	"zino/pkg/wire"
)

// anthropicRequest is the body of a request.
type anthropicRequest struct {
	Model       string          `json:"model"`
	MaxTokens   int             `json:"max_tokens"`
	Stream      bool            `json:"stream"`
	Temperature *float64        `json:"temperature,omitzero"`
	TopP        *float64        `json:"top_p,omitzero"`
	Thinking    *thinking       `json:"thinking,omitzero"`
	Output      *outputConfig   `json:"output_config,omitzero"`
	System      json.RawMessage `json:"system,omitzero"`
	Tools       json.RawMessage `json:"tools,omitzero"`
	Messages    json.RawMessage `json:"messages"`
}

// thinking asks for reasoning or switches it off.
type thinking struct {
	Type    string `json:"type"` // "disabled", "enabled" with a budget, "adaptive"
	Budget  int    `json:"budget_tokens,omitzero"`
	Display string `json:"display,omitzero"` // of adaptive thinking, whose text is omitted by default
}

type outputConfig struct {
	Effort string `json:"effort"`
}

// minBudget is the least number of tokens of thinking that the wire takes.
const minBudget = 1024

// TooShortToThink reports whether a request's effort is a budget on Anthropic's
// wire that its limit of tokens has no room for.
func TooShortToThink(req *Request) bool {
	_, err := strconv.Atoi(req.Effort)
	return err == nil && 0 < req.MaxTokens && req.MaxTokens <= minBudget
}

// think sets what asks for the effort. Thinking goes without sampling
// parameters: the wire takes none but the defaults beside it. A budget must be
// below max_tokens, so where that is small nothing is asked for; nor is it in the
// middle of a tool loop that began without thinking, which the wire refuses.
func (r *anthropicRequest) think(effort string, signed bool) {
	percent, err := strconv.Atoi(effort)
	switch {
	case effort == "" || err == nil && (!signed || r.MaxTokens <= minBudget):
		return
	case effort == "disabled":
		r.Thinking = &thinking{Type: effort}
		return
	case err == nil:
		budget := min(max(r.MaxTokens*percent/100, minBudget), r.MaxTokens-1)
		r.Thinking = &thinking{Type: "enabled", Budget: budget}
	default:
		r.Thinking = &thinking{Type: "adaptive", Display: "summarized"}
		r.Output = &outputConfig{Effort: effort}
	}
	r.Temperature, r.TopP = nil, nil
}

// cacheMark has the provider keep all of the prompt up to the block that
// carries it. A request has three of them (four are allowed): the tools and the
// system prompt stay the same in a session, and the messages in a turn's loop
// grow at their end.
const cacheMark = `,"cache_control":{"type":"ephemeral"}}`

// anthropicBody writes the body of a request. The same conversation with more
// at its end gives the same bytes up to that end, or nothing would be found in
// the provider's cache.
func anthropicBody(req *Request) ([]byte, error) {
	system, messages := split(legal(req.Messages))
	r := anthropicRequest{Model: req.Model, MaxTokens: req.MaxTokens, Stream: !req.Whole}
	if r.MaxTokens <= 0 {
		r.MaxTokens = anthropicTokens
	}
	temperature, topP := req.Traits.sampling(req)
	r.Temperature, r.TopP = toOne(temperature), toOne(topP)
	if strings.TrimSpace(system) != "" {
		text := wire.AppendString([]byte(`[{"type":"text","text":`), system)
		r.System = append(append(text, cacheMark...), ']')
	}
	r.Tools = anthropicTools(req.Tools)
	var signed bool
	r.Messages, signed = anthropicMessages(messages, req.Model)
	r.think(req.Effort, signed)
	body, err := wire.AppendObject(make([]byte, 0, len(r.Messages)+len(r.Tools)+len(r.System)+roomAround), "", r)
	if err != nil {
		return nil, invalid("%v", err)
	}
	return mendSurrogates(body), nil
}

// toOne bounds a parameter to what the wire takes, 0 to 1: OpenAI's temperature
// goes up to 2.
func toOne(v *float64) *float64 {
	if v == nil {
		return nil
	}
	bounded := min(max(*v, 0), 1)
	return &bounded
}

func anthropicTools(tools []Tool) json.RawMessage {
	if len(tools) == 0 {
		return nil
	}
	b := []byte("[")
	for i, t := range tools {
		if i > 0 {
			b = append(b, "},"...)
		}
		b = wire.AppendString(append(b, `{"name":`...), t.Name)
		if t.Description != "" {
			b = wire.AppendString(append(b, `,"description":`...), t.Description)
		}
		b = appendSchema(append(b, `,"input_schema":`...), t.Parameters)
	}
	return append(append(b, cacheMark...), ']')
}

// appendSchema appends the schema of a tool's parameters. The wire refuses one
// that does not say that it is an object's.
func appendSchema(b []byte, schema json.RawMessage) []byte {
	object := appendMember(nil, []byte("type"), []byte(`"object"`))
	for key, value := range wire.Members(schema) {
		if string(key) == "type" {
			return append(b, schema...)
		}
		object = appendMember(object, key, value)
	}
	return append(append(b, object...), '}')
}

// anthropicMessages writes the messages of a legal conversation without its
// system prompt. signed is false if they end with the results of calls before
// which no thinking stands.
func anthropicMessages(list []Message, model string) (raw json.RawMessage, signed bool) {
	c := anthropicChat{b: []byte("["), model: model, used: map[string]int{}}
	for _, m := range list {
		c.add(m)
	}
	if c.role != "user" {
		c.text("user", continuation)
	}
	last := len(c.b) - 1 // the brace of the last block
	signed = c.signed || list[len(list)-1].Role != "tool"
	return append(append(c.b[:last], cacheMark...), "]}]"...), signed
}
