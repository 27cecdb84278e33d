package handoff

import (
	"fmt"
	"strings"
)

// wishClip is how much of a wish is quoted, in bytes.
const wishClip = 400

// bundle is what the events alone give.
func (f *facts) bundle(goal string) bundle {
	return bundle{goal, f.starter(goal), f.files(), f.tasks(), f.script()}
}

// portable is a text as it can be used elsewhere: visible, and without the root.
func (f *facts) portable(text string) string {
	return strings.TrimSpace(f.withoutRoot(printable(text)))
}

// quote is a wish in one line.
func (f *facts) quote(wish string) string {
	return clip(f.portable(oneLine(wish)), wishClip)
}

// starter is a prompt for a session that knows nothing of the old one.
func (f *facts) starter(goal string) string {
	var b strings.Builder
	b.WriteString(f.portable(goal))
	if f.first == "" {
		return b.String()
	}
	b.WriteString("\n\nThis goes on with an earlier session, which you cannot see. ")
	fmt.Fprintf(&b, "It began with this request:\n- %s\n", f.quote(f.first))
	if len(f.last) > 0 {
		b.WriteString("These were the last requests in it, the latest at the end:\n")
		for _, wish := range f.last {
			fmt.Fprintf(&b, "- %s\n", f.quote(wish))
		}
	}
	writeFiles(&b, "Files that it changed:", f.changed)
	if len(f.changed.list) == 0 {
		writeFiles(&b, "Files that it read:", f.read)
	}
	if tasks := f.tasks(); len(tasks) > 0 {
		b.WriteString("Still open:\n- " + strings.Join(tasks, "\n- ") + "\n")
	}
	b.WriteString("Look at the present state of the files before you change anything.")
	return b.String()
}

// writeFiles writes the latest few of some files.
func writeFiles(b *strings.Builder, title string, r recent) {
	const few = 8
	if len(r.list) == 0 {
		return
	}
	b.WriteString(title + "\n")
	for _, n := range r.list[max(0, len(r.list)-few):] {
		b.WriteString("- " + codeSpan(n.text) + "\n")
	}
}

// tasks are the last wish, if it was not fulfilled, and the calls that came to
// nothing.
func (f *facts) tasks() []string {
	var list []string
	if wish := f.wished(); wish != "" && f.end != "" {
		list = append(list, fmt.Sprintf("Finish the last request, %s: %s", f.portable(f.end), f.quote(wish)))
	}
	for _, n := range f.open.list {
		list = append(list, strings.ToUpper(n.note[:1])+n.note[1:]+": "+n.text)
	}
	return list
}

// script is the commands in the order in which they ran, those that failed with
// a remark.
func (f *facts) script() string {
	var lines []string
	if f.base != "" && f.base != f.root && len(f.commands.list) > 0 {
		lines = append(lines, "# These ran in "+printable(oneLine(f.relativeDir())))
	}
	for _, n := range f.commands.list {
		if n.note != "" {
			lines = append(lines, "# "+n.note+":")
		}
		lines = append(lines, n.text)
	}
	return strings.Join(lines, "\n")
}

// relativeDir is where the session's tools worked.
func (f *facts) relativeDir() string {
	if dir := f.relative(f.base); dir != "" {
		return dir
	}
	return f.base
}
