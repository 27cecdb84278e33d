package session

import (
	"bytes"
	"encoding/json"
	"strings"
)

// markdown is an event for people to read. Types that it does not know say
// nothing to them.
func markdown(e *event, _ []byte, _ bool) string {
	switch {
	case e.kind == meta:
		return began(e)
	case e.spoken():
		return spoken(e)
	case e.kind == toolUse:
		return "### Call of " + oneLine(str(e.name)) + "\n\n" + fenced(e.input)
	case e.kind == toolResult && string(e.ok) == "false":
		return "### Result: failed\n\n" + fenced(e.output)
	case e.kind == toolResult:
		return "### Result\n\n" + fenced(e.output)
	case e.kind == interrupted:
		return "*Interrupted.*\n\n"
	}
	return ""
}

func began(e *event) string {
	text := ""
	if at := timeOf(e.ts); at != "" {
		text = "Begun " + at + ".\n\n"
	}
	if from := forkedFrom(e); from != "" {
		text += "A copy of " + oneLine(from) + ".\n\n"
	}
	return text
}

func spoken(e *event) string {
	who := "Assistant"
	if isUser(e.role) {
		who = "User"
	}
	text := "## " + who + "\n\n" + strings.TrimSpace(str(e.text)) + "\n\n"
	if isTrue(e.partial) {
		text += "*Cut off.*\n\n"
	}
	return text
}

// fenced is a JSON value as a block of code: a text as it is, anything else
// indented.
func fenced(raw []byte) string {
	language, text := "json", string(raw)
	var indented bytes.Buffer
	if isText(raw) {
		language, text = "", str(raw)
	} else if json.Indent(&indented, raw, "", "  ") == nil {
		text = indented.String()
	}
	fence := strings.Repeat("`", max(3, longestRun(text, '`')+1))
	return fence + language + "\n" + strings.TrimSuffix(text, "\n") + "\n" + fence + "\n\n"
}

// longestRun is the length of the longest run of c in a text.
func longestRun(text string, c byte) int {
	longest, run := 0, 0
	for i := range len(text) {
		if run++; text[i] != c {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}
