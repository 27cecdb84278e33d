package agr

import (
	"encoding/json"
	"fmt"

	"zino/pkg/wire"
	"zino/proto"
)

// The conversation only ever grows at its end: what is there is copied, never
// decoded, however long it is.

// elements checks a list of messages that nobody else will look at.
func elements(messages proto.Raw) ([]json.RawMessage, error) {
	list, err := wire.Elements(messages)
	if err != nil {
		return nil, &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf("Invalid request: field %q: %v", "messages", err)}
	}
	return list, nil
}

// appendMessage returns messages with one more at the end.
func appendMessage(messages proto.Raw, role string, content []byte) (proto.Raw, error) {
	list, err := open(messages, len(content)+len(content)/8+64)
	if err != nil {
		return nil, err
	}
	return append(appendContent(list, role, content), "}]"...), nil
}

// open returns a copy of messages that is ready for its next element: without
// the closing bracket, and with room for that many bytes.
func open(messages proto.Raw, room int) (proto.Raw, error) {
	end := len(messages) - 1
	for end >= 0 && messages[end] != ']' {
		end--
	}
	if end < 0 || messages[0] != '[' {
		return nil, &proto.Error{Code: proto.CodeInvalid, Message: `Invalid request: field "messages": expected a list`}
	}
	list := append(make(proto.Raw, 0, len(messages)+room), messages[:end]...)
	if !empty(list) {
		list = append(list, ',')
	}
	return list, nil
}

// appendContent begins a message: its closing brace is missing.
func appendContent[T string | []byte](list proto.Raw, role string, content T) proto.Raw {
	list = wire.AppendString(append(list, `{"role":`...), role)
	return wire.AppendString(append(list, `,"content":`...), content)
}

func isList(raw proto.Raw) bool { return len(raw) > 0 && raw[0] == '[' }

// empty reports whether a list without its closing bracket holds nothing.
func empty(list []byte) bool {
	for _, c := range list[1:] {
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}
