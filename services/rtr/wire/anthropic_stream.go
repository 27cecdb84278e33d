package wire

import (
	"bytes"
	"strconv"

	"zino/pkg/wire"
	"zino/proto"
)

// anthropicAnswer reads an answer of Anthropic's wire to its end mark, the
// event message_stop. A stop reason without it is no end.
type anthropicAnswer struct {
	x       *exchange
	events  *events
	blocks  []anthropicBlock
	calls   int // blocks that call a tool
	usage   anthropicUsage
	reason  string
	known   bool // an event of this wire has come
	stopped bool // the end mark has come
	scratch []byte
}

func (a *anthropicAnswer) read() error {
	if err := a.events.readNamed(a.take, &a.known, &a.stopped); err != nil {
		return err
	}
	return a.end()
}

// end gives the last events of a complete answer.
func (a *anthropicAnswer) end() error {
	for i := range a.blocks {
		if err := a.settle(&a.blocks[i]); err != nil {
			return err
		}
	}
	// An answer that is too large with its state is better than none.
	if content := a.content(); content != nil && a.x.size+len(content) < MaxAnswer-blockCost {
		if err := a.x.emit(Event{Kind: State, Delta: newState("anthropic", a.x.req.Model, content)}); err != nil {
			return err
		}
	}
	return a.x.emit(Event{Kind: Finish, Reason: stopReason(a.reason)})
}

// anthropicEvent are the members of an event that count, as they stand.
type anthropicEvent struct {
	kind, index, message, block, delta, usage, failure []byte
}

// readAnthropicEvent reads an event. The name beside the data counts where the
// data has no type.
func readAnthropicEvent(name string, data []byte) (e anthropicEvent) {
	for key, value := range wire.Members(data) {
		switch string(key) {
		case "type":
			if value[0] == '"' {
				e.kind = value[1 : len(value)-1]
			}
		case "index":
			e.index = value
		case "message":
			e.message = value
		case "content_block":
			e.block = value
		case "delta":
			e.delta = value
		case "usage":
			e.usage = value
		case "error":
			e.failure = value
		}
	}
	if len(e.kind) == 0 {
		e.kind = []byte(name)
	}
	return e
}

// take reads one event. Errors can be in any form; an event of a type that is
// not known is a ping, or what the future brings.
func (a *anthropicAnswer) take(name string, data []byte) error {
	if name == "error" {
		return a.x.failed(data)
	}
	if data[0] != '{' || !wire.Valid(data) {
		return a.x.unparsed(data)
	}
	e := readAnthropicEvent(name, data)
	a.known = a.known || ofAnthropic(e.kind)
	if string(e.kind) == "message" && a.events.in == nil {
		return a.whole(data)
	}
	switch string(e.kind) {
	case "content_block_delta":
		return a.delta(e.index, e.delta)
	case "content_block_start":
		return a.start(e.index, e.block)
	case "content_block_stop":
		return a.stop(e.index)
	case "message_start":
		return a.used(memberOf(e.message, "usage"))
	case "message_delta":
		if reason := text(memberOf(e.delta, "stop_reason")); reason != "" {
			a.reason = reason
		}
		return a.used(e.usage)
	case "message_stop":
		a.stopped = true
		return nil
	case "error":
		return a.x.failed(data)
	}
	if says(e.failure) {
		return a.x.failed(data)
	}
	return nil
}

// whole takes an answer that came in one piece: its blocks begin with all that
// they have.
func (a *anthropicAnswer) whole(message []byte) error {
	content := memberOf(message, "content")
	if len(content) == 0 || content[0] != '[' {
		return nil // which has no end either
	}
	for block := range wire.Items(content) {
		if err := a.start(strconv.AppendInt(nil, int64(len(a.blocks)), 10), block); err != nil {
			return err
		}
	}
	a.reason, a.stopped = text(memberOf(message, "stop_reason")), true
	return a.used(memberOf(message, "usage"))
}

// ofAnthropic reports whether a type is one of this wire's events.
func ofAnthropic(kind []byte) bool {
	return bytes.HasPrefix(kind, []byte("content_block_")) || bytes.HasPrefix(kind, []byte("message_")) || string(kind) == "ping"
}

// anthropicUsage are the tokens so far. Each event has all that it knows since
// the beginning; what it does not tell stays as it was.
type anthropicUsage struct{ fresh, read, written, out, thoughts int64 }

// used reads a usage: unlike elsewhere, input_tokens are those beside the
// cached ones.
func (a *anthropicAnswer) used(raw []byte) error {
	u := &a.usage
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "input_tokens":
			setTokens(&u.fresh, value)
		case "cache_read_input_tokens":
			setTokens(&u.read, value)
		case "cache_creation_input_tokens":
			setTokens(&u.written, value)
		case "output_tokens":
			setTokens(&u.out, value)
		case "output_tokens_details":
			setTokens(&u.thoughts, memberOf(value, "thinking_tokens"))
		}
	}
	total := u.fresh + u.read + u.written
	if len(raw) == 0 || total+u.out == 0 {
		return nil
	}
	return a.x.emit(Event{Kind: Used, Usage: &proto.Usage{
		InputTokens: total, OutputTokens: u.out, CacheReadTokens: u.read, CacheWriteTokens: u.written, ReasoningTokens: u.thoughts,
	}})
}

// setTokens sets a number of tokens, unless the value is zero or none. More
// than a million millions is a mistake, and sums of it could overflow.
func setTokens(n *int64, value []byte) {
	if v, err := strconv.ParseInt(string(value), 10, 64); err == nil && v > 0 && v < 1e12 {
		*n = v
	}
}

// memberOf returns the value of an object's member, nil for none.
func memberOf(object []byte, name string) []byte {
	for key, value := range wire.Members(object) {
		if string(key) == name {
			return value
		}
	}
	return nil
}
