package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"zino/pkg/wire"
)

const (
	// anthropicVersion is the version of the wire, which every request names.
	anthropicVersion = "2023-06-01"
	// anthropicTokens is the limit of an answer without one of the caller's: the wire
	// demands one.
	anthropicTokens = 4096
)

// Anthropic is the wire of Anthropic's Messages. The provider is asked for a
// stream, whether or not the caller wants one, unless streaming is off: no byte of
// a whole answer comes before its end, and proxies cut such connections. Source:
// platform.claude.com/docs/en/api/messages and
// platform.claude.com/docs/en/build-with-claude/streaming.
func Anthropic(ctx context.Context, ep *Endpoint, req *Request, sink Sink) error {
	body, err := anthropicBody(req)
	if err != nil {
		return err
	}
	return ep.at(anthropicBase(ep.Base)).do(ctx, req, sink, call{
		path: "/v1/messages", body: body, header: func(h http.Header) { ep.anthropicHeader(h, req.Whole) },
		stream: !req.Whole, answer: &anthropicAnswer{}, ownEnd: true,
	})
}

// anthropicBase is a base URL without the version, which people write or leave out.
func anthropicBase(base string) string {
	return strings.TrimSuffix(strings.TrimRight(base, "/"), "/v1")
}

func (ep *Endpoint) anthropicHeader(h http.Header, whole bool) {
	h.Set("Accept", "text/event-stream")
	if whole {
		h.Set("Accept", "application/json")
	}
	h.Set("Anthropic-Version", anthropicVersion)
	maps.Copy(h, ep.extra)
	if ep.Token {
		ep.bearer(h)
	} else if ep.Key != "" {
		h.Set("X-Api-Key", ep.Key)
	}
}

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

// thinking enables or disables reasoning.
type thinking struct {
	Type    string `json:"type"` // "disabled", "enabled" with a budget, "adaptive"
	Budget  int    `json:"budget_tokens,omitzero"`
	Display string `json:"display,omitzero"` // of adaptive thinking, whose text is omitted by default
}

type outputConfig struct {
	Effort string          `json:"effort,omitzero"`
	Format json.RawMessage `json:"format,omitzero"`
}

// minBudget is the smallest budget of thinking that the wire accepts, in tokens.
const minBudget = 1024

// TooShortToThink reports whether a request's effort is a budget on Anthropic's wire
// that exceeds its limit of tokens.
func TooShortToThink(req *Request) bool {
	_, err := strconv.Atoi(req.Effort)
	return err == nil && 0 < req.MaxTokens && req.MaxTokens <= minBudget
}

// think sets the members for the effort, and removes sampling parameters, which the
// wire refuses beside thinking. It sets nothing if the budget would not be below
// max_tokens, or in the middle of a tool loop that began without thinking.
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

// cacheMark has the provider cache all of the prompt up to the block that carries
// it. A request has three of them (four are allowed): the tools and the system
// prompt stay the same in a session, and the messages in a turn's loop grow at
// their end.
const cacheMark = `,"cache_control":{"type":"ephemeral"}}`

// anthropicBody encodes the body of a request. The same conversation with more at
// its end gives the same bytes up to that end, as the provider's cache demands.
func anthropicBody(req *Request) ([]byte, error) {
	system, messages := split(legal(req.Messages))
	r := anthropicRequest{Model: req.Model, MaxTokens: req.MaxTokens, Stream: !req.Whole}
	if r.MaxTokens <= 0 {
		r.MaxTokens = anthropicTokens
	}
	r.Temperature, r.TopP = req.Traits.sampling(req)
	for _, p := range []**float64{&r.Temperature, &r.TopP} {
		if *p != nil { // OpenAI's temperature goes up to 2
			*p = new(min(max(**p, 0), 1))
		}
	}
	if strings.TrimSpace(system) != "" {
		text := wire.AppendString([]byte(`[{"type":"text","text":`), system)
		r.System = append(append(text, cacheMark...), ']')
	}
	for i, t := range req.Tools {
		r.Tools = append(r.Tools, "[,"[min(i, 1)])
		r.Tools = wire.AppendString(append(r.Tools, `{"name":`...), t.Name)
		if t.Description != "" {
			r.Tools = wire.AppendString(append(r.Tools, `,"description":`...), t.Description)
		}
		r.Tools = append(append(r.Tools, `,"input_schema":`...), anthropicSchema(t.Parameters)...)
		if i < len(req.Tools)-1 {
			r.Tools = append(r.Tools, '}')
		} else {
			r.Tools = append(append(r.Tools, cacheMark...), ']')
		}
	}
	var signed bool
	r.Messages, signed = anthropicMessages(messages, req.Model)
	r.think(req.Effort, signed)
	if len(req.Schema) > 0 {
		if r.Output == nil {
			r.Output = &outputConfig{}
		}
		r.Output.Format = append(append([]byte(`{"type":"json_schema","schema":`), req.Schema...), '}')
	}
	return encodeBody(r, len(r.Messages)+len(r.Tools)+len(r.System)+len(req.Schema))
}

// anthropicSchema adds the type to a schema, which the wire demands.
func anthropicSchema(schema json.RawMessage) []byte {
	if memberOf(schema, "type") != nil {
		return schema
	}
	object := appendMember(nil, []byte("type"), []byte(`"object"`))
	for key, value := range wire.Members(schema) {
		object = appendMember(object, key, value)
	}
	return append(object, '}')
}

// anthropicMessages encodes the messages of a legal conversation without its system
// prompt. signed is false if they end with the results of calls before which no
// thinking stands.
func anthropicMessages(list []Message, model string) (raw json.RawMessage, signed bool) {
	c := anthropicChat{b: []byte("["), model: model, used: map[string]int{}}
	for _, m := range list {
		switch m.Role {
		case "assistant":
			c.assistant(m)
		case "tool":
			c.result(m)
		default:
			c.text("user", m.Said())
			c.files(m.Files)
		}
	}
	if c.role != "user" {
		c.text("user", continuation)
	}
	last := len(c.b) - 1 // the brace of the last block
	signed = c.signed || list[len(list)-1].Role != "tool"
	return append(append(c.b[:last], cacheMark...), "]}]"...), signed
}

// anthropicChat writes a conversation in Anthropic's form: the roles alternate, so
// that neighbours of one role become one message of several blocks, and the results
// of all calls stand first in the message after them.
type anthropicChat struct {
	b     []byte // the list so far, its last message open
	role  string // of the last message, "" for none
	model string
	used  map[string]int // ids of calls, and how many were made from each
	open  []string       // ids of the calls whose results come next

	signed bool // the last of the assistant's messages begins with thinking
}

// begin begins a block of a role. The first message is the user's.
func (c *anthropicChat) begin(role string) {
	switch {
	case c.role == role:
		c.b = append(c.b, ',')
		return
	case c.role == "" && role == "assistant":
		c.text("user", continuation)
	}
	if c.role != "" {
		c.b = append(c.b, "]},"...)
	}
	c.role = role
	c.b = append(append(append(c.b, `{"role":"`...), role...), `","content":[`...)
}

// text adds a block of text. The wire refuses blank ones, so they are left out.
func (c *anthropicChat) text(role, text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	c.begin(role)
	c.b = append(wire.AppendString(append(c.b, `{"type":"text","text":`...), text), '}')
}

// files adds the blocks of a user's files.
func (c *anthropicChat) files(list []File) {
	for _, f := range list {
		c.begin("user")
		c.b = anthropicFile(c.b, f)
	}
}

// assistant adds a message: the provider's own blocks, whose reasoning is signed, if
// their calls are those of the message and their ids are unused; else blocks made
// from the message.
func (c *anthropicChat) assistant(m Message) {
	c.open = c.open[:0]
	blocks, err := wire.Elements(stateOf(m, "anthropic", c.model))
	var ids []string
	for _, block := range blocks {
		if stringOf(memberOf(block, "type")) == "tool_use" {
			ids = append(ids, stringOf(memberOf(block, "id")))
		}
	}
	c.signed = err == nil && len(m.Calls) > 0 && len(ids) == len(m.Calls)
	seen := map[string]bool{}
	for i := 0; i < len(ids) && c.signed; i++ {
		c.signed = ids[i] == m.Calls[i].ID && c.used[ids[i]] == 0 && !seen[ids[i]]
		seen[ids[i]] = true
	}
	if c.signed {
		for _, id := range ids {
			c.used[id] = 1
		}
		for _, block := range blocks {
			c.begin("assistant")
			c.b = append(c.b, block...)
		}
		c.open = ids
		return
	}
	c.text("assistant", m.Said())
	for _, call := range m.Calls {
		// A call gets an id of its own in the characters that the wire takes: other
		// providers' ids have others, or are the same in every answer. It depends on
		// the conversation before the call alone, so it is the same in every request.
		base := plainName(call.ID)
		id := base
		for c.used[id] > 0 {
			c.used[base]++
			id = fmt.Sprintf("%s_%d", base, c.used[base])
		}
		c.used[id] = 1
		c.open = append(c.open, id)
		c.begin("assistant")
		c.b = wire.AppendString(append(c.b, `{"type":"tool_use","id":`...), id)
		c.b = wire.AppendString(append(c.b, `,"name":`...), plainName(call.Name))
		c.b = append(append(append(c.b, `,"input":`...), call.object()...), '}')
	}
}

// result adds the result of the next call. The wire refuses a blank one of a tool
// that failed.
func (c *anthropicChat) result(m Message) {
	id := c.open[0]
	c.open = c.open[1:]
	content := m.Said()
	if strings.TrimSpace(content) == "" {
		content = "(no output)"
	}
	c.begin("user")
	c.b = wire.AppendString(append(c.b, `{"type":"tool_result","tool_use_id":`...), id)
	c.b = append(c.b, `,"content":`...)
	if len(m.Files) == 0 {
		c.b = wire.AppendString(c.b, content)
	} else {
		c.b = contentText(append(c.b, '['), `{"type":"text","text":`, content)
		for _, f := range m.Files {
			c.b = anthropicFile(append(c.b, ','), f)
		}
		c.b = append(c.b, ']')
	}
	if m.Failed {
		c.b = append(c.b, `,"is_error":true`...)
	}
	c.b = append(c.b, '}')
}
