package wire

import (
	"encoding/json"
	"strconv"

	"zino/pkg/wire"
	"zino/proto"
)

// completion reads an answer of the chat completions' wire to its end.
type completion struct {
	x        *exchange
	events   *events
	name     string
	calls    callList
	extras   extras
	finished bool // a finish reason has come, or the whole message
	reason   string
	scratch  []byte
	news     []byte // the text of the event under way
	more     bool   // it has more news than that
	template template
}

func (c *completion) read() error {
	for {
		name, data, err := c.events.next()
		if err == nil {
			if name == "error" {
				return c.x.failed(data)
			}
			if err = c.take(data); err == nil {
				continue
			}
			return err
		}
		if err := c.events.judge(c.finished, err); err != nil {
			return err
		}
		return c.end()
	}
}

// end gives the last events of a complete answer.
func (c *completion) end() error {
	if state := c.extras.state(c.name, c.x.req.Model, &c.calls); state != nil {
		if err := c.x.emit(Event{Kind: State, Delta: state}); err != nil {
			return err
		}
	}
	return c.x.emit(Event{Kind: Finish, Reason: c.reason})
}

// take reads one event, or a whole completion: that has a message where an
// event has a delta. Events without a choice are usage, or what the future
// brings.
func (c *completion) take(raw []byte) error {
	if piece, ok := c.template.read(c.scratch[:0], raw); ok {
		c.scratch = piece
		return c.speak(piece)
	}
	if raw[0] != '{' || !wire.Valid(raw) {
		return c.x.unparsed(raw)
	}
	c.news, c.more = nil, false
	if err := c.members(raw); err != nil {
		return err
	}
	if c.events.in == nil && !c.finished {
		return c.x.failed(raw)
	}
	if !c.more {
		c.template.learn(raw, c.news)
	}
	return nil
}

func (c *completion) members(raw []byte) error {
	for key, value := range wire.Members(raw) {
		var err error
		switch string(key) {
		case "error":
			if says(value) {
				err = c.x.failed(raw)
			}
		case "object":
			if string(value) == `"error"` { // an error of vLLM's
				err = c.x.failed(raw)
			}
		case "choices":
			err = c.choices(raw, value)
		case "usage":
			err = c.usage(value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *completion) choices(event, raw []byte) error {
	if raw[0] != '[' && string(raw) != "null" {
		return c.x.unparsed(event)
	}
	for choice := range wire.Items(raw) {
		if err := c.choice(event, choice); err != nil {
			return err
		}
	}
	return nil
}

// choice reads the first of the choices; another is none that we asked for.
func (c *completion) choice(event, raw []byte) error {
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
		if err := c.said(said, whole); err != nil {
			return err
		}
	}
	word := text(reason)
	if word == "error" {
		return c.x.failed(event)
	}
	if word != "" || whole {
		c.finished, c.reason, c.more = true, stopReason(word), true
		c.x.hurry()
	}
	return nil
}

// said reads what the model says in a delta or message. A refusal is its words
// as well, where it says nothing else.
func (c *completion) said(raw []byte, whole bool) error {
	var content, refusal, calls []byte
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "content":
			content = value
		case "refusal":
			refusal = value
		case "reasoning", "reasoning_content":
			if err := c.reasoning(string(key), value); err != nil {
				return err
			}
		case "reasoning_details":
			c.more = true
			c.extras.details(value)
		case "tool_calls":
			calls = value
		}
	}
	c.more = c.more || c.news != nil || !isNothing(refusal) || !isNothing(calls)
	c.news = content
	if isNothing(content) {
		content = refusal
	}
	c.scratch = appendContent(c.scratch[:0], content)
	if err := c.speak(c.scratch); err != nil {
		return err
	}
	if len(calls) > 0 && calls[0] == '[' {
		return c.calls.take(c.x, calls)
	}
	return nil
}

// reasoning reads the reasoning's text. Where both names have it, one counts.
func (c *completion) reasoning(key string, value []byte) error {
	if c.extras.field != "" && c.extras.field != key || string(value) == "null" {
		return nil
	}
	c.extras.field, c.more = key, true
	piece := contentOf(value)
	c.extras.reasoning = append(c.extras.reasoning, piece...)
	if piece == "" {
		return nil
	}
	return c.x.emit(Event{Kind: Reasoning, Delta: []byte(piece)})
}

// isNothing reports whether a member is absent or says nothing.
func isNothing(value []byte) bool {
	return len(value) == 0 || string(value) == "null" || string(value) == `""`
}

// speak hands on a piece of text, if there is any.
func (c *completion) speak(piece []byte) error {
	if len(piece) == 0 {
		return nil
	}
	return c.x.emit(Event{Kind: Text, Delta: piece})
}

// appendContent appends a content's text.
func appendContent(b, value []byte) []byte {
	if out, ok := wire.Unquote(b, value); ok {
		return out
	}
	return append(b, contentOf(value)...)
}

// usage reads OpenAI's usage: prompt_tokens includes what came from the cache.
func (c *completion) usage(raw []byte) error {
	var v struct {
		Prompt     count `json:"prompt_tokens"`
		Completion count `json:"completion_tokens"`
		Details    struct {
			Cached  count `json:"cached_tokens"`
			Written count `json:"cache_write_tokens"`
		} `json:"prompt_tokens_details"`
		Output struct {
			Reasoning count `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
		Cost *float64 `json:"cost"`
	}
	if raw[0] != '{' || json.Unmarshal(raw, &v) != nil || v.Prompt == 0 && v.Completion == 0 {
		return nil // null in all events but the last; in another form it is not known
	}
	u := &proto.Usage{
		InputTokens: int64(v.Prompt), OutputTokens: int64(v.Completion), CacheReadTokens: int64(v.Details.Cached),
		CacheWriteTokens: int64(v.Details.Written), ReasoningTokens: int64(v.Output.Reasoning),
	}
	if c.name == "openrouter" && v.Cost != nil && *v.Cost >= 0 {
		u.CostUSD = v.Cost
	}
	c.more = true
	return c.x.emit(Event{Kind: Used, Usage: u})
}

// count is a number of tokens, 0 where the wire has anything else.
type count int64

// UnmarshalJSON reads a number that is no fraction and not below 0.
func (n *count) UnmarshalJSON(b []byte) error {
	if v, err := strconv.ParseInt(string(b), 10, 64); err == nil && v >= 0 {
		*n = count(v)
	}
	return nil
}

// stopReason puts a wire's word into proto.Text's.
func stopReason(word string) string {
	switch word {
	case "function_call", "tool_use", "tool_calls":
		return "tool_calls"
	case "max_tokens", "max_output_tokens", "length", "MAX_TOKENS", "model_context_window_exceeded":
		return "length"
	case "content_filter", "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "RECITATION", "SPII":
		return "filter"
	case "", "stop", "end_turn", "stop_sequence", "STOP":
		return "stop"
	}
	return word
}
