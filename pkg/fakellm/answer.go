package fakellm

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

type object = map[string]any

// answer carries the turn out.
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

// answerStatus sends the turn's text as the body that it is.
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

// answerWhole sends a collected completion.
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
		c.pester(c.lineEnds("\n\n"))
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
		c.pester(c.comment())
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

// extra returns the events after the text that no model would send.
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
		if c.router { // where the error comes with a choice
			failure["choices"] = []object{openaiChoice(object{"content": ""}, "error")}
		}
		list = append(list, c.named(encode(failure)))
	}
	return list
}

// named makes an event of data, named after its type where the wire does so.
func (c *chat) named(data string) event {
	var in struct {
		Type string `json:"type"`
	}
	if !c.wire.named || json.Unmarshal([]byte(data), &in) != nil {
		return event{data: data}
	}
	return event{in.Type, data}
}

// pester sends text until the client hangs up.
func (c *chat) pester(text string) {
	for text = strings.Repeat(text, 1+1024/len(text)); ; { // in larger writes, as a flood comes
		c.write(text)
	}
}

// wait waits at a gate; a client that goes ends the handler.
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

// end is what comes after the last byte.
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

// abandon ends the handler of a client that is gone. It marks the request
// itself: whoever wakes on the context can be earlier than the context's own
// function, and takes that function back by ending.
func (c *chat) abandon() {
	c.hungUp()
	panic(http.ErrAbortHandler)
}

// pieces returns the deltas of a reply's text, with those that faults add. A
// reply with anything else has no empty one.
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

// tokens returns the usage, and whether it is to be reported. Unless the script
// says it, bytes are counted, so that numbers are the same in every run.
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

// reason returns the finish reason of a wire that has its own words for these
// ends: no more to say, a call, the limit of tokens, content that is refused.
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
