package page

import (
	"bytes"
	"strings"
)

// header is a line of the form "> **name** to page at HH:MM:SS".
type header struct {
	name, page string
	time       string // "" if there is none
}

// exact reports whether a header is as it should be.
func (h *header) exact() bool { return h.time != "" && !strings.ContainsAny(h.name, " \t") }

// nameMax is how long a name in a header may be, in bytes.
const nameMax = 200

// request parses the header of a request. A line that this page could have
// written, and one with anything behind the time, is none.
func (o *Options) request(text []byte) (h header, ok bool) {
	rest, ok := bytes.CutPrefix(bytes.TrimRight(text, " \t"), []byte("> **"))
	if !ok {
		return h, false
	}
	name, rest, ok := bytes.Cut(rest, []byte("** to "))
	h.name = strings.TrimSpace(string(name))
	if !ok || h.name == "" || len(name) > nameMax || strings.Contains(h.name, "**") || o.isSelf(h.name) {
		return h, false
	}
	page, at, _ := bytes.Cut(rest, []byte(" "))
	if h.page = string(page); h.page == "" || len(page) > nameMax {
		return h, false
	}
	if len(at) > 0 {
		clock, ok := bytes.CutPrefix(at, []byte("at "))
		if !ok || !isClock(clock) {
			return h, false
		}
		h.time = string(clock)
	}
	return h, true
}

// agentName is who asks if nobody says.
const agentName = "agent"

// agent makes a name that can stand in a header.
func (o *Options) agent(name string) string {
	name, _ = escapeUpTo(strings.ReplaceAll(oneLine(name), "*", ""), 80)
	if name = strings.TrimSpace(name); name == "" || o.isSelf(name) {
		return agentName
	}
	return name
}

// isSelf reports whether a name is this page's.
func (o *Options) isSelf(name string) bool {
	return strings.EqualFold(name, o.full()) || strings.EqualFold(name, o.Name)
}

// isClock reports whether a text is a time of the form HH:MM:SS.
func isClock(b []byte) bool {
	if len(b) != 8 || b[2] != ':' || b[5] != ':' {
		return false
	}
	for _, i := range [...]int{0, 1, 3, 4, 6, 7} {
		if b[i] < '0' || b[i] > '9' {
			return false
		}
	}
	return true
}

// mark is what a line of the service is.
type mark int

const (
	noMark    mark = iota
	announces      // "> **page** to agent at HH:MM:SS": above a placeholder
	replies        // the same with a duration
	reports        // "> **page** background at HH:MM:SS", or note
)

// mark tells whether a line has the form of one that this page's service writes,
// and for whom. Replies may leave the page's id out.
func (o *Options) mark(text []byte) (kind mark, agent string) {
	name, kind, agent := spoken(text)
	if name == o.full() || kind == replies && o.isSelf(name) {
		return kind, agent
	}
	return noMark, ""
}

// answers reports whether a line that stands below a block shows that it was
// answered: by this page under another name or id, or by another page.
func (o *Options) answers(text []byte) bool {
	name, kind, _ := spoken(text)
	return kind == replies || kind == announces && o.isSelf(name)
}

// spoken takes a line apart that has the form of a service's: of which page it
// is, and for whom.
func spoken(text []byte) (name string, kind mark, agent string) {
	rest, ok := bytes.CutPrefix(bytes.TrimRight(text, " \t"), []byte("> **"))
	if !ok {
		return "", noMark, ""
	}
	page, rest, ok := bytes.Cut(rest, []byte("** "))
	if !ok || len(page) > nameMax {
		return "", noMark, ""
	}
	kind, agent = said(rest)
	return string(page), kind, agent
}

// said is what stands behind the name in a service's line.
func said(rest []byte) (kind mark, agent string) {
	kind = announces
	if i := bytes.LastIndex(rest, []byte(" (")); i >= 0 && bytes.HasSuffix(rest, []byte(")")) {
		rest, kind = rest[:i], replies
	}
	n := len(rest) - len(" at HH:MM:SS")
	if n < 0 || string(rest[n:n+4]) != " at " || !isClock(rest[n+4:]) {
		return noMark, ""
	}
	if what := string(rest[:n]); what == "background" || what == "note" {
		return reports, ""
	}
	to, ok := bytes.CutPrefix(rest[:n], []byte("to "))
	if !ok || isBlank(to) {
		return noMark, ""
	}
	return kind, string(to)
}

// isFooter reports whether a line is the footer.
func (o *Options) isFooter(text []byte) bool {
	return string(bytes.TrimRight(text, " \t")) == o.Footer
}

// placeholder parses "executing (5s)".
func placeholder(text []byte) (seconds string, ok bool) {
	rest, ok := bytes.CutPrefix(bytes.TrimRight(text, " \t"), []byte("executing ("))
	if !ok || len(rest) < 3 || len(rest) > 12 || string(rest[len(rest)-2:]) != "s)" {
		return "", false
	}
	digits := rest[:len(rest)-2]
	for _, c := range digits {
		if c < '0' || c > '9' {
			return "", false
		}
	}
	return string(digits), true
}
