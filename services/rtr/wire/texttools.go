package wire

import (
	"bytes"
	"encoding/json"
	"strings"
)

// lesson teaches the form that calls have in text. It says what AsText shows
// and no more: it is paid for with every request.
const lesson = `# Tools

To call a tool, write a block of exactly this form, one JSON object between the tags:

<tool_call>
{"name": "NAME", "arguments": {"PARAMETER": "value"}}
</tool_call>

End your text after the block and wait. The tool runs, and its result comes back between <tool_response> and </tool_response>: never write a response yourself. To call several tools, write several blocks in a row. Tags act wherever you write them, so use them for calls only. The JSON must be valid: in a string, \n is a line break, \" a quote, \\ a backslash. Text without a block is your answer and ends the turn.

The tools, each with the JSON Schema of its arguments:`

// WithTextTools returns a conversation for a model that has no tools in its
// provider's form: they are described behind the system prompt. The same tools
// give the same bytes, so that what was cached of one request serves the next.
// The list that came is not changed.
func WithTextTools(list []Message, tools []Tool) []Message {
	if len(tools) == 0 {
		return list
	}
	described := describe(tools)
	if len(list) > 0 && list[0].Role == "system" {
		out := append([]Message(nil), list...)
		out[0] = Message{Role: "system", Text: joined(strings.TrimRight(list[0].Said(), "\r\n"), described)}
		return out
	}
	out := make([]Message, 0, len(list)+1)
	return append(append(out, Message{Role: "system", Text: described}), list...)
}

// describe is the lesson and a line for each tool.
func describe(tools []Tool) string {
	b := []byte(lesson)
	for _, t := range tools {
		b = append(append(b, "\n- "...), t.Name...)
		b = append(b, ": "...)
		if words := strings.Join(strings.Fields(t.Description), " "); words != "" {
			b = append(append(b, words...), ' ')
		}
		b = append(b, oneLineOf(t.Parameters)...)
	}
	return string(b)
}

// oneLineOf is a schema in one line.
func oneLineOf(schema json.RawMessage) []byte {
	var line bytes.Buffer
	if err := json.Compact(&line, schema); err != nil {
		return schema // whoever made the tool sees what is wrong with it
	}
	return line.Bytes()
}
