package mem

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"zino/pkg/wire"
)

// element is an element of the file of hard memories: a memory, or an update or
// deletion of an earlier one.
//
//	{"messages":[…],"tag":"…","time":"…"}
//	{"id":0,"updated":"…","messages":[…],"tag":"…","time":"…"}
//	{"id":0,"updated":"…","messages":[…],"tag":"…","replaced_by":7,"time":"…"}
//	{"id":0,"deleted":true,"time":"…"}
//
// The id of a memory is the number of memories before it in the file; updates and
// deletions do not count. "id" names a memory only together with "updated" or
// "deleted", because other programs may use the key for something else.
type element struct {
	kind kind
	id   int // the memory that is updated or deleted
	entry
}

type kind int

const (
	isMemory kind = iota
	isUpdate
	isDeletion
)

// entry is a hard memory.
type entry struct {
	messages         []byte // the list of messages
	tag              string
	channel, session string // the origin
	created          int64  // in seconds since 1970, or noTime
	replacedBy       *int   // the memory that replaced this one, -1: unknown; nil: it is current
	text             string // the searched text: the contents, then the tag
}

// noTime is an unknown time.
const noTime = -1 << 63

// fingerprint is a hash of messages and tag: memories with the same one are
// duplicates, unless one of them is replaced. The order of keys does not matter.
type fingerprint [16]byte

// newEntry validates a list of messages. The entry does not alias raw.
func newEntry(raw []byte, tag string) (entry, error) {
	texts, parsed, err := parseMessages(raw)
	var text strings.Builder
	for _, m := range parsed {
		text.WriteString(m.Content)
		text.WriteByte(' ')
	}
	text.WriteString(tag)
	return entry{messages: listOf(texts), tag: tag, created: noTime, text: text.String()}, err
}

// parseElement parses an element, which must be valid JSON. It ignores other keys.
func parseElement(line []byte) (element, error) {
	var stored struct {
		Messages json.RawMessage `json:"messages,omitzero"`
		Tag      string          `json:"tag,omitzero"`
		ID       json.RawMessage `json:"id,omitzero"`
		Deleted  json.RawMessage `json:"deleted,omitzero"`
		Updated  json.RawMessage `json:"updated,omitzero"`
		Channel  json.RawMessage `json:"channel_id,omitzero"`
		Session  json.RawMessage `json:"session_id,omitzero"`
		Time     json.RawMessage `json:"time,omitzero"`
		Replaced json.RawMessage `json:"replaced_by,omitzero"`
	}
	if err := wire.Decode(clean(line), &stored); err != nil {
		return element{}, err
	}
	e := element{id: -1}
	if id, err := strconv.Atoi(string(stored.ID)); err == nil && id >= 0 {
		e.id = id
	}
	switch {
	case e.id >= 0 && string(stored.Deleted) == "true":
		e.kind = isDeletion
		return e, nil
	case e.id >= 0 && textIn(stored.Updated) != "":
		e.kind = isUpdate
	}
	if stored.Messages == nil {
		return e, errors.New("it has no messages")
	}
	var err error
	if e.entry, err = newEntry(stored.Messages, stored.Tag); err != nil {
		return e, err
	}
	e.channel, e.session, e.created = textIn(stored.Channel), textIn(stored.Session), timeIn(stored.Time)
	if by, err := strconv.Atoi(string(stored.Replaced)); err == nil && by >= -1 {
		e.replacedBy = &by
	}
	return e, nil
}

func isElement(line []byte) bool {
	_, err := parseElement(line)
	return err == nil
}

// textIn returns the value of a JSON string, or "" for any other JSON value.
func textIn(raw []byte) string {
	text, _ := wire.Unquote(nil, raw)
	return string(text)
}

// timeIn returns the RFC 3339 time in a JSON string in seconds since 1970, or
// noTime.
func timeIn(raw []byte) int64 {
	t, err := time.Parse(time.RFC3339, textIn(raw))
	if err != nil {
		return noTime
	}
	return t.Unix()
}

// line returns the element that stores a new memory.
func (e entry) line() []byte {
	b := e.appendContent([]byte("{"))
	if e.channel != "" {
		b = wire.AppendString(append(b, `,"channel_id":`...), e.channel)
	}
	if e.session != "" {
		b = wire.AppendString(append(b, `,"session_id":`...), e.session)
	}
	b = e.appendReplaced(b)
	b = append(b, `,"time":"`...)
	return append(time.Unix(e.created, 0).UTC().AppendFormat(b, time.RFC3339), `"}`...)
}

// appendContent appends messages and tag.
func (e entry) appendContent(b []byte) []byte {
	b = append(append(b, `"messages":`...), e.messages...)
	return wire.AppendString(append(b, `,"tag":`...), e.tag)
}

func (e entry) appendReplaced(b []byte) []byte {
	if e.replacedBy == nil {
		return b
	}
	return fmt.Appendf(b, `,"replaced_by":%d`, *e.replacedBy)
}

// updateLine returns the element that replaces memory id by e. It keeps the other
// keys of old, the present element.
func (e entry) updateLine(id int, old []byte, now time.Time) []byte {
	b := fmt.Appendf(nil, `{"id":%d,"updated":"%s",`, id, now.UTC().Format(time.RFC3339))
	b = e.appendReplaced(e.appendContent(b))
	for key, value := range wire.Members(old) {
		switch string(key) {
		case "id", "updated", "deleted", "messages", "tag", "replaced_by":
		default:
			b = wire.AppendString(append(b, ','), key)
			b = append(append(b, ':'), value...)
		}
	}
	return append(b, '}')
}

// deletionLine returns the element that deletes memory id.
func deletionLine(id int, now time.Time) []byte {
	return fmt.Appendf(nil, `{"id":%d,"deleted":true,"time":"%s"}`, id, now.UTC().Format(time.RFC3339))
}

func (e entry) fingerprint() fingerprint {
	h := sha256.New()
	if e.replacedBy != nil {
		h.Write([]byte("replaced "))
	}
	fmt.Fprintf(h, "%q", e.tag)
	dec := json.NewDecoder(bytes.NewReader(e.messages))
	dec.UseNumber()
	var value any
	err := dec.Decode(&value)
	if err == nil {
		err = json.NewEncoder(h).Encode(value) // sorts the keys
	}
	if err != nil { // nested too deeply for encoding/json: hash the text itself
		h.Write(e.messages)
	}
	return fingerprint(h.Sum(nil)[:16])
}
