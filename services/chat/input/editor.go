package input

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"zino/services/chat/screen"
)

// Limits.
const (
	pasteLines = 5        // longer pastes are one element
	pasteChars = 1000     // the same
	plainMax   = 64 << 10 // bytes of a text that is shown in full; longer ones are one element
	killsMax   = 32
	undoMax    = 1000
)

// element is what the cursor moves over: a grapheme cluster, or a long paste.
type element struct {
	text  string
	label string // of a paste, shown in its place
}

// Editor edits a message. What it shows is what Text returns; a long paste is shown as a
// label. The cursor stands between elements, so never inside a grapheme cluster.
type Editor struct {
	widths   screen.Widths
	elements []element
	cursor   int
	goal     int  // the column that Up and Down keep; -1: that of the cursor
	rowEnded bool // the cursor stands behind the last cell of a row, not in front of the next one

	kills   [][]element // the newest last
	killing bool        // the last key was a kill: the next one is added to it
	yanked  int         // elements that the last key yanked; 0: it yanked nothing
	yankOf  int         // which of the kills

	edits  []edit // what Undo takes back
	typing bool   // the last edit was typing: the next one joins it
}

// edit is a replacement of elements.
type edit struct {
	at           int
	before       []element
	after        int // how many elements replaced them
	cursorBefore int
}

// NewEditor returns an empty editor.
func NewEditor(widths screen.Widths) *Editor { return &Editor{widths: widths, goal: -1} }

// Text returns the message.
func (e *Editor) Text() string { return join(e.elements) }

// Empty reports whether nothing was typed.
func (e *Editor) Empty() bool { return len(e.elements) == 0 }

// BeforeCursor returns the text up to the cursor.
func (e *Editor) BeforeCursor() string { return join(e.elements[:e.cursor]) }

func join(list []element) string {
	var b strings.Builder
	for _, el := range list {
		b.WriteString(el.text)
	}
	return b.String()
}

// split returns the grapheme clusters of a text.
func (e *Editor) split(s string) (list []element) {
	for s != "" {
		cluster, _ := e.widths.Cluster(s)
		list = append(list, element{text: cluster})
		s = s[len(cluster):]
	}
	return list
}

// Set replaces the message. It can be undone.
func (e *Editor) Set(message string) { e.SetDraft(e.NewDraft(message)) }

// SetDraft replaces the message. It can be undone.
func (e *Editor) SetDraft(d Draft) {
	e.replace(0, len(e.elements), d)
	e.done()
}

// Draft returns the message with its long pastes.
func (e *Editor) Draft() Draft { return slices.Clone(e.elements) }

// Revise replaces the message by a copy of it that was edited elsewhere. Long pastes that
// are unchanged in it stay one element.
func (e *Editor) Revise(edited string) {
	edited = clean(edited)
	var list Draft
	for _, el := range e.elements {
		if i := strings.Index(edited, el.text); el.label != "" && i >= 0 {
			list = append(append(list, e.NewDraft(edited[:i])...), el)
			edited = edited[i+len(el.text):]
		}
	}
	e.SetDraft(append(list, e.NewDraft(strings.TrimRight(edited, "\n"))...))
}

// Clear empties the editor; a yank brings the text back.
func (e *Editor) Clear() {
	e.kill(0, len(e.elements), false)
	e.killing = false
}

// Reset empties the editor after its message has been sent.
func (e *Editor) Reset() {
	*e = Editor{widths: e.widths, goal: -1, kills: e.kills}
}

// Insert types a text.
func (e *Editor) Insert(s string) {
	s = clean(s)
	joined := e.typing && len(e.edits) > 0 && !strings.ContainsFunc(s, unicode.IsSpace)
	e.replace(e.cursor, e.cursor, e.split(s))
	if n := len(e.edits); joined && n > 1 {
		if last, now := &e.edits[n-2], e.edits[n-1]; now.at >= last.at && now.at+len(now.before) <= last.at+last.after {
			last.after += now.after - len(now.before)
			e.edits = e.edits[:n-1]
		}
	}
	e.done()
	e.typing = true
}

// ReplaceBefore replaces the last n bytes before the cursor, which end a cluster.
func (e *Editor) ReplaceBefore(n int, s string) {
	from := e.cursor
	for ; n > 0 && from > 0; from-- {
		n -= len(e.elements[from-1].text)
	}
	e.replace(from, e.cursor, e.split(clean(s)))
	e.done()
}

// Paste inserts a pasted text. A long one becomes one element.
func (e *Editor) Paste(s string) {
	s = clean(s)
	switch {
	case s == "":
		return
	case lines(s) > pasteLines || utf8.RuneCountInString(s) > pasteChars:
		e.replace(e.cursor, e.cursor, []element{pasted(s)})
	default:
		e.replace(e.cursor, e.cursor, e.split(s))
	}
	e.done()
}

// pasted returns a text as one element.
func pasted(s string) element {
	if n := lines(s); n > 1 {
		return element{text: s, label: fmt.Sprintf("[pasted %s lines]", grouped(n))}
	}
	return element{text: s, label: "[pasted 1 line]"}
}

// lines returns the number of lines of a text.
func lines(s string) int { return strings.Count(strings.TrimSuffix(s, "\n"), "\n") + 1 }

// grouped formats a number with commas.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// clean makes the ends of lines newlines and the text valid.
func clean(s string) string {
	return strings.ToValidUTF8(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s), "\ufffd")
}

// replace replaces elements and puts the cursor behind the new ones. Clusters that meet at
// the borders, such as a letter and a combining mark, become one.
func (e *Editor) replace(from, to int, with []element) {
	cursorBefore := e.cursor
	if from > 0 && e.elements[from-1].label == "" && (len(with) == 0 || with[0].label == "") {
		from--
		with = append([]element{e.elements[from]}, with...)
	}
	at := len(join(with))
	if to < len(e.elements) && e.elements[to].label == "" && (len(with) == 0 || with[len(with)-1].label == "") {
		with = append(slices.Clone(with), e.elements[to])
		to++
	}
	with = e.regroup(with)
	e.edits = append(e.edits, edit{at: from, before: slices.Clone(e.elements[from:to]), after: len(with), cursorBefore: cursorBefore})
	if len(e.edits) > undoMax {
		e.edits = slices.Delete(e.edits, 0, len(e.edits)-undoMax)
	}
	e.elements = slices.Replace(e.elements, from, to, with...)
	e.cursor = from
	for n := 0; n < at; e.cursor++ {
		n += len(e.elements[e.cursor].text)
	}
}

// regroup splits the texts between pastes into clusters again.
func (e *Editor) regroup(list []element) (out []element) {
	var plain strings.Builder
	for _, el := range list {
		if el.label == "" {
			plain.WriteString(el.text)
			continue
		}
		out = append(append(out, e.split(plain.String())...), el)
		plain.Reset()
	}
	return append(out, e.split(plain.String())...)
}

// done ends what continues over several keys.
func (e *Editor) done() {
	e.goal, e.rowEnded, e.killing, e.yanked, e.typing = -1, false, false, 0, false
}

// Undo takes back the last edit.
func (e *Editor) Undo() {
	e.done()
	if len(e.edits) == 0 {
		return
	}
	last := e.edits[len(e.edits)-1]
	e.edits = e.edits[:len(e.edits)-1]
	e.elements = slices.Replace(e.elements, last.at, last.at+last.after, last.before...)
	e.cursor = last.cursorBefore
}

// delete removes elements.
func (e *Editor) delete(from, to int) {
	if from < to {
		e.replace(from, to, nil)
	}
	e.done()
}

// kill removes elements and keeps them for Yank. Kills in a row are one.
func (e *Editor) kill(from, to int, backward bool) {
	if from == to {
		return
	}
	killed, killing := slices.Clone(e.elements[from:to]), e.killing
	e.delete(from, to)
	switch last := len(e.kills) - 1; {
	case killing && backward:
		e.kills[last] = append(killed, e.kills[last]...)
	case killing:
		e.kills[last] = append(e.kills[last], killed...)
	default:
		if e.kills = append(e.kills, killed); len(e.kills) > killsMax {
			e.kills = slices.Delete(e.kills, 0, 1)
		}
	}
	e.killing = true
}

// yank inserts a kill; back counts from the newest.
func (e *Editor) yank(of int) {
	list := slices.Clone(e.kills[of])
	before := len(e.elements)
	e.replace(e.cursor, e.cursor, list)
	e.done()
	e.yanked, e.yankOf = len(e.elements)-before, of
}

// yankOlder replaces what was yanked by the kill before.
func (e *Editor) yankOlder() {
	if e.yanked <= 0 {
		return
	}
	of := (e.yankOf + len(e.kills) - 1) % len(e.kills)
	from := max(0, e.cursor-e.yanked)
	e.delete(from, e.cursor)
	e.yank(of)
}

// wordBack returns the start of the word before the cursor.
func (e *Editor) wordBack() int {
	i := e.cursor
	for i > 0 && !e.elements[i-1].word() {
		i--
	}
	for i > 0 && e.elements[i-1].word() {
		i--
	}
	return i
}

// wordOn returns the end of the word behind the cursor.
func (e *Editor) wordOn() int {
	i := e.cursor
	for i < len(e.elements) && !e.elements[i].word() {
		i++
	}
	for i < len(e.elements) && e.elements[i].word() {
		i++
	}
	return i
}

func (el element) word() bool {
	r, _ := utf8.DecodeRuneInString(el.text)
	return el.label != "" || unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_'
}

// lineStart and lineEnd return the borders of the cursor's line.
func (e *Editor) lineStart() int {
	i := e.cursor
	for i > 0 && e.elements[i-1].text != "\n" {
		i--
	}
	return i
}

func (e *Editor) lineEnd() int {
	i := e.cursor
	for i < len(e.elements) && e.elements[i].text != "\n" {
		i++
	}
	return i
}

// Apply carries out an editing key for rows of a width. It reports whether it knows
// the key; Up and Down are unknown where there is no further row.
func (e *Editor) Apply(key Key, width int) bool {
	switch key.Name {
	case "ctrl+j", "alt+enter", "shift+enter":
		e.Insert("\n")
	case "left", "ctrl+b":
		e.move(e.cursor - 1)
	case "right", "ctrl+f":
		e.move(e.cursor + 1)
	case "alt+b", "ctrl+left", "alt+left":
		e.move(e.wordBack())
	case "alt+f", "ctrl+right", "alt+right":
		e.move(e.wordOn())
	case "ctrl+a", "home":
		e.move(e.rowStart(width))
	case "ctrl+e", "end":
		e.moveToRowEnd(width)
	case "up":
		return e.vertical(-1, width)
	case "down":
		return e.vertical(1, width)
	case "backspace":
		e.delete(max(0, e.cursor-1), e.cursor)
	case "delete":
		e.delete(e.cursor, min(len(e.elements), e.cursor+1))
	case "ctrl+d":
		if e.Empty() {
			return false
		}
		e.delete(e.cursor, min(len(e.elements), e.cursor+1))
	case "ctrl+w", "alt+backspace", "ctrl+backspace":
		e.kill(e.wordBack(), e.cursor, true)
	case "alt+d":
		e.kill(e.cursor, e.wordOn(), false)
	case "ctrl+k":
		to := e.lineEnd()
		if to == e.cursor && to < len(e.elements) {
			to++ // the newline
		}
		e.kill(e.cursor, to, false)
	case "ctrl+u":
		e.kill(e.lineStart(), e.cursor, true)
	case "ctrl+y":
		if len(e.kills) > 0 {
			e.yank(len(e.kills) - 1)
		}
	case "alt+y":
		e.yankOlder()
	case "ctrl+_":
		e.Undo()
	default:
		if key.Text == "" {
			return false
		}
		e.Insert(key.Text)
	}
	return true
}

func (e *Editor) move(to int) {
	e.done()
	e.cursor = min(max(to, 0), len(e.elements))
}
