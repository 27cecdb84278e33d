package wire

import (
	"encoding/json"
	"fmt"
	"strconv"

	"zino/pkg/wire"
)

// callList keeps the tool calls of a stream apart. A piece belongs to the call
// of its index; servers that omit or repeat the index tell calls apart by a new
// id or name, and a piece that has none of them goes on with the last call.
type callList struct {
	calls []wireCall
}

// wireCall is a call as the wire tells it.
type wireCall struct {
	index string // the wire's, "" for none
	id    string
	name  string
	whole bool            // its arguments came in one piece
	extra json.RawMessage // members that are not of the form, such as signatures
}

// callPiece is an element of the list tool_calls.
type callPiece struct {
	index, id, name, args string
	extra                 []byte
}

// take reads the list tool_calls of a delta or message.
func (l *callList) take(x *exchange, raw []byte) error {
	list, err := wire.Elements(raw)
	if err != nil {
		return x.unparsed(raw)
	}
	for _, element := range list {
		if err := l.add(x, readPiece(element)); err != nil {
			return err
		}
	}
	return nil
}

func readPiece(raw []byte) (p callPiece) {
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "index":
			p.index = string(value)
		case "id":
			p.id = text(value)
		case "function":
			p.name, p.args = readFunction(value)
		case "type":
		default:
			p.extra = appendMember(p.extra, key, value)
		}
	}
	return p
}

// add hands on what a piece tells. A call begins when its name is known.
func (l *callList) add(x *exchange, p callPiece) error {
	i := l.find(p)
	if i == maxCalls {
		return x.garbled(fmt.Sprintf("calls more than %d tools at once", maxCalls), []byte(p.name))
	}
	c := &l.calls[i]
	if c.id == "" {
		c.id = p.id
	}
	if c.name == "" && p.name != "" {
		c.name = p.name
		if err := x.emit(Event{Kind: ToolStart, Index: i, ID: c.id, Name: c.name}); err != nil {
			return err
		}
		c.whole = len(p.args) > 0 && p.args[0] == '{' && wire.Valid([]byte(p.args))
	}
	if p.extra != nil {
		c.extra = append(p.extra, '}')
	}
	if p.args == "" {
		return nil
	}
	return x.emit(Event{Kind: ToolArgs, Index: i, Delta: []byte(p.args)})
}

// find returns the call that a piece belongs to, which may be a new one.
func (l *callList) find(p callPiece) int {
	for i := len(l.calls) - 1; i >= 0; i-- {
		if l.calls[i].takes(p) {
			return i
		}
	}
	if p.index == "" && p.id == "" && p.name == "" && len(l.calls) > 0 {
		return len(l.calls) - 1
	}
	l.calls = append(l.calls, wireCall{index: p.index})
	return len(l.calls) - 1
}

// takes reports whether a piece goes on with the call. One that has a name and
// no id begins another where there is no index, and where the index stands for
// all calls and each comes whole.
func (c *wireCall) takes(p callPiece) bool {
	if c.index != p.index || p.id != "" && c.id != "" && c.id != p.id {
		return false
	}
	named := p.id == "" && p.name != "" && c.name != ""
	return !named || p.index != "" && !c.whole
}

// appendMember adds a member to an object under way.
func appendMember(b, key, value []byte) []byte {
	if len(b) == 0 {
		b = append(b, '{')
	} else {
		b = append(b, ',')
	}
	return append(append(wire.AppendString(b, key), ':'), value...)
}

// extras are what an answer has beyond the form, to be handed back with its
// calls: the reasoning's text in the field in which it came, OpenRouter's
// reasoning_details, and members of calls such as Gemini's signatures.
type extras struct {
	field     string // "reasoning" or "reasoning_content"
	reasoning []byte
	list      []detail
}

// state makes the state of an answer with calls: {"fields":{…},"calls":[{…}]}.
func (e *extras) state(name, model string, l *callList) []byte {
	if len(l.calls) == 0 {
		return nil
	}
	var fields, calls []byte
	if e.field == "reasoning_content" && len(e.reasoning) > 0 {
		fields = appendMember(fields, []byte(e.field), wire.AppendString(nil, e.reasoning))
	}
	if len(e.list) > 0 {
		fields = appendMember(fields, []byte("reasoning_details"), detailList(e.list))
	}
	for i, c := range l.calls {
		if c.extra != nil {
			calls = appendMember(calls, strconv.AppendInt(nil, int64(i), 10), c.extra)
		}
	}
	if fields == nil && calls == nil {
		return nil
	}
	var content []byte
	if fields != nil {
		content = appendMember(content, []byte("fields"), append(fields, '}'))
	}
	if calls != nil {
		content = appendMember(content, []byte("calls"), append(calls, '}'))
	}
	return newState(name, model, append(content, '}'))
}
