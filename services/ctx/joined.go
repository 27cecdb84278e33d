package assemble

import (
	"bytes"
	"errors"

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

// addElements adds elements that stand without brackets.
func (j *joined) addElements(elements []byte) {
	if len(elements) > 0 {
		j.parts = append(j.parts, elements)
	}
}

// addArray adds the elements of a list. It looks at the list's edges only: rpc
// has delimited it, and its messages are checked by whoever reads them.
func (j *joined) addArray(list proto.Raw) error {
	list = trim(list)
	if len(list) < 2 || list[0] != '[' || list[len(list)-1] != ']' {
		return errNoList
	}
	elements := trim(list[1 : len(list)-1])
	if len(elements) > 0 && (elements[0] != '{' || elements[len(elements)-1] != '}') {
		return errNoList
	}
	j.addElements(elements)
	return nil
}

// trim drops JSON's white space and no other.
func trim(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }

// array returns the whole list.
func (j *joined) array() proto.Raw {
	size := len("[]")
	for _, part := range j.parts {
		size += len(part) + len(",")
	}
	list := append(make(proto.Raw, 0, size), '[')
	for i, part := range j.parts {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, part...)
	}
	return append(list, ']')
}
