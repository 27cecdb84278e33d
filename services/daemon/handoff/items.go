package handoff

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// item is an item of a list.
type item struct {
	text string
	done bool // its box is ticked
}

var (
	bullet  = regexp.MustCompile(`^\s*(?:[-*+•]|\d+[.)])\s+(.*)$`)
	tickbox = regexp.MustCompile(`^\s*\[([ xX]?)\]\s*(.*)$`)
)

// items are the items of the lists in a text; where it has no list, its lines.
// Lines that are indented go on with an item.
func items(text string) (list []item) {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
		fence, _ := fenceOf(line)
		return fence != "" || idle(line)
	})
	listed := slices.ContainsFunc(lines, func(line string) bool { _, ok := itemOf(line); return ok })
	for _, line := range lines {
		it, ok := itemOf(line)
		switch n := len(list); {
		case ok || !listed:
			list = append(list, it)
		case n > 0 && strings.TrimLeft(line, " \t") != line:
			list[n-1].text += " " + strings.TrimSpace(line)
		}
	}
	return list
}

// itemOf reads a line. ok says that it begins an item.
func itemOf(line string) (it item, ok bool) {
	it.text = strings.TrimSpace(line)
	if m := bullet.FindStringSubmatch(line); m != nil {
		it.text, ok = m[1], true
	}
	if m := tickbox.FindStringSubmatch(it.text); m != nil {
		it.text, it.done, ok = m[2], strings.EqualFold(m[1], "x"), true
	}
	return it, ok
}

var (
	link       = regexp.MustCompile(`^\[([^\]]+)\]\(`)
	lineNumber = regexp.MustCompile(`:\d+([-:]\d+)?$`)
)

// pathOf is the path that an item begins with: in a code span, as a link, or in
// front of a remark.
func pathOf(text string) string {
	if m := link.FindStringSubmatch(text); m != nil {
		text = m[1]
	}
	if code := spanned(text); code != "" {
		text = code
	} else {
		for _, remark := range []string{" — ", " – ", " - ", ": ", " (", " #"} {
			text, _, _ = strings.Cut(text, remark)
		}
	}
	return lineNumber.ReplaceAllString(strings.Trim(text, "*\"' \t,;:"), "")
}

// spanned is the code span that a text begins with, "" if it begins with none.
func spanned(text string) string {
	text = strings.TrimLeft(text, "*_")
	code := strings.TrimLeft(text, "`")
	mark := text[:len(text)-len(code)]
	code, _, ok := strings.Cut(code, mark)
	if mark == "" || !ok {
		return ""
	}
	return strings.TrimSpace(code)
}

// shells are the languages of blocks that hold commands.
var shells = []string{"", "sh", "bash", "shell", "zsh", "console", "shell-session", "terminal"}

// commands are the lines of the commands in a text: of its blocks of code, or of
// its list if it has none. Of a dialogue with a shell it is what was typed.
func commands(text string) (lines []string) {
	all := blocks(text)
	for _, b := range all {
		if slices.Contains(shells, b.language) {
			lines = append(lines, strings.Split(strings.Trim(b.text, "\n"), "\n")...)
		}
	}
	if len(all) == 0 {
		for _, it := range items(text) {
			lines = append(lines, cmp.Or(spanned(it.text), it.text))
		}
	}
	return typed(lines)
}

// typed leaves out the prompts and the output of a dialogue.
func typed(lines []string) []string {
	const prompt = "$ "
	isTyped := func(line string) bool { return strings.HasPrefix(line, prompt) }
	if !slices.ContainsFunc(lines, isTyped) {
		return lines
	}
	var list []string
	for _, line := range lines {
		if isTyped(line) {
			list = append(list, strings.TrimPrefix(line, prompt))
		}
	}
	return list
}
