package chat

import "strings"

// items are what was printed folded: /show prints it whole.
type items struct {
	list  []item
	first int // the number of list[0]
	bytes int
}

type item struct {
	title string
	lines []string
	bytes int
}

const (
	itemsMax    = 200
	itemBytes   = 16 << 20
	unfoldedMax = 16 << 20
)

func (i *items) limit() { i.first = 1 }

// add keeps an item and returns its number. The oldest ones go.
func (i *items) add(title string, lines []string) int {
	it := item{title: title, lines: lines}
	for _, line := range lines {
		it.bytes += len(line) + 16
	}
	i.list = append(i.list, it)
	i.bytes += it.bytes
	for len(i.list) > itemsMax || i.bytes > itemBytes && len(i.list) > 1 {
		i.bytes -= i.list[0].bytes
		i.list[0] = item{}
		i.list = i.list[1:]
		i.first++
	}
	return i.first + len(i.list) - 1
}

// get returns an item. gone says that it was one.
func (i *items) get(number int) (it item, ok, gone bool) {
	n := number - i.first
	if n < 0 {
		return it, false, number > 0
	}
	if n >= len(i.list) {
		return it, false, false
	}
	return i.list[n], true, false
}

// unfolded is the last turn with nothing folded, for the pager.
type unfolded struct {
	text    strings.Builder
	open    bool // the turn has not ended
	partial bool // more came than is kept
}

// restart begins a turn.
func (u *unfolded) restart() {
	u.text.Reset()
	u.open, u.partial = true, false
}

// finish ends the turn: what is printed after the turn is not part of it.
func (u *unfolded) finish() { u.open = false }

// add adds printed text, with a newline at its end.
func (u *unfolded) add(s string) {
	switch {
	case !u.open || u.partial:
	case u.text.Len()+len(s) > unfoldedMax:
		u.partial = true
		u.text.WriteString("\n… the rest is too long for the pager: see /export\n")
	default:
		u.text.WriteString(s)
	}
}

// String returns the text; "": there was no turn yet.
func (u *unfolded) String() string { return strings.TrimLeft(u.text.String(), "\n") }
