// Package message builds and joins lists of chat messages in OpenAI's form,
//
//	[{"role":"user","content":"hello"},{"role":"assistant","content":"good day"}]
//
// as JSON text. Messages are copied unchanged, without decoding them.
//
// A list under construction has no closing bracket; nil is an empty one:
//
//	list := message.Append(nil, "system", prompt)
//	list = message.Join(list, history)
//	list = message.Append(list, "user", text)
//	req.Messages = message.Close(list)
package message

import (
	"bytes"
	"errors"

	"zino/pkg/attach/kind"
	"zino/pkg/wire"
	"zino/proto"
)

// Append appends a message to a list under construction.
func Append[T string | []byte](list []byte, role string, content T) []byte {
	return append(Begin(list, role, content), '}')
}

// Begin appends a message to which the caller adds further members and the
// closing brace.
func Begin[T string | []byte](list []byte, role string, content T) []byte {
	list = wire.AppendString(append(next(list), `{"role":`...), role)
	return wire.AppendString(append(list, `,"content":`...), content)
}

// BeginWith is Begin for a message with attachments.
func BeginWith[T string | []byte](list []byte, role string, content T, files []proto.Attachment) []byte {
	list = wire.AppendString(append(next(list), `{"role":`...), role)
	return AppendContent(append(list, `,"content":`...), content, files)
}

// AppendContent appends the content of a message: a string, or with attachments a list
// of the text, if it is not empty, and the references to them:
//
//	[{"type":"text","text":"What is this?"},{"type":"attachment","id":"sha256:…",…}]
func AppendContent[T string | []byte](b []byte, content T, files []proto.Attachment) []byte {
	if len(files) == 0 {
		return wire.AppendString(b, content)
	}
	b = append(b, '[')
	if len(content) > 0 {
		b = append(wire.AppendString(append(b, `{"type":"text","text":`...), content), `},`...)
	}
	for i, file := range files {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = wire.AppendObject(b, proto.TypeAttachment, file) // a struct of strings and numbers
	}
	return append(b, ']')
}

// FileTokens estimates the tokens of the attachments in a text of messages, besides their
// references.
func FileTokens(list []byte) (tokens int) {
	begin := []byte(`{"type":"` + proto.TypeAttachment + `",`)
	for {
		i := bytes.Index(list, begin)
		if i < 0 {
			return tokens
		}
		list = list[i:]
		end := bytes.IndexByte(list, '}')
		if end < 0 {
			return tokens
		}
		var a proto.Attachment
		if wire.DecodeReply(list[:end+1], &a) == nil {
			tokens += kind.Tokens(a)
		}
		list = list[end:]
	}
}

// Join appends the messages of whole lists. It checks their edges only, and skips what
// is not a list.
func Join(list []byte, whole ...[]byte) []byte {
	for _, w := range whole {
		if inner, err := Inner(w); err == nil && len(inner) > 0 {
			list = append(next(list), inner...)
		}
	}
	return list
}

// Close returns the finished list.
func Close(list []byte) []byte {
	if len(list) == 0 {
		return []byte("[]")
	}
	return append(list, ']')
}

// Reopen copies a whole list to one under construction, with capacity for room more
// bytes.
func Reopen(whole []byte, room int) ([]byte, error) {
	inner, err := Inner(whole)
	if err != nil {
		return nil, err
	}
	list := append(make([]byte, 0, len(inner)+room+2), '[')
	return append(list, inner...), nil
}

// next prepares a list for its next message.
func next(list []byte) []byte {
	switch len(list) {
	case 0:
		return append(list, '[')
	case 1:
		return list
	}
	return append(list, ',')
}

// ErrNotList is the error for JSON that is not a list of objects.
var ErrNotList = errors.New("expected a list of messages")

// Inner returns the text between the brackets of a list. It checks the list's edges, not
// its messages.
func Inner(whole []byte) ([]byte, error) {
	whole = trim(whole)
	if len(whole) < 2 || whole[0] != '[' || whole[len(whole)-1] != ']' {
		return nil, ErrNotList
	}
	inner := trim(whole[1 : len(whole)-1])
	if len(inner) > 0 && (inner[0] != '{' || inner[len(inner)-1] != '}') {
		return nil, ErrNotList
	}
	return inner, nil
}

// trim removes JSON's white space.
func trim(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }
