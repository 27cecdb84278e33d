package wire

import (
	"encoding/json"
	"fmt"
	"strings"

	"zino/pkg/wire"
)

// anthropicChat writes a conversation in Anthropic's form: the roles take
// turns, so that what one says in several messages becomes one message of
// several blocks, and the results of all calls stand first in the message
// behind them.
type anthropicChat struct {
	b     []byte // the list as far as it is, its last message open
	role  string // of the last message, "" for none
	model string
	used  map[string]int // ids of calls, and how many were made from each
	open  []string       // ids of the calls whose results come next

	signed bool // the last of the assistant's messages begins with thinking
}

func (c *anthropicChat) add(m Message) {
	switch m.Role {
	case "assistant":
		c.assistant(m)
	case "tool":
		c.result(m)
	default:
		c.text("user", m.Said())
	}
}

// begin makes room for a block of a role. The user begins.
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

func (c *anthropicChat) assistant(m Message) {
	c.open = c.open[:0]
	if c.signed = c.verbatim(m); c.signed {
		return
	}
	c.text("assistant", m.Said())
	for _, call := range m.Calls {
		id := c.id(call.ID)
		c.open = append(c.open, id)
		c.begin("assistant")
		c.b = wire.AppendString(append(c.b, `{"type":"tool_use","id":`...), id)
		c.b = wire.AppendString(append(c.b, `,"name":`...), plainName(call.Name))
		c.b = append(append(append(c.b, `,"input":`...), call.object()...), '}')
	}
}

// verbatim adds the content that the provider gave for a message with calls, as
// it was: its reasoning is signed. Where its calls are others than the
// message's, or have ids that are taken, it has no place here.
func (c *anthropicChat) verbatim(m Message) bool {
	blocks, err := wire.Elements(stateOf(m, "anthropic", c.model))
	if err != nil || len(m.Calls) == 0 {
		return false
	}
	var ids []string
	for _, block := range blocks {
		if id, ok := toolUse(block); ok {
			ids = append(ids, id)
		}
	}
	if len(ids) != len(m.Calls) || !c.claim(ids, m.Calls) {
		return false
	}
	for _, block := range blocks {
		c.begin("assistant")
		c.b = append(c.b, block...)
	}
	c.open = ids
	return true
}

// toolUse returns the id of a tool_use block.
func toolUse(block json.RawMessage) (id string, ok bool) {
	for key, value := range wire.Members(block) {
		switch string(key) {
		case "type":
			ok = text(value) == "tool_use"
		case "id":
			id = text(value)
		}
	}
	return id, ok
}

// claim takes ids if they are those of the calls, and free.
func (c *anthropicChat) claim(ids []string, calls []Call) bool {
	for i, id := range ids {
		if id != calls[i].ID || c.used[id] > 0 {
			for _, claimed := range ids[:i] {
				delete(c.used, claimed)
			}
			return false
		}
		c.used[id] = 1
	}
	return true
}

// id gives a call an id of its own in the characters that the wire takes. Other
// providers' ids have others, or are the same in every answer. What is given
// depends on the conversation before the call alone, so it is the same in every
// request.
func (c *anthropicChat) id(id string) string {
	base := plainName(id)
	free := base
	for c.used[free] > 0 {
		c.used[base]++
		free = fmt.Sprintf("%s_%d", base, c.used[base])
	}
	c.used[free] = 1
	return free
}

// maxPlain bounds a plain name, with room for a number behind it: the wire
// takes 128 characters.
const maxPlain = 120

// plainName makes a name of the characters that the wire takes in ids and
// names.
func plainName(s string) string {
	if s == "" {
		return "unnamed"
	}
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, s)
	return plain[:min(len(plain), maxPlain)]
}

// result adds the result of the next of the calls. The wire takes no blank one
// where a tool failed.
func (c *anthropicChat) result(m Message) {
	id := c.open[0]
	c.open = c.open[1:]
	content := m.Said()
	if strings.TrimSpace(content) == "" {
		content = "(no output)"
	}
	c.begin("user")
	c.b = wire.AppendString(append(c.b, `{"type":"tool_result","tool_use_id":`...), id)
	c.b = wire.AppendString(append(c.b, `,"content":`...), content)
	if m.Failed {
		c.b = append(c.b, `,"is_error":true`...)
	}
	c.b = append(c.b, '}')
}
