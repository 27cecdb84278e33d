package handoff

import "slices"

// recent keeps the last few distinct texts, the latest at the end, each with a
// note. It never holds more than max of them.
type recent struct {
	max  int
	list []noted
}

// noted is a text and what there is to say of it.
type noted struct{ text, note string }

// put adds a text at the end, or moves it there.
func (r *recent) put(text, note string) {
	r.drop(text)
	if len(r.list) == r.max {
		r.list = slices.Delete(r.list, 0, 1)
	}
	r.list = append(r.list, noted{text, note})
}

func (r *recent) drop(text string) {
	r.list = slices.DeleteFunc(r.list, func(n noted) bool { return n.text == text })
}

func (r *recent) has(text string) bool {
	return slices.ContainsFunc(r.list, func(n noted) bool { return n.text == text })
}
