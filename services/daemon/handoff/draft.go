package handoff

import (
	"path/filepath"
	"slices"
	"strings"
)

// Limits of what is taken over from a model.
const (
	starterBytes = 16 << 10
	scriptBytes  = 4 << 10
	scriptLines  = 40
	tasksMax     = 20
	taskBytes    = 400
)

// draft is a model's answer under examination.
type draft struct {
	f    *facts
	goal string
	seen string // what the model was given
	of   map[string]string
}

// bundle is what the answer gives, and from the events what it leaves out or has
// garbled; filled are the names of those sections.
func (d draft) bundle() (b bundle, filled []string) {
	usable := func(section string, ok bool) bool {
		if !ok {
			filled = append(filled, section)
		}
		return ok
	}
	b = d.f.bundle(d.goal)
	usable(goalSection, same(d.of[goalSection], d.goal)) // it is the user's in every case
	if starter, ok := d.starter(d.of[starterSection]); usable(starterSection, ok) {
		b.starter = starter
	}
	if files, ok := d.files(d.of[filesSection]); usable(filesSection, ok) {
		b.files = files
	}
	if tasks, ok := d.tasks(d.of[tasksSection]); usable(tasksSection, ok) {
		b.tasks = tasks
	}
	if script, ok := d.script(d.of[commandsSection]); usable(commandsSection, ok) {
		b.commands = script
	}
	return b, filled
}

// isNone reports whether a section says that there is nothing.
func isNone(text string) bool {
	text = strings.ToLower(strings.Trim(oneLine(unfenced(text)), "-*_.`[]()# "))
	return text == "none" || text == "none known"
}

// same reports whether a model gave the goal back as it is, but for white space
// and marks around it.
func same(text, goal string) bool {
	bare := func(s string) string { return strings.Trim(oneLine(s), "\"'`*_ “”") }
	return bare(unfenced(text)) == bare(goal)
}

// starter is the prompt in a section. One that does not have the goal gets it.
func (d draft) starter(text string) (starter string, ok bool) {
	text = d.f.portable(unfenced(text))
	if text == "" || isNone(text) || len(text) > starterBytes {
		return "", false
	}
	if goal := d.f.portable(d.goal); !strings.Contains(oneLine(text), oneLine(goal)) {
		text = goal + "\n\n" + text
	}
	return text, true
}

// files are the files that a section lists, but for those that the model can not
// know.
func (d draft) files(text string) (list []string, ok bool) {
	if isNone(text) {
		return nil, true
	}
	for _, item := range items(text) {
		path := d.f.relative(pathOf(item.text))
		known := strings.Contains(d.seen, filepath.Base(path))
		if filepath.IsAbs(path) {
			known = strings.Contains(d.seen, path)
		}
		if path != "" && known && !slices.Contains(list, path) && len(list) < filesMax {
			list = append(list, path)
		}
	}
	return list, len(list) > 0
}

// tasks are the tasks in a section that are not done.
func (d draft) tasks(text string) (list []string, ok bool) {
	if isNone(text) {
		return nil, true
	}
	for _, item := range items(text) {
		task := clip(d.f.withoutRoot(oneLine(item.text)), taskBytes)
		if task != "" && !item.done && len(list) < tasksMax {
			list = append(list, task)
		}
	}
	return list, len(list) > 0
}

// script are the commands in a section.
func (d draft) script(text string) (script string, ok bool) {
	if isNone(text) {
		return "", true
	}
	lines := commands(text)
	script, ok = d.f.command(strings.Join(lines, "\n"))
	return script, ok && len(lines) <= scriptLines && len(script) <= scriptBytes &&
		exact(script) && closed(script) && slices.ContainsFunc(lines, isCommand)
}

// isCommand reports whether a line of a script does something.
func isCommand(line string) bool {
	line = strings.TrimSpace(line)
	return line != "" && line[0] != '#'
}
