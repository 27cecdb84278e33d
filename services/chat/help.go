package chat

import (
	"fmt"
	"strings"

	"zino/pkg/text"
)

// help lists the commands, or the keys, or says what one command does.
func (c *chat) help(args string) {
	var lines []string
	topic := strings.TrimPrefix(args, "/")
	for _, k := range commands {
		if topic == "" || topic == k.name {
			lines = append(lines, fmt.Sprintf("  %-26s %s", strings.TrimSpace("/"+k.name+" "+k.args), k.does))
		}
	}
	for _, k := range c.files {
		if (topic == "" || topic == k.Name) && !isBuiltin(k.Name) {
			does := k.Description
			if k.Untrusted {
				does = "of the project, not trusted yet"
			}
			lines = append(lines, fmt.Sprintf("  %-26s %s", safe(strings.TrimSpace("/"+k.Name+" "+k.ArgumentHint)), safe(text.Clip(does, 200))))
		}
	}
	switch {
	case topic == "keys":
		for _, k := range keyHelp {
			lines = append(lines, fmt.Sprintf("  %-34s %s", k[0], k[1]))
		}
	case topic == "":
		lines = append(lines, "  !COMMAND                   run a command; !!COMMAND does not tell the model",
			"  @PATH                      attach a file or a directory",
			"  //TEXT                     send /TEXT; /help keys lists the keys")
	case lines == nil:
		lines = []string{"There is no command /" + safe(topic) + ". /help lists them."}
	}
	c.print(kindLine, lines...)
}

// keyHelp is the table of keys.
var keyHelp = [][2]string{
	{"Enter", "send; during a turn: steer it"},
	{"Tab", "complete; during a turn: queue the message"},
	{"Shift-Tab", "next mode: plan, ask, auto, yolo"},
	{"Alt-Enter, Ctrl-J, \\ Enter", "new line"},
	{"Esc · Esc Esc", "stop the turn · edit the last message"},
	{"Ctrl-C", "clear, stop, twice: leave"},
	{"Ctrl-D · Ctrl-Z", "leave if empty · suspend"},
	{"Up/Down · Ctrl-P/N · Ctrl-R", "row, then history · history · search it"},
	{"Ctrl-A/E · Ctrl-B/F · Alt-B/F", "row start and end · character · word"},
	{"Ctrl-W · Alt-D · Ctrl-K · Ctrl-U", "delete word back, on, to the end, to the start"},
	{"Ctrl-Y · Alt-Y · Ctrl-_", "yank · older · undo"},
	{"Ctrl-X Ctrl-E, Ctrl-G", "edit in $VISUAL or $EDITOR"},
	{"Ctrl-T · Ctrl-O", "reasoning · the turn in the pager"},
	{"Ctrl-L", "clear the screen"},
}

func (c *chat) helpTopics() ([]string, bool) {
	names := []string{"keys"}
	for _, k := range commands {
		names = append(names, k.name)
	}
	return names, true
}
