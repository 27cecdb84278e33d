package wire

import (
	"encoding/json"
	"slices"

	"zino/pkg/wire"
)

// lost stands for a tool's result that is not in the conversation: no provider
// takes a call without one.
const lost = `{"ok":false,"error":{"code":"interrupted","message":"The result of this call was lost."}}`

// legal returns a conversation that every provider takes: each call is followed
// by its result, results without a call are left out, and what has nothing to
// say is left out. Where all is in order already, as it nearly always is, the
// same list comes back.
func legal(list []Message) []Message {
	if isLegal(list) {
		return list
	}
	out := make([]Message, 0, len(list)+1)
	for i := 0; i < len(list); i++ {
		m := list[i]
		switch {
		case m.Role == "tool": // its call is not the message before
		case m.Role == "assistant" && len(m.Calls) > 0:
			results := 0
			for i+1+results < len(list) && list[i+1+results].Role == "tool" {
				results++
			}
			out = append(append(out, m), resultsFor(m.Calls, list[i+1:i+1+results])...)
			i += results
		case m.Role != "assistant" || !m.silent() || len(m.State) > 0:
			out = append(out, m)
		}
	}
	return out
}

// isLegal reports whether legal has nothing to do.
func isLegal(list []Message) bool {
	var open []Call // calls whose results must follow
	for _, m := range list {
		switch {
		case m.Role == "tool":
			if len(open) == 0 || open[0].ID != m.CallID {
				return false
			}
			open = open[1:]
		case len(open) > 0:
			return false
		case m.Role == "assistant":
			if open = m.Calls; len(open) == 0 && m.silent() && len(m.State) == 0 {
				return false
			}
		}
	}
	return len(open) == 0
}

// resultsFor returns the result of each call, in the calls' order.
func resultsFor(calls []Call, results []Message) (out []Message) {
	taken := make([]bool, len(results))
	for _, c := range calls {
		found := Message{Role: "tool", CallID: c.ID, Text: lost, Failed: true}
		for i, r := range results {
			if !taken[i] && r.CallID == c.ID {
				found, taken[i] = r, true
				break
			}
		}
		out = append(out, found)
	}
	return out
}

// split takes the system prompt off the front of a conversation and makes the
// rest one that begins with the user. A system message in the middle becomes
// the user's: most wires have no place for it.
func split(list []Message) (system string, rest []Message) {
	for len(list) > 0 && list[0].Role == "system" {
		system = joined(system, list[0].Said())
		list = list[1:]
	}
	rest = make([]Message, 0, len(list)+2)
	if len(list) > 0 && list[0].Role == "assistant" {
		rest = append(rest, Message{Role: "user", Text: continuation})
	}
	for _, m := range list {
		if m.Role == "system" {
			m.Role = "user"
		}
		rest = append(rest, m)
	}
	if len(rest) == 0 || rest[len(rest)-1].Role == "assistant" {
		rest = append(rest, Message{Role: "user", Text: continuation})
	}
	return system, rest
}

// AsText returns a conversation without native calls, for a model that has no
// tools: each call and its result stand in the assistant's text, in the form in
// which such a model writes calls itself.
func AsText(list []Message) []Message {
	if !slices.ContainsFunc(list, func(m Message) bool { return len(m.Calls) > 0 || m.Role == "tool" }) {
		return list
	}
	var out []Message
	list = legal(list)
	for i := 0; i < len(list); i++ {
		m := list[i]
		if n := len(m.Calls); n > 0 {
			out = append(out, Message{Role: m.Role, Text: spoken(m, list[i+1:i+1+n])})
			i += n
			continue
		}
		out = append(out, m)
	}
	return out
}

// spoken is a message's text with its calls and their results.
func spoken(m Message, results []Message) string {
	b := []byte(m.Said())
	for i, c := range m.Calls {
		args := []byte(c.Args)
		if !wire.Valid(args) {
			args = wire.AppendString(nil, c.Args)
		}
		b = wire.AppendString(append(b, "<tool_call>\n{\"name\":"...), c.Name)
		b = append(append(b, `,"arguments":`...), args...)
		b = append(b, "}\n</tool_call>\n<tool_response>\n"...)
		b = append(append(b, results[i].Said()...), "\n</tool_response>\n"...)
	}
	return string(b)
}

// continuation is what the user is made to say where a wire wants the user to
// speak.
const continuation = "Continue."

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

// stateOf returns what a wire of that name put into a message's state under
// "content", if the state is that wire's and of the same model.
func stateOf(m Message, name, model string) json.RawMessage {
	var of, by string
	var content json.RawMessage
	for key, value := range wire.Members(m.State) {
		switch string(key) {
		case "provider":
			of = text(value)
		case "model":
			by = text(value)
		case "content":
			content = value
		}
	}
	if of != name || by != model {
		return nil
	}
	return content
}

// newState makes the state that stateOf takes apart. content is valid JSON.
func newState(name, model string, content []byte) []byte {
	b := wire.AppendString([]byte(`{"provider":`), name)
	b = wire.AppendString(append(b, `,"model":`...), model)
	b = append(append(b, `,"content":`...), content...)
	return append(b, '}')
}
