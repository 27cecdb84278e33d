package provider

import (
	"encoding/json"
	"strconv"

	"zino/pkg/wire"
)

// callList keeps the tool calls of a stream apart. A fragment belongs to the
// call of its index; servers that omit or repeat the index tell calls apart by
// a new id, and one that has neither goes on with the last call.
type callList struct {
	calls []wireCall
}

// wireCall is a call as the wire numbers it.
type wireCall struct {
	index string // the wire's, "" for none
	id    string
	extra json.RawMessage // members that are not of the form, such as signatures
}

// take reads the list tool_calls of a delta or message.
func (l *callList) take(x *exchange, raw []byte) error {
	list, err := wire.Elements(raw)
	if err != nil {
		return x.unparsed(raw)
	}
	for _, element := range list {
		if err := l.fragment(x, element); err != nil {
			return err
		}
	}
	return nil
}

func (l *callList) fragment(x *exchange, raw []byte) error {
	var index, id, name, args string
	var extra []byte
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "index":
			index = string(value)
		case "id":
			id = text(value)
		case "function":
			name, args = readFunction(value)
		case "type":
		default:
			extra = appendMember(extra, key, value)
		}
	}
	i, fresh := l.find(index, id, name)
	if fresh {
		if err := x.emit(Event{Kind: ToolStart, Index: i, ID: id, Name: name}); err != nil {
			return err
		}
	}
	if extra != nil {
		l.calls[i].extra = append(extra, '}')
	}
	if args == "" {
		return nil
	}
	return x.emit(Event{Kind: ToolArgs, Index: i, Delta: []byte(args)})
}

// find returns the call that a fragment belongs to, and whether it is a new one.
func (l *callList) find(index, id, name string) (i int, fresh bool) {
	for i := len(l.calls) - 1; i >= 0; i-- {
		c := &l.calls[i]
		if c.index == index && (id == "" || c.id == "" || c.id == id) && !(index == "" && id == "" && name != "") {
			return i, false
		}
	}
	if index == "" && id == "" && name == "" && len(l.calls) > 0 {
		return len(l.calls) - 1, false
	}
	l.calls = append(l.calls, wireCall{index: index, id: id})
	return len(l.calls) - 1, true
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
