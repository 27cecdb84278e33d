package page

import (
	"bytes"
	"slices"
	"strings"
)

// fence is the state of a parser of fenced code blocks, by the rules of CommonMark.
// The zero value is outside of one.
type fence struct {
	char   byte // of the fence, 0 outside
	length int
	indent int
	info   string
}

// part is what a line is to the fences.
type part int

const (
	outside part = iota
	opens
	inside
	closes
)

// step takes the next line, without its end.
func (f *fence) step(text []byte) part {
	char, length, indent, rest := fenceRun(text)
	switch {
	case f.char != 0:
		if char != f.char || length < f.length || !isBlank(rest) {
			return inside
		}
		*f = fence{}
		return closes
	case length < 3 || char == '`' && bytes.IndexByte(rest, '`') >= 0:
		return outside
	}
	*f = fence{char, length, indent, strings.Trim(string(rest), " \t")}
	return opens
}

// fenceRun takes a line apart that may be a fence: at most three blanks, a run
// of one character, and the rest.
func fenceRun(text []byte) (char byte, length, indent int, rest []byte) {
	for indent < len(text) && text[indent] == ' ' {
		indent++
	}
	if indent > 3 || indent == len(text) {
		return 0, 0, 0, nil
	}
	if char = text[indent]; char != '`' && char != '~' {
		return 0, 0, 0, nil
	}
	rest = bytes.TrimLeft(text[indent:], string(char))
	return char, len(text) - indent - len(rest), indent, rest
}

// block is a closed fenced block of a text.
type block struct {
	from, next int // the place of the whole, up to behind the closing line
	code, end  int // what stands between the fences
	indent     int
	info       string
}

// text is the block's content, without the indent that the fence has.
func (b *block) text(in []byte) []byte {
	content := in[b.code:b.end]
	if b.indent == 0 {
		return content
	}
	var out []byte
	for i := 0; i < len(content); {
		l := lineAt(content, i)
		whole := content[l.from:l.next]
		n := 0
		for n < b.indent && n < len(whole) && whole[n] == ' ' {
			n++
		}
		out, i = append(out, whole[n:]...), l.next
	}
	return out
}

// label is the first word of a fence's info string in lower case, and the rest.
func label(info string) (first, rest string) {
	first, rest, _ = strings.Cut(info, " ")
	if before, after, ok := strings.Cut(first, "\t"); ok {
		first, rest = before, after+" "+rest
	}
	return strings.ToLower(first), strings.TrimSpace(rest)
}

// labels are the fence labels of the languages that have more than one.
var labels = map[string][]string{
	"js": {"js", "javascript", "mjs"},
	"py": {"py", "python", "python3"},
}

// runs reports whether blocks with this info string are code of a language.
func runs(info, lang string) bool {
	first, _ := label(info)
	if first == "" || first == lang {
		return true
	}
	return slices.Contains(labels[lang], first)
}
