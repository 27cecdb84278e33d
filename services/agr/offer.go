package agr

import (
	"cmp"
	"errors"
	"regexp"
	"strings"

	"zino/pkg/catalog"
	"zino/pkg/wire"
	"zino/proto"
)

// taskFunction is the native form of a <task> block.
const taskFunction = "task"

// nativeName is what every provider takes for a function's name. A tool of
// another name is left to the text: one such name would spoil the whole request.
var nativeName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// function is a function in the form that providers want it described.
type function struct {
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Parameters  proto.Raw `json:"parameters"` // a JSON Schema
}

type parameters struct {
	Type       string              `json:"type"`
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required"`
}

type property struct {
	Type        string   `json:"type"`
	Description string   `json:"description"`
	Enum        []string `json:"enum,omitzero"`
}

// offer lists the functions for what the catalog has: one for each executor
// and each built-in tool, and one for the skills. nil means that there are none.
func offer(snapshot *catalog.Snapshot) (proto.Raw, error) {
	functions, err := functionsOf(snapshot)
	if len(functions) == 0 || err != nil {
		return nil, err
	}
	list := proto.Raw{'['}
	for i, f := range functions {
		if i > 0 {
			list = append(list, ',')
		}
		if list, err = wire.AppendObject(list, "function", struct {
			Function function `json:"function"`
		}{f}); err != nil {
			return nil, err
		}
	}
	return append(list, ']'), nil
}

func functionsOf(snapshot *catalog.Snapshot) (list []function, err error) {
	add := func(f function, parametersErr error) {
		list, err = append(list, f), errors.Join(err, parametersErr)
	}
	for _, tool := range snapshot.Executors() {
		if nativeName.MatchString(tool.FunctionName()) {
			add(executeFunction(tool))
		}
	}
	for _, tool := range snapshot.Builtins() {
		add(function{tool.FunctionName(), cmp.Or(tool.Description, "built-in tool: "+tool.Builtin), tool.Parameters}, nil)
	}
	if len(snapshot.Skills) > 0 {
		add(skillsFunction(snapshot.Skills))
	}
	return list, err
}

func executeFunction(tool catalog.Tool) (function, error) {
	schema, err := wire.AppendObject(nil, "", parameters{"object", map[string]property{
		"code": {Type: "string", Description: "The whole code. It is run from a file, without input."},
	}, []string{"code"}})
	return function{tool.FunctionName(), cmp.Or(tool.Description, tool.Executor+" executor: runs code and returns its output"), schema}, err
}

func skillsFunction(skills []catalog.Skill) (function, error) {
	var description strings.Builder
	description.WriteString("The skill.")
	names := make([]string, len(skills))
	for i, skill := range skills {
		names[i] = skill.Name
		if skill.Description != "" {
			description.WriteString("\n" + skill.Name + ": " + strings.TrimSpace(skill.Description))
		}
	}
	schema, err := wire.AppendObject(nil, "", parameters{"object", map[string]property{
		"skill":   {Type: "string", Description: description.String(), Enum: names},
		"request": {Type: "string", Description: "What is to be done, in plain words."},
	}, []string{"skill", "request"}})
	return function{taskFunction, "Hands a request to a skill, which writes code for it, runs it and returns its output.", schema}, err
}
