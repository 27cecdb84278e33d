package handoff

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

// Limits of the facts of a session.
const (
	filesMax     = 20   // listed files
	commandsMax  = 12   // listed commands
	openMax      = 8    // calls that failed or were interrupted
	requestsMax  = 3    // requests besides the first
	requestBytes = 2000 // of each
	callsMax     = 256  // calls without a result so far
	labelBytes   = 200  // of a call on one line
)

// facts are gathered from the events of a session.
type facts struct {
	places
	first    string   // the user's first request
	last     []string // the latest requests
	end      string   // how the last turn ended, "" if it was answered
	changed  recent   // changed files
	read     recent   // files that were only read
	commands recent   // the note says how a command failed
	open     recent   // calls that failed or were interrupted; the note is the reason
	calls    []call   // calls without a result so far
}

// call is a tool call.
type call struct {
	id, tool      string
	path, command string // its file or command, "" if that cannot be listed
	label         string // the call on one line
}

// newFacts returns the facts of a session without events. Paths are relative to root,
// or to the directory in which the session was started if root is empty.
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

// event adds an event.
func (f *facts) event(e object) {
	switch e.text("type") {
	case proto.TypeMeta:
		f.startedIn(e.text("root"))
	case proto.TypeMessage:
		switch e.text("role") {
		case proto.RoleUser:
			f.request(strings.TrimSpace(e.text("text")))
		case proto.RoleAssistant:
			if f.end = ""; e.is("partial") {
				f.end = "the answer was cut off"
			}
		}
	case proto.TypeToolUse:
		f.end = "it did not finish"
		if len(f.calls) == callsMax {
			f.interrupted(f.calls[0])
			f.calls = slices.Delete(f.calls, 0, 1)
		}
		f.calls = append(f.calls, f.call(e.text("id"), e.text("name"), e.object("input")))
	case proto.TypeToolResult:
		id := e.text("tool_use_id")
		for i, c := range slices.Backward(f.calls) { // if several calls have this id, use the last
			if c.id == id {
				f.calls = slices.Delete(f.calls, i, i+1)
				f.result(c, e)
				return
			}
		}
	case proto.TypeInterrupted:
		f.end = "it was interrupted"
	case proto.TypeError:
		f.end = "it ended in an error: " + clip(oneLine(e.text("message")), labelBytes)
	}
}

// request adds a message of the user.
func (f *facts) request(s string) {
	if s == "" {
		return
	}
	f.end = "it was not answered"
	s = clip(s, requestBytes)
	if f.first == "" {
		f.first = s
		return
	}
	if len(f.last) == requestsMax {
		f.last = slices.Delete(f.last, 0, 1)
	}
	f.last = append(f.last, s)
}

// call returns the facts of a call. Large inputs are dropped.
func (f *facts) call(id, tool string, input object) call {
	c := call{id: id, tool: tool, label: clip(printable(oneLine(tool)), labelBytes)}
	if command := commandOf(tool, input); command != "" {
		short, ok := f.command(command)
		c.label = text.CodeSpan(clip(printable(oneLine(short)), labelBytes))
		if ok && pasteable(short) {
			c.command = short
		}
		return c
	}
	switch tool {
	case "read", "write", "edit":
		if c.path = f.toolPath(input.text("path")); c.path != "" {
			c.label = tool + " " + text.CodeSpan(c.path)
		}
	}
	return c
}

// result adds the result of a call.
func (f *facts) result(c call, e object) {
	output := e.object("output")
	data, toolError := output.object("data"), output.object("error")
	if toolError.text("code") == proto.ToolInterrupted || data.is("interrupted") {
		f.interrupted(c)
		return
	}
	failure, code := "", string(data["exit_code"])
	switch {
	case !e.is("ok") && !output.is("ok"):
		failure = strings.TrimSpace("failed " + clip(printable(oneLine(toolError.text("code"))), labelBytes))
	case data.is("timed_out"):
		failure = "timed out"
	case code != "" && code != "0":
		failure = "failed: exit status " + clip(code, 8)
	}
	if c.command != "" {
		f.commands.put(c.command, failure)
	}
	if failure == "" {
		f.open.drop(c.label)
		f.touch(c)
		return
	}
	// The model has reacted to other failed calls, such as read of a missing file.
	if c.tool == "bash" || strings.HasPrefix(c.tool, "execute_") {
		f.open.put(c.label, "run again, it "+failure)
	}
}

// interrupted adds a call whose result is unknown.
func (f *facts) interrupted(c call) {
	if c.command != "" {
		f.commands.put(c.command, "result lost")
	}
	f.open.put(c.label, "check what became of it, its result was lost")
	if c.tool != "read" {
		f.touch(c)
	}
}

// touch adds the file of a call.
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

// finish is called after the last event. Calls without a result count as interrupted.
func (f *facts) finish() {
	for _, c := range f.calls {
		f.interrupted(c)
	}
	f.calls = nil
}

// files returns the changed files and then those that were only read, the latest
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

// recent keeps the last max distinct texts, the latest at the end.
type recent struct {
	max  int
	list []noted
}

type noted struct{ text, note string }

// put adds a text at the end, or moves it there.
func (r *recent) put(text, note string) {
	r.drop(text)
	if len(r.list) == r.max {
		r.list = slices.Delete(r.list, 0, 1)
	}
	r.list = append(r.list, noted{text, note})
}

func (r *recent) drop(text string) {
	r.list = slices.DeleteFunc(r.list, func(n noted) bool { return n.text == text })
}

func (r *recent) has(text string) bool {
	return slices.ContainsFunc(r.list, func(n noted) bool { return n.text == text })
}

// object contains the undecoded members of a JSON object. Events are not decoded into
// structs because a field of the wrong type would make the whole event unreadable.
type object map[string]proto.Raw

// members returns the members of a valid JSON value, or nil if it is not an object.
func members(raw []byte) object {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	o := object{}
	for key, value := range wire.Members(raw) {
		o[string(key)] = value
	}
	return o
}

// keys returns the names of the members in alphabetical order.
func (o object) keys() []string { return slices.Sorted(maps.Keys(o)) }

// text returns a string member, or "" if it is not a string.
func (o object) text(key string) string {
	s, ok := wire.Unquote(nil, o[key])
	if !ok {
		return ""
	}
	return string(s)
}

// is reports whether a member is true.
func (o object) is(key string) bool { return string(o[key]) == "true" }

// object returns the members of an object member.
func (o object) object(key string) object { return members(o[key]) }
