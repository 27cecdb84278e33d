package fakellm

import (
	"encoding/json"
	"net/http"
)

type object = map[string]any

// answer carries the turn out.
func (c *chat) answer() {
	c.wait(c.turn.Wait)
	c.header()
	switch {
	case c.turn.Silent:
		c.end()
	case c.turn.Status != 0:
		c.answerStatus()
	case c.stream && !c.turn.Whole:
		c.answerStream()
	default:
		c.answerWhole()
	}
}

// answerStatus sends the turn's text as the body that it is.
func (c *chat) answerStatus() {
	typ := c.turn.Type
	if typ == "" {
		typ = "application/json"
	}
	c.w.Header().Set("Content-Type", typ)
	c.w.WriteHeader(c.turn.Status)
	for text := c.turn.Text; text != ""; {
		n := len(text)
		if c.turn.Size > 0 {
			n = min(n, c.turn.Size)
		}
		c.write(text[:n])
		text = text[n:]
	}
	c.wait(c.turn.Pause)
	c.end()
}

// answerWhole sends a collected completion.
func (c *chat) answerWhole() {
	c.wait(c.turn.Pause)
	if c.turn.End == Stall || c.turn.End == Hangup {
		c.end()
		return
	}
	writeJSON(c.w, object{
		"id": "chatcmpl-fake", "object": "chat.completion", "created": 0, "model": c.model,
		"choices": []object{{
			"index": 0, "finish_reason": "stop",
			"message": object{"role": "assistant", "content": c.turn.text()},
		}},
		"usage": c.tokens(),
	})
}

// answerStream sends the turn as events.
func (c *chat) answerStream() {
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.choice(object{"role": "assistant", "content": ""}, nil)
	for _, delta := range c.turn.deltas() {
		c.choice(object{"content": delta}, nil)
	}
	if c.turn.Event != "" {
		c.event(c.turn.Event)
	}
	c.wait(c.turn.Pause)
	if c.turn.End == Done || c.turn.End == Finish {
		c.choice(object{}, "stop")
	}
	if c.turn.End == Done && c.usage {
		c.chunk([]object{}, c.tokens())
	}
	if c.turn.End == Done || c.turn.End == Mark {
		c.event("[DONE]")
	}
	c.end()
}

func (c *chat) choice(delta object, finish any) {
	c.chunk([]object{{"index": 0, "delta": delta, "finish_reason": finish}}, nil)
}

func (c *chat) chunk(choices []object, usage object) {
	chunk := object{"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 0, "model": c.model, "choices": choices}
	if usage != nil {
		chunk["usage"] = usage
	}
	data, err := json.Marshal(chunk)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	c.event(string(data))
}

func (c *chat) event(data string) { c.write("data: " + data + "\n\n") }

// write sends text at once; a client that is gone ends the handler.
func (c *chat) write(text string) {
	_, err := c.w.Write([]byte(text))
	if err == nil {
		err = http.NewResponseController(c.w).Flush()
	}
	if err != nil {
		c.abandon()
	}
}

// abandon ends the handler of a client that is gone. It marks the request
// itself: whoever wakes on the context can be earlier than the context's own
// function, and takes that function back by ending.
func (c *chat) abandon() {
	c.hungUp()
	panic(http.ErrAbortHandler)
}

// tokens counts bytes, so that numbers are the same in every run.
func (c *chat) tokens() object {
	n := len(c.turn.text())
	return object{"prompt_tokens": c.prompt, "completion_tokens": n, "total_tokens": c.prompt + n}
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
	switch c.turn.End {
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
