package chat

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"zino/pkg/text"
	"zino/proto"
	"zino/services/chat/screen"
)

// command is a slash command.
type command struct {
	name, args, does string
	idle             bool     // not during a turn
	needs            string   // a method of the daemon; "": none
	complete         []string // values of its argument
	run              func(c *chat, args string)
}

var levels = []string{"off", "landlock", "read-only", "workspace-write", "unit"}

var efforts = []string{"off", "low", "medium", "high", "max"}

// commands are the commands in the order of /help. It is filled by init, since /help
// lists it.
var commands []*command

func init() {
	commands = []*command{
		{name: "help", args: "[keys]", does: "list the commands, or the keys", complete: []string{"keys"}, run: (*chat).help},
		{name: "exit", does: "leave; also /quit, Ctrl-D", run: func(c *chat, _ string) { c.leave(0) }},
		{name: "quit", does: "leave", run: func(c *chat, _ string) { c.leave(0) }},
		{name: "detach", does: "leave, the turn goes on", run: (*chat).detach},
		{name: "model", args: "[NAME]", does: "show or set the model of the next turns", run: (*chat).setModel},
		{name: "provider", args: "[NAME]", does: "show or set the provider", complete: []string{"anthropic", "gemini", "ollama", "offline", "openai", "openrouter"}, run: (*chat).setProvider},
		{name: "effort", args: "[LEVEL]", does: "how much the model reasons", complete: efforts, run: (*chat).setEffort},
		{name: "new", does: "begin a new session", idle: true, run: (*chat).newSession},
		{name: "clear", does: "begin a new session", idle: true, run: (*chat).newSession},
		{name: "resume", args: "[ID]", does: "continue another session", idle: true, run: (*chat).resume},
		{name: "sessions", args: "[WORDS]", does: "find sessions", run: (*chat).findSessions},
		{name: "fork", does: "go on with a copy of the session", idle: true, run: (*chat).fork},
		{name: "export", args: "[PATH]", does: "write the session as Markdown", run: (*chat).export},
		{name: "context", does: "what the model is sent, with sizes", run: (*chat).showContext},
		{name: "cost", does: "what this session has cost", run: (*chat).showCost},
		{name: "usage", does: "tokens and cost by day", run: func(c *chat, _ string) { c.zino("usage") }},
		{name: "undo", args: "[N]", does: "take back the file changes of the last turns", idle: true, needs: proto.DaemonUndo.Type, run: (*chat).undo},
		{name: "redo", does: "bring the file changes back", idle: true, needs: proto.DaemonRedo.Type, run: (*chat).redo},
		{name: "diff", does: "all file changes of the session", needs: proto.DaemonDiff.Type, run: (*chat).showDiff},
		{name: "sandbox", args: "[LEVEL]", does: "show or set the confinement of commands", complete: levels, run: (*chat).setSandbox},
		{name: "mode", args: "[plan|ask|auto|yolo]", does: "show or set what you are asked about; also Shift-Tab", complete: modes, run: (*chat).setMode},
		{name: "approvals", does: "requests that wait for an answer, and grants", run: (*chat).showApprovals},
		{name: "plan", does: "have the next turns change nothing and answer with a plan", run: (*chat).plan},
		{name: "go", does: "leave plan mode and carry out the plan", run: (*chat).carryOutPlan},
		{name: "memory", args: "[WORDS|add TEXT]", does: "find or add a memory", run: (*chat).memory},
		{name: "tools", does: "the tools of the agent", run: func(c *chat, _ string) { c.zino("describe", "agr") }},
		{name: "show", args: "N|history", does: "print a folded item whole", run: (*chat).show},
		{name: "copy", args: "[N]", does: "copy the last answer, or a block of code of it", run: (*chat).copy},
		{name: "doctor", does: "check the installation", run: func(c *chat, _ string) { c.zino("doctor") }},
	}
}

var commandWord = regexp.MustCompile(`^/[a-z][A-Za-z0-9_:-]*$`)

// commandOf returns the command that a message is; ok is false for text.
func commandOf(message string) (line string, ok bool) {
	trimmed := strings.TrimRight(message, " \n")
	switch trimmed {
	case "exit", "quit", ":q":
		return "/exit", true
	case "?":
		return "/help", true
	}
	if strings.HasPrefix(message, "!") {
		return trimmed, true
	}
	first, _, _ := strings.Cut(trimmed, " ")
	first, _, _ = strings.Cut(first, "\n")
	return trimmed, commandWord.MatchString(first)
}

// run carries out a command. It reports whether the editor may be emptied.
func (c *chat) run(line, typed string) bool {
	if command, ok := strings.CutPrefix(line, "!"); ok {
		return c.perform(shellLine, command, typed)
	}
	word, args, _ := strings.Cut(line[1:], " ")
	i := slices.IndexFunc(commands, func(k *command) bool { return k.name == word })
	if i < 0 {
		hint := ""
		if near := nearest(word); near != "" {
			hint = " Did you mean /" + near + "?"
		}
		c.print(kindUser, c.quote(typed, nil)...)
		c.print(kindUser, c.wrap("Unknown command /"+safe(word)+"."+hint+" Nothing was sent.")...)
		return true
	}
	return c.perform(commands[i], strings.TrimSpace(args), typed)
}

// perform carries out a command if that is possible now.
func (c *chat) perform(k *command, args, typed string) bool {
	c.print(kindCommand, c.quote(typed, nil)...)
	switch {
	case k.idle && c.turn != nil:
		c.say("Wait for the turn to end, or press Esc.")
		return false
	case k.needs != "" && !c.can(k.needs):
		c.say("Not available: this daemon has no %s (version %s).", k.needs, cmp.Or(c.version, "unknown"))
		return true
	}
	k.run(c, args)
	return true
}

// refuse says why a command does nothing.
func (c *chat) refuse(format string, args ...any) {
	c.say("%s", safe(fmt.Sprintf(format, args...)))
}

// nearest returns the command at an edit distance of at most 2; "": none.
func nearest(word string) string {
	best, at := "", 3
	for _, k := range commands {
		if d := distance(word, k.name); d < at {
			best, at = k.name, d
		}
	}
	return best
}

// distance returns the Levenshtein distance of two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := left
			if a[i] != b[j] {
				cost++
			}
			left = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func (c *chat) detach(string) {
	switch {
	case c.turn == nil:
		c.stop(0)
	case c.persists():
		c.stop(0)
	default:
		c.leave(0)
	}
}

func (c *chat) newSession(string) {
	if c.session != "" {
		c.say("New session. The old one: /resume %s", shortID(c.session))
	}
	c.session, c.usage = "", usage{}
	c.retitle("")
}

func (c *chat) show(args string) {
	n, err := strconv.Atoi(strings.TrimSpace(args))
	if args == "history" {
		c.zino("sessions", "show", c.session)
		return
	}
	if err != nil {
		c.refuse("/show takes the number of an item, or history")
		return
	}
	it, ok, gone := c.items.get(n)
	switch {
	case gone:
		c.refuse("Item %d is no longer kept: see /export", n)
		return
	case !ok:
		c.refuse("There is no item %d.", n)
		return
	}
	lines := []string{c.paint(screen.Style{Bold: true}, it.title)}
	for _, line := range it.lines {
		lines = append(lines, "    "+line)
	}
	c.print(kindLine, lines...)
}

func (c *chat) export(args string) {
	if c.session == "" {
		c.refuse("There is nothing to export yet.")
		return
	}
	path := cmp.Or(args, "zino-"+shortID(c.session)+".md")
	c.zino("sessions", "export", c.session, "--format", "md", "--output", path)
}

func (c *chat) fork(string) {
	if c.session == "" {
		c.refuse("There is nothing to copy yet.")
		return
	}
	old := c.session
	forward(c, "mem", proto.MemForkSession, proto.ForkSession{SessionID: old}, func(s proto.SessionPlace, err error) {
		if err != nil {
			c.fail(errorOf(err))
			return
		}
		c.session = s.SessionID
		c.say("Going on with a copy. The original: /resume %s", shortID(old))
	})
}

// cycleReasoning changes how reasoning is shown.
func (c *chat) cycleReasoning() {
	next := map[string]string{"fold": "show", "show": "hide", "hide": "fold"}
	c.reason = cmp.Or(next[c.reason], "show")
	c.say("reasoning: %s", c.reason)
}

// visibleText makes a text of several lines harmless.
func visibleText(s string) string { return text.Visible(strings.ToValidUTF8(s, "\ufffd")) }
