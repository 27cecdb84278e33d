package session

import (
	"bytes"
	"unicode/utf8"

	"zino/pkg/wire"
)

// kind is the type of an event, as far as it means something here.
type kind int

const (
	other kind = iota
	meta
	message
	toolUse
	toolResult
	interrupted
	title
	usage
)

var kinds = map[string]kind{
	"meta": meta, "message": message, "tool_use": toolUse, "tool_result": toolResult, "interrupted": interrupted,
	"title": title, "usage": usage,
}

// event is an event's values as they stand in its line; nil where there is none.
type event struct {
	kind                               kind
	typ, ts, version, from, root, cost []byte
	role, text, partial, state         []byte
	id, name, input, useID, output, ok []byte
}

// read takes a line apart. It is one that begins and ends as an object does; of
// one that is no JSON it may find a part.
func read(line []byte) (e event) {
	for key, value := range wire.Members(line) {
		if field := e.field(string(key)); field != nil {
			*field = value
		}
	}
	if len(e.typ) > 2 {
		e.kind = kinds[string(e.typ[1:len(e.typ)-1])]
		if e.kind == other && bytes.IndexByte(e.typ, '\\') >= 0 {
			e.kind = kinds[str(e.typ)]
		}
	}
	return e
}

// field is where the value of a key goes.
func (e *event) field(key string) *[]byte {
	switch key {
	case "type":
		return &e.typ
	case "ts":
		return &e.ts
	case "schema_version":
		return &e.version
	case "forked_from":
		return &e.from
	case "root":
		return &e.root
	case "cost_usd":
		return &e.cost
	case "role":
		return &e.role
	case "text":
		return &e.text
	case "partial":
		return &e.partial
	case "reasoning_state":
		return &e.state
	}
	return e.toolField(key)
}

func (e *event) toolField(key string) *[]byte {
	switch key {
	case "id":
		return &e.id
	case "name":
		return &e.name
	case "input":
		return &e.input
	case "tool_use_id":
		return &e.useID
	case "output":
		return &e.output
	case "ok":
		return &e.ok
	}
	return nil
}

// spoken reports whether the event is a message of the user or the assistant,
// the only roles that a session's messages have.
func (e *event) spoken() bool {
	return e.kind == message && (isUser(e.role) || isAssistant(e.role))
}

func isUser(role []byte) bool      { return str(role) == "user" }
func isAssistant(role []byte) bool { return str(role) == "assistant" }

// called reports whether the event is a call of a tool that can have a result.
func (e *event) called() bool { return e.kind == toolUse && str(e.id) != "" && str(e.name) != "" }

// damaged reports whether the event lacks what an event of its type needs, or
// looks like a message of another type.
func (e *event) damaged() bool {
	if e.kind == other && isText(e.typ) && e.typ[1] != '"' {
		return len(e.role) > 0 && isText(e.text)
	}
	return e.kind != meta && e.check() != nil
}

// str is a JSON string's value, empty for anything else.
func str(raw []byte) string {
	text, ok := wire.Unquote(nil, raw)
	if !ok {
		return ""
	}
	return string(text)
}

func isText(raw []byte) bool   { return len(raw) > 0 && raw[0] == '"' }
func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }
func isTrue(raw []byte) bool   { return string(raw) == "true" }

// served is a line as it is given to readers, who need valid UTF-8.
func served(line []byte) []byte {
	if utf8.Valid(line) {
		return line
	}
	return bytes.ToValidUTF8(line, []byte("\ufffd"))
}
