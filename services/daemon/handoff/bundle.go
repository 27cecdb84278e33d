package handoff

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"zino/pkg/text"
)

// The sections of a bundle, in their order.
const (
	goalSection     = "Goal"
	starterSection  = "Starter prompt"
	filesSection    = "Relevant files"
	tasksSection    = "Open tasks"
	commandsSection = "Repro commands"
)

// none is the content of an empty section.
const none = "None known."

// requestClip limits the bytes of a quoted request.
const requestClip = 400

// bundle is a handoff. Empty fields are unknown.
type bundle struct {
	goal, starter string
	files, tasks  []string
	commands      string
}

// markdown renders a bundle. The goal is included verbatim, in a code block if it is
// not one line of plain text in Markdown; in all other sections control characters
// are made visible.
func (b bundle) markdown() string {
	goal, commands := b.goal, none
	if strings.TrimSpace(goal) != goal || strings.ContainsAny(goal, "\n\r") || strings.ContainsAny(goal[:1], "#`~>|<-+*=_") {
		goal = text.Fenced("text", goal)
	}
	if b.commands != "" {
		commands = text.Fenced("sh", printable(b.commands))
	}
	var files []string
	for _, path := range b.files {
		files = append(files, text.CodeSpan(path))
	}
	return strings.Join([]string{
		"# Handoff",
		"## " + goalSection, goal,
		"## " + starterSection, text.Fenced("text", printable(b.starter)),
		"## " + filesSection, list("- ", files),
		"## " + tasksSection, list("- [ ] ", b.tasks),
		"## " + commandsSection, commands,
	}, "\n\n") + "\n"
}

// list renders items of one line each.
func list(mark string, items []string) string {
	if len(items) == 0 {
		return none
	}
	var lines []string
	for _, item := range items {
		lines = append(lines, mark+printable(oneLine(item)))
	}
	return strings.Join(lines, "\n")
}

// bundle returns the bundle of the events, without a model.
func (f *facts) bundle(goal string) bundle {
	return bundle{goal, f.starter(goal), f.files(), f.tasks(), f.script()}
}

// starter returns a prompt for a new session without access to the old one.
func (f *facts) starter(goal string) string {
	var b strings.Builder
	b.WriteString(f.portable(goal))
	if f.first == "" {
		return b.String()
	}
	b.WriteString("\n\nThis continues an earlier session, which you cannot see. ")
	fmt.Fprintf(&b, "It began with this request:\n- %s\n", f.quote(f.first))
	if len(f.last) > 0 {
		b.WriteString("These were the last requests in it, the latest at the end:\n")
		for _, request := range f.last {
			fmt.Fprintf(&b, "- %s\n", f.quote(request))
		}
	}
	title, files := "Files that it changed:\n", f.changed.list
	if len(files) == 0 {
		title, files = "Files that it read:\n", f.read.list
	}
	if len(files) > 0 {
		const latest = 8
		b.WriteString(title)
		for _, file := range files[max(0, len(files)-latest):] {
			b.WriteString("- " + text.CodeSpan(file.text) + "\n")
		}
	}
	if tasks := f.tasks(); len(tasks) > 0 {
		b.WriteString("Still open:\n- " + strings.Join(tasks, "\n- ") + "\n")
	}
	b.WriteString("Look at the present state of the files before you change anything.")
	return b.String()
}

// tasks returns the last request, if it is unanswered, and the calls that failed or
// were interrupted.
func (f *facts) tasks() []string {
	var list []string
	request := f.first
	if n := len(f.last); n > 0 {
		request = f.last[n-1]
	}
	if request != "" && f.end != "" {
		list = append(list, fmt.Sprintf("Finish the last request, %s: %s", f.portable(f.end), f.quote(request)))
	}
	for _, n := range f.open.list {
		list = append(list, strings.ToUpper(n.note[:1])+n.note[1:]+": "+n.text)
	}
	return list
}

// script returns the commands in the order in which they ran, with a comment before
// failed ones.
func (f *facts) script() string {
	var lines []string
	if f.base != "" && f.base != f.root && len(f.commands.list) > 0 {
		dir := f.relative(f.base)
		if dir == "" {
			dir = f.base
		}
		lines = append(lines, "# These ran in "+printable(oneLine(dir)))
	}
	for _, n := range f.commands.list {
		if n.note != "" {
			lines = append(lines, "# "+n.note+":")
		}
		lines = append(lines, n.text)
	}
	return strings.Join(lines, "\n")
}

// portable returns a text without control characters and without the path of the root.
func (f *facts) portable(s string) string { return strings.TrimSpace(f.withoutRoot(printable(s))) }

// quote returns a request on one line.
func (f *facts) quote(request string) string { return clip(f.portable(oneLine(request)), requestClip) }

// printable makes control characters and invalid UTF-8 visible, and normalizes line
// ends to "\n".
func printable(s string) string {
	return text.Visible(strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\r\n", "\n"))
}

// exact reports whether a text can be shown and copied unchanged.
func exact(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsRune(s, utf8.RuneError) && !strings.ContainsFunc(s, text.Hidden)
}

// oneLine replaces every run of white space by a space. Unlike text.OneLine it keeps
// control characters, which printable makes visible.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
