package chat

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"zino/pkg/approval"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/chat/screen"
)

const (
	outputKept  = 4096 // bytes of the output of a running call
	failedLines = 10   // lines of the output of a failed call
	argumentMin = 16   // cells that a long result leaves for the argument
	wordsMax    = 60   // characters of a text that is shown as the result itself
)

// toolCall is a call of a tool that has no result yet.
type toolCall struct {
	id, name, argument string
	began              time.Time // zero: it waits
	output             string    // its last bytes
}

// mainArgument names the arguments of a tool that tell what it does.
var mainArgument = map[string][]string{
	"bash": {"command"}, "read": {"path"}, "write": {"path"}, "edit": {"path"}, "recall": {"query"}, "recall_sessions": {"query"}, "remember": {"text"},
	"task": {"request"}, "job": {"action", "job"}, "skill": {"name"}, "todo": {},
}

// argumentOf returns the main argument of a call, or all, on one line.
func argumentOf(name string, input proto.Raw) string {
	keys, known := mainArgument[name]
	found := make([]string, len(keys))
	var all []string
	for key, value := range wire.Members(input) {
		s, ok := wire.Unquote(nil, value)
		if !ok {
			s = value
		}
		all = append(all, string(key)+"="+string(s))
		if i := slices.Index(keys, string(key)); i >= 0 {
			found[i] = string(s)
		}
	}
	if s := strings.TrimSpace(strings.Join(found, " ")); s != "" || known && len(keys) == 0 {
		return safe(text.OneLine(s))
	}
	return safe(text.Clip(text.OneLine(strings.Join(all, " ")), 400))
}

func (c *chat) requested(t *turn, r proto.ToolRequested) {
	c.endThought(t)
	c.endText(t)
	t.waiting = wait{}
	name, input := approval.Shown(r.Name, r.Input)
	t.calls = append(t.calls, &toolCall{id: r.ID, name: safe(name), argument: argumentOf(name, input)})
}

func (c *chat) started(t *turn, s proto.ToolStarted) {
	c.endThought(t)
	t.waiting = wait{}
	call := t.call(s.ID)
	if call == nil {
		name, _ := approval.Shown(s.Name, nil)
		call = &toolCall{id: s.ID, name: safe(name)}
		t.calls = append(t.calls, call)
	}
	call.began = c.now()
	line := "Tool " + call.name + " started."
	if call.argument != "" {
		line = "Tool " + call.name + " started: " + call.argument
	}
	c.tell(line)
}

func (t *turn) call(id string) *toolCall {
	for _, call := range t.calls {
		if call.id == id {
			return call
		}
	}
	return nil
}

// running counts the calls that have begun.
func (t *turn) running() (n int) {
	for _, call := range t.calls {
		if !call.began.IsZero() {
			n++
		}
	}
	return n
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
	if i := strings.LastIndexByte(line, '\r'); i >= 0 { // a progress bar
		line = line[i+1:]
	}
	return safe(strings.ReplaceAll(line, "\t", "    "))
}

// result is a proto.Envelope with what is shown of its data.
type result struct {
	OK   bool `json:"ok"`
	Data struct {
		Stdout      string    `json:"stdout,omitzero"`
		Stderr      string    `json:"stderr,omitzero"`
		Content     string    `json:"content,omitzero"`
		Text        string    `json:"text,omitzero"`
		Structured  proto.Raw `json:"structured,omitzero"`
		ExitCode    *int      `json:"exit_code,omitzero"`
		TimedOut    bool      `json:"timed_out,omitzero"`
		Interrupted bool      `json:"interrupted,omitzero"`
		Job         string    `json:"job,omitzero"`
		Running     bool      `json:"running,omitzero"`
	} `json:"data,omitzero"`
	Error proto.ToolError `json:"error,omitzero"`
}

// finishedCall is a call with its result as it is shown.
type finishedCall struct {
	*toolCall
	ok      bool
	summary string // how it ended, in a few words
	took    time.Duration
	body    []string // the lines of its result
	isDiff  bool
	others  bool // calls run beside it
}

// finished prints a call that has its result.
func (c *chat) finished(t *turn, f proto.ToolFinished) {
	call := t.call(f.ID)
	if call == nil {
		name, _ := approval.Shown(f.Name, nil)
		call = &toolCall{id: f.ID, name: safe(name)}
	}
	others := t.running() > 1
	t.calls = slices.DeleteFunc(t.calls, func(other *toolCall) bool { return other == call })
	if f.Usage != nil {
		c.usage.addAgent(*f.Usage)
	}
	var r result
	if err := wire.DecodeReply(f.Result, &r); err != nil {
		r = result{OK: f.OK}
	}
	done := c.describe(call, f, r)
	done.others = others
	c.printCall(done)
}

// describe says how a call ended.
func (c *chat) describe(call *toolCall, f proto.ToolFinished, r result) finishedCall {
	done := finishedCall{toolCall: call, took: time.Duration(f.DurationMS) * time.Millisecond, ok: true}
	out := cmp.Or(r.Data.Content+r.Data.Text, string(r.Data.Structured))
	if r.Data.Stdout != "" || r.Data.Stderr != "" {
		out = r.Data.Stdout
		if out != "" && r.Data.Stderr != "" && !strings.HasSuffix(out, "\n") {
			out += "\n"
		}
		out += r.Data.Stderr
	}
	done.body = c.outputRows(out)
	for _, a := range f.Attachments {
		done.body = append(done.body, imageShown(a))
	}
	switch code := r.Data.ExitCode; {
	case !r.OK && r.Error.Code == proto.ToolInterrupted:
		done.ok, done.summary = false, "interrupted"
	case !r.OK:
		first, rest, _ := strings.Cut(strings.TrimSpace(r.Error.Message), "\n")
		done.ok, done.summary, done.body = false, safe(r.Error.Code), c.outputRows(rest)
		if first = strings.TrimSpace(first); first != "" {
			done.summary += ": " + safe(first)
		}
	case r.Data.Job != "" && r.Data.Running:
		done.summary = safe(r.Data.Job) + " running"
	case r.Data.Interrupted:
		done.ok, done.summary = false, "interrupted"
	case r.Data.TimedOut:
		done.ok, done.summary = false, "timed out"
	case code != nil && *code < 0:
		done.ok, done.summary = false, "signal "+strconv.Itoa(-*code)
	case code != nil && *code > 0:
		done.ok, done.summary = false, "exit "+strconv.Itoa(*code)
	case f.Diff != "":
		rows, added, removed := c.diffRows(f.Diff)
		done.body, done.isDiff = rows, true
		done.summary = fmt.Sprintf("+%d −%d", added, removed)
	case (r.Data.Text != "" || len(f.Attachments) > 0) && len(done.body) == 1 && len(done.body[0]) <= wordsMax:
		done.summary, done.body = strings.TrimSuffix(done.body[0], "."), nil
	case len(done.body) > 0:
		done.summary = text.Count(len(done.body), "line")
	}
	return done
}

// printCall prints the line of a call and a part of its result.
func (c *chat) printCall(done finishedCall) {
	shown, from := c.preview(done)
	folded, number, tail := len(done.body)-len(shown), 0, ""
	if len(done.body) > 0 {
		number = c.items.add(strings.TrimSpace(done.name+"  "+done.argument), done.body)
	}
	if done.name == "read" && done.ok {
		folded = 0 // its file can be read
	}
	if folded > 0 {
		tail = fmt.Sprintf("  [%d]", number)
	}
	head, cut := c.callLine(done, tail)
	rows := indented(shown)
	if cut { // the line has no room for the whole message
		message := indented(c.widths.Wrap(done.summary, c.proseWidth()-4))
		rows = append(message, rows...)
	}
	whole := append([]string{head}, indented(done.body)...)
	if folded == 0 {
		c.printFolded(kindTool, append([]string{head}, rows...), whole)
		return
	}
	if fold := "    " + c.dim(c.foldText(folded, number)); from > 0 {
		rows = append([]string{fold}, rows...)
	} else {
		rows = append(rows, fold)
	}
	c.printFolded(kindTool, append([]string{head}, rows...), whole)
}

// foldText says how many lines are not printed, and how to see them.
func (c *chat) foldText(lines, number int) string {
	if c.start.Chat.ScreenReader {
		return fmt.Sprintf("%s: /show %d", text.Count(lines, "more line"), number)
	}
	return fmt.Sprintf("… %s · /show %d", text.Count(lines, "more line"), number)
}

// preview returns the lines of a result that are printed, and where they begin.
func (c *chat) preview(done finishedCall) (shown []string, from int) {
	switch n := c.start.Chat.PreviewLines; {
	case done.name == "read" && done.ok:
		return nil, 0
	case done.isDiff: // its lines stay whole: the terminal wraps them, and a copy is whole
		return done.body[:min(diffMax, len(done.body))], 0
	default:
		if !done.ok {
			n = max(n, failedLines)
		}
		from = max(0, len(done.body)-n)
	}
	width, _ := c.screen.Size()
	for _, line := range done.body[from:] {
		shown = append(shown, c.widths.Clip(line, width-5))
	}
	return shown, from
}

// indented indents lines as the result of a call.
func indented(lines []string) []string {
	rows := make([]string, len(lines))
	for i, line := range lines {
		if line != "" {
			rows[i] = "    " + line
		}
	}
	return rows
}

// callLine returns the line of a finished call. cut says that its summary was cut.
func (c *chat) callLine(done finishedCall, tail string) (line string, cut bool) {
	if c.start.Chat.ScreenReader {
		return c.spokenCall(done), false
	}
	sign := c.paint(screen.Style{Color: screen.Green}, c.sign("✓", "ok"))
	if !done.ok {
		sign = c.paint(screen.Style{Color: screen.Red}, c.sign("✗", "failed"))
	}
	head := sign + " " + c.paint(screen.Style{Bold: true}, done.name)
	tail = fmt.Sprintf("  %.2fs", done.took.Seconds()) + tail
	width, _ := c.screen.Size()
	room := width - 1 - c.widths.Of(head) - len(tail)
	summary := done.summary
	if summary != "" {
		least := 0
		if done.argument != "" {
			least = 2 + min(argumentMin, c.widths.Of(done.argument))
		}
		clipped := c.widths.Clip(summary, max(8, room-2-least))
		cut = clipped != summary
		summary = "  " + clipped
		room -= c.widths.Of(summary)
	}
	argument := ""
	if done.argument != "" {
		argument = "  " + c.widths.Clip(done.argument, max(8, room-2))
	}
	return head + argument + summary + tail, cut
}

// spokenCall returns the line of a finished call in words.
func (c *chat) spokenCall(done finishedCall) string {
	line := "Tool " + done.name + " done"
	if !done.ok {
		line = "Tool " + done.name + " failed"
	}
	if done.summary != "" {
		line += ", " + strings.ReplaceAll(done.summary, "−", "-")
	}
	if done.others && done.argument != "" { // which of them
		return line + ": " + done.argument
	}
	return strings.TrimSuffix(line, ".") + "."
}

// unfinished prints a call whose turn has ended without its result.
func (c *chat) unfinished(call *toolCall) {
	if call.began.IsZero() {
		return
	}
	c.printCall(finishedCall{toolCall: call, summary: "interrupted", took: c.now().Sub(call.began), body: c.outputRows(call.output)})
}

// outputLines returns the lines of an output, harmless.
func outputLines(out string) (lines []string) {
	out = strings.TrimRight(out, "\r\n")
	if out == "" {
		return nil
	}
	for line := range strings.SplitSeq(out, "\n") {
		line = strings.TrimSuffix(line, "\r")
		lines = append(lines, text.Visible(strings.ToValidUTF8(line, "\ufffd")))
	}
	return lines
}

// outputRows is outputLines with tabs expanded.
func (c *chat) outputRows(out string) []string {
	lines := outputLines(out)
	for i, line := range lines {
		lines[i] = c.widths.ExpandTabs(line, 0)
	}
	return lines
}
