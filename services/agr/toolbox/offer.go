package toolbox

import (
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"zino/pkg/catalog"
)

// native is what every provider takes for a function's name. A tool of another
// name is not offered, but can be called in the text: one such name would spoil
// the whole request.
var native = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Names lists the functions of a turn. pages says that there is a file REPL.
func Names(snapshot *catalog.Snapshot, pages bool) []string {
	var names []string
	for _, f := range functions(snapshot, pages) {
		names = append(names, f.Name)
	}
	return names
}

// functions are what the model is offered.
func functions(snapshot *catalog.Snapshot, pages bool) []function {
	list := slices.Clone(own)
	if pages {
		list = append(list, ofPages...)
	}
	for _, tool := range snapshot.Executors() {
		if native.MatchString(tool.FunctionName()) && !shell(tool) {
			list = append(list, execute(tool))
		}
	}
	for _, tool := range snapshot.Builtins() {
		if name := tool.FunctionName(); !Own(name) && (!pages || !OfPages(name)) {
			list = append(list, function{name, cmp.Or(tool.Description, "built-in tool: "+tool.Builtin), tool.Parameters})
		}
	}
	if len(snapshot.Skills) > 0 {
		list = append(list, task(snapshot.Skills))
	}
	return list
}

// shell reports whether an executor does what bash does already.
func shell(tool catalog.Tool) bool {
	command := filepath.Base(tool.Executor)
	return command == "bash" || command == "sh"
}

func execute(tool catalog.Tool) function {
	return function{
		tool.FunctionName(), cmp.Or(tool.Description, tool.Executor+" executor: runs code and returns its output"),
		texts("code", "The whole code. It is run from a file, without input.").schema(),
	}
}

// task is the native form of a <task> block.
func task(skills []catalog.Skill) function {
	var description strings.Builder
	description.WriteString("The skill.")
	names := make([]string, len(skills))
	for i, skill := range skills {
		names[i] = skill.Name
		if skill.Description != "" {
			description.WriteString("\n" + skill.Name + ": " + strings.TrimSpace(skill.Description))
		}
	}
	p := texts("skill", "", "request", "What is to be done, in plain words.")
	p.Properties["skill"] = property{Type: "string", Description: description.String(), Enum: names}
	return function{Task, "Hands a request to a skill, which writes code for it, runs it and returns its output.", p.schema()}
}
