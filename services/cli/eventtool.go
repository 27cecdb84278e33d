package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"zino/pkg/visible"
	"zino/pkg/wire"
	"zino/proto"
)

// argumentMax is how many characters of a tool's argument are shown.
const argumentMax = 200

// requestedLine tells of a call that the model asks for.
func requestedLine(call proto.ToolRequested) string {
	line := "Tool requested: " + inLine(call.Name)
	if arguments := argumentsOf(call.Name, call.Input); arguments != "" {
		line += " " + arguments
	}
	return line
}

// argumentsOf are the arguments by which a person knows a call: the command,
// the path, or all that are short enough.
func argumentsOf(tool string, input proto.Raw) string {
	var shown []string
	for key, value := range wire.Members(input) {
		if wanted := argument[tool]; wanted != "" && string(key) != wanted && string(key) != malformed {
			continue
		}
		shown = append(shown, inLine(string(key))+"="+valueOf(value))
	}
	return shorten(strings.Join(shown, " "), 2*argumentMax)
}

// malformed is the key of what the model wrote in place of arguments.
const malformed = "_malformed"

// argument names the one argument of a tool that is shown.
var argument = map[string]string{"bash": "command", "read": "path", "write": "path", "edit": "path"}

// valueOf shows a JSON value: a text in quotes, with all that a terminal would
// act on escaped, anything else as it is.
func valueOf(value []byte) string {
	text, ok := wire.Unquote(nil, value)
	if !ok {
		return shorten(inLine(string(value)), argumentMax)
	}
	return strconv.Quote(shorten(string(text), argumentMax))
}

// shorten cuts a text to so many characters, the mark included.
func shorten(text string, limit int) string {
	if len(text) <= limit || utf8.RuneCountInString(text) <= limit {
		return text
	}
	n := 0
	for i := range text {
		if n++; n == limit {
			return text[:i] + "…"
		}
	}
	return text
}

// inLine is a text in one line that a terminal does nothing with.
func inLine(text string) string {
	return visible.Text(strings.NewReplacer("\n", " ", "\t", " ").Replace(text))
}

// envelope is a tool's result.
type envelope struct {
	OK   bool `json:"ok"`
	Data struct {
		ExitCode    *int `json:"exit_code,omitzero"`
		TimedOut    bool `json:"timed_out,omitzero"`
		Interrupted bool `json:"interrupted,omitzero"`
	} `json:"data,omitzero"`
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error,omitzero"`
}

// finishedLines tell how a call ended: after what time, and with what.
func finishedLines(call proto.ToolFinished) []string {
	lines := []string{fmt.Sprintf("Done. (%.2fs)", float64(call.DurationMS)/1000)}
	var result envelope
	if err := wire.DecodeReply(call.Result, &result); err != nil {
		return lines // a tool's own form of result
	}
	name := inLine(call.Name)
	switch {
	case !result.OK:
		why := cmp.Or(result.Error.Code, "failed") + ": " + result.Error.Message
		lines = append(lines, "Tool failed: "+name+" "+shorten(inLine(why), 2*argumentMax))
	case result.Data.Interrupted:
		lines = append(lines, "Tool finished: "+name+" interrupted=true")
	case result.Data.TimedOut:
		lines = append(lines, "Tool finished: "+name+" timed_out=true")
	case result.Data.ExitCode != nil:
		lines = append(lines, fmt.Sprintf("Tool finished: %s exit=%d", name, *result.Data.ExitCode))
	}
	return append(lines, refusedLines(call.Confinement)...)
}

// refusedLines name what a sandbox has quarantined. The model has read it, too,
// and may not pass it on.
func refusedLines(how *proto.Confinement) (lines []string) {
	if how == nil {
		return nil
	}
	for _, name := range how.Refused {
		lines = append(lines, "Warning: "+inLine(name)+" stood in a place that the sandbox protects: look at it, and move it back if you want it there.")
	}
	return lines
}
