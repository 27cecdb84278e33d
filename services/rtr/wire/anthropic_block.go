package wire

import (
	"bytes"
	"encoding/json"
	"slices"

	"zino/pkg/wire"
)

// The members of a block that come in pieces.
const (
	partText = iota
	partThinking
	partSignature
	partInput
	parts
)

var partNames = [parts]string{"text", "thinking", "signature", "input"}

// anthropicBlock is a block of an answer's content.
type anthropicBlock struct {
	index   string // the wire's
	kind    string
	start   json.RawMessage // as it began
	given   json.RawMessage // the input that it began with
	parts   [parts][]byte   // what came since; the texts that it began with, too
	call    int             // its place among the calls of tools
	settled bool            // nothing more is to come
}

// blockCost is what a block counts in bytes beside its own, so that blocks
// without number are too much as well.
const blockCost = 1 << 10

// start begins a block. Its texts are empty as a rule; what is not is the
// first piece.
func (a *anthropicAnswer) start(index, raw []byte) error {
	if err := a.keep(len(raw) + blockCost); err != nil {
		return err
	}
	b, id, name := readAnthropicBlock(raw)
	if b.kind == "" {
		return nil
	}
	b.index, b.call = string(index), a.calls
	a.blocks = append(a.blocks, b)
	switch b.kind {
	case "tool_use":
		a.calls++
		return a.x.emit(Event{Kind: ToolStart, Index: b.call, ID: id, Name: name})
	case "text":
		return a.emitPart(&b, partText, b.parts[partText])
	case "thinking":
		return a.emitPart(&b, partThinking, b.parts[partThinking])
	}
	return nil
}

// readAnthropicBlock reads a block as it begins, and what it says of a call.
func readAnthropicBlock(raw []byte) (b anthropicBlock, id, name string) {
	b.start = flat(raw)
	for key, value := range wire.Members(b.start) {
		switch string(key) {
		case "type":
			b.kind = text(value)
		case "id":
			id = text(value)
		case "name":
			name = text(value)
		case "input":
			b.given = value
		default:
			if i := slices.Index(partNames[:], string(key)); i >= 0 {
				b.parts[i] = []byte(text(value))
			}
		}
	}
	return b, id, name
}

// delta reads a piece of a block. Citations have no use here, and types that
// are not known are skipped.
func (a *anthropicAnswer) delta(index, raw []byte) error {
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
	switch string(kind) {
	case `"text_delta"`:
		return a.piece(index, partText, said[partText])
	case `"thinking_delta"`:
		return a.piece(index, partThinking, said[partThinking])
	case `"signature_delta"`:
		return a.piece(index, partSignature, said[partSignature])
	case `"input_json_delta"`:
		return a.piece(index, partInput, said[partInput])
	}
	return nil
}

// piece adds a piece to a block. Text for a block whose start has not come
// begins one.
func (a *anthropicAnswer) piece(index []byte, part int, value []byte) error {
	if len(value) == 0 {
		return nil
	}
	piece := appendContent(a.scratch[:0], value)
	a.scratch = piece
	if len(piece) == 0 {
		return nil
	}
	b := a.block(index)
	if b == nil {
		if part != partText && part != partThinking {
			return nil
		}
		if err := a.start(index, []byte(`{"type":"`+partNames[part]+`"}`)); err != nil {
			return err
		}
		b = &a.blocks[len(a.blocks)-1]
	}
	b.parts[part] = append(b.parts[part], piece...)
	return a.emitPart(b, part, piece)
}

// emitPart hands on a piece of a block.
func (a *anthropicAnswer) emitPart(b *anthropicBlock, part int, piece []byte) error {
	switch {
	case len(piece) == 0:
		return nil
	case part == partText:
		return a.x.emit(Event{Kind: Text, Delta: piece})
	case part == partThinking:
		return a.x.emit(Event{Kind: Reasoning, Delta: piece})
	case part == partInput && b.kind == "tool_use":
		return a.x.emit(Event{Kind: ToolArgs, Index: b.call, Delta: piece})
	}
	return a.keep(len(piece))
}

// block returns the block of an index; without one, the last block.
func (a *anthropicAnswer) block(index []byte) *anthropicBlock {
	for i := len(a.blocks) - 1; i >= 0; i-- {
		if len(index) == 0 || a.blocks[i].index == string(index) {
			return &a.blocks[i]
		}
	}
	return nil
}

func (a *anthropicAnswer) stop(index []byte) error {
	if b := a.block(index); b != nil {
		return a.settle(b)
	}
	return nil
}

// settle ends a block. A call's arguments are what it began with if no piece
// of them came.
func (a *anthropicAnswer) settle(b *anthropicBlock) error {
	if b.kind != "tool_use" || b.settled || len(b.parts[partInput]) > 0 {
		return nil
	}
	b.settled = true
	given := 0
	for range wire.Members(b.given) {
		given++
	}
	if given == 0 { // {} is what all calls begin with
		return nil
	}
	return a.x.emit(Event{Kind: ToolArgs, Index: b.call, Delta: b.given})
}

// keep counts bytes that are kept without being handed on.
func (a *anthropicAnswer) keep(n int) error {
	if a.x.size += n; a.x.size > MaxAnswer {
		return a.x.tooLarge()
	}
	return nil
}

// flat copies JSON into one line: the data of an event, and what a model
// writes, can have several, and what is kept goes into files of lines.
func flat(raw []byte) json.RawMessage {
	var b bytes.Buffer
	if bytes.IndexByte(raw, '\n') < 0 || json.Compact(&b, raw) != nil {
		return slices.Clone(raw)
	}
	return b.Bytes()
}
