package chat

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/chat/screen"
)

const (
	diffMax      = 40   // lines of a diff that are printed
	outputKept   = 4096 // bytes of the output of a running call
	failedLines  = 10   // lines of the output of a failed command
	lineMax      = 2000 // characters of a line that is printed
	previewLimit = 1 << 20
)

// toolCall is a call of a tool that has no result yet.
type toolCall struct {
	id, name, argument string
	began              time.Time // zero: it waits
	output             string    // its last bytes
}

// mainArgument names the argument of a tool that tells what it does.
var mainArgument = map[string]string{"bash": "command", "read": "path", "write": "path", "edit": "path", "recall": "query", "remember": "text", "task": "request", "job": "job"}

// argumentOf returns the main argument of a call, or all, on one line.
func argumentOf(name string, input proto.Raw) string {
	var all []string
	for key, value := range wire.Members(input) {
		s, ok := wire.Unquote(nil, value)
		if !ok {
			s = value
		}
		if string(key) == mainArgument[name] {
			return safe(string(s))
		}
		all = append(all, string(key)+"="+string(s))
	}
	return safe(text.Clip(strings.Join(all, " "), 400))
}

func (c *chat) requested(t *turn, r proto.ToolRequested) {
	c.endText(t)
	t.calls = append(t.calls, &toolCall{id: r.ID, name: safe(r.Name), argument: argumentOf(r.Name, r.Input)})
}

func (c *chat) started(t *turn, s proto.ToolStarted) {
	c.thought(t)
	if call := t.call(s.ID); call != nil {
		call.began = time.Now()
		return
	}
	t.calls = append(t.calls, &toolCall{id: s.ID, name: safe(s.Name), began: time.Now()})
}

func (t *turn) call(id string) *toolCall {
	for _, call := range t.calls {
		if call.id == id {
			return call
		}
	}
	return nil
}

func (c *chat) output(t *turn, o proto.ToolOutput) {
	if call := t.call(o.ID); call != nil {
		call.output += o.Text
		if over := len(call.output) - outputKept; over > 0 {
			call.output = strings.ToValidUTF8(call.output[over:], "")
		}
	}
}

// lastLine returns the last line of the output so far that is not blank.
func (call *toolCall) lastLine() string {
	lines := strings.Split(strings.TrimRight(call.output, "\r\n \t"), "\n")
	line := lines[len(lines)-1]
	if i := strings.LastIndexByte(strings.TrimRight(line, "\r"), '\r'); i >= 0 { // a progress bar
		line = line[i+1:]
	}
	return safe(strings.TrimRight(line, "\r"))
}

// result is a proto.Envelope with what is shown of its data.
type result struct {
	OK   bool `json:"ok"`
	Data struct {
		Stdout      string `json:"stdout,omitzero"`
		Stderr      string `json:"stderr,omitzero"`
		Content     string `json:"content,omitzero"`
		ExitCode    *int   `json:"exit_code,omitzero"`
		TimedOut    bool   `json:"timed_out,omitzero"`
		Interrupted bool   `json:"interrupted,omitzero"`
		Job         string `json:"job,omitzero"`
		Running     bool   `json:"running,omitzero"`
	} `json:"data,omitzero"`
	Error proto.ToolError `json:"error,omitzero"`
	Note  string          `json:"note,omitzero"`
}

// finished prints a call that has its result.
func (c *chat) finished(t *turn, f proto.ToolFinished) {
	call := t.call(f.ID)
	if call == nil {
		call = &toolCall{id: f.ID, name: safe(f.Name)}
	}
	for i, other := range t.calls {
		if other == call {
			t.calls = append(t.calls[:i], t.calls[i+1:]...)
			break
		}
	}
	var r result
	if err := wire.DecodeReply(f.Result, &r); err != nil {
		r.OK = f.OK
	}
	ok := (f.OK || r.OK) && (r.Data.ExitCode == nil || *r.Data.ExitCode == 0 || r.Data.Running) && !r.Data.TimedOut && !r.Data.Interrupted
	body, isDiff := c.body(call.name, f, r)
	summary := c.summary(call.name, f, r, len(body))
	shown, from := preview(body, isDiff, ok, c.start.Chat.PreviewLines)
	folded := len(body) - len(shown)
	if call.name == "read" {
		shown, folded = nil, 0
	}
	number := 0
	if folded > 0 || call.name == "read" && len(body) > 0 {
		number = c.items.add(call.name+"  "+call.argument, body)
	}
	head := c.callLine(call, ok, summary, time.Duration(f.DurationMS)*time.Millisecond, number, folded > 0)
	lines := []string{head}
	width, _ := c.screen.Size()
	fold := ""
	if folded > 0 {
		fold = c.dim(fmt.Sprintf("    … %d more lines · /show %d", folded, number))
	}
	if fold != "" && from > 0 {
		lines = append(lines, fold)
	}
	for _, line := range shown {
		line = c.widths.Clip(c.widths.ExpandTabs(line, 0), width-5)
		lines = append(lines, "    "+c.diffPaint(line, isDiff))
	}
	if fold != "" && from == 0 {
		lines = append(lines, fold)
	}
	c.print(kindTool, lines...)
}

// callLine returns the line of a finished call.
func (c *chat) callLine(call *toolCall, ok bool, summary string, took time.Duration, number int, folded bool) string {
	sign := c.paint(screen.Style{Color: screen.Green}, c.sign("✓", "ok"))
	if !ok {
		sign = c.paint(screen.Style{Color: screen.Red}, c.sign("✗", "failed"))
	}
	tail := fmt.Sprintf("  %.2fs", took.Seconds())
	if summary != "" {
		tail = "  " + summary + tail
	}
	if folded {
		tail += fmt.Sprintf("  [%d]", number)
	}
	width, _ := c.screen.Size()
	head := sign + " " + c.paint(screen.Style{Bold: true}, call.name)
	if call.argument != "" {
		room := max(8, width-1-c.widths.Of(head)-2-c.widths.Of(tail))
		head += "  " + c.widths.Clip(call.argument, room)
	}
	return head + tail
}

// summary returns how a call ended, in a few words.
func (c *chat) summary(name string, f proto.ToolFinished, r result, lines int) string {
	switch {
	case !f.OK && !r.OK:
		return safe(strings.TrimSpace(r.Error.Code + ": " + text.Clip(text.OneLine(r.Error.Message), 200)))
	case r.Data.Job != "" && r.Data.Running:
		return safe(r.Data.Job) + " running"
	case r.Data.Interrupted:
		return "interrupted"
	case r.Data.TimedOut:
		return "timed out"
	case r.Data.ExitCode != nil && *r.Data.ExitCode != 0:
		return "exit " + strconv.Itoa(*r.Data.ExitCode)
	case f.Diff != "":
		added, removed := countDiff(f.Diff)
		return fmt.Sprintf("+%d −%d", added, removed)
	case lines > 0:
		return text.Count(lines, "line")
	}
	return ""
}

// body returns the lines that a result can be shown as.
func (c *chat) body(name string, f proto.ToolFinished, r result) (lines []string, isDiff bool) {
	if f.Diff != "" {
		return diffLines(f.Diff), true
	}
	out := r.Data.Content
	if r.Data.ExitCode != nil {
		out = r.Data.Stdout
		if r.Data.Stderr != "" {
			if out != "" && !strings.HasSuffix(out, "\n") {
				out += "\n"
			}
			out += r.Data.Stderr
		}
	}
	return outputLines(out), false
}

// outputLines returns the lines of an output, harmless.
func outputLines(out string) (lines []string) {
	out = strings.TrimRight(text.Head(out, previewLimit), "\n")
	if out == "" {
		return nil
	}
	for line := range strings.SplitSeq(out, "\n") {
		line = strings.TrimSuffix(line, "\r")
		lines = append(lines, text.Visible(strings.ToValidUTF8(text.Clip(line, lineMax), "\ufffd")))
	}
	return lines
}

// preview returns the lines of a result that are printed, and where they begin.
func preview(body []string, isDiff, ok bool, lines int) (shown []string, from int) {
	n := lines
	switch {
	case isDiff:
		n = diffMax
		return body[:min(n, len(body))], 0
	case !ok:
		n = max(n, failedLines)
	}
	from = max(0, len(body)-n)
	return body[from:], from
}

// diffLines returns the lines of a unified diff with the numbers of the new lines, three
// lines of context each.
func diffLines(diff string) (lines []string) {
	next := 0
	for _, line := range outputLines(diff) {
		switch {
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
		case strings.HasPrefix(line, "@@"):
			next = hunkStart(line)
			lines = append(lines, line)
		case strings.HasPrefix(line, "-"):
			lines = append(lines, fmt.Sprintf("%-3s - %s", "", line[1:]))
		case strings.HasPrefix(line, "\\"):
			lines = append(lines, line)
		default:
			mark, rest := " ", ""
			if line != "" {
				mark, rest = line[:1], line[1:]
			}
			lines = append(lines, fmt.Sprintf("%-3d %s %s", next, mark, rest))
			next++
		}
	}
	return lines
}

// hunkStart returns the number of the first new line of a hunk: of "@@ -2,3 +2,6 @@" 2.
func hunkStart(line string) int {
	_, rest, _ := strings.Cut(line, "+")
	digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	n, _ := strconv.Atoi(rest[:digits])
	return n
}

func countDiff(diff string) (added, removed int) {
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
		case strings.HasPrefix(line, "+"):
			added++
		case strings.HasPrefix(line, "-"):
			removed++
		}
	}
	return added, removed
}

// diffPaint colours a line of diffLines.
func (c *chat) diffPaint(line string, isDiff bool) string {
	if !isDiff {
		return line
	}
	color := screen.Default
	switch {
	case strings.HasPrefix(line, "@@"):
		color = screen.Cyan
	case len(line) > 4 && line[4] == '+':
		color = screen.Green
	case len(line) > 4 && line[4] == '-':
		color = screen.Red
	}
	return c.paint(screen.Style{Color: color}, line)
}

// unfinished prints a call whose turn has ended without its result.
func (c *chat) unfinished(call *toolCall) {
	if call.began.IsZero() {
		return
	}
	c.print(kindTool, c.callLine(call, false, "interrupted", time.Since(call.began), 0, false))
}

// reasoning handles a piece of the model's reasoning.
func (c *chat) reasoning(t *turn, piece string) {
	if t.thinking.IsZero() {
		t.thinking = time.Now()
	}
	t.waiting = ""
	if t.reasoning.Len() < previewLimit {
		t.reasoning.WriteString(piece)
	}
}

// thought ends the reasoning: it is printed, folded or not.
func (c *chat) thought(t *turn) {
	if t.thinking.IsZero() {
		return
	}
	took := time.Since(t.thinking)
	t.thinking = time.Time{}
	whole := strings.TrimSpace(t.reasoning.String())
	t.reasoning.Reset()
	switch {
	case whole == "" || c.reason == "hide":
	case c.reason == "show":
		var lines []string
		for _, line := range c.wrap(text.Visible(whole)) {
			lines = append(lines, c.dim(line))
		}
		c.print(kindThought, lines...)
	default:
		n := c.items.add("reasoning", outputLines(whole))
		c.print(kindThought, c.dim(fmt.Sprintf("· thought for %s  [%d]", elapsed(took), n)))
	}
}

// todo prints the list of tasks when it has changed.
func (c *chat) todo(t *turn, l proto.Todo) {
	done := 0
	t.todoNow = ""
	lines := []string{""}
	for _, item := range l.Items {
		box := "[ ]"
		switch item.Status {
		case "done":
			box = "[x]"
			done++
		case "active":
			box = "[>]"
			t.todoNow = safe(item.Text)
		}
		lines = append(lines, "  "+box+" "+safe(item.Text))
	}
	lines[0] = fmt.Sprintf("Tasks %d/%d", done, len(l.Items))
	if all := strings.Join(lines, "\n"); all != t.todo && len(l.Items) > 0 {
		t.todo = all
		c.print(kindLine, lines...)
	}
}
