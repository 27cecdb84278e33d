package assemble

import (
	"bytes"
	"errors"

	"zino/pkg/wire"
	"zino/proto"
)

// errNoList is what a part is refused for. Its place in the answer is not
// worth a damaged packet.
var errNoList = errors.New("mem answered with something that is not a list of messages")

// joined is a list made of the elements of other lists. They are gathered
// first and copied once.
type joined struct {
	parts [][]byte // elements with commas between them, none empty
}

// add adds elements that stand without brackets.
func (j *joined) add(elements ...[]byte) {
	for _, part := range elements {
		if len(part) > 0 {
			j.parts = append(j.parts, part)
		}
	}
}

// elements returns what stands between the brackets of a list of messages. It
// looks at the list's edges only: rpc has delimited it, and its messages are
// checked by whoever reads them.
func elements(list proto.Raw) ([]byte, error) {
	list = trim(list)
	if len(list) < 2 || list[0] != '[' || list[len(list)-1] != ']' {
		return nil, errNoList
	}
	inner := trim(list[1 : len(list)-1])
	if len(inner) > 0 && (inner[0] != '{' || inner[len(inner)-1] != '}') {
		return nil, errNoList
	}
	return inner, nil
}

// split returns the messages of a list one by one. It is for lists that must be
// cut: what lies between two messages is looked at, what is in them is not.
func split(list proto.Raw) ([][]byte, error) {
	inner, err := elements(list)
	if err != nil {
		return nil, err
	}
	var messages [][]byte
	for message := range wire.Items(list) {
		if message[0] != '{' {
			return nil, errNoList
		}
		messages = append(messages, message)
	}
	// A walk over something that is no JSON ends where it does not understand.
	if len(messages) > 0 && !bytes.HasSuffix(inner, messages[len(messages)-1]) {
		return nil, errNoList
	}
	return messages, nil
}

// trim drops JSON's white space and no other.
func trim(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }

// size is the length of the elements with the commas between them.
func (j *joined) size() int {
	size := max(0, len(j.parts)-1)
	for _, part := range j.parts {
		size += len(part)
	}
	return size
}

// sizeWith is what size would be with more elements.
func (j *joined) sizeWith(more ...[]byte) int {
	all := joined{append(j.parts[:len(j.parts):len(j.parts)], more...)}
	return all.size()
}

// array returns the whole list.
func (j *joined) array() proto.Raw {
	list := append(make(proto.Raw, 0, j.size()+len("[]")), '[')
	for i, part := range j.parts {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, part...)
	}
	return append(list, ']')
}
