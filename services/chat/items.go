package chat

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
	itemsMax = 200
	itemsMiB = 16 << 20
)

func (i *items) limit() { i.first = 1 }

// next returns the number of the next item.
func (i *items) next() int { return i.first + len(i.list) }

// add keeps an item and returns its number. The oldest ones go.
func (i *items) add(title string, lines []string) int {
	it := item{title: title, lines: lines}
	for _, line := range lines {
		it.bytes += len(line) + 16
	}
	i.list = append(i.list, it)
	i.bytes += it.bytes
	for len(i.list) > itemsMax || i.bytes > itemsMiB && len(i.list) > 1 {
		i.bytes -= i.list[0].bytes
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
