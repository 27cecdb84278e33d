package rtr

import (
	"encoding/json"
	"errors"
	"io"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"zino/pkg/sse"
)

// packet is one event of a stream, or a whole completion: a whole one has a
// message where an event has a delta.
type packet struct {
	Error   json.RawMessage `json:"error"`
	Object  nullable        `json:"object"` // "error" in an error of vLLM's
	Choices []struct {
		Index        int      `json:"index"`
		Delta        *spoken  `json:"delta"`
		Message      *spoken  `json:"message"`
		FinishReason nullable `json:"finish_reason"`
	} `json:"choices"`
}

// spoken is what the model says. A refusal is its words as well.
type spoken struct {
	Content content `json:"content"`
	Refusal content `json:"refusal"`
}

func (s *spoken) text() string {
	switch {
	case s == nil:
		return ""
	case s.Content != "":
		return string(s.Content)
	}
	return string(s.Refusal)
}

// content is text in the forms that the wire has: a string, null, or a list of
// parts of which those of type text are taken. Anything else is no text.
type content string

// UnmarshalJSON reads any of the forms.
func (c *content) UnmarshalJSON(b []byte) error {
	var s string
	var parts []struct {
		Type string   `json:"type"`
		Text nullable `json:"text"`
	}
	switch {
	case b[0] == '"' && json.Unmarshal(b, &s) == nil:
	case b[0] == '[' && json.Unmarshal(b, &parts) == nil:
		for _, p := range parts {
			s += string(p.Text)
		}
	}
	*c = content(s)
	return nil
}

// nullable is a string that is empty where the wire has null or another kind.
type nullable string

// UnmarshalJSON reads a string or anything else.
func (n *nullable) UnmarshalJSON(b []byte) error {
	var s string
	if b[0] == '"' {
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
	}
	*n = nullable(s)
	return nil
}

// textSink is where deltas go.
type textSink interface{ Text(delta []byte) error }

// answer gathers a model's text.
type answer struct {
	text     strings.Builder
	finished bool // a finish reason has come, or the whole message
}

// read reads the answer to its end. The text so far is returned with an error.
func (x *exchange) read(stream *openai.ChatCompletionStream, sink textSink) (string, error) {
	var a answer
	for {
		raw, err := stream.RecvRaw()
		if err != nil {
			return a.text.String(), x.judge(&a, err)
		}
		if err := x.take(&a, raw, sink); err != nil {
			return a.text.String(), err
		}
	}
}

// take adds one event to the answer. Events without a choice are skipped:
// usage, and what the future brings.
func (x *exchange) take(a *answer, raw []byte, sink textSink) error {
	var p packet
	if err := json.Unmarshal(raw, &p); err != nil {
		return x.garbled(raw)
	}
	if says(p.Error) || p.Object == "error" {
		return x.failed(raw)
	}
	for _, c := range p.Choices {
		if c.Index != 0 {
			continue
		}
		if err := x.add(a, c.Delta.text()+c.Message.text(), sink); err != nil {
			return err
		}
		if c.FinishReason == "error" {
			return x.failed(raw)
		}
		if c.FinishReason != "" || c.Message != nil {
			a.finished = true
			x.hurry()
		}
	}
	if x.events.whole && !a.finished {
		return x.failed(raw)
	}
	return nil
}

// says reports whether the value of an error key says anything.
func says(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "false", `""`, "{}", "[]":
		return false
	}
	return true
}

func (x *exchange) add(a *answer, delta string, sink textSink) error {
	if delta == "" {
		return nil
	}
	if a.text.Len()+len(delta) > maxAnswer {
		return x.tooLarge()
	}
	a.text.WriteString(delta)
	return sink.Text([]byte(delta))
}

// judge decides what the end of the events means: an answer is complete when
// its finish reason or the end mark came. What goes wrong after that is nobody's
// concern, unless the caller has gone.
func (x *exchange) judge(a *answer, err error) error {
	switch {
	case x.caller.Err() != nil:
		return x.caller.Err()
	case a.finished || errors.Is(err, io.EOF) && x.events.done:
		return nil
	case errors.Is(err, sse.ErrTooLong):
		return x.tooLarge()
	case errors.Is(err, io.EOF) && !x.events.any:
		return x.unusable("answered with nothing that is a model's answer")
	case errors.Is(err, io.EOF):
		return x.cut()
	}
	return err
}
