package page

import (
	"bytes"
	"fmt"
	"strings"
)

// A page keeps its file and the name in it for as long as it has its id. A line of the
// file says what the page calls itself now.

// nowMark begins that line.
const nowMark = "> page is now "

// titleMax is the length of a title in the file, in bytes.
const titleMax = 200

// name takes in what the page calls itself when it connects. A file that has not said
// anything yet was named after it.
func (t *transition) name(title, url string) {
	if title == "" && url == "" {
		return
	}
	shown, left := escapeUpTo(oneLine(title), titleMax)
	if left > 0 {
		shown += "..."
	}
	t.present = fmt.Sprintf("%s\"%s\" at %s", nowMark, shown, shownURL(url))
	if t.options.title = ""; title != "" {
		t.options.title = Sanitize(title)
	}
	if t.said == "" && (title == "" || t.options.title == t.options.Name) {
		t.said = t.present
	}
}

// hasSaid takes in the last such line of the file.
func (t *transition) hasSaid(line string) {
	title, ok := strings.CutPrefix(line, nowMark+"\"")
	if !ok {
		return
	}
	t.said = line
	if i := strings.LastIndex(title, "\" at "); i > 0 && !t.connected {
		t.options.title = Sanitize(title[:i])
	}
}

// appendNow writes the line above the footer, if it is not what the file said last. A
// request above the footer comes first.
func (t *transition) appendNow(l *layout) bool {
	if !t.connected || t.stopping || t.present == t.said || len(l.footers) == 0 || l.open >= 0 || !t.ready() {
		return false
	}
	if c, ok := l.chunk(); ok && c.from < l.above() {
		return false
	}
	t.said = t.present
	out := append(closeParagraph(bytes.Clone(t.text[:l.above()]), t.file.eol), t.said+t.file.eol...)
	t.settleAt(out, t.text[l.below():])
	return true
}
