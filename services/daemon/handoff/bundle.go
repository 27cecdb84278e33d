package handoff

import "strings"

// The sections of a bundle, in their order.
const (
	goalSection     = "Goal"
	starterSection  = "Starter prompt"
	filesSection    = "Relevant files"
	tasksSection    = "Open tasks"
	commandsSection = "Repro commands"
)

var sectionNames = []string{goalSection, starterSection, filesSection, tasksSection, commandsSection}

// none is what a section says that has nothing in it.
const none = "None known."

// bundle is what is handed on. What is empty in it is not known.
type bundle struct {
	goal, starter string
	files, tasks  []string
	commands      string
}

// markdown renders a bundle. The goal is in it as the user wrote it; everything
// else is made visible.
func (b bundle) markdown() string {
	parts := []string{
		"# Handoff",
		"## " + goalSection, goalBlock(b.goal),
		"## " + starterSection, fenced("text", printable(b.starter)),
		"## " + filesSection, list("- ", spans(b.files)),
		"## " + tasksSection, list("- [ ] ", b.tasks),
		"## " + commandsSection, commandBlock(b.commands),
	}
	return strings.Join(parts, "\n\n") + "\n"
}

// goalBlock is the goal, in a block of code if Markdown would take it for
// something else than a line of text.
func goalBlock(goal string) string {
	if strings.TrimSpace(goal) == goal && !strings.ContainsAny(goal, "\n\r") && !strings.ContainsAny(goal[:1], "#`~>|<-+*=_") {
		return goal
	}
	return fenced("text", goal)
}

func commandBlock(commands string) string {
	if commands == "" {
		return none
	}
	return fenced("sh", printable(commands))
}

// list is a list of items of one line each.
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

func spans(paths []string) []string {
	var list []string
	for _, path := range paths {
		list = append(list, codeSpan(path))
	}
	return list
}
