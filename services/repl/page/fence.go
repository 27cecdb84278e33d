package page

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	markdown "zino/pkg/text"
)

// parsed is a line as the fence parser sees it.
type parsed struct {
	fence markdown.Fence // the state behind the line
	part  markdown.Part
	text  []byte
}

// parts returns the lines of a text from a place outside of any fence on. A byte
// order mark is not part of a line.
func parts(text []byte, from int) iter.Seq2[line, parsed] {
	return func(yield func(line, parsed) bool) {
		var f markdown.Fence
		for i := from; i < len(text); {
			at := lineAt(text, i)
			p := parsed{text: at.of(text)}
			if i == 0 {
				p.text = bytes.TrimPrefix(p.text, []byte(bom))
			}
			p.part = f.Next(p.text)
			p.fence = f
			if !yield(at, p) {
				return
			}
			i = at.next
		}
	}
}

const (
	outside = markdown.Outside
	opens   = markdown.Opens
	closes  = markdown.Closes
)

// block is a closed fenced block of a text.
type block struct {
	from, next int // position of the whole, with its fences
	code, end  int // position of the content
	indent     int // of the opening fence
	info       string
}

// text returns the content of the block without the indent of its fence.
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

// label returns the first word of a fence's info string in lower case, and the rest.
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

// compiled are the labels of code that a page could run only after a compiler did.
var compiled = []string{"ts", "typescript", "tsx", "jsx"}

// runs reports whether blocks with this info string are code of a language.
func runs(info, lang string) bool {
	first, _ := label(info)
	return first == "" || first == lang || slices.Contains(labels[lang], first)
}

// fenced appends a fenced block whose fence no line of the body can close. The
// body must be escaped; unless it is empty it gets a line end.
func fenced(out []byte, info, body, eol string) []byte {
	fence := markdown.FenceFor(body)
	out = append(append(append(out, fence...), info...), eol...)
	if body != "" {
		out = append(append(out, strings.ReplaceAll(body, "\n", eol)...), eol...)
	}
	return append(append(out, fence...), eol...)
}
