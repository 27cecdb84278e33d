package page

import (
	"bytes"
	"strings"
)

// Sanitize turns what a page calls itself into its name: lower-case ASCII letters
// and digits, one hyphen for each run of anything else between them, at most 80
// characters, "page" if nothing is left. A name can be part of a file name.
func Sanitize(name string) string {
	var b strings.Builder
	gap := false
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			gap = b.Len() > 0
			continue
		}
		if gap && b.Len()+2 > sanitizedMax || b.Len() == sanitizedMax {
			break
		}
		if gap {
			b.WriteByte('-')
			gap = false
		}
		b.WriteRune(r)
	}
	if b.Len() == 0 {
		return "page"
	}
	return b.String()
}

const sanitizedMax = 80

// IsShortID reports whether a text is well formed as a short id: 4 to 8 lower-case
// hexadecimal digits.
func IsShortID(id string) bool {
	return len(id) >= 4 && len(id) <= 8 && strings.Trim(id, "0123456789abcdef") == ""
}

// header is a line of the form "> **agent** to page at HH:MM:SS".
type header struct {
	agent, page string
	time        string // "" if the line has none
}

// exact reports whether the header has a time and no blanks in the agent's name.
func (h *header) exact() bool { return h.time != "" && !strings.ContainsAny(h.agent, " \t") }

// nameMax is the length of a name in a header, in bytes.
const nameMax = 200

// request parses the header of a request. A line that this page could have written
// and a line with anything behind the time are not headers of requests. The agent of
// one that names the page as its agent is the default one.
func (o *Options) request(text []byte) (h header, ok bool) {
	rest, ok := bytes.CutPrefix(bytes.TrimRight(text, " \t"), []byte("> **"))
	if !ok {
		return h, false
	}
	name, rest, ok := bytes.Cut(rest, []byte("** to "))
	h.agent = strings.TrimSpace(string(name))
	if !ok || h.agent == "" || len(name) > nameMax || strings.Contains(h.agent, "**") {
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
	if o.isSelf(h.agent) {
		h.agent = defaultAgent
		return h, o.toItself(h.page)
	}
	return h, true
}

// defaultAgent is the agent of a request without a header.
const defaultAgent = "agent"

// agent turns a name into one that can stand in a header.
func (o *Options) agent(name string) string {
	name, _ = escapeUpTo(strings.ReplaceAll(oneLine(name), "*", ""), 80)
	if name = strings.TrimSpace(name); name == "" || o.isSelf(name) {
		return defaultAgent
	}
	return name
}

// isSelf reports whether a name is that of this page: the name of its file or its
// present title, with or without its id, or the id.
func (o *Options) isSelf(name string) bool {
	base := name
	if n := len(name) - len(o.ID); n > 0 && strings.EqualFold(name[n:], o.ID) && name[n-1] == '-' {
		base = name[:n-1]
	}
	return strings.EqualFold(base, o.Name) || o.title != "" && strings.EqualFold(base, o.title) || strings.EqualFold(name, o.ID)
}

// toItself reports whether a line of the page that addresses a name addresses the page:
// the service writes none.
func (o *Options) toItself(name string) bool { return o.isSelf(name) && name != defaultAgent }

// isClock reports whether b has the form HH:MM:SS.
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

// mark is a kind of line that the service writes.
type mark int

const (
	noMark    mark = iota
	announces      // "> **page** to agent at HH:MM:SS", above a placeholder
	replies        // the same with a duration
	reports        // "> **page** background at HH:MM:SS", or note
)

// mark reports whether a line has the form of one that the service writes for this
// page, and for which agent. Replies may leave out the page's id.
func (o *Options) mark(text []byte) (kind mark, agent string) {
	name, kind, agent := parseMark(text)
	switch {
	case kind == announces && o.toItself(agent):
		return noMark, ""
	case name == o.full() || kind == replies && o.isSelf(name):
		return kind, agent
	}
	return noMark, ""
}

// answers reports whether a line below a block shows that the block was answered:
// by this page under another name or id, or by another page.
func (o *Options) answers(text []byte) bool {
	_, kind, _ := parseMark(text)
	return kind == replies || o.announces(text)
}

// announces reports whether a line below a block has the form of an announcement of
// this page, with or without its id.
func (o *Options) announces(text []byte) bool {
	name, kind, agent := parseMark(text)
	return kind == announces && o.isSelf(name) && !o.toItself(agent)
}

// parseMark parses a line of the service for any page.
func parseMark(text []byte) (page string, kind mark, agent string) {
	rest, ok := bytes.CutPrefix(bytes.TrimRight(text, " \t"), []byte("> **"))
	if !ok {
		return "", noMark, ""
	}
	name, rest, ok := bytes.Cut(rest, []byte("** "))
	if !ok || len(name) > nameMax {
		return "", noMark, ""
	}
	page, kind = string(name), announces
	if i := bytes.LastIndex(rest, []byte(" (")); i >= 0 && bytes.HasSuffix(rest, []byte(")")) {
		rest, kind = rest[:i], replies
	}
	n := len(rest) - len(" at HH:MM:SS")
	if n < 0 || string(rest[n:n+4]) != " at " || !isClock(rest[n+4:]) {
		return page, noMark, ""
	}
	if what := string(rest[:n]); what == "background" || what == "note" {
		return page, reports, ""
	}
	to, ok := bytes.CutPrefix(rest[:n], []byte("to "))
	if !ok || isBlank(to) {
		return page, noMark, ""
	}
	return page, kind, string(to)
}

// isFooter reports whether a line is the footer.
func (o *Options) isFooter(text []byte) bool {
	return string(bytes.TrimRight(text, " \t")) == o.Footer
}

// placeholders begin the line below an announcement.
const (
	executingMark = "executing"
	reloadMark    = "waiting for the page to reload"
)

// placeholder parses "executing (5s)", "waiting for the page to reload (5s)", either
// with ": page busy or frozen since 22:52:47", and "executing ..." of older files. The
// seconds may be unknown.
func placeholder(text []byte) (seconds string, ok bool) {
	text = bytes.TrimRight(text, " \t")
	rest, ok := bytes.CutPrefix(text, []byte(executingMark))
	if !ok {
		if rest, ok = bytes.CutPrefix(text, []byte(reloadMark)); !ok {
			return "", false
		}
	}
	switch string(rest) {
	case "", " ...", "...", " …", "…":
		return "", true
	}
	digits, after, ok := bytes.Cut(rest, []byte("s)"))
	number, opened := bytes.CutPrefix(digits, []byte(" ("))
	if !ok || !opened || len(number) == 0 || len(number) > 9 || len(bytes.Trim(number, "0123456789")) > 0 {
		return "", false
	}
	return string(number), len(after) == 0 || bytes.HasPrefix(after, []byte(": "))
}

// isOmission reports whether a line stands for something that is left out, or says where
// it is.
func isOmission(text []byte) bool {
	return bytes.HasPrefix(text, []byte("... (")) && bytes.HasSuffix(text, []byte(") ..."))
}
