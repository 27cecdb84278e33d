package handoff

import "strings"

// fences tells which lines of a Markdown text are in a block of code.
type fences struct {
	nested bool     // a block in a block ends before the outer one does
	open   []string // the fences of the blocks that are open
}

// take takes in a line and reports whether it belongs to a block, as code or
// as its fence.
func (f *fences) take(line string) bool {
	fence, language := fenceOf(line)
	n := len(f.open)
	switch {
	case n == 0 && fence == "":
		return false
	case n == 0, f.nested && fence != "" && language != "":
		f.open = append(f.open, fence)
	case closes(line, f.open[n-1]):
		f.open = f.open[:n-1]
	}
	return true
}

// fenceOf is the fence that a line opens a block of code with, and the language
// behind it; "" if it opens none.
func fenceOf(line string) (fence, language string) {
	line = strings.TrimSpace(line)
	for _, c := range []string{"`", "~"} {
		language = strings.TrimLeft(line, c)
		if n := len(line) - len(language); n >= 3 && (c == "~" || !strings.Contains(language, "`")) {
			return line[:n], strings.TrimSpace(language)
		}
	}
	return "", ""
}

// closes reports whether a line ends the block that a fence opened.
func closes(line, fence string) bool {
	line = strings.TrimSpace(line)
	return len(line) >= len(fence) && strings.Trim(line, fence[:1]) == ""
}

// block is a block of code.
type block struct{ language, text string }

// blocks are the blocks of code in a text. One that is not closed ends with it.
func blocks(text string) (list []block) {
	fence := ""
	for line := range strings.SplitSeq(text, "\n") {
		opened, language := fenceOf(line)
		switch {
		case fence == "" && opened != "":
			fence = opened
			list = append(list, block{language: strings.ToLower(language)})
		case fence != "" && closes(line, fence):
			fence = ""
		case fence != "":
			list[len(list)-1].text += line + "\n"
		}
	}
	return list
}

// unfenced is what is in the block of code that a text consists of, from its
// first fence to its last line, with at most a line of remarks in front. Any
// other text stays.
func unfenced(text string) string {
	lines := trimLines(strings.Split(text, "\n"))
	for i, line := range lines {
		fence, _ := fenceOf(line)
		if last := len(lines) - 1; fence != "" && i < last && closes(lines[last], fence) {
			return strings.Join(lines[i+1:last], "\n")
		}
		if fence != "" || i > 0 && strings.TrimSpace(line) != "" {
			break
		}
	}
	return text
}
