package chat

import (
	"strconv"
	"strings"

	"zino/proto"
	"zino/services/chat/screen"
)

func (c *chat) undo(args string) {
	n := 1
	if args != "" {
		var err error
		if n, err = strconv.Atoi(args); err != nil || n < 1 {
			c.refuse("/undo takes the number of turns")
			return
		}
	}
	c.undoTurns(proto.DaemonUndo, n)
}

func (c *chat) redo(string) {
	c.undoTurns(proto.DaemonRedo, 1)
}

// undoTurns takes the file changes of turns back, one turn after the other.
func (c *chat) undoTurns(method proto.Method[proto.Undo, proto.Undone], n int) {
	if c.session == "" {
		c.say("There is nothing to take back yet.")
		return
	}
	call(c, method, proto.Undo{SessionID: c.session}, func(u proto.Undone, err error) {
		if err != nil {
			c.fail(errorOf(err))
			return
		}
		var lines []string
		for _, path := range u.Restored {
			lines = append(lines, "  restored "+safe(path))
		}
		for _, path := range u.Removed {
			lines = append(lines, "  removed "+safe(path))
		}
		for _, r := range u.Refused {
			lines = append(lines, "  refused "+safe(r.Path)+": "+safe(r.Reason))
		}
		if len(u.Refused) > 0 {
			lines = append(lines, "Nothing was changed: zino undo --partial restores the rest.")
		}
		if len(lines) == 0 {
			lines = append(lines, "There is nothing to take back.")
		}
		c.print(kindLine, lines...)
		if n > 1 && len(u.Refused) == 0 {
			c.undoTurns(method, n-1)
		}
	})
}

func (c *chat) showDiff(string) {
	if c.session == "" {
		c.refuse("There are no changes yet.")
		return
	}
	call(c, proto.DaemonDiff, proto.Undo{SessionID: c.session}, func(d proto.TurnDiff, err error) {
		if err != nil {
			c.fail(errorOf(err))
			return
		}
		var lines []string
		for _, line := range outputLines(d.Diff) {
			color := screen.Default
			switch {
			case strings.HasPrefix(line, "@@"):
				color = screen.Cyan
			case strings.HasPrefix(line, "+") && !strings.HasPrefix(line, "+++"):
				color = screen.Green
			case strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "---"):
				color = screen.Red
			}
			lines = append(lines, c.paint(screen.Style{Color: color}, c.widths.ExpandTabs(line, 0)))
		}
		if len(lines) == 0 {
			lines = []string{"There are no changes."}
		}
		c.print(kindLine, lines...)
	})
}
