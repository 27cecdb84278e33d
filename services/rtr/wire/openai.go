package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	openai "github.com/sashabaranov/go-openai"

	"zino/pkg/wire"
	"zino/proto"
)

// OpenAI sends a request over OpenAI's Chat Completions API, which most model
// servers implement. Source: platform.openai.com/docs/api-reference/chat.
func OpenAI(ctx context.Context, ep *Endpoint, req *Request, sink Sink) error {
	return completions(ctx, ep, req, "openai", sink)
}

// OpenRouter sends a request over the Chat Completions API with OpenRouter's
// additions: the cost in the usage, and reasoning_details that are sent back in a
// tool loop. Source:
// openrouter.ai/docs/api-reference and docs/use-cases/reasoning-tokens.
func OpenRouter(ctx context.Context, ep *Endpoint, req *Request, sink Sink) error {
	return completions(ctx, ep, req, "openrouter", sink)
}

func completions(ctx context.Context, ep *Endpoint, req *Request, name string, sink Sink) error {
	body, err := completionBody(req, name)
	if err != nil {
		return err
	}
	c := call{path: "/chat/completions", body: body, stream: req.Stream, answer: &completion{name: name}}
	c.header = func(h http.Header) {
		h.Set("Accept", "application/json")
		if req.Stream {
			h.Set("Accept", "text/event-stream")
			h.Set("Cache-Control", "no-cache")
		}
		ep.bearer(h)
	}
	if name == "openai" && len(req.Tools) > 0 {
		c.facts = []string{"+chat-tools"}
	}
	return ep.do(ctx, req, sink, c)
}

// completionRequest is the body of a request for a chat completion.
type completionRequest struct {
	MaxCompletionTokens int             `json:"max_completion_tokens,omitzero"`
	MaxTokens           int             `json:"max_tokens,omitzero"`
	Messages            json.RawMessage `json:"messages"`
	Model               string          `json:"model"`
	Reasoning           *reasoning      `json:"reasoning,omitzero"`        // OpenRouter
	ReasoningEffort     string          `json:"reasoning_effort,omitzero"` // all others
	ResponseFormat      json.RawMessage `json:"response_format,omitzero"`
	Stream              bool            `json:"stream"`
	StreamOptions       *streamOptions  `json:"stream_options,omitzero"`
	Temperature         *float64        `json:"temperature,omitzero"`
	Tools               json.RawMessage `json:"tools,omitzero"`
	TopP                *float64        `json:"top_p,omitzero"`
	Usage               *usageOptions   `json:"usage,omitzero"`
}

// reasoning requests reasoning from OpenRouter and the Responses API.
type reasoning struct {
	Effort  string `json:"effort,omitzero"`
	Summary string `json:"summary,omitzero"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// usageOptions makes OpenRouter report the cost.
type usageOptions struct {
	Include bool `json:"include"`
}

// completionBody encodes the body of a request: the messages as received, and
// every parameter that the model accepts, 0 included. name is the name of the
// provider.
func completionBody(req *Request, name string) ([]byte, error) {
	t := req.Traits
	r := completionRequest{Model: req.Model, Messages: completionMessages(req, name), Stream: req.Stream}
	r.Temperature, r.TopP = t.sampling(req)
	if req.Stream && !t.NoStreamOptions {
		r.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if t.MaxTokensField == "max_completion_tokens" {
		r.MaxCompletionTokens = req.MaxTokens
	} else {
		r.MaxTokens = req.MaxTokens
	}
	if name != "openrouter" {
		r.ReasoningEffort = req.Effort
	} else if r.Usage = (&usageOptions{Include: true}); req.Effort != "" {
		r.Reasoning = &reasoning{Effort: req.Effort}
	}
	r.Tools = completionTools(req.Tools)
	if len(req.Schema) > 0 {
		r.ResponseFormat = append(append([]byte(`{"type":"json_schema","json_schema":{"name":"answer","schema":`), req.Schema...), `,"strict":true}}`...)
	}
	return encodeBody(r, len(r.Messages)+len(r.Tools)+len(req.Schema))
}

// completionTools encodes tools in OpenAI's form, which is Ollama's as well.
func completionTools(tools []Tool) json.RawMessage {
	var b []byte
	for i, t := range tools {
		b = append(b, "[,"[min(i, 1)])
		b = wire.AppendString(append(b, `{"type":"function","function":{"name":`...), t.Name)
		b = wire.AppendString(append(b, `,"description":`...), t.Description)
		b = append(append(b, `,"parameters":`...), t.Parameters...)
		b = append(b, "}}"...)
	}
	if b == nil {
		return nil
	}
	return append(b, ']')
}

// completionMessages encodes the messages, copying the received bytes wherever
// nothing changes. It inserts a user message before a leading assistant message,
// because the chat templates of many models fail on one. A list without an assistant
// message is sent as received: this API accepts a system prompt alone.
func completionMessages(req *Request, name string) json.RawMessage {
	list := legal(req.Messages)
	start := 0 // index of the first message after the system prompt
	for start < len(list) && list[start].Role == "system" {
		start++
	}
	if start < len(list) && list[start].Role == "assistant" {
		list = slices.Insert(slices.Clip(list), start, Message{Role: "user", Text: continuation})
	}
	if req.Traits.NoAssistantLast && endsWithAssistant(list) {
		list = append(slices.Clip(list), Message{Role: "user", Text: continuation})
	}
	same := len(list) == len(req.Messages) && (len(list) == 0 || &list[0] == &req.Messages[0])
	if same && !slices.ContainsFunc(list, func(m Message) bool { return !m.sound() }) {
		return req.Raw
	}
	b := append(make([]byte, 0, len(req.Raw)+roomAround), '[')
	for i, m := range list {
		if i > 0 {
			b = append(b, ',')
		}
		switch {
		case m.sound():
			b = append(b, m.Raw...)
		case len(m.Raw) > 0:
			b = appendRewritten(b, m, stateOf(m, name, req.Model))
		default:
			b = wire.AppendString(append(b, `{"role":`...), m.Role)
			if m.CallID != "" {
				b = wire.AppendString(append(b, `,"tool_call_id":`...), m.CallID)
			}
			b = append(b, `,"content":`...)
			if len(m.Files) > 0 {
				b = append(b, completionContent(m.Said(), m.Files)...)
			} else {
				b = wire.AppendString(b, m.Said())
			}
			b = append(b, '}')
		}
	}
	return append(b, ']')
}

// appendRewritten appends a message without our own members, with the members from
// the provider's state restored, and with arguments that are valid objects.
func appendRewritten(b []byte, m Message, state []byte) []byte {
	var object []byte
	for key, value := range wire.Members(m.Raw) {
		switch {
		case string(key) == "reasoning_state" || string(key) == "ok" && m.marked:
			continue
		case string(key) == "tool_calls" && len(m.Calls) > 0:
			extras := memberOf(state, "calls")
			list, i := []byte("["), 0
			for element := range wire.Items(value) {
				if i >= len(m.Calls) {
					break // a duplicate tool_calls member
				}
				var call []byte
				for key, value := range wire.Members(element) {
					if c := m.Calls[i]; string(key) == "function" && !c.whole() {
						value = wire.AppendString([]byte(`{"name":`), c.Name)
						value = wire.AppendString(append(value, `,"arguments":`...), c.object()) // a string in this API
						value = append(value, '}')
					}
					call = appendMember(call, key, value)
				}
				for key, value := range wire.Members(memberOf(extras, strconv.Itoa(i))) {
					call = appendMember(call, key, value)
				}
				if i++; i > 1 {
					list = append(list, ',')
				}
				list = append(append(list, call...), '}')
			}
			value = append(list, ']')
		}
		object = appendMember(object, key, value)
	}
	for key, value := range wire.Members(memberOf(state, "fields")) {
		object = appendMember(object, key, value)
	}
	return append(append(b, object...), '}')
}

// completion reads an answer of the Chat Completions API.
type completion struct {
	name    string // of the provider
	calls   []wireCall
	reason  string
	scratch []byte

	// Sent back with the calls: the reasoning's text under its original member name,
	// and OpenRouter's reasoning_details.
	field     string // "reasoning" or "reasoning_content"
	reasoning []byte
	details   []detail

	template template
	news     []byte // the text of the event being read
	more     bool   // the event has other content, too
}

// wireCall is a call in the stream.
type wireCall struct {
	index string // as on the wire, "" if missing
	id    string
	name  string
	whole bool            // its arguments arrived in one piece
	extra json.RawMessage // members outside the API, such as signatures
}

// event reads one event, or a completion that was not streamed, which has a message
// instead of a delta. Events without a choice contain usage or are skipped.
func (c *completion) event(x *exchange, _ string, raw []byte) error {
	if piece, ok := c.template.read(c.scratch[:0], raw); ok {
		c.scratch = piece
		return c.say(x, piece)
	}
	if raw[0] != '{' || !wire.Valid(raw) {
		return x.unparsed(raw)
	}
	c.news, c.more = nil, false
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "error":
			if says(value) {
				return x.failed(raw)
			}
		case "object":
			if string(value) == `"error"` { // vLLM's form of an error
				return x.failed(raw)
			}
		case "choices":
			if value[0] != '[' && string(value) != "null" {
				return x.unparsed(raw)
			}
			for choice := range wire.Items(value) {
				if err := c.choice(x, raw, choice); err != nil {
					return err
				}
			}
		case "usage":
			if usage := completionUsage(value, c.name == "openrouter"); usage != nil {
				c.more = true
				if err := x.emit(Event{Kind: Used, Usage: usage}); err != nil {
					return err
				}
			}
		}
	}
	if x.one && !x.finished {
		return x.failed(raw)
	}
	if !c.more {
		c.template.learn(raw, c.news)
	}
	return nil
}

// choice reads the choice with index 0; only one is requested.
func (c *completion) choice(x *exchange, event, raw []byte) error {
	var said, reason []byte
	whole := false
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "index":
			if string(value) != "0" && string(value) != "null" {
				return nil
			}
		case "delta":
			said = value
		case "message":
			said, whole = value, string(value) != "null"
		case "finish_reason":
			reason = value
		}
	}
	if len(said) > 0 && said[0] == '{' {
		if err := c.delta(x, said); err != nil {
			return err
		}
	}
	word := stringOf(reason)
	if word == "error" {
		return x.failed(event)
	}
	if word != "" || whole {
		c.reason, c.more = stopReason(word), true
		x.finish()
	}
	return nil
}

// delta reads a delta or message. A refusal without content is emitted as text.
func (c *completion) delta(x *exchange, raw []byte) error {
	var content, refusal, calls []byte
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "content":
			content = value
		case "refusal":
			refusal = value
		case "reasoning", "reasoning_content":
			// If both members are present, only the first is used.
			if c.field != "" && c.field != string(key) || string(value) == "null" {
				continue
			}
			c.field, c.more = string(key), true
			piece := contentOf(value)
			c.reasoning = append(c.reasoning, piece...)
			if piece == "" {
				continue
			}
			if err := x.emit(Event{Kind: Reasoning, Delta: []byte(piece)}); err != nil {
				return err
			}
		case "reasoning_details":
			c.more = true
			c.addDetails(value)
		case "tool_calls":
			calls = value
		}
	}
	isNothing := func(value []byte) bool {
		return len(value) == 0 || string(value) == "null" || string(value) == `""`
	}
	c.more = c.more || c.news != nil || !isNothing(refusal) || !isNothing(calls)
	c.news = content
	if isNothing(content) {
		content = refusal
	}
	c.scratch = appendContent(c.scratch[:0], content)
	if err := c.say(x, c.scratch); err != nil {
		return err
	}
	if len(calls) == 0 || calls[0] != '[' {
		return nil
	}
	for element := range wire.Items(calls) {
		if err := c.callPiece(x, element); err != nil {
			return err
		}
	}
	return nil
}

// say emits text that is not empty.
func (c *completion) say(x *exchange, piece []byte) error {
	if len(piece) == 0 {
		return nil
	}
	return x.emit(Event{Kind: Text, Delta: piece})
}

// callPiece reads an element of tool_calls. It belongs to the call with its index;
// for servers that omit or repeat the index, a new id or name starts another call,
// and an element without index, id and name continues the last call. The start of a
// call is emitted when its name is known.
func (c *completion) callPiece(x *exchange, raw []byte) error {
	var index, id, name, args string
	var extra []byte
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "index":
			index = string(value)
		case "id":
			id = stringOf(value)
		case "function":
			name, args = readFunction(value)
		case "type":
		default:
			extra = appendMember(extra, key, value)
		}
	}
	i := len(c.calls) - 1
	for ; i >= 0; i-- {
		// An element with a name and no id starts another call if it has no index,
		// or if the call with that index already arrived complete.
		k := &c.calls[i]
		another := id == "" && name != "" && k.name != "" && (index == "" || k.whole)
		if k.index == index && (id == "" || k.id == "" || k.id == id) && !another {
			break
		}
	}
	if i < 0 {
		if i = len(c.calls) - 1; index != "" || id != "" || name != "" || i < 0 {
			c.calls = append(c.calls, wireCall{index: index})
			i++
		}
	}
	if i >= maxCalls {
		return x.garbled(fmt.Sprintf("calls more than %d tools at once", maxCalls), []byte(name))
	}
	k := &c.calls[i]
	if k.id == "" {
		k.id = id
	}
	if extra != nil {
		k.extra = append(extra, '}')
	}
	if k.name == "" && name != "" {
		k.name = name
		k.whole = len(args) > 0 && args[0] == '{' && wire.Valid([]byte(args))
		return x.emitCall(i, k.id, name, args)
	}
	if args == "" {
		return nil
	}
	return x.emit(Event{Kind: ToolArgs, Index: i, Delta: []byte(args)})
}

// detail is one of OpenRouter's reasoning_details, joined from its pieces.
type detail struct {
	kind, index string
	members     []member
}

type member struct {
	key   string
	value json.RawMessage
}

// addDetails reads a list of deltas. A delta with the type and index of the last
// detail continues it: texts are joined, other members are replaced.
func (c *completion) addDetails(raw []byte) {
	for piece := range wire.Items(raw) {
		var d detail
		for key, value := range wire.Members(piece) {
			switch string(key) {
			case "type":
				d.kind = string(value)
			case "index":
				d.index = string(value)
			}
			d.members = append(d.members, member{string(key), slices.Clone(value)})
		}
		n := len(c.details)
		if n == 0 || d.index == "" || c.details[n-1].kind != d.kind || c.details[n-1].index != d.index {
			c.details = append(c.details, d)
			continue
		}
		last := &c.details[n-1]
		for _, m := range d.members {
			i := slices.IndexFunc(last.members, func(have member) bool { return have.key == m.key })
			switch {
			case i < 0:
				last.members = append(last.members, m)
			case (m.key == "text" || m.key == "summary" || m.key == "data") && m.value[0] == '"':
				last.members[i].value = wire.AppendString(nil, stringOf(last.members[i].value)+stringOf(m.value))
			case string(m.value) != "null":
				last.members[i].value = m.value
			}
		}
	}
}

// end emits the state of an answer with calls, {"fields":{…},"calls":{…}}: members
// of the message, and members of the calls, such as Gemini's signatures, by index.
func (c *completion) end(x *exchange, err error) error {
	if err != nil {
		return err
	}
	var fields, calls, content []byte
	if c.field == "reasoning_content" && len(c.reasoning) > 0 {
		fields = appendMember(fields, []byte(c.field), wire.AppendString(nil, c.reasoning))
	}
	var details []byte
	for i, d := range c.details {
		details = append(details, "[,"[min(i, 1)])
		var object []byte
		for _, m := range d.members {
			object = appendMember(object, []byte(m.key), m.value)
		}
		details = append(append(details, object...), '}')
	}
	if details != nil {
		fields = appendMember(fields, []byte("reasoning_details"), append(details, ']'))
	}
	for i, k := range c.calls {
		if k.extra != nil {
			calls = appendMember(calls, strconv.AppendInt(nil, int64(i), 10), k.extra)
		}
	}
	if fields != nil {
		content = appendMember(content, []byte("fields"), append(fields, '}'))
	}
	if calls != nil {
		content = appendMember(content, []byte("calls"), append(calls, '}'))
	}
	if len(c.calls) == 0 || content == nil {
		return x.emitEnd(nil, c.reason)
	}
	return x.emitEnd(newState(c.name, x.model, append(content, '}')), c.reason)
}

// completionUsage parses OpenAI's usage, and returns nil for null and other forms.
// prompt_tokens include cached tokens. go-openai's type lacks cache_write_tokens and
// OpenRouter's cost. A member of the wrong type counts as 0.
func completionUsage(raw []byte, priced bool) *proto.Usage {
	if raw[0] != '{' {
		return nil
	}
	var v struct {
		openai.Usage
		Details struct {
			openai.PromptTokensDetails
			Written int `json:"cache_write_tokens"`
		} `json:"prompt_tokens_details"`
		Cost *float64 `json:"cost"`
	}
	err := json.Unmarshal(raw, &v)
	if _, mistyped := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !mistyped {
		return nil
	}
	if v.CompletionTokensDetails == nil {
		v.CompletionTokensDetails = &openai.CompletionTokensDetails{}
	}
	u := &proto.Usage{
		InputTokens: count(v.PromptTokens), OutputTokens: count(v.CompletionTokens), CacheReadTokens: count(v.Details.CachedTokens),
		CacheWriteTokens: count(v.Details.Written), ReasoningTokens: count(v.CompletionTokensDetails.ReasoningTokens),
	}
	if u.InputTokens == 0 && u.OutputTokens == 0 {
		return nil
	}
	if priced && v.Cost != nil && *v.Cost >= 0 {
		u.CostUSD = v.Cost
	}
	return u
}

// count converts a number of tokens; negative numbers become 0.
func count(n int) int64 { return int64(max(n, 0)) }
