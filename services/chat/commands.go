package chat

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"zino/pkg/text"
	"zino/proto"
)

// command is a slash command.
type command struct {
	name, args, does string
	idle             bool     // not during a turn
	local            bool     // it needs no daemon
	needs            string   // a method of the daemon; "": none
	complete         []string // values of its argument
	values           func(c *chat) (list []string, known bool)
	run              func(c *chat, args string)
}

// commands are the commands in the order of /help. It is filled by init, since /help
// lists it.
var commands []*command

func init() {
	commands = []*command{
		{name: "help", args: "[keys|COMMAND]", does: "list the commands, or the keys", local: true, values: (*chat).helpTopics, run: (*chat).help},
		{name: "exit", does: "leave; also /quit, exit, :q, Ctrl-D", local: true, run: func(c *chat, _ string) { c.leave(0) }},
		{name: "quit", does: "leave", local: true, run: func(c *chat, _ string) { c.leave(0) }},
		{name: "detach", does: "leave, the turn goes on", local: true, run: (*chat).detach},
		{name: "model", args: "[NAME]", does: "show or set the model of the next turns", values: (*chat).modelNames, run: (*chat).setModel},
		{name: "provider", args: "[NAME]", does: "show or set the provider", complete: providers, run: (*chat).setProvider},
		{name: "effort", args: "[LEVEL]", does: "how much the model reasons", values: (*chat).effortNames, run: (*chat).setEffort},
		{name: "new", does: "begin a new session", idle: true, run: (*chat).newSession},
		{name: "clear", does: "begin a new session", idle: true, run: (*chat).newSession},
		{name: "resume", args: "[ID]", does: "continue another session", idle: true, values: (*chat).sessionNames, run: (*chat).resume},
		{name: "sessions", args: "[WORDS]", does: "find sessions", run: (*chat).findSessions},
		{name: "fork", does: "go on with a copy of the session", idle: true, run: (*chat).fork},
		{name: "rename", args: "TITLE", does: "give the session a title", needs: proto.DaemonRenameSession.Type, run: (*chat).rename},
		{name: "export", args: "[PATH]", does: "write the session as Markdown", run: (*chat).export},
		{name: "handoff", args: "GOAL", does: "draft what a new session needs, and begin it", idle: true, needs: proto.DaemonHandoff.Type, run: (*chat).handoff},
		{name: "context", does: "what the model is sent, with sizes", needs: proto.DaemonContext.Type, run: (*chat).showContext},
		{name: "cost", does: "what session and day have cost, and the budget", run: (*chat).showCost},
		{name: "usage", does: "tokens and cost by day", run: func(c *chat, _ string) { c.zino("usage") }},
		{name: "undo", args: "[N] [--partial]", does: "take back the file changes of the last turns", idle: true, needs: proto.DaemonUndo.Type, run: (*chat).undo},
		{name: "redo", does: "bring the file changes back", idle: true, needs: proto.DaemonRedo.Type, run: (*chat).redo},
		{name: "diff", does: "all file changes of the session", needs: proto.DaemonDiff.Type, run: (*chat).showDiff},
		{name: "sandbox", args: "[LEVEL]", does: "show or set the confinement of commands", values: (*chat).levelNames, run: (*chat).setSandbox},
		{name: "mode", args: "[plan|ask|auto|yolo]", does: "show or set what you are asked about; also Shift-Tab", complete: modes, run: (*chat).setMode},
		{name: "approvals", does: "requests that wait for an answer, and grants", run: (*chat).showApprovals},
		{name: "plan", does: "have the next turns change nothing and answer with a plan", run: (*chat).plan},
		{name: "go", does: "leave plan mode and carry out the plan", run: (*chat).carryOutPlan},
		{name: "memory", args: "[WORDS|add TEXT]", does: "find or add a memory", complete: []string{"add"}, run: (*chat).memory},
		{name: "tools", does: "the tools of the agent", needs: proto.DaemonContext.Type, run: (*chat).showTools},
		{name: "mcp", does: "the MCP servers and their state", run: (*chat).showServers},
		{name: "skills", does: "the skills of the agent", needs: proto.DaemonContext.Type, run: (*chat).showSkills},
		{name: "show", args: "N|history", does: "print a folded item, or the session, whole", complete: []string{"history"}, run: (*chat).show},
		{name: "copy", args: "[N]", does: "copy the last answer, or block of code N of it", local: true, run: (*chat).copy},
		{name: "doctor", does: "check the installation", run: func(c *chat, _ string) { c.zino("doctor") }},
	}
}

var commandWord = regexp.MustCompile(`^/[a-z][A-Za-z0-9_:-]*$`)

// commandOf returns the command that a message is; ok is false for text.
func commandOf(message string) (line string, ok bool) {
	line = strings.TrimRightFunc(message, unicode.IsSpace)
	switch line {
	case "exit", "quit", ":q":
		return "/exit", true
	case "?":
		return "/help", true
	}
	word := line
	if i := strings.IndexFunc(line, unicode.IsSpace); i >= 0 {
		word = line[:i]
	}
	return line, strings.HasPrefix(line, "!") || commandWord.MatchString(word)
}

// textOf returns the text that a message sends: of "//x" it is "/x".
func textOf(message string) string {
	if _, ok := commandOf(strings.TrimPrefix(message, "/")); ok && strings.HasPrefix(message, "//") {
		message = message[1:]
	}
	return strings.TrimSpace(message)
}

// run carries out a command. It reports whether the editor may be emptied.
func (c *chat) run(line, typed string) bool {
	if command, ok := strings.CutPrefix(line, "!"); ok {
		return c.perform(shellLine, command, typed)
	}
	word, args := line[1:], ""
	if i := strings.IndexFunc(word, unicode.IsSpace); i >= 0 {
		word, args = word[:i], strings.TrimSpace(word[i:])
	}
	i := slices.IndexFunc(commands, func(k *command) bool { return k.name == word })
	if i < 0 && c.can(proto.DaemonCommands.Type) || i < 0 && !c.ready {
		return c.runFile(word, args, typed)
	}
	if i < 0 {
		c.unknown(word, typed)
		return true
	}
	return c.perform(commands[i], args, typed)
}

// unknown says that a command is not known.
func (c *chat) unknown(word, typed string) {
	hint := ""
	if near := c.nearest(word); near != "" {
		hint = " Did you mean /" + near + "?"
	}
	c.print(kindCommand, c.quote(typed, nil)...)
	c.say("Unknown command /%s.%s Nothing was sent.", safe(word), hint)
}

// perform carries out a command if that is possible now, or when the services are there.
func (c *chat) perform(k *command, args, typed string) bool {
	if k.idle && c.busy() {
		c.say("Wait for the turn to end, or press Esc.")
		return false
	}
	c.print(kindCommand, c.quote(typed, nil)...)
	if !k.local && !c.ready {
		c.typedCommands = append(c.typedCommands, func() { c.carryOut(k, args) })
		return true
	}
	c.carryOut(k, args)
	return true
}

// carryOut runs a command if the daemon has what it needs.
func (c *chat) carryOut(k *command, args string) {
	if k.needs != "" && !c.can(k.needs) {
		c.say("Not available: this daemon has no %s (version %s).", k.needs, cmp.Or(c.version, "unknown"))
		return
	}
	k.run(c, args)
}

// stored reports whether the session is on disk, and says so if it is not.
func (c *chat) stored() bool {
	switch {
	case c.noSave:
		c.say("This chat is not saved.")
	case c.session == "":
		c.say("The session is empty.")
	default:
		return true
	}
	return false
}

// refuse says why a command does nothing.
func (c *chat) refuse(format string, args ...any) {
	c.say("%s", safe(fmt.Sprintf(format, args...)))
}

// nearest returns the command at an edit distance of at most 2; "": none.
func (c *chat) nearest(word string) string {
	best, at := "", 3
	for _, name := range append(names(commands), c.fileNames()...) {
		if d := distance(word, name); d < at {
			best, at = name, d
		}
	}
	return best
}

func names(list []*command) (names []string) {
	for _, k := range list {
		names = append(names, k.name)
	}
	return names
}

// distance returns how many letters are added, removed, replaced, or swapped with their
// neighbour between two words (optimal string alignment).
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	before, last, row := rows[0], rows[1], rows[2]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

func (c *chat) detach(string) {
	switch {
	case c.turn == nil, c.persists():
		c.stop(0)
	default:
		c.say("The services of this chat end with it: the turn was stopped. With zino up or the units it goes on.")
		c.leave(0)
	}
}

// cycleReasoning changes how reasoning is shown.
func (c *chat) cycleReasoning() {
	next := map[string]string{"fold": "show", "show": "hide", "hide": "fold"}
	c.reason = cmp.Or(next[c.reason], "show")
	c.say("reasoning: %s", c.reason)
}

// visibleText makes a text of several lines harmless.
func visibleText(s string) string { return text.Visible(strings.ToValidUTF8(s, "\ufffd")) }
