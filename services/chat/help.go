package chat

import (
	"fmt"
	"strings"
)

func (c *chat) help(args string) {
	var lines []string
	if args == "keys" {
		for _, k := range keyHelp {
			lines = append(lines, fmt.Sprintf("  %-34s %s", k[0], k[1]))
		}
	} else {
		for _, k := range commands {
			lines = append(lines, fmt.Sprintf("  %-26s %s", "/"+strings.TrimSpace(k.name+" "+k.args), k.does))
		}
		lines = append(lines, "  //text sends /text; /help keys lists the keys")
	}
	c.print(kindLine, lines...)
}

// keyHelp is the table of keys.
var keyHelp = [][2]string{
	{"Enter", "send; during a turn: steer it"},
	{"Tab", "complete; during a turn: queue the message"},
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
