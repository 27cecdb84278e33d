package rtr

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"zino/services/rtr/wire"
)

// The provider "offline" is not a model and uses no network. It parses the last
// message of the user:
//
//	run COMMAND     a tool call that has bash run it
//	python CODE     the same with Python
//	remember TEXT   a tool call that stores a memory
//	recall WORDS    a tool call that finds memories
//	tour            a demonstration with a tool call and a task
//
// and answers everything else with one line on how to connect a model. When the
// results of its own calls are in the conversation, it closes the turn with them and
// writes no further tags. In the pipeline of a skill it plays both parts (fabricate).
// In a turn of a session its calls are native ones, and it also reads and writes
// files.

const (
	sign         = "[offline, no AI] "
	notConnected = sign + "No model is connected: " + howToConnect + ", or start a model server on loopback. Without one there are: "
	offlineHelp  = notConnected + "run COMMAND, python CODE, remember TEXT, recall WORDS, tour."

	// kcr stands between the request and the interpreter's reply in the message that
	// agr sends to the fabricator of a skill.
	kcr = " [KCR] "
	// tourRequest begins the request of the tour's task, so that the interpreter's
	// part differs from a person who types "run date".
	tourRequest = "offline tour: "
	// tourSecond begins the second part of the tour.
	tourSecond  = "\n2. A task: "
	tourCommand = `echo "This is $(uname -s) at $(date +%H:%M)."`
	tourTask    = tourRequest + `run echo "A skill has counted $(ls / | wc -l) entries in /."`

	noOutput = "(no output)"
)

// offlineCommand is a command; tour has no tool of its own.
type offlineCommand struct {
	word, usage string
	function    string // of a plain request's tool call; empty: of sessions only
	parameter   string // of function
	doing       string // said before the call, followed by its subject
	tool        string // of a session, which has to be offered
	parameters  []string
	silent      bool // the subject is not said
}

// offlineCommands are in the order of a session's help.
var offlineCommands = []offlineCommand{
	{"run", "run COMMAND", "execute_bash", "code", "$ ", "bash", []string{"command"}, false},
	{"python", "python CODE", "execute_python3", "code", "running Python", "execute_python3", []string{"code"}, true},
	{"read", "read PATH", "", "", "reading ", "read", []string{"path"}, false},
	{"write", "write PATH TEXT", "", "", "writing ", "write", []string{"path", "content"}, false},
	{"remember", "remember TEXT", "remember", "text", "storing a memory", "remember", []string{"text"}, true},
	{"recall", "recall WORDS", "recall", "query", "searching the memories", "recall", []string{"query"}, true},
}

// answerOffline is the provider "offline". A turn of a session is recognized by its
// tools.
func answerOffline(_ context.Context, _ *wire.Endpoint, req *wire.Request, sink wire.Sink) error {
	r := reply{text: offlineReply(req.Messages, req.Stream)}
	if offers(req.Tools, "bash") {
		r = sessionReply(req)
	}
	if files := filesSince(req.Messages); files != "" && len(r.calls) == 0 {
		r.text += "\nAttached: " + files
	}
	events := []wire.Event{{Kind: wire.Text, Delta: []byte(r.text)}}
	reason := "stop"
	for i, c := range r.calls {
		events = append(events, wire.Event{Kind: wire.ToolStart, Index: i, Name: c.tool}, wire.Event{Kind: wire.ToolArgs, Index: i, Delta: c.arguments()})
		reason = "tool_calls"
	}
	for _, e := range append(events, wire.Event{Kind: wire.Finish, Reason: reason}) {
		if err := sink.Event(e); err != nil {
			return err
		}
	}
	return nil
}

// filesSince names the attachments of the last message of the user and since.
func filesSince(list []wire.Message) string {
	var names []string
	for _, m := range list {
		if m.Role == "user" {
			names = nil
		}
		for _, f := range m.Files {
			names = append(names, fmt.Sprintf("%s (%s, %d bytes)", defuse(cmp.Or(f.Name, "a file")), f.MediaType, f.Bytes))
		}
	}
	return strings.Join(names, ", ")
}

func offers(tools []wire.Tool, name string) bool {
	return slices.ContainsFunc(tools, func(t wire.Tool) bool { return t.Name == name })
}

// cutWord cuts a text after its first word, in lower case.
func cutWord(text string) (word, rest string) {
	if i := strings.IndexAny(text, " \t\n"); i >= 0 {
		return strings.ToLower(text[:i]), strings.TrimSpace(text[i:])
	}
	return strings.ToLower(text), ""
}

// command splits a plain command into its word and the rest; the word is empty for
// any other text. Only tour has no rest.
func command(ask string) (word, rest string) {
	word, rest = cutWord(ask)
	known := slices.ContainsFunc(offlineCommands, func(c offlineCommand) bool { return c.word == word && c.function != "" })
	if known && rest != "" || word == "tour" && rest == "" {
		return word, rest
	}
	return "", ""
}

// offlineReply answers a plain request. It depends on nothing but the conversation
// and on whether the answer is streamed.
func offlineReply(list []wire.Message, streamed bool) string {
	ask, since := "", "" // the last message of the user, and what the assistant has said since
	for _, m := range list {
		switch m.Role {
		case "user":
			ask, since = strings.TrimSpace(m.Said()), ""
		case "assistant":
			since += m.Said()
		}
	}
	if _, interpreted, ok := strings.Cut(ask, kcr); ok {
		return fabricate(interpreted)
	}
	if request, ok := strings.CutPrefix(ask, tourRequest); ok {
		return request // as interpreter: it is clear already
	}
	word, rest := command(ask)
	first, second, _ := strings.Cut(since, tourSecond)
	if word != "tour" {
		first, second = since, ""
	}
	results := append(resultOf(first, "tool_call", "tool_response"), resultOf(second, "task", "task_response")...)
	switch {
	case len(results) > 0:
		all := strings.Join(results, "\n")
		switch {
		case !streamed: // the caller sees nothing but this text
			return all + "\n" + strings.TrimSpace(sign)
		case strings.Contains(all, "\n"):
			return sign + "The output stands above."
		}
		return sign + "Result: " + all
	case word == "tour":
		return sign + "What an agent does, played from a script.\n" +
			"1. A tool call: a block in the model's answer is carried out where it stands.\n" +
			toolCall("execute_bash", "code", tourCommand) +
			tourSecond + "a skill makes code of a request, and the code is carried out.\n" +
			block("task", map[string]any{"skill": "bash", "request": tourTask})
	}
	for _, c := range offlineCommands {
		if c.word != word {
			continue
		}
		subject := ""
		if !c.silent {
			subject = defuse(rest)
		}
		return sign + c.doing + subject + "\n" + toolCall(c.function, c.parameter, rest)
	}
	return offlineHelp
}

// resultOf returns the result after one of our tags, as a list of at most one. The
// content of our tags has no '<' (block), so the first closing tag is ours; a command
// may print anything, so the last end tag of a result is agr's.
func resultOf(text, tag, response string) []string {
	_, rest, _ := strings.Cut(text, "</"+tag+">")
	result, ok := strings.CutPrefix(rest, "\n<"+response+">\n")
	if !ok {
		return nil
	}
	if i := strings.LastIndex(result, "\n</"+response+">\n"); i >= 0 {
		result = result[:i]
	}
	return []string{defuse(strings.TrimRight(result, "\n"))}
}

var tags = regexp.MustCompile(`<(/?(?:tool_call|task|tool_response|task_response)>)`)

// defuse breaks the tags in text from outside, which agr would otherwise run.
func defuse(text string) string { return tags.ReplaceAllString(text, "< $1") }

// toolCall is the block that asks agr to call a function with one argument.
func toolCall(function, parameter, value string) string {
	return block("tool_call", map[string]any{"name": function, "arguments": map[string]string{parameter: value}})
}

// block writes a tag with JSON in it. Each '<' in the JSON is escaped, so that no
// text of the user can end the block or begin another one.
func block(tag string, v any) string {
	return "<" + tag + ">\n" + strings.ReplaceAll(string(encoded(v)), "<", `\u003c`) + "\n</" + tag + ">"
}

// encoded is a value as JSON, without HTML escapes.
func encoded(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // strings always encode
	}
	return bytes.TrimSpace(buf.Bytes())
}

// fabricate is the fabricator's part: it answers an interpreted request with its
// code, in one fenced block. The interpreter's answer to a plain command is a tool
// call.
func fabricate(request string) string {
	_, rest, _ := strings.Cut(request, "<tool_call>")
	raw, _, ok := strings.Cut(rest, "</tool_call>")
	var call struct {
		Arguments struct {
			Code string `json:"code"`
		} `json:"arguments"`
	}
	if ok && json.Unmarshal([]byte(raw), &call) != nil {
		call.Arguments.Code = ""
	}
	code := call.Arguments.Code
	if word, rest := command(strings.TrimSpace(request)); code == "" && (word == "run" || word == "python") {
		code = rest
	}
	code = cmp.Or(code, "echo 'offline, no AI: nothing was made of this request' >&2; exit 1")
	if strings.Contains(code, "```") {
		return code // a fence around it would end too early
	}
	return "```\n" + code + "\n```"
}

// reply is an answer in a session.
type reply struct {
	text  string
	calls []offlineCall
}

// offlineCall is a call of a tool; args are names and values, alternating.
type offlineCall struct {
	tool string
	args []string
}

// arguments are the call's as a JSON object.
func (c offlineCall) arguments() []byte {
	b := []byte("{")
	for pair := range slices.Chunk(c.args, 2) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(b, encoded(pair[0])...), ':')
		b = append(b, encoded(pair[1])...)
	}
	return append(b, '}')
}

// sessionReply is offlineReply for a turn of a session.
func sessionReply(req *wire.Request) reply {
	ask, results := "", []string(nil) // the last message of the user and the results since
	for _, m := range req.Messages {
		switch m.Role {
		case "user":
			ask, results = strings.TrimSpace(m.Said()), nil
		case "tool":
			results = append(results, defuse(strings.TrimRight(resultText(m.Said()), "\n")))
		}
	}
	made := sessionCommand(ask, req.Tools)
	switch {
	case made.calls == nil:
		var usages []string
		for _, c := range offlineCommands {
			if offers(req.Tools, c.tool) {
				usages = append(usages, c.usage)
			}
		}
		return reply{text: notConnected + strings.Join(append(usages, "tour"), ", ") + "."}
	case len(results) > 0:
		// A terminal shows no output of tools, so the results are repeated in full.
		all := strings.Join(results, "\n")
		if req.Stream && !strings.Contains(all, "\n") {
			return reply{text: sign + "Result: " + all}
		}
		return reply{text: all + "\n" + strings.TrimSpace(sign)}
	}
	return made
}

// sessionCommand is the reply to a command, without calls if it is not one.
func sessionCommand(ask string, tools []wire.Tool) reply {
	word, rest := cutWord(ask)
	if word == "tour" && rest == "" {
		r := reply{
			text:  sign + "What an agent does, played from a script. It calls a tool: a command is run, and its output comes back.",
			calls: []offlineCall{{"bash", []string{"command", tourCommand}}},
		}
		if offers(tools, "task") {
			r.text += " It hands on a task: a skill makes code of a request, and the code is run."
			r.calls = append(r.calls, offlineCall{"task", []string{"skill", "bash", "request", tourTask}})
		}
		return r
	}
	for _, c := range offlineCommands {
		if c.word != word || !offers(tools, c.tool) {
			continue
		}
		subject, args := rest, []string{c.parameters[0], rest}
		if len(c.parameters) > 1 {
			i := strings.IndexAny(rest, " \t\n")
			if i < 0 {
				return reply{}
			}
			subject = rest[:i]
			args = []string{c.parameters[0], subject, c.parameters[1], strings.TrimSpace(rest[i:])}
		}
		if rest == "" {
			return reply{}
		}
		if c.silent {
			subject = ""
		}
		return reply{sign + c.doing + defuse(subject), []offlineCall{{c.tool, args}}}
	}
	return reply{}
}

// resultText formats a tool's result for people. A result in any other form than that
// of our tools is returned unchanged.
func resultText(result string) string {
	var e struct {
		OK    *bool           `json:"ok"`
		Data  json.RawMessage `json:"data"`
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(result), &e) != nil || e.OK == nil {
		return result
	}
	if !*e.OK {
		return cmp.Or(e.Error.Message, e.Error.Code, "The tool failed and did not say why.")
	}
	var d struct { // each tool has some of the fields
		Stdout    *string `json:"stdout"` // code and commands
		Stderr    string  `json:"stderr"`
		ExitCode  int     `json:"exit_code"`
		Text      *string `json:"text"`    // memories
		Content   *string `json:"content"` // read
		Truncated bool    `json:"truncated"`
		Bytes     int64   `json:"bytes"`
		Path      string  `json:"path"`
		Created   *bool   `json:"created"` // write
	}
	if json.Unmarshal(e.Data, &d) != nil {
		return cmp.Or(string(e.Data), noOutput) // data of an unknown tool
	}
	switch {
	case d.Stdout != nil:
		var parts []string
		if *d.Stdout != "" {
			parts = append(parts, strings.TrimRight(*d.Stdout, "\n"))
		}
		if d.Stderr != "" {
			parts = append(parts, "[stderr]\n"+strings.TrimRight(d.Stderr, "\n"))
		}
		if d.ExitCode != 0 {
			parts = append(parts, fmt.Sprintf("[exit code: %d]", d.ExitCode))
		}
		return cmp.Or(strings.Join(parts, "\n"), noOutput)
	case d.Text != nil:
		return cmp.Or(*d.Text, noOutput)
	case d.Content != nil:
		text := cmp.Or(strings.TrimRight(*d.Content, "\n"), "(nothing in it)")
		if d.Truncated {
			text += fmt.Sprintf("\n[cut: the file has %d bytes]", d.Bytes)
		}
		return text
	case d.Created != nil && *d.Created:
		return fmt.Sprintf("made %s, %d bytes", d.Path, d.Bytes)
	case d.Created != nil:
		return fmt.Sprintf("replaced %s, %d bytes", d.Path, d.Bytes)
	}
	return cmp.Or(string(e.Data), noOutput)
}
