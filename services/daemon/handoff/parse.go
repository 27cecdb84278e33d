package handoff

import (
	"regexp"
	"strings"
	"unicode"
)

// sections reads what a model wrote and returns the text of each of the five
// sections that is there, by name. Headings of any level count, and lines in
// bold; what is in a block of code is no heading. Of several headings of one
// name the one of the highest level counts, and of those the last: the others
// are part of a text. Some models put all of it into one block, and blocks into
// blocks that are closed by the inner one's end: what makes sense of most
// headings is taken.
func sections(answer string) map[string]string {
	lines := strings.Split(strings.ReplaceAll(strings.TrimPrefix(answer, "\ufeff"), "\r\n", "\n"), "\n")
	readings := [][]string{lines}
	if inner := unwrapped(lines); inner != nil {
		readings = append(readings, inner)
	}
	var best map[string]string
	for _, reading := range readings {
		for _, nested := range []bool{false, true} {
			if found := cut(reading, nested); best == nil || len(found) > len(best) {
				best = found
			}
		}
	}
	return best
}

// unwrapped are the lines without the block of code that stands around them, nil
// if none begins in front of the first section.
func unwrapped(lines []string) []string {
	for i, line := range lines {
		if h, ok := headingOf(line); ok && h.name != "" {
			return nil
		}
		if fence, _ := fenceOf(line); fence != "" {
			inner := trimLines(lines[i+1:])
			if n := len(inner); n > 0 && closes(inner[n-1], fence) {
				inner = inner[:n-1]
			}
			return inner
		}
	}
	return nil
}

// heading is a line that begins a section.
type heading struct {
	line  int
	level int    // 1 to 6, 7 for a line in bold
	name  string // "" for a section that is none of the five
	rest  string // what stands behind the name in its line
}

// cut divides the lines into sections.
func cut(lines []string, nested bool) map[string]string {
	all := headings(lines, nested)
	best := map[string]heading{}
	for _, h := range all {
		if other, ok := best[h.name]; h.name != "" && (!ok || h.level <= other.level) {
			best[h.name] = h
		}
	}
	found := map[string]string{}
	for name, h := range best {
		end := len(lines)
		for _, next := range all {
			if next.line > h.line && (next.name == "" && next.level <= h.level || next.name != "" && best[next.name] == next) {
				end = next.line
				break
			}
		}
		found[name] = strings.Join(trimLines(append([]string{h.rest}, lines[h.line+1:end]...)), "\n")
	}
	return found
}

// headings are the headings outside of blocks of code.
func headings(lines []string, nested bool) (all []heading) {
	code := fences{nested: nested}
	for i, line := range lines {
		if code.take(line) {
			continue
		}
		if h, ok := headingOf(line); ok {
			h.line = i
			all = append(all, h)
		}
	}
	return all
}

// headingOf reads a line as a heading.
func headingOf(line string) (h heading, ok bool) {
	line = strings.TrimSpace(line)
	if title := strings.TrimLeft(line, "#"); title != line {
		h.level = len(line) - len(title)
		h.title(strings.TrimRight(title, "# \t"))
		return h, h.level <= 6 && (title == "" || strings.ContainsAny(title[:1], " \t") || h.name != "")
	}
	for _, bold := range []string{"**", "__"} {
		if rest, found := strings.CutPrefix(line, bold); found {
			title, rest, found := strings.Cut(rest, bold)
			h.level = 7
			h.title(title + rest)
			return h, found && (rest == "" || h.name != "" && strings.Contains(line, ":"))
		}
	}
	return h, false
}

// title reads the text of a heading: a name, and perhaps something behind it.
func (h *heading) title(text string) {
	if h.name = sectionOf(text); h.name != "" {
		return
	}
	before, after, _ := strings.Cut(text, ":")
	if h.name = sectionOf(before); h.name != "" {
		h.rest = strings.TrimSpace(strings.TrimLeft(after, "*_"))
	}
}

// sectionOf is the section that a title names, whatever its case and marks are
// and what is remarked in brackets; "" for none.
func sectionOf(title string) string {
	title, _, _ = strings.Cut(title, "(")
	title = strings.Join(strings.FieldsFunc(title, func(r rune) bool { return !unicode.IsLetter(r) }), " ")
	for _, name := range sectionNames {
		if strings.EqualFold(title, name) {
			return name
		}
	}
	return ""
}

// trimLines leaves out blank lines, and those that only draw a rule, at both ends.
func trimLines(lines []string) []string {
	for len(lines) > 0 && idle(lines[0]) {
		lines = lines[1:]
	}
	for len(lines) > 0 && idle(lines[len(lines)-1]) {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// rule finds lines that only draw a rule.
var rule = regexp.MustCompile(`^\s*(-{3,}|\*{3,}|_{3,})\s*$`)

func idle(line string) bool { return strings.TrimSpace(line) == "" || rule.MatchString(line) }
