package page

import (
	"cmp"
	"fmt"
	"strings"
)

// body is a text of the page as the file shows it.
type body struct {
	text  string // the content of the block
	below string // a line below the block, "" for none
	file  string // with the whole text, "" if the block shows it
}

// wholeMax is the number of bytes of a text that its own file gets.
const wholeMax = 64 << 20

// body returns a text as the file shows it: escaped, and cut if it is too long. Then
// the whole is kept in an overflow file. JSON stays valid JSON.
func (t *transition) body(text string, isJSON bool) body {
	limit := cmp.Or(t.job.fence.bodyMax, t.options.BodyMax)
	if !isJSON {
		short, left := escapeUpTo(text, limit)
		if left == 0 {
			return body{text: short}
		}
		file, where := t.keep(text)
		return body{text: fmt.Sprintf("%s\n... (%d more bytes left out, %s) ...", short, left, where), file: file}
	}
	// A carriage return stands only between the tokens of JSON, where escape would
	// damage it.
	whole := escape(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"))
	if len(whole) <= limit {
		return body{text: whole}
	}
	file, where := t.keep(text)
	return body{cutJSON(whole, limit), fmt.Sprintf("... (%d bytes in all, %s) ...", len(text), where), file}
}

// append appends the body as a block.
func (b *body) append(out []byte, info, eol string) []byte {
	if out = fenced(out, info, b.text, eol); b.below != "" {
		out = append(append(out, b.below...), eol...)
	}
	return out
}

// keep stores a text in the next overflow file. It returns its name, and words that say
// where the text is.
func (t *transition) keep(text string) (file, where string) {
	if t.view.NoKeep {
		return "", "the whole could not be stored"
	}
	t.kept++
	file = fmt.Sprintf("debug/%s/%d.txt", t.options.full(), t.kept)
	if len(text) > wholeMax {
		text = text[:wholeMax]
		t.act(Keep{file, text})
		return file, fmt.Sprintf("the first %d are in %s", wholeMax, file)
	}
	t.act(Keep{file, text})
	return file, "the whole is in " + file
}

// reportWhole adds to the end of the job where the whole result is.
func (t *transition) reportWhole(b body) {
	for i, a := range t.actions {
		if done, ok := a.(Done); ok && done.Job == t.job.id && b.file != "" {
			done.Inline, done.Whole = b.text, b.file
			t.actions[i] = done
		}
	}
}

// clip bounds a text of the page that is kept in memory.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	text := strings.ToValidUTF8(s[:limit], "") // a character may be cut in two
	return fmt.Sprintf("%s\n... (%d more bytes left out) ...", text, len(s)-len(text))
}
