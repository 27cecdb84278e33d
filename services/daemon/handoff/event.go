package handoff

import (
	"maps"
	"slices"

	"zino/pkg/wire"
	"zino/proto"
)

// object holds the members of a JSON object, as they stand in its text.
type object map[string]proto.Raw

// read takes apart a value that is known to be valid JSON. What is no object has
// no members.
func read(raw []byte) object {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	o := object{}
	for key, value := range wire.Members(raw) {
		o[string(key)] = value
	}
	return o
}

// keys are the names of the members in the order of the alphabet.
func (o object) keys() []string { return slices.Sorted(maps.Keys(o)) }

// text is a member that is a string, empty if it is none.
func (o object) text(key string) string {
	text, ok := wire.Unquote(nil, o[key])
	if !ok {
		return ""
	}
	return string(text)
}

// plain is a value as text: a string without quotes, anything else as it is.
func plain(raw []byte) string {
	if text, ok := wire.Unquote(nil, raw); ok {
		return string(text)
	}
	return string(raw)
}

// is reports whether a member is the value true.
func (o object) is(key string) bool { return string(o[key]) == "true" }

// in is a member that is an object.
func (o object) in(key string) object { return read(o[key]) }
