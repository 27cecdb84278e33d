package chat

import (
	"fmt"
	"strings"

	"zino/services/chat/input"
	"zino/services/chat/screen"
)

// picker is a list from which one row is chosen. It takes the place of the editor.
type picker struct {
	title  string
	rows   []string // what is shown
	filter string
	at     int // of the shown ones
	toggle func()
	choose func(i int)
	cancel func() // nil: nothing is to be done
}

// pick shows a list.
func (c *chat) pick(p *picker) {
	c.closeMenu()
	c.picker = p
}

// shown returns the indices of the rows that the filter leaves.
func (p *picker) shown() (list []int) {
	words := strings.Fields(strings.ToLower(p.filter))
next:
	for i, row := range p.rows {
		row = strings.ToLower(row)
		for _, word := range words {
			if !strings.Contains(row, word) {
				continue next
			}
		}
		list = append(list, i)
	}
	return list
}

func (p *picker) filterBy(s string) {
	p.filter += s
	p.at = 0
}

// page is how many rows PageUp and PageDown move.
const page = 10

func (p *picker) key(c *chat, key input.Key) {
	shown := p.shown()
	last := max(0, len(shown)-1)
	switch key.Name {
	case "esc", "ctrl+c", "ctrl+d", "ctrl+g":
		c.picker = nil
		if p.cancel != nil {
			p.cancel()
		}
	case "enter":
		if p.at < len(shown) {
			c.picker = nil
			p.choose(shown[p.at])
		}
	case "up", "ctrl+p", "shift+tab":
		p.at = max(0, p.at-1)
	case "down", "ctrl+n", "tab":
		p.at = min(last, p.at+1)
	case "pgup":
		p.at = max(0, p.at-page)
	case "pgdown":
		p.at = min(last, p.at+page)
	case "home", "ctrl+a":
		p.at = 0
	case "end", "ctrl+e":
		p.at = last
	case "backspace", "ctrl+h":
		if r := []rune(p.filter); len(r) > 0 {
			p.filter, p.at = string(r[:len(r)-1]), 0
		}
	case "ctrl+u":
		p.filter, p.at = "", 0
	default:
		if key.Name == "a" && p.filter == "" && p.toggle != nil {
			p.toggle()
			return
		}
		if key.Text != "" {
			p.filterBy(key.Text)
		}
	}
}

// region returns the region with the list in the place of the editor.
func (p *picker) region(c *chat, rows []string, width, height int) screen.Region {
	title := p.title
	if p.filter != "" {
		title = visible(p.filter) + " · " + title
	}
	rows = append(rows, c.paint(screen.Style{Bold: true}, c.widths.Clip(title, width-1)))
	shown := p.shown()
	if len(shown) == 0 {
		rows = append(rows, c.dim("  nothing matches"))
		return screen.Region{Rows: rows, Row: len(rows) - 1}
	}
	if c.start.Chat.ScreenReader { // one row, which is read when it changes
		row := fmt.Sprintf("%d of %d: %s", p.at+1, len(shown), p.rows[shown[p.at]])
		return screen.Region{Rows: append(rows, row), Row: len(rows)}
	}
	room := max(1, min(height/2, height-len(rows)-2))
	from := max(0, p.at-room+1)
	cursor := len(rows)
	for i := from; i < min(len(shown), from+room); i++ {
		row := c.widths.Clip("  "+p.rows[shown[i]], width-1)
		if i == p.at {
			cursor = len(rows)
			row = c.paint(screen.Style{Bold: true}, "> "+strings.TrimPrefix(row, "  "))
		}
		rows = append(rows, row)
	}
	return screen.Region{Rows: rows, Row: cursor}
}
