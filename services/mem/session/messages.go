package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"zino/pkg/attach/kind"
	"zino/pkg/durable"
	"zino/pkg/message"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

// cutMark marks an answer that was cut off.
const cutMark = "[The answer was interrupted here.]"

// Messages returns a session as messages for a model. The file stays as it is.
func (s *Store) Messages(ctx context.Context, req proto.GetMessages) (proto.SessionMessages, error) {
	reply := proto.SessionMessages{}
	id := req.SessionID
	if err := proto.CheckSessionID(id); err != nil {
		return reply, err
	}
	d, err := s.look(ctx, id)
	if err == nil {
		err = d.checkSchema(id)
	}
	if err != nil {
		return reply, err
	}
	tooLarge := &proto.Error{Code: proto.CodeTooLarge, Message: fmt.Sprintf("Session %s is larger than a request can be (%d MiB). Go on in a new one: zino handoff --from-session %s --goal \"…\".", text.Quote(id), durable.MaxLine>>20+1, id)}
	var c conversation
	damaged := 0
	r := reader{s: s, ctx: ctx, id: id}
	for line, err := range r.events(0, req.Until) {
		if err != nil {
			return reply, err
		}
		e := parse(line.Text)
		if e.isDamaged() {
			damaged++
		}
		if e.kind == proto.TypeTools && wire.Valid(line.Text) {
			reply.Offer = bytes.Clone(line.Text)
		}
		if c.add(&e); c.size > s.room {
			return reply, tooLarge
		}
	}
	r.report(req.Until == 0)
	if s.opt.Damaged != nil && req.Until == 0 {
		s.opt.Damaged(id+fileEnd, damaged)
	}
	if req.OpenCalls {
		c.leaveOpen()
	}
	reply.Messages, reply.Count, reply.Next = c.list(), c.count, r.at
	if len(reply.Messages) > s.room {
		return reply, tooLarge
	}
	return reply, nil
}

// conversation converts events into messages. Each call is followed by its result;
// results without a call and blank texts are left out. Further requirements of
// providers, such as a user's message at the beginning, are met by rtr.
type conversation struct {
	items []*item
	open  []*call // calls without a result
	count int     // message events
	size  int     // roughly, in bytes
}

// item is a message of the user, or an answer with its calls and their results.
type item struct {
	user     bool
	text     []byte
	files    []proto.Attachment
	cut      bool // the text was cut off
	calls    []*call
	answered bool   // one of its calls has a result
	state    []byte // reasoning_state of the answer
	states   int    // number of different states in the events of the answer
}

type call struct {
	item     *item
	id, name string
	args     []byte // a JSON object
	result   []byte // nil: no result yet
	files    []proto.Attachment
	leave    bool   // omit the synthetic result
	ok       []byte // true or false as JSON; nil: not in the event
}

func (c *conversation) add(e *event) {
	switch {
	case e.isMessage():
		c.count++
		said, _ := wire.Unquote(nil, e.text)
		files := attached(e)
		if len(bytes.TrimSpace(said)) == 0 && files == nil {
			return
		}
		m := c.answer()
		if e.isUser() || m == nil || len(m.text) > 0 {
			m = c.begin(e.isUser())
		}
		m.text, m.cut, m.files = said, !m.user && isTrue(e.partial), files
		c.size += len(said) + len(e.attachments)
		c.keepState(m, e)
	case e.isCall():
		k := &call{id: str(e.id), name: str(e.name), args: arguments(e.input)}
		m := c.answer()
		// The calls of one answer have different ids, and none follows text that was
		// cut off.
		if m == nil || m.cut || slices.ContainsFunc(m.calls, func(other *call) bool { return other.id == k.id }) {
			m = c.begin(false)
		}
		k.item = m
		m.calls, c.open = append(m.calls, k), append(c.open, k)
		c.size += len(k.id) + len(k.name) + len(k.args)
		c.keepState(m, e)
	case e.kind == proto.TypeToolResult:
		id := str(e.useID)
		for i, k := range slices.Backward(c.open) { // the last of several calls with this id
			if k.id == id {
				k.result, k.item.answered, k.files = output(e), true, attached(e)
				if isTrue(e.ok) || string(e.ok) == "false" {
					k.ok = bytes.Clone(e.ok)
				}
				c.size += len(k.result) + len(e.attachments)
				c.open = slices.Delete(c.open, i, i+1)
				return
			}
		}
	case e.kind == proto.TypeUndo:
		if said := undone(e); said != "" {
			m := c.begin(true)
			m.text = []byte(said)
			c.size += len(said)
		}
	case e.kind == proto.TypeInterrupted:
		if m := c.answer(); m != nil && len(m.calls) == 0 {
			m.cut = true
		}
	}
}

// attached returns the attachments of an event, without malformed ones.
func attached(e *event) (files []proto.Attachment) {
	elements, err := wire.Elements(e.attachments)
	if err != nil {
		return nil
	}
	for _, element := range elements {
		var a proto.Attachment
		if wire.DecodeReply(element, &a) != nil {
			continue
		}
		if _, ok := kind.Sum(a.ID); ok {
			files = append(files, a)
		}
	}
	return files
}

// undone returns the text for the model about file changes that the user took back, or
// made again.
func undone(e *event) string {
	var paths []string
	if json.Unmarshal(e.restored, &paths) != nil || len(paths) == 0 || !isText(e.turn) {
		return ""
	}
	verb := "took back"
	if isTrue(e.redo) {
		verb = "restored"
	}
	return fmt.Sprintf("[The user %s the file changes of turn %s: %s]", verb, str(e.turn), strings.Join(paths, ", "))
}

// answer returns the answer that further text or calls belong to, or nil after a
// message of the user or a result.
func (c *conversation) answer() *item {
	m := c.last()
	if m == nil || m.user || m.answered {
		return nil
	}
	return m
}

func (c *conversation) begin(user bool) *item {
	m := &item{user: user}
	c.items = append(c.items, m)
	return m
}

// keepState stores the state of an answer, which any of its events may contain.
func (c *conversation) keepState(m *item, e *event) {
	if m.user || !isObject(e.state) || bytes.Equal(e.state, m.state) {
		return
	}
	c.size += len(e.state)
	m.state = bytes.Clone(e.state)
	m.states++
}

// arguments returns the input of a call as an object, which providers require.
func arguments(input []byte) []byte {
	switch {
	case isObject(input):
		return bytes.Clone(input)
	case len(input) == 0 || string(input) == "null":
		return []byte("{}")
	}
	return append(append([]byte(`{"_malformed":`), input...), '}')
}

// output returns the content of a result: the envelope, or the value of a string.
func output(e *event) []byte {
	switch {
	case isText(e.output):
		said, _ := wire.Unquote([]byte{}, e.output)
		return said
	case len(e.output) > 0 && string(e.output) != "null":
		return bytes.Clone(e.output)
	case isTrue(e.ok):
		return []byte(`{"ok":true}`)
	}
	return []byte(`{"ok":false}`)
}

// leaveOpen omits the synthetic results of the last answer's calls, which may still
// run.
func (c *conversation) leaveOpen() {
	m := c.last()
	for _, k := range c.open {
		k.leave = k.item == m
	}
}

func (c *conversation) last() *item {
	if len(c.items) == 0 {
		return nil
	}
	return c.items[len(c.items)-1]
}

// list returns the conversation in OpenAI's form.
func (c *conversation) list() []byte {
	b := make([]byte, 0, c.size+c.size/4+64*len(c.items)+64)
	for _, m := range c.items {
		b = m.append(b)
	}
	return message.Close(b)
}

func (m *item) append(b []byte) []byte {
	if m.user {
		return append(message.BeginWith(b, proto.RoleUser, m.text, m.files), '}')
	}
	said := m.text
	if m.cut {
		said = append(said, "\n\n"+cutMark...)
	}
	if len(b) == 0 {
		b = append(b, '[')
	} else {
		b = append(b, ',')
	}
	b = append(b, `{"role":"assistant","content":`...)
	if len(said) > 0 {
		b = wire.AppendString(b, said)
	} else {
		b = append(b, "null"...)
	}
	for i, k := range m.calls {
		if i == 0 {
			b = append(b, `,"tool_calls":[{"id":`...)
		} else {
			b = append(b, `,{"id":`...)
		}
		b = append(wire.AppendString(b, k.id), `,"type":"function","function":{"name":`...)
		b = append(wire.AppendString(b, k.name), `,"arguments":`...)
		b = append(wire.AppendString(b, k.args), "}}"...)
	}
	if len(m.calls) > 0 {
		b = append(b, ']')
	}
	// The state represents a complete answer. Providers prefer it to the content, so
	// it is left out if the answer was cut off, or if the events have several states.
	if m.states == 1 && !m.cut {
		b = append(append(b, `,"reasoning_state":`...), m.state...)
	}
	b = append(b, '}')
	for _, k := range m.calls {
		if k.leave {
			continue
		}
		result, ok := k.result, k.ok
		if result == nil {
			result, ok = []byte(proto.InterruptedResult), []byte("false")
		}
		b = wire.AppendString(append(b, `,{"role":"tool","tool_call_id":`...), k.id)
		b = message.AppendContent(append(b, `,"content":`...), result, k.files)
		if ok != nil {
			b = append(append(b, `,"ok":`...), ok...)
		}
		b = append(b, '}')
	}
	return b
}
