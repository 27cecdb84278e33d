package rtr

import (
	"bytes"
	"encoding/json"
	"strings"
)

// kcr stands between the request and the interpreter's reply in the message
// that agr sends to the fabricator of a skill.
const kcr = " [KCR] "

// tourRequest begins the request of the tour's task, so that the interpreter's
// part can be told from a person who types "run date".
const tourRequest = "offline tour: "

// tourSecond begins the second part of the tour.
const tourSecond = "\n2. A task: "

const (
	tourCommand = `echo "This is $(uname -s) at $(date +%H:%M)."`
	tourTask    = tourRequest + `run echo "A skill has counted $(ls / | wc -l) entries in /."`
)

// tour is a demonstration with one real tool call and one real task.
func tour() string {
	return sign + "What an agent does, played from a script.\n" +
		"1. A tool call: a block in the model's answer is carried out where it stands.\n" +
		toolCall("execute_bash", "code", tourCommand) +
		tourSecond + "a skill makes code of a request, and the code is carried out.\n" +
		block("task", map[string]any{"skill": "bash", "request": tourTask})
}

// toolCall is the block that asks agr to call a function with one argument.
func toolCall(function, parameter, value string) string {
	return block("tool_call", map[string]any{"name": function, "arguments": map[string]string{parameter: value}})
}

// block writes a tag with JSON in it. Each '<' in the JSON is escaped, so that
// no text of the user's can end the block or begin another.
func block(tag string, v any) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // strings always encode
	}
	return "<" + tag + ">\n" + strings.ReplaceAll(buf.String(), "<", `\u003c`) + "</" + tag + ">"
}

// fabricate is the fabricator's part: it answers an interpreted request with
// the code that it names, in one fenced block.
func fabricate(request string) string {
	code := codeOfCall(request)
	if word, rest := command(strings.TrimSpace(request)); code == "" && (word == "run" || word == "python") {
		code = rest
	}
	if code == "" {
		code = "echo 'offline, no AI: nothing was made of this request' >&2; exit 1"
	}
	if strings.Contains(code, "```") {
		return code // a fence around it would end too early
	}
	return "```\n" + code + "\n```"
}

// codeOfCall returns the code of a tool call of ours: that is what the
// interpreter has said if its request was a plain command.
func codeOfCall(text string) string {
	_, rest, _ := strings.Cut(text, "<tool_call>")
	raw, _, ok := strings.Cut(rest, "</tool_call>")
	var call struct {
		Arguments struct {
			Code string `json:"code"`
		} `json:"arguments"`
	}
	if !ok || json.Unmarshal([]byte(raw), &call) != nil {
		return ""
	}
	return call.Arguments.Code
}
