package handoff

import (
	"fmt"
	"strings"

	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

// Maximum sizes in bytes of the parts of a session that a model is sent. A token has
// about four bytes.
const (
	headBytes    = 48 << 10  // of the beginning
	tailBytes    = 144 << 10 // of the end
	messageBytes = 8 << 10   // of a message
	inputBytes   = 1 << 10   // of a call's input
	outputBytes  = 1536      // of a result
)

// transcript is the text of a session for a model: its beginning and its end, with
// long texts shortened. Its size is bounded.
type transcript struct {
	head    strings.Builder
	full    bool // head is complete
	tail    []string
	size    int // bytes of the tail
	leftOut int // entries between head and tail
}

// event adds an event.
func (t *transcript) event(e object) {
	entry := entryOf(e)
	if entry == "" {
		return
	}
	entry = printable(entry) + "\n\n"
	if t.full = t.full || t.head.Len()+len(entry) > headBytes; !t.full {
		t.head.WriteString(entry)
		return
	}
	t.tail = append(t.tail, entry)
	for t.size += len(entry); t.size > tailBytes; t.leftOut++ {
		t.size -= len(t.tail[0])
		t.tail[0] = "" // for the garbage collector
		t.tail = t.tail[1:]
	}
}

func (t *transcript) String() string {
	gap := ""
	if t.leftOut > 0 {
		gap = fmt.Sprintf("[… %d entries are left out here …]\n\n", t.leftOut)
	}
	return strings.TrimSpace(t.head.String() + gap + strings.Join(t.tail, ""))
}

// entryOf returns the entry for an event, or "" if the event is left out.
func entryOf(e object) string {
	switch e.text("type") {
	case proto.TypeMessage:
		s := strings.TrimSpace(e.text("text"))
		if s == "" {
			return ""
		}
		return "[" + clip(oneLine(e.text("role")), labelBytes) + "] " + middle(s, messageBytes)
	case proto.TypeToolUse:
		return "[call of " + clip(oneLine(e.text("name")), labelBytes) + "] " + middle(memberLines(e["input"]), inputBytes)
	case proto.TypeToolResult:
		output := e.object("output")
		s := memberLines(e["output"])
		switch {
		case output["error"] != nil:
			s = "failed: " + memberLines(output["error"])
		case output["data"] != nil:
			s = memberLines(output["data"])
		}
		return "[result] " + middle(s, outputBytes)
	case proto.TypeInterrupted:
		return "[the turn was interrupted]"
	case proto.TypeError:
		return "[the turn ended in an error] " + middle(e.text("message"), outputBytes)
	}
	return ""
}

// middle shortens a text to about n bytes: two thirds from its beginning and one third
// from its end.
func middle(s string, n int) string {
	return text.Middle(s, n*2/3, n/3, "\n[… %d bytes left out …]\n")
}

// memberLines returns a JSON value as text: the members of an object line by
// line, strings without quotes.
func memberLines(raw []byte) string {
	plain := func(raw []byte) string {
		if s, ok := wire.Unquote(nil, raw); ok {
			return string(s)
		}
		return string(raw)
	}
	o := members(raw)
	if o == nil {
		return plain(raw)
	}
	var lines []string
	for _, key := range o.keys() {
		if s := plain(o[key]); s != "" {
			lines = append(lines, key+": "+s)
		}
	}
	return strings.Join(lines, "\n")
}
