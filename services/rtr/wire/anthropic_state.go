package wire

import (
	"bytes"
	"slices"
	"strings"

	"zino/pkg/wire"
)

// content returns the blocks to be handed back, if there are calls, and beside
// them what a plain message cannot hold, such as signed reasoning. Blank text
// is left out, for the wire refuses it; where that would join reasoning that
// was apart, which the wire refuses too, there is nothing to be handed back.
func (a *anthropicAnswer) content() []byte {
	if a.calls == 0 || !slices.ContainsFunc(a.blocks, opaque) {
		return nil
	}
	b := []byte("[")
	var before *anthropicBlock // the last one that is not blank
	gap := false
	for i := range a.blocks {
		block := &a.blocks[i]
		if block.kind == "text" && len(bytes.TrimSpace(block.parts[partText])) == 0 {
			gap = true
			continue
		}
		if before != nil {
			if gap && before.thinks() && block.thinks() {
				return nil
			}
			b = append(b, ',')
		}
		b = block.appendTo(b)
		before, gap = block, false
	}
	return append(b, ']')
}

// opaque reports whether a block is more than text or a call.
func opaque(b anthropicBlock) bool { return b.kind != "text" && b.kind != "tool_use" }

func (b *anthropicBlock) thinks() bool { return strings.HasSuffix(b.kind, "thinking") }

// appendTo appends the block as it is in the end: as it began, with the pieces
// in their places.
func (b *anthropicBlock) appendTo(out []byte) []byte {
	var object []byte
	left := b.parts
	for key, value := range wire.Members(b.start) {
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
	return append(append(out, object...), '}')
}

// partValue is a part in JSON.
func partValue(part int, text []byte) []byte {
	if part == partInput {
		return flat(Call{Args: string(text)}.object())
	}
	return wire.AppendString(nil, text)
}
