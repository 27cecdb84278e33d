package fakellm

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

type object = map[string]any

// answer sends the answer of the turn.
func (c *chat) answer() {
	streamed := c.stream && !c.Whole
	if c.has(ErrorBody) || c.has(ErrorEvent) && !streamed {
		c.Status, c.Text = http.StatusOK, encode(c.wire.failure(http.StatusServiceUnavailable, errorText))
	}
	c.wait(c.Wait)
	c.header()
	switch {
	case c.Silent:
		c.end()
	case c.Status != 0:
		c.answerStatus()
	case streamed:
		c.answerStream()
	default:
		c.answerWhole()
	}
}

// answerStatus sends the turn's text as a body.
func (c *chat) answerStatus() {
	typ := c.Type
	if typ == "" {
		typ = "application/json"
	}
	c.w.Header().Set("Content-Type", typ)
	c.w.WriteHeader(c.Status)
	for text := c.Text; text != ""; {
		n := len(text)
		if c.Size > 0 {
			n = min(n, c.Size)
		}
		c.write(text[:n])
		text = text[n:]
	}
	c.wait(c.Pause)
	c.end()
}

// answerWhole sends an answer that is not streamed.
func (c *chat) answerWhole() {
	c.wait(c.Pause)
	if c.End == Stall || c.End == Hangup {
		c.end()
		return
	}
	status, body := c.wire.whole(c.reply)
	text := c.frameWhole(body)
	c.w.Header().Set("Content-Type", "application/json")
	if !c.has(Comments) {
		c.w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	}
	c.w.WriteHeader(status)
	if c.has(Comments) {
		c.flood(c.lineEnds("\n\n"))
	}
	c.write(text)
}

// answerStream sends the turn as events.
func (c *chat) answerStream() {
	c.w.Header().Set("Content-Type", c.wire.contentType())
	if c.has(BOM) {
		c.write(bom)
	}
	parts := c.wire.stream(c.reply)
	for _, e := range parts.body {
		c.send(e)
		if c.has(Unknown) {
			c.send(c.wire.unknown(c.reply, e)...)
		}
	}
	c.send(c.extra()...)
	if c.has(Comments) {
		c.flood(c.comment())
	}
	c.wait(c.Pause)
	if c.End == Done || c.End == Finish {
		c.send(parts.finish...)
	}
	if c.End == Done {
		c.send(parts.usage...)
	}
	if c.End == Done || c.End == Mark {
		c.send(parts.mark...)
	}
	c.end()
}

// extra returns the additional events of Turn.Event and of faults.
func (c *chat) extra() (list []event) {
	if c.Event != "" {
		list = append(list, c.named(c.Event))
	}
	if c.has(BadJSON) {
		list = append(list, event{data: brokenJSON})
	}
	if c.has(ErrorEvent) {
		failure := c.wire.failure(http.StatusServiceUnavailable, errorText)
		if c.wire.failed != nil {
			failure = c.wire.failed(errorText)
		}
		if c.router { // OpenRouter sends the error with a choice
			failure["choices"] = []object{openaiChoice(object{"content": ""}, "error")}
		}
		list = append(list, c.named(encode(failure)))
	}
	return list
}

// named returns an event with data, named after its type on wires with event lines.
func (c *chat) named(data string) event {
	var in struct {
		Type string `json:"type"`
	}
	if !c.wire.named || json.Unmarshal([]byte(data), &in) != nil {
		return event{data: data}
	}
	return event{in.Type, data}
}

// flood sends text until the client hangs up.
func (c *chat) flood(text string) {
	for text = strings.Repeat(text, 1+1024/len(text)); ; { // at least 1 KiB per write
		c.write(text)
	}
}

// wait waits at a gate. It ends the handler if the client hangs up.
func (c *chat) wait(gate string) {
	if gate == "" {
		return
	}
	c.server.mu.Lock()
	open := c.server.gate(gate)
	c.server.mu.Unlock()
	select {
	case <-open:
	case <-c.ctx.Done():
		c.abandon()
	case <-c.server.closed:
		panic(http.ErrAbortHandler)
	}
}

// end ends the answer after the last byte.
func (c *chat) end() {
	switch c.End {
	case Stall:
		select {
		case <-c.ctx.Done():
			c.abandon()
		case <-c.server.closed:
		}
		panic(http.ErrAbortHandler)
	case Hangup:
		panic(http.ErrAbortHandler)
	}
}

// abandon ends the handler after its client hung up. It calls hungUp, since the
// handler may see the canceled context before context.AfterFunc runs hungUp, and
// unregisters that by returning.
func (c *chat) abandon() {
	c.hungUp()
	panic(http.ErrAbortHandler)
}

// pieces returns the deltas of a reply's text, with those that faults add. Empty
// text is a delta only if the reply has neither reasoning nor calls.
func (r reply) pieces() []string {
	list := r.deltas()
	if r.text() == "" && (r.Reasoning != "" || len(r.Calls) > 0) {
		list = nil
	}
	if r.has(LongLine) {
		list = append(list, longMark)
	}
	if r.has(BadUTF8) {
		list = append(list, "bad "+badMark)
	}
	return list
}

// content returns the whole text of a reply.
func (r reply) content() string { return strings.Join(r.pieces(), "") }

// fragments returns the pieces in which a call's arguments are streamed.
func (r reply) fragments(c Call) []string {
	if c.Whole {
		return []string{c.Args}
	}
	return r.cut(c.Args)
}

// tokens returns the usage, and whether to report it. Without a usage in the script
// it counts bytes, so that numbers are the same in every run.
func (r reply) tokens() (Usage, bool) {
	if r.Usage != nil {
		return *r.Usage, !r.NoUsage
	}
	n := len(r.text()) + len(r.Reasoning)
	for _, call := range r.Calls {
		n += len(call.Args)
	}
	return Usage{In: r.prompt, Out: n, Reasoning: len(r.Reasoning)}, !r.NoUsage
}

// reason returns the finish reason, given the wire's names for: complete, a call,
// the token limit, refused content.
func (r reply) reason(stop, call, length, refused string) string {
	switch r.Finish {
	case "":
		if len(r.Calls) > 0 {
			return call
		}
		return stop
	case "stop":
		return stop
	case "tool_calls":
		return call
	case "length":
		return length
	case "content_filter":
		return refused
	}
	return r.Finish
}

const bom = "\xef\xbb\xbf"

// Characters that spoil replaces in encoded JSON: by a byte that is not UTF-8, which
// encoders never write, and by a long text, which would be slow to encode.
const (
	badMark  = "\uf8fe"
	longMark = "\uf8fd"
)

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot happen: strings and numbers can be encoded
	}
	return string(data)
}

// encodeLine is like encode, without HTML escapes and with a newline.
func encodeLine(v any) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // cannot happen: strings and numbers can be encoded
	}
	return out.String()
}

func (d *dialect) contentType() string {
	if d.lines {
		return "application/x-ndjson"
	}
	return "text/event-stream"
}

// send sends events, one per write.
func (c *chat) send(events ...event) {
	for _, e := range events {
		c.write(c.frame(e))
	}
}

// frame encodes an event with the wire's framing.
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

// fields encodes an event of an event stream.
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

// frameWhole encodes a body that is not streamed.
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

// spread indents JSON; other text is returned unchanged.
func spread(data string) string {
	var out bytes.Buffer
	if json.Indent(&out, []byte(data), "", " ") != nil {
		return data
	}
	return out.String()
}

// spoil replaces badMark and longMark.
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

// comment returns lines that clients skip.
func (c *chat) comment() string {
	if c.wire.lines {
		return c.lineEnds("\n")
	}
	return c.lineEnds(": FAKELLM PROCESSING\n\n\n")
}

// write sends and flushes text, in writes of the turn's size. It ends the handler if
// the client has hung up.
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

// step returns the number of bytes for the next write.
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
