package session

import (
	"bytes"
	"errors"
	"time"

	"zino/pkg/wire"
	"zino/proto"
)

// event contains the values of an event as raw JSON; nil if a key is absent.
type event struct {
	kind                               string // the value of typ
	typ, ts, version, from, root, cost []byte
	usage                              []byte
	parent                             []byte
	role, text, partial, state         []byte
	turn, session, turnState           []byte
	id, name, input, useID, output, ok []byte
	restored, redo                     []byte
	uid, recall, attachments           []byte
}

// parse returns the values of a line, which begins and ends with braces. If it is not
// valid JSON, some values may be missing.
func parse(line []byte) (e event) {
	for key, value := range wire.Members(line) {
		switch string(key) {
		case "type":
			e.typ = value
		case "ts":
			e.ts = value
		case "schema_version":
			e.version = value
		case "forked_from":
			e.from = value
		case "root":
			e.root = value
		case "parent":
			e.parent = value
		case "cost_usd":
			e.cost = value
		case "usage":
			e.usage = value
		case "role":
			e.role = value
		case "text":
			e.text = value
		case "partial":
			e.partial = value
		case "reasoning_state":
			e.state = value
		case "turn":
			e.turn = value
		case "restored":
			e.restored = value
		case "redo":
			e.redo = value
		case "session_id":
			e.session = value
		case "state":
			e.turnState = value
		case "id":
			e.id = value
		case "name":
			e.name = value
		case "input":
			e.input = value
		case "tool_use_id":
			e.useID = value
		case "output":
			e.output = value
		case "ok":
			e.ok = value
		case "uid":
			e.uid = value
		case "recall":
			e.recall = value
		case "attachments":
			e.attachments = value
		}
	}
	switch string(e.typ) { // no allocation for the frequent types
	case `"message"`:
		e.kind = proto.TypeMessage
	case `"tool_use"`:
		e.kind = proto.TypeToolUse
	case `"tool_result"`:
		e.kind = proto.TypeToolResult
	case `"usage"`:
		e.kind = proto.TypeUsage
	default:
		e.kind = str(e.typ)
	}
	return e
}

// check checks the required keys of an event of a known type.
func (e *event) check() error {
	if !isText(e.typ) || string(e.typ) == `""` {
		return errors.New("an event is an object with a string type")
	}
	switch e.kind {
	case proto.TypeMeta:
		return errors.New("a meta event is a session's first line only")
	case proto.TypeMessage:
		if !e.isMessage() || !isText(e.text) {
			return errors.New(`a message needs the role "user" or "assistant" and a string text`)
		}
	case proto.TypeToolUse:
		if !e.isCall() {
			return errors.New("a tool_use needs an id and a name")
		}
	case proto.TypeToolResult:
		if str(e.useID) == "" {
			return errors.New("a tool_result needs a tool_use_id")
		}
	}
	return nil
}

// isMessage reports whether the event is a message of the user or the assistant.
// Sessions have no other roles.
func (e *event) isMessage() bool {
	return e.kind == proto.TypeMessage && (e.isUser() || is(e.role, proto.RoleAssistant))
}

func (e *event) isUser() bool { return is(e.role, proto.RoleUser) }

// isCall reports whether the event is a tool call that can have a result.
func (e *event) isCall() bool {
	return e.kind == proto.TypeToolUse && str(e.id) != "" && str(e.name) != ""
}

// isDamaged reports whether the event lacks a required key, or looks like a message but
// has another type.
func (e *event) isDamaged() bool {
	if err := e.check(); err != nil {
		return e.kind != proto.TypeMeta
	}
	switch e.kind {
	case proto.TypeMessage, proto.TypeToolUse, proto.TypeToolResult, proto.TypeInterrupted, proto.TypeTitle, proto.TypeUsage:
		return false
	}
	return len(e.role) > 0 && isText(e.text)
}

// forkedFrom returns the id in forked_from of a meta line, or an empty string.
func (e *event) forkedFrom() (id string) {
	for key, value := range wire.Members(e.from) {
		if string(key) == "session_id" {
			id = str(value)
		}
	}
	return id
}

// parentCall returns parent of a meta line, or nil.
func (e *event) parentCall() *proto.LogParent {
	var p proto.LogParent
	for key, value := range wire.Members(e.parent) {
		switch string(key) {
		case "session_id":
			p.SessionID = str(value)
		case "turn":
			p.Turn = str(value)
		case "call":
			p.Call = str(value)
		}
	}
	if p.SessionID == "" {
		return nil
	}
	return &p
}

// costOf returns cost_usd of a usage, nil if it has none.
func costOf(usage []byte) (cost []byte) {
	for key, value := range wire.Members(usage) {
		if string(key) == "cost_usd" {
			cost = value
		}
	}
	return cost
}

// timeOf returns a ts in UTC, or an empty string if it is not in RFC 3339.
func timeOf(ts []byte) string {
	t, err := time.Parse(time.RFC3339, str(ts))
	if err != nil {
		return ""
	}
	return stamp(t)
}

// is reports whether raw is a JSON string with the value word.
func is(raw []byte, word string) bool {
	return len(raw) == len(word)+2 && string(raw[1:len(raw)-1]) == word || str(raw) == word
}

// str returns the value of a JSON string, empty for anything else.
func str(raw []byte) string {
	value, ok := wire.Unquote(nil, raw)
	if !ok {
		return ""
	}
	return string(value)
}

func isText(raw []byte) bool   { return len(raw) > 0 && raw[0] == '"' }
func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }
func isTrue(raw []byte) bool   { return string(raw) == "true" }

// inLine returns an object as it is stored, on one line: see wire.Line. One that is on
// one line already is returned itself.
func inLine(object []byte) []byte {
	if !bytes.ContainsAny(object, "\r\n") && !bytes.Contains(object, []byte("\u2028")) && !bytes.Contains(object, []byte("\u2029")) {
		return object
	}
	line, err := wire.Line(object)
	if err != nil {
		return object
	}
	return line
}
