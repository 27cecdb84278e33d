package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"zino/pkg/wire"
	"zino/proto"
)

// anthropicAnswer reads an answer of Anthropic's API up to the event message_stop. A
// stop reason without it does not end the answer.
type anthropicAnswer struct {
	blocks  []anthropicBlock
	calls   int // blocks that call a tool
	reason  string
	scratch []byte

	// The tokens so far. Each event has cumulative counts; a count that an event
	// does not contain stays unchanged.
	fresh, read, written, out, thoughts int64
}

// The members of a block that arrive as deltas.
const (
	partText = iota
	partThinking
	partSignature
	partInput
	parts
)

var (
	partNames  = [parts]string{"text", "thinking", "signature", "input"}
	deltaTypes = [parts]string{`"text_delta"`, `"thinking_delta"`, `"signature_delta"`, `"input_json_delta"`}
)

// anthropicBlock is a block of an answer's content.
type anthropicBlock struct {
	index   string // as on the wire
	kind    string
	start   json.RawMessage // content_block of content_block_start
	given   json.RawMessage // the input in start
	parts   [parts][]byte   // the texts in start and the deltas since
	call    int             // index among the tool calls
	settled bool            // the input in start was emitted
}

// event reads one event. Errors can have any form. Events of unknown types, such as
// pings, are skipped.
func (a *anthropicAnswer) event(x *exchange, name string, data []byte) error {
	if data[0] != '{' || !wire.Valid(data) {
		return x.unparsed(data)
	}
	var kind, index, message, block, delta, usage, failure []byte
	for key, value := range wire.Members(data) {
		switch string(key) {
		case "type":
			if value[0] == '"' {
				kind = value[1 : len(value)-1]
			}
		case "index":
			index = value
		case "message":
			message = value
		case "content_block":
			block = value
		case "delta":
			delta = value
		case "usage":
			usage = value
		case "error":
			failure = value
		}
	}
	if len(kind) == 0 {
		kind = []byte(name)
	}
	x.any = x.any || bytes.HasPrefix(kind, []byte("content_block_")) || bytes.HasPrefix(kind, []byte("message_")) || string(kind) == "ping"
	switch string(kind) {
	case "content_block_delta":
		return a.delta(x, index, delta)
	case "content_block_start":
		return a.start(x, index, block)
	case "content_block_stop":
		if b := a.block(index); b != nil {
			return a.settle(x, b)
		}
		return nil
	case "message_start":
		return a.used(x, memberOf(message, "usage"))
	case "message_delta":
		if reason := stringOf(memberOf(delta, "stop_reason")); reason != "" {
			a.reason = reason
		}
		return a.used(x, usage)
	case "message_stop":
		x.stopped = true
		return nil
	case "message":
		if x.one {
			return a.whole(x, data)
		}
	case "error":
		return x.failed(data)
	}
	if says(failure) {
		return x.failed(data)
	}
	return nil
}

// whole reads an answer that was not streamed, with complete blocks.
func (a *anthropicAnswer) whole(x *exchange, message []byte) error {
	content := memberOf(message, "content")
	if len(content) == 0 || content[0] != '[' {
		return nil // the missing end becomes the error
	}
	for block := range wire.Items(content) {
		if err := a.start(x, strconv.AppendInt(nil, int64(len(a.blocks)), 10), block); err != nil {
			return err
		}
	}
	a.reason, x.stopped = stringOf(memberOf(message, "stop_reason")), true
	return a.used(x, memberOf(message, "usage"))
}

// start adds a block. Its texts are usually empty; if not, they are the first
// delta.
func (a *anthropicAnswer) start(x *exchange, index, raw []byte) error {
	if err := x.keep(len(raw) + blockCost); err != nil {
		return err
	}
	b := anthropicBlock{index: string(index), call: a.calls, start: flat(raw)}
	var id, name string
	for key, value := range wire.Members(b.start) {
		switch string(key) {
		case "type":
			b.kind = stringOf(value)
		case "id":
			id = stringOf(value)
		case "name":
			name = stringOf(value)
		case "input":
			b.given = value
		default:
			if i := slices.Index(partNames[:], string(key)); i >= 0 {
				b.parts[i] = []byte(stringOf(value))
			}
		}
	}
	if b.kind == "" {
		return nil
	}
	a.blocks = append(a.blocks, b)
	switch b.kind {
	case "tool_use":
		a.calls++
		return x.emitCall(b.call, id, name, "")
	case "text":
		return a.emitPart(x, &b, partText, b.parts[partText])
	case "thinking":
		return a.emitPart(x, &b, partThinking, b.parts[partThinking])
	}
	return nil
}

// delta reads a delta of a block. Citations and unknown types are skipped. Text for
// a block without a start event adds one.
func (a *anthropicAnswer) delta(x *exchange, index, raw []byte) error {
	var kind []byte
	var said [parts][]byte
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "type":
			kind = value
		case "text":
			said[partText] = value
		case "thinking":
			said[partThinking] = value
		case "signature":
			said[partSignature] = value
		case "partial_json":
			said[partInput] = value
		}
	}
	part := slices.Index(deltaTypes[:], string(kind))
	if part < 0 || len(said[part]) == 0 {
		return nil
	}
	a.scratch = appendContent(a.scratch[:0], said[part])
	if len(a.scratch) == 0 {
		return nil
	}
	b := a.block(index)
	if b == nil {
		if part != partText && part != partThinking {
			return nil
		}
		if err := a.start(x, index, []byte(`{"type":"`+partNames[part]+`"}`)); err != nil {
			return err
		}
		b = &a.blocks[len(a.blocks)-1]
	}
	b.parts[part] = append(b.parts[part], a.scratch...)
	return a.emitPart(x, b, part, a.scratch)
}

// emitPart emits a delta of a block. One that is only kept in the state counts
// towards the size limit.
func (a *anthropicAnswer) emitPart(x *exchange, b *anthropicBlock, part int, piece []byte) error {
	switch {
	case len(piece) == 0:
		return nil
	case part == partText:
		return x.emit(Event{Kind: Text, Delta: piece})
	case part == partThinking:
		return x.emit(Event{Kind: Reasoning, Delta: piece})
	case part == partInput && b.kind == "tool_use":
		return x.emit(Event{Kind: ToolArgs, Index: b.call, Delta: piece})
	}
	return x.keep(len(piece))
}

// block returns the block with the index, or the last block if index is empty.
func (a *anthropicAnswer) block(index []byte) *anthropicBlock {
	for i := len(a.blocks) - 1; i >= 0; i-- {
		if len(index) == 0 || a.blocks[i].index == string(index) {
			return &a.blocks[i]
		}
	}
	return nil
}

// settle ends a block. It emits a call's input from the start event if no deltas
// arrived, unless it is {}, the usual value there.
func (a *anthropicAnswer) settle(x *exchange, b *anthropicBlock) error {
	if b.kind != "tool_use" || b.settled || len(b.parts[partInput]) > 0 {
		return nil
	}
	b.settled = true
	for range wire.Members(b.given) {
		return x.emit(Event{Kind: ToolArgs, Index: b.call, Delta: b.given})
	}
	return nil
}

// used reads a usage. Unlike in other APIs, input_tokens exclude cached tokens.
func (a *anthropicAnswer) used(x *exchange, raw []byte) error {
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "input_tokens":
			setTokens(&a.fresh, value)
		case "cache_read_input_tokens":
			setTokens(&a.read, value)
		case "cache_creation_input_tokens":
			setTokens(&a.written, value)
		case "output_tokens":
			setTokens(&a.out, value)
		case "output_tokens_details":
			setTokens(&a.thoughts, memberOf(value, "thinking_tokens"))
		}
	}
	total := a.fresh + a.read + a.written
	if len(raw) == 0 || total+a.out == 0 {
		return nil
	}
	return x.emit(Event{Kind: Used, Usage: &proto.Usage{
		InputTokens: total, OutputTokens: a.out, CacheReadTokens: a.read, CacheWriteTokens: a.written, ReasoningTokens: a.thoughts,
	}})
}

// end emits the state: all blocks, if there are calls and also blocks that a plain
// message cannot represent, such as signed reasoning. The state is dropped if it
// would make the answer too large.
func (a *anthropicAnswer) end(x *exchange, err error) error {
	if err != nil {
		return err
	}
	for i := range a.blocks {
		if err := a.settle(x, &a.blocks[i]); err != nil {
			return err
		}
	}
	var state []byte
	if content := a.content(); content != nil && x.size+len(content) < MaxAnswer-blockCost {
		state = newState("anthropic", x.model, content)
	}
	return x.emitEnd(state, stopReason(a.reason))
}

// content returns the blocks with their deltas merged, or nil if none has to be sent
// back. Blank text is left out, because the API rejects it. If that would make two
// reasoning blocks adjacent, which the API rejects too, content returns nil.
func (a *anthropicAnswer) content() []byte {
	opaque := func(b anthropicBlock) bool { return b.kind != "text" && b.kind != "tool_use" }
	if a.calls == 0 || !slices.ContainsFunc(a.blocks, opaque) {
		return nil
	}
	list := []byte("[")
	thought, gap := false, false // the last non-blank block is reasoning; a blank one followed it
	for i := range a.blocks {
		block := &a.blocks[i]
		if block.kind == "text" && len(bytes.TrimSpace(block.parts[partText])) == 0 {
			gap = true
			continue
		}
		thinks := strings.HasSuffix(block.kind, "thinking")
		if gap && thought && thinks {
			return nil
		}
		thought, gap = thinks, false
		var object []byte
		left := block.parts
		for key, value := range wire.Members(block.start) {
			if i := slices.Index(partNames[:], string(key)); i >= 0 && len(left[i]) > 0 {
				value, left[i] = partValue(i, left[i]), nil
			}
			object = appendMember(object, key, value)
		}
		for i, text := range left {
			if len(text) > 0 {
				object = appendMember(object, []byte(partNames[i]), partValue(i, text))
			}
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(append(list, object...), '}')
	}
	return append(list, ']')
}

// partValue encodes a part as JSON.
func partValue(part int, text []byte) []byte {
	if part == partInput {
		return flat(Call{Args: string(text)}.object())
	}
	return wire.AppendString(nil, text)
}
