package chat

import (
	"fmt"
	"strings"
	"time"

	"zino/proto"
	"zino/services/chat/input"
	"zino/services/chat/screen"
)

// picker is a list from which one line is chosen. It takes the place of the editor.
type picker struct {
	title  string
	rows   []string // what is shown
	filter string
	at     int // of the shown ones
	toggle func()
	choose func(i int)
}

// shown returns the indices of the rows that the filter leaves.
func (p *picker) shown() (list []int) {
	words := strings.Fields(strings.ToLower(p.filter))
next:
	for i, row := range p.rows {
		for _, word := range words {
			if !strings.Contains(strings.ToLower(row), word) {
				continue next
			}
		}
		list = append(list, i)
	}
	return list
}

func (p *picker) filterBy(c *chat, s string) {
	p.filter += s
	p.at = 0
}

func (p *picker) key(c *chat, key input.Key) {
	shown := p.shown()
	switch key.Name {
	case "esc", "ctrl+c", "ctrl+d", "ctrl+g":
		c.picker = nil
	case "enter":
		c.picker = nil
		if p.at < len(shown) {
			p.choose(shown[p.at])
		}
	case "up", "ctrl+p":
		p.at = max(0, p.at-1)
	case "down", "ctrl+n":
		p.at = max(0, min(len(shown)-1, p.at+1))
	case "backspace":
		if r := []rune(p.filter); len(r) > 0 {
			p.filter, p.at = string(r[:len(r)-1]), 0
		}
	default:
		if key.Name == "a" && p.filter == "" && p.toggle != nil {
			p.toggle()
			return
		}
		p.filterBy(c, key.Text)
	}
}

// region returns the region with the list in the place of the editor.
func (p *picker) region(c *chat, rows []string, width, height int) screen.Region {
	title := p.title
	if p.filter != "" {
		title += " · " + visible(p.filter)
	}
	rows = append(rows, c.paint(screen.Style{Bold: true}, c.widths.Clip(title, width-1)))
	shown := p.shown()
	room := max(1, min(height/2, height-len(rows)-2))
	from := max(0, p.at-room+1)
	for i := from; i < min(len(shown), from+room); i++ {
		mark := "  "
		if i == p.at {
			mark = "> "
		}
		row := c.widths.Clip(mark+p.rows[shown[i]], width-1)
		if i == p.at {
			row = c.paint(screen.Style{Bold: true}, row)
		}
		rows = append(rows, row)
	}
	if len(shown) == 0 {
		rows = append(rows, c.dim("  nothing matches"))
	}
	return screen.Region{Rows: rows, Row: len(rows) - 1, Col: 0}
}

// pickSession opens the list of sessions, those of this directory or all.
func (c *chat) pickSession(all bool) {
	req := proto.ListSessions{Limit: 200}
	if !all {
		req.Root = c.root
	}
	forward(c, "mem", proto.MemListSessions, req, func(list proto.SessionList, err error) {
		if err != nil {
			c.fail(errorOf(err))
			return
		}
		if len(list.Sessions) == 0 && !all {
			c.pickSession(true)
			return
		}
		if len(list.Sessions) == 0 {
			c.say("There are no sessions.")
			return
		}
		title := "Sessions in " + safe(home(c.root)) + " · type to filter · a: all directories · Enter · Esc"
		if all {
			title = "Sessions · type to filter · a: this directory · Enter · Esc"
		}
		width, _ := c.screen.Size()
		p := &picker{title: title}
		for _, s := range list.Sessions {
			p.rows = append(p.rows, c.sessionRow(s, width))
		}
		p.toggle = func() { c.pickSession(!all) }
		p.choose = func(i int) { c.goOn(list.Sessions[i]) }
		c.picker = p
	})
}

// sessionRow describes a session on a line.
func (c *chat) sessionRow(s proto.SessionSummary, width int) string {
	when := safe(s.Updated)
	if t, err := time.Parse(time.RFC3339, s.Updated); err == nil {
		when = t.Local().Format("2006-01-02 15:04")
	}
	title := safe(s.Title)
	if title == "" {
		title = safe(s.Text)
	}
	tail := fmt.Sprintf("  %3d messages", s.Messages)
	if s.CostUSD != nil {
		tail += fmt.Sprintf("  $%.2f", *s.CostUSD)
	}
	head := fmt.Sprintf("%-8s  %s  ", safe(shortID(s.SessionID)), when)
	room := max(8, width-3-c.widths.Of(head)-c.widths.Of(tail))
	return head + c.widths.Pad(c.widths.Clip(title, room), room) + tail
}
