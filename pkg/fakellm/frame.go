package fakellm

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"
)

const bom = "\xef\xbb\xbf"

// Characters of a text that become something else when it is JSON: a byte that
// is not UTF-8, which encoders do not let through, and a text that would take
// them long.
const (
	badMark  = "\uf8fe"
	longMark = "\uf8fd"
)

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return string(data)
}

// encodeLine is encode without escapes for HTML, and a line end.
func encodeLine(v any) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // strings and numbers always encode
	}
	return out.String()
}

func (d *dialect) contentType() string {
	if d.lines {
		return "application/x-ndjson"
	}
	return "text/event-stream"
}

// send sends events, each in a write.
func (c *chat) send(events ...event) {
	for _, e := range events {
		c.write(c.frame(e))
	}
}

// frame puts an event into its lines.
func (c *chat) frame(e event) string {
	data, ok := e.data.(string)
	if !ok {
		data = c.spoil(encode(e.data))
	}
	if c.wire.lines {
		data += "\n"
	} else {
		data = c.fields(e.name, data)
	}
	if c.wire.lines && c.has(SplitData) {
		data += "\n"
	}
	return c.lineEnds(data)
}

// fields writes an event of an event stream.
func (c *chat) fields(name, data string) string {
	var out strings.Builder
	if c.has(Unknown) {
		out.WriteString("id: 7\nretry: 1\nfuture: x\n")
	}
	if name != "" && !c.has(NoEvent) {
		out.WriteString("event: " + name + "\n")
	}
	lines := []string{data}
	if c.has(SplitData) {
		lines = strings.Split(spread(data), "\n")
	}
	field := "data: "
	if c.has(NoSpace) {
		field = "data:"
	}
	for _, line := range lines {
		out.WriteString(field + line + "\n")
	}
	return out.String() + "\n"
}

// frameWhole writes a body that is not streamed.
func (c *chat) frameWhole(body object) string {
	if c.has(Unknown) {
		body["future"] = object{"a": 1}
	}
	text := c.spoil(encodeLine(body))
	if c.has(SplitData) {
		text = spread(text)
	}
	if c.has(BadJSON) {
		text = text[:len(text)-len("}\n")]
	}
	if c.has(BOM) {
		text = bom + text
	}
	return c.lineEnds(text)
}

// spread puts JSON into several lines; other text stays.
func spread(data string) string {
	var out bytes.Buffer
	if json.Indent(&out, []byte(data), "", " ") != nil {
		return data
	}
	return out.String()
}

// spoil puts what faults need where a text is marked for it.
func (c *chat) spoil(text string) string {
	if c.has(BadUTF8) {
		text = strings.Replace(text, badMark, "\xff", 1)
	}
	if c.has(LongLine) {
		text = strings.Replace(text, longMark, strings.Repeat("x", longText), 1)
	}
	return text
}

func (c *chat) lineEnds(text string) string {
	if !c.has(CRLF) {
		return text
	}
	return strings.ReplaceAll(text, "\n", "\r\n")
}

// comment is what a stream may hold without end.
func (c *chat) comment() string {
	if c.wire.lines {
		return c.lineEnds("\n")
	}
	return c.lineEnds(": FAKELLM PROCESSING\n\n\n")
}

// write sends text at once, in the writes that the turn asks for; a client that
// is gone ends the handler.
func (c *chat) write(text string) {
	for text != "" {
		n := c.step(text)
		_, err := c.w.Write([]byte(text[:n]))
		if err == nil {
			err = http.NewResponseController(c.w).Flush()
		}
		if err != nil {
			c.abandon()
		}
		text = text[n:]
	}
}

// step returns how many bytes of text go into one write.
func (c *chat) step(text string) int {
	switch {
	case c.Bytes > 0:
		return min(c.Bytes, len(text))
	case c.has(CutChar):
		for i := range len(text) {
			if text[i] >= utf8.RuneSelf && utf8.RuneStart(text[i]) {
				return i + 1
			}
		}
	}
	return len(text)
}
