package render

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"zino/pkg/approval"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	argumentMax = 200 // characters of one argument of a tool
	callMax     = 400 // characters of all arguments
	diffLines   = 200 // lines of a diff
	diffWidth   = 500 // characters of each
)

// mainArgument maps tools to the only argument that is printed.
var mainArgument = map[string]string{"bash": "command", "read": "path", "write": "path", "edit": "path"}

// Call describes a call that the model asks for: its name and arguments on one line.
func Call(call proto.ToolRequested) string {
	return strings.TrimPrefix(requestedLine(call), "Tool requested: ")
}

// requestedLine describes a call that the model asks for.
func requestedLine(call proto.ToolRequested) string {
	var shown []string
	name, arguments := approval.Shown(call.Name, call.Input)
	for key, value := range wire.Members(arguments) {
		if main := mainArgument[call.Name]; main != "" && string(key) != main && string(key) != proto.MalformedInput {
			continue
		}
		argument := text.Clip(Line(string(value)), argumentMax)
		if s, ok := wire.Unquote(nil, value); ok {
			argument = strconv.Quote(text.Clip(string(s), argumentMax))
		}
		shown = append(shown, Line(string(key))+"="+argument)
	}
	line := "Tool requested: " + Line(name)
	if len(shown) > 0 {
		line += " " + text.Clip(strings.Join(shown, " "), callMax)
	}
	return line
}

// envelope is a proto.Envelope with what is shown of its data.
type envelope struct {
	OK   bool `json:"ok"`
	Data struct {
		ExitCode    *int   `json:"exit_code,omitzero"`
		TimedOut    bool   `json:"timed_out,omitzero"`
		Interrupted bool   `json:"interrupted,omitzero"`
		Job         string `json:"job,omitzero"`
		Running     bool   `json:"running,omitzero"` // the job goes on in the background
		SessionID   string `json:"session_id,omitzero"`
	} `json:"data,omitzero"`
	Error proto.ToolError `json:"error,omitzero"`
}

// finishedLines describe how a call ended. name is that of its tool, as it is shown.
func finishedLines(call proto.ToolFinished, name string) []string {
	lines := []string{fmt.Sprintf("Done. (%.2fs)", float64(call.DurationMS)/1000)}
	var result envelope
	if err := wire.DecodeReply(call.Result, &result); err != nil {
		return lines // not an envelope
	}
	name = Line(name)
	switch {
	case !call.OK && !result.OK: // older daemons set only result.OK
		why := cmp.Or(result.Error.Code, "failed") + ": " + result.Error.Message
		lines = append(lines, "Tool failed: "+name+" "+text.Clip(Line(why), callMax))
	case result.Data.Job != "" && result.Data.Running:
		lines = append(lines, "Tool finished: "+name+" job="+Line(result.Data.Job)+" running")
	case call.Name == proto.TaskTool && result.Data.SessionID != "": // of a sub-agent
		lines = append(lines, "Tool finished: "+name+" session="+Line(result.Data.SessionID))
	case result.Data.Interrupted:
		lines = append(lines, "Tool finished: "+name+" interrupted=true")
	case result.Data.TimedOut:
		lines = append(lines, "Tool finished: "+name+" timed_out=true")
	case result.Data.ExitCode != nil:
		lines = append(lines, fmt.Sprintf("Tool finished: %s exit=%d", name, *result.Data.ExitCode))
	}
	for _, a := range call.Attachments {
		lines = append(lines, "Attached: "+Attachment(a))
	}
	if call.Confinement != nil { // the model sees these names but may not mention them
		for _, name := range call.Confinement.Refused {
			lines = append(lines, "Warning: "+Line(name)+" stood in a place that the sandbox protects: look at it, and move it back if you want it there.")
		}
	}
	return lines
}

// Attachment describes an image or PDF file.
func Attachment(a proto.Attachment) string {
	line := Line(a.Name) + ", " + Line(a.MediaType)
	if a.Width > 0 {
		line += fmt.Sprintf(", %dx%d", a.Width, a.Height)
	}
	return line
}

// diffText formats a unified diff.
func diffText(diff string, colour bool) string {
	diff = text.Visible(strings.TrimRight(diff, "\n"))
	if diff == "" {
		return ""
	}
	lines := strings.Split(diff, "\n")
	var b strings.Builder
	for _, line := range lines[:min(diffLines, len(lines))] {
		line = text.Clip(line, diffWidth)
		if c := diffColour(line); colour && c != "" {
			line = c + line + plain
		}
		b.WriteString(line + "\n")
	}
	if left := len(lines) - diffLines; left > 0 {
		fmt.Fprintf(&b, "… %d more lines of the diff\n", left)
	}
	return b.String()
}

func diffColour(line string) string {
	switch {
	case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
		return ""
	case strings.HasPrefix(line, "+"):
		return green
	case strings.HasPrefix(line, "-"):
		return red
	case strings.HasPrefix(line, "@@"):
		return cyan
	}
	return ""
}
