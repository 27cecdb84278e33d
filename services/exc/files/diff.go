package files

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/aymanbagabas/go-udiff"
)

const (
	compareMax   = 1 << 20  // bytes of a text that is compared
	diffMax      = 64 << 10 // bytes of a diff
	contextLines = 3        // unchanged lines around a change
	changesMax   = 500      // replacements whose places are used for a diff
)

// nowhere is the name of an absent file in a diff.
const nowhere = "/dev/null"

// label is the name of a file in a diff: its path from the root if it is below that.
func label(root, path string) string {
	name := path
	if real, err := filepath.EvalSymlinks(root); err == nil {
		if rel, err := filepath.Rel(real, path); err == nil && filepath.IsLocal(rel) {
			name = rel
		}
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return strconv.Quote(name)
	}
	return name
}

// compare is the diff of a file whose content is replaced.
func compare(label string, before former, after string) string {
	if !before.known || len(after) > compareMax || !IsText(before.text) || !IsText(after) {
		return ""
	}
	from := label
	if before.absent {
		from = nowhere
	}
	return render(from, label, before.text, udiff.Lines(before.text, after), 0)
}

// isText reports whether text is UTF-8 without NUL bytes.
func IsText(text string) bool { return badByte(text) < 0 && strings.IndexByte(text, 0) < 0 }

// compareEdit is the diff of a file in which a text is replaced. Only the part with
// the changes is compared.
func compareEdit(label, before string, in editInput) string {
	if in.Old == in.New || !IsText(before) || !IsText(in.New) {
		return ""
	}
	if *in.Expected > changesMax {
		after := strings.ReplaceAll(before, in.Old, in.New)
		return compare(label, former{text: before, known: len(before) <= compareMax}, after)
	}
	start := linesBack(before, strings.Index(before, in.Old), contextLines)
	last := strings.LastIndex(before, in.Old) // may overlap the last one replaced, and ends behind it
	end := linesOn(before, last+len(in.Old), contextLines)
	if end-start > compareMax || len(in.New) > compareMax {
		return ""
	}
	part := before[start:end]
	return render(label, label, part, in.changes(part), strings.Count(before[:start], "\n"))
}

// changes are the replacements in text, each reduced to the lines that differ.
func (in editInput) changes(text string) []udiff.Edit {
	inside := udiff.Lines(in.Old, in.New)
	var all []udiff.Edit
	for at := 0; ; {
		i := strings.Index(text[at:], in.Old)
		if i < 0 {
			return all
		}
		for _, e := range inside {
			all = append(all, udiff.Edit{Start: at + i + e.Start, End: at + i + e.End, New: e.New})
		}
		at += i + len(in.Old)
	}
}

// linesBack is the offset of the line n lines before offset i.
func linesBack(text string, i, n int) int {
	for range n + 1 {
		i = strings.LastIndexByte(text[:max(i, 0)], '\n')
	}
	return i + 1
}

// linesOn is the end of the line n lines after offset i.
func linesOn(text string, i, n int) int {
	for range n + 1 {
		next := strings.IndexByte(text[i:], '\n')
		if next < 0 {
			return len(text)
		}
		i += next + 1
	}
	return i
}

// Unified is the unified diff of two texts, and the number of lines that were added
// and removed. from and to are the names in its head.
func Unified(from, to, before, after string) (diff string, added, removed int) {
	return unified(from, to, before, udiff.Lines(before, after), 0)
}

// render is the unified diff of edits to text, shortened.
func render(from, to, text string, edits []udiff.Edit, skipped int) string {
	diff, _, _ := unified(from, to, text, edits, skipped)
	return shorten(diff)
}

// unified is the unified diff of edits to text, which begins skipped lines into its
// file. The line numbers after a change are counted here: those of udiff are wrong
// between two changes in one hunk.
func unified(from, to, text string, edits []udiff.Edit, skipped int) (diff string, added, removed int) {
	u, err := udiff.ToUnifiedDiff(from, to, text, edits, contextLines)
	if err != nil || len(u.Hunks) == 0 {
		return "", 0, 0 // sorted edits cannot fail, and a call does not fail for its diff
	}
	for _, h := range u.Hunks {
		h.FromLine += skipped
		h.ToLine = h.FromLine + added - removed
		for _, line := range h.Lines {
			switch line.Kind {
			case udiff.Insert:
				added++
			case udiff.Delete:
				removed++
			}
		}
	}
	return u.String(), added, removed
}

// shorten cuts a long diff at the end of a line.
func shorten(diff string) string {
	if len(diff) <= diffMax {
		return diff
	}
	kept := diff[:strings.LastIndexByte(diff[:diffMax-64], '\n')+1]
	n := strings.Count(diff[len(kept):], "\n")
	return fmt.Sprintf("%s[%d more lines left out]\n", kept, n)
}
