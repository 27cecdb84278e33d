package rtr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"zino/proto"
)

// message is what the router looks at in a message; the rest passes as it is.
type message struct {
	Role      *string         `json:"role"`
	Content   content         `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// callsTools reports whether the message asks for tools in the native way.
func (m message) callsTools() bool { return len(m.ToolCalls) > 0 && string(m.ToolCalls) != "null" }

func invalid(format string, args ...any) error {
	return &proto.Error{Code: proto.CodeInvalid, Message: "Invalid request: " + fmt.Sprintf(format, args...)}
}

// checkMessages validates a list of messages in full: nothing else has looked
// at its bytes.
func checkMessages(raw proto.Raw) error {
	if !utf8.Valid(raw) {
		return invalid("messages are not UTF-8")
	}
	_, err := readMessages(raw)
	return err
}

func readMessages(raw proto.Raw) ([]message, error) {
	var list []message
	if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		return nil, invalid("messages must be a list of objects, each with a string role")
	}
	for i, m := range list {
		if m.Role == nil {
			return nil, invalid("messages[%d] has no string role", i)
		}
	}
	return list, nil
}

// request writes the body of a request: the messages as they came, and every
// parameter that was given, 0 included.
func (e *endpoint) request(in proto.Infer) ([]byte, error) {
	t := traitsOf(e.base, e.model)
	body := map[string]any{"model": e.model, "messages": json.RawMessage(t.complete(mendSurrogates(in.Messages))), "stream": in.Stream}
	for name, value := range map[string]float64{"temperature": in.Temperature, "top_p": in.TopP} {
		if t.sends(name, value) {
			body[name] = value
		}
	}
	if in.Stream && !t.noStreamOptions {
		body["stream_options"] = map[string]bool{"include_usage": true}
	}
	if e.maxTokens > 0 {
		body[t.maxTokens] = e.maxTokens
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		return nil, invalid("%v", err)
	}
	return buf.Bytes(), nil
}

// mendSurrogates replaces each escaped surrogate that has no partner by U+FFFD:
// some providers fail on them. raw is valid JSON.
func mendSurrogates(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(`\ud`)) && !bytes.Contains(raw, []byte(`\uD`)) {
		return raw
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		n := 2
		switch high := surrogate(raw[i:]); {
		case high == 'h' && surrogate(raw[i+6:]) == 'l':
			n = 12
		case high != 0:
			out = append(out, `\ufffd`...)
			i += 6
			continue
		}
		out = append(out, raw[i:i+n]...)
		i += n
	}
	return out
}

// surrogate tells what the escape at the start of b is: 'h' for a high
// surrogate, 'l' for a low one, 0 for anything else.
func surrogate(b []byte) byte {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' || b[2]|0x20 != 'd' {
		return 0
	}
	switch b[3] {
	case '8', '9', 'a', 'b', 'A', 'B':
		return 'h'
	case 'c', 'd', 'e', 'f', 'C', 'D', 'E', 'F':
		return 'l'
	}
	return 0
}
