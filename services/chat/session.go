package chat

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/chat/screen"
)

// can reports whether the daemon has a method.
func (c *chat) can(method string) bool { return c.methods[method] }

// connected asks the daemon what it can do, and continues the session that was named.
func (c *chat) connected() {
	go func() {
		pong, err := rpc.Call(c.ctx, c.client, proto.Ping, proto.PingRequest{})
		description, err2 := rpc.Call(c.ctx, c.client, proto.Describe, proto.DescribeRequest{})
		c.after(func() {
			if err := cmp.Or(err, err2); err != nil {
				c.fail(errorOf(err))
				c.stop(exitFailed)
				return
			}
			c.version, c.persists = pong.Version, pong.Lifetime == proto.LifetimePersistent
			c.methods = map[string]bool{}
			for _, m := range description.Methods {
				c.methods[m.Type] = true
			}
			c.identify()
		})
	}()
}

// identify learns which model answers, and prints the first line.
func (c *chat) identify() {
	forward(c, "rtr", proto.RtrCapabilities, proto.CapabilitiesRequest{}, func(caps proto.RouterCapabilities, err error) {
		if err == nil && c.model == "" && !caps.Fallback {
			c.model = caps.Model
		}
		c.greet()
		if c.start.SessionID == "" && !c.start.Latest {
			c.begun()
			return
		}
		req := proto.FindSession{SessionID: c.start.SessionID}
		if c.start.Latest {
			req.Root = c.root
		}
		c.find(req)
	})
}

// begun sends what was typed before the services were there.
func (c *chat) begun() {
	c.ready = true
	c.next()
}

// find continues a session.
func (c *chat) find(req proto.FindSession) {
	forward(c, "mem", proto.MemFindSession, req, func(s proto.SessionSummary, err error) {
		switch {
		case errors.Is(err, proto.ErrNotFound) && req.SessionID != "": // a new session of that name
			c.session = req.SessionID
		case err != nil:
			c.fail(errorOf(err))
		default:
			c.goOn(s)
			return
		}
		c.begun()
	})
}

const (
	resumedTurns = 2
	resumedLines = 40
)

// goOn shows the last turns of a session and goes on with it.
func (c *chat) goOn(s proto.SessionSummary) {
	c.session = s.SessionID
	c.retitle(cmp.Or(s.Title, s.Text))
	if s.CostUSD != nil {
		c.usage = usage{cents: *s.CostUSD, known: true, unknown: s.Unpriced > 0}
	}
	forward(c, "mem", proto.MemReadSession, proto.ReadSession{SessionID: s.SessionID}, func(events proto.SessionEvents, err error) {
		if err != nil {
			c.fail(errorOf(err))
			c.begun()
			return
		}
		c.showLast(events.Events, s.Messages)
		c.begun()
		c.joinOpenTurn()
	})
}

// showLast prints the last turns of a log.
func (c *chat) showLast(events proto.Raw, messages int) {
	type message struct{ role, text string }
	var list []message
	elements, err := wire.Elements(events)
	if err != nil {
		return
	}
	for _, event := range elements {
		var m proto.LogMessage
		typ, err := wire.ReplyType(event)
		if err != nil || typ != proto.TypeMessage || wire.DecodeReply(event, &m) != nil {
			continue
		}
		list = append(list, message{m.Role, m.Text})
	}
	from, turns := len(list), 0
	for from > 0 && turns < resumedTurns {
		from--
		if list[from].role == proto.RoleUser {
			turns++
		}
	}
	if from > 0 {
		c.print(kindLine, c.dim(fmt.Sprintf("── %d earlier messages · /show history ──", from)))
	}
	var lines []string
	for _, m := range list[from:] {
		if m.role == proto.RoleUser {
			lines = append(lines, c.quote(m.text)...)
		} else {
			stream := c.newStream()
			lines = append(lines, strings.Split(strings.TrimSuffix(stream.Write(m.text)+stream.End(), "\n"), "\n")...)
		}
		lines = append(lines, "")
	}
	if over := len(lines) - resumedLines; over > 0 {
		lines = append([]string{c.dim(fmt.Sprintf("… %d more lines", over))}, lines[over:]...)
	}
	if len(lines) > 0 {
		c.print(kindText, lines[:len(lines)-1]...)
		c.printed = kindAnswer
	}
}

// joinOpenTurn follows a turn that is under way on the session.
func (c *chat) joinOpenTurn() {
	if !c.can(proto.DaemonTurns.Type) || c.turn != nil {
		return
	}
	session := c.session
	call(c, proto.DaemonTurns, proto.ListTurns{SessionID: session}, func(list proto.TurnList, err error) {
		if err != nil || len(list.Turns) == 0 || c.turn != nil || c.session != session {
			return
		}
		c.followOpen(list.Turns[0].Turn, true)
	})
}

func (c *chat) resume(args string) {
	if args != "" {
		c.find(proto.FindSession{SessionID: args})
		return
	}
	c.pickSession(false)
}

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

// copy copies the last answer, or a block of code of it, to the clipboard.
func (c *chat) copy(args string) {
	what := c.answer
	if args != "" {
		n, err := strconv.Atoi(args)
		blocks := codeBlocks(c.answer)
		if err != nil || n < 1 || n > len(blocks) {
			c.refuse("The last answer has %s.", text.Count(len(blocks), "block of code"))
			return
		}
		what = blocks[n-1]
	}
	if what == "" {
		c.refuse("There is no answer yet.")
		return
	}
	os.Stdout.WriteString("\x1b]52;c;" + base64.StdEncoding.EncodeToString([]byte(what)) + "\x1b\\")
	for _, tool := range [][]string{{"wl-copy"}, {"xclip", "-selection", "clipboard"}, {"pbcopy"}} {
		if path, err := exec.LookPath(tool[0]); err == nil {
			cmd := exec.CommandContext(c.ctx, path, tool[1:]...)
			cmd.Stdin = strings.NewReader(what)
			go cmd.Run() // the terminal may have it already
			break
		}
	}
	c.say("Copied %s.", text.Count(strings.Count(strings.TrimSuffix(what, "\n"), "\n")+1, "line"))
}

// codeBlocks returns the contents of the fenced blocks of a text.
func codeBlocks(s string) (blocks []string) {
	for _, b := range text.Blocks(s) {
		blocks = append(blocks, b.Text)
	}
	return blocks
}

// pageTurn shows the folded items of the last turn in the pager.
func (c *chat) pageTurn() {
	var b strings.Builder
	for i, it := range c.items.list {
		if c.items.first+i < c.firstItem {
			continue
		}
		b.WriteString(it.title + "\n")
		for _, line := range it.lines {
			b.WriteString("    " + line + "\n")
		}
		b.WriteString("\n")
	}
	if c.answer != "" {
		b.WriteString(visibleText(c.answer) + "\n")
	}
	if b.Len() == 0 {
		c.say("There is nothing to show yet.")
		return
	}
	c.page(b.String())
}

// editLast brings the last message back: sending it goes on from a copy of the session
// that ends before it.
func (c *chat) editLast() {
	if c.past.Len() > 0 {
		c.recall(1)
	}
}
