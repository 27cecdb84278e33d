package handoff

import (
	"fmt"
	"strings"
)

// Sizes of what a model is given of a session, in bytes: four are about a token.
const (
	headBytes   = 48 << 10  // of the beginning
	tailBytes   = 144 << 10 // of the end
	spokenBytes = 8 << 10   // of a message
	inputBytes  = 1 << 10   // of a call's input
	outputBytes = 1536      // of a result
)

// transcript is a session as a model reads it: the beginning and the end of it,
// with long texts shortened. It does not grow with the session.
type transcript struct {
	head    strings.Builder
	full    bool // the head takes nothing more
	tail    []string
	size    int // bytes of the tail
	leftOut int // entries between head and tail
}

// take takes in an event.
func (t *transcript) take(e object) {
	if entry := entryOf(e); entry != "" {
		t.add(printable(entry) + "\n\n")
	}
}

func (t *transcript) add(entry string) {
	if t.full = t.full || t.head.Len()+len(entry) > headBytes; !t.full {
		t.head.WriteString(entry)
		return
	}
	t.tail = append(t.tail, entry)
	for t.size += len(entry); t.size > tailBytes; t.leftOut++ {
		t.size -= len(t.tail[0])
		t.tail[0] = "" // it is not kept by the array
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

// entryOf is an event in a transcript, "" if it says nothing.
func entryOf(e object) string {
	switch typ := e.text("type"); typ {
	case "message":
		return said(e)
	case "tool_use":
		return "[call of " + clip(oneLine(e.text("name")), labelBytes) + "] " + middleless(members(e["input"]), inputBytes)
	case "tool_result":
		return "[result] " + middleless(outputText(e), outputBytes)
	case "interrupted":
		return "[the turn was interrupted]"
	case "error":
		return "[the turn ended in an error] " + middleless(e.text("message"), outputBytes)
	}
	return ""
}

func said(e object) string {
	text := strings.TrimSpace(e.text("text"))
	if text == "" {
		return ""
	}
	return "[" + clip(oneLine(e.text("role")), labelBytes) + "] " + middleless(text, spokenBytes)
}

// outputText is a result: of an envelope what is in it.
func outputText(e object) string {
	output := e.in("output")
	switch {
	case output["error"] != nil:
		return "failed: " + members(output["error"])
	case output["data"] != nil:
		return members(output["data"])
	}
	return members(e["output"])
}

// members are a JSON value as text: the members of an object one by one, those
// that are texts as they are.
func members(raw []byte) string {
	o := read(raw)
	if o == nil {
		return plain(raw)
	}
	var lines []string
	for _, key := range o.keys() {
		if text := plain(o[key]); text != "" {
			lines = append(lines, key+": "+text)
		}
	}
	return strings.Join(lines, "\n")
}
