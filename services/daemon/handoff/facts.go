package handoff

import (
	"path/filepath"
	"slices"
	"strings"
)

// Limits of what is kept of a session, however long it is.
const (
	filesMax    = 20   // files that are listed
	commandsMax = 12   // commands
	openMax     = 8    // calls that failed or were lost
	wishesMax   = 3    // wishes besides the first
	wishBytes   = 2000 // of each
	callsMax    = 256  // calls without a result so far
	labelBytes  = 200  // of a call in a line
)

// facts are what the events of a session tell by themselves.
type facts struct {
	places
	first    string   // the user's first wish
	last     []string // the latest ones
	end      string   // how the last turn went, "" if all is well
	changed  recent   // files
	read     recent   // files that were only read
	commands recent   // with how they failed, if they did
	open     recent   // calls that have come to nothing, with the reason
	calls    []call   // those without a result
}

// call is what matters of a call of a tool.
type call struct {
	id, tool      string
	path, command string // what it is about, if that can be listed
	label         string // the call in a line
}

// newFacts are the facts of a session without events, with paths relative to
// root; "" takes the directory that the session was begun in.
func newFacts(root string) *facts {
	f := &facts{
		changed: recent{max: filesMax}, read: recent{max: filesMax},
		commands: recent{max: commandsMax}, open: recent{max: openMax},
	}
	if root != "" {
		f.root = filepath.Clean(root)
	}
	return f
}

// take takes in an event.
func (f *facts) take(e object) {
	switch e.text("type") {
	case "meta":
		f.from(e.text("root"))
	case "message":
		f.message(e)
	case "tool_use":
		f.call(e)
	case "tool_result":
		f.result(e)
	case "interrupted":
		f.end = "it was interrupted"
	case "error":
		f.end = "it ended in an error: " + clip(oneLine(e.text("message")), labelBytes)
	}
}

func (f *facts) message(e object) {
	text := strings.TrimSpace(e.text("text"))
	switch e.text("role") {
	case "user":
		f.wish(text)
	case "assistant":
		if f.end = ""; e.is("partial") {
			f.end = "the answer was cut off"
		}
	}
}

// wish takes in what the user said.
func (f *facts) wish(text string) {
	if text == "" {
		return
	}
	f.end = "it was not answered"
	text = clip(text, wishBytes)
	if f.first == "" {
		f.first = text
		return
	}
	if len(f.last) == wishesMax {
		f.last = slices.Delete(f.last, 0, 1)
	}
	f.last = append(f.last, text)
}

// wished is the user's last wish.
func (f *facts) wished() string {
	if n := len(f.last); n > 0 {
		return f.last[n-1]
	}
	return f.first
}

// call takes in a call. Whatever is large in it is forgotten at once.
func (f *facts) call(e object) {
	f.end = "it was not brought to its end"
	if len(f.calls) == callsMax {
		f.lost(f.calls[0])
		f.calls = slices.Delete(f.calls, 0, 1)
	}
	f.calls = append(f.calls, f.callOf(e.text("id"), e.text("name"), e.in("input")))
}

func (f *facts) callOf(id, tool string, input object) call {
	c := call{id: id, tool: tool, label: clip(printable(oneLine(tool)), labelBytes)}
	if command := commandOf(tool, input); command != "" {
		short, ok := f.command(command)
		c.label = codeSpan(clip(printable(oneLine(short)), labelBytes))
		if ok && pasteable(short) {
			c.command = short
		}
		return c
	}
	switch tool {
	case "read", "write", "edit":
		if c.path = f.ofTool(input.text("path")); c.path != "" {
			c.label = tool + " " + codeSpan(c.path)
		}
	}
	return c
}

// result takes in the result of a call: of several calls with its id the last.
func (f *facts) result(e object) {
	id := e.text("tool_use_id")
	for i, c := range slices.Backward(f.calls) {
		if c.id == id {
			f.calls = slices.Delete(f.calls, i, i+1)
			f.settle(c, e)
			return
		}
	}
}

// settle takes in what a call came to.
func (f *facts) settle(c call, e object) {
	output := e.in("output")
	if output.in("error").text("code") == "interrupted" || output.in("data").is("interrupted") {
		f.lost(c)
		return
	}
	wrong := failure(e, output)
	if c.command != "" {
		f.commands.put(c.command, wrong)
	}
	switch {
	case wrong == "":
		f.open.drop(c.label)
		f.touch(c)
	case commandLike(c):
		f.open.put(c.label, "run again, it "+wrong)
	}
}

// commandLike reports whether a call ran something. What else failed, such as
// the reading of a file that is not there, the model has answered itself.
func commandLike(c call) bool {
	return c.tool == "bash" || strings.HasPrefix(c.tool, "execute_")
}

// lost takes in that nobody knows what a call has done.
func (f *facts) lost(c call) {
	if c.command != "" {
		f.commands.put(c.command, "result lost")
	}
	f.open.put(c.label, "check what became of it, its result was lost")
	if c.tool != "read" {
		f.touch(c)
	}
}

// touch takes in that a call has dealt with a file.
func (f *facts) touch(c call) {
	switch {
	case c.path == "":
	case c.tool != "read":
		f.read.drop(c.path)
		f.changed.put(c.path, "")
	case !f.changed.has(c.path):
		f.read.put(c.path, "")
	}
}

// failure says how a call failed, "" if it did not.
func failure(e, output object) string {
	data := output.in("data")
	switch code := string(data["exit_code"]); {
	case !e.is("ok") && !output.is("ok"):
		return strings.TrimSpace("failed " + clip(printable(oneLine(output.in("error").text("code"))), labelBytes))
	case data.is("timed_out"):
		return "timed out"
	case code != "" && code != "0":
		return "failed: exit status " + clip(code, 8)
	}
	return ""
}

// done ends the facts: calls that have no result yet get none.
func (f *facts) done() {
	for _, c := range f.calls {
		f.lost(c)
	}
	f.calls = nil
}

// files are those that were changed, then those that were only read, the latest
// first.
func (f *facts) files() []string {
	var list []string
	for _, r := range []recent{f.changed, f.read} {
		for _, n := range slices.Backward(r.list) {
			list = append(list, n.text)
		}
	}
	return list[:min(len(list), filesMax)]
}
