package catalog

import (
	"slices"

	"zino/proto"
)

// Snapshot is the content of both directories at one moment. It is immutable.
type Snapshot struct {
	// Tools are the tools in byte order of their file names.
	Tools []Tool
	// Skills are the skills in byte order of their file names.
	Skills []Skill
	// Problems has one line for each file that was skipped: path, line, column
	// and reason.
	Problems []string
}

// Tool is what a model can call, from a file in tools/: an executor of code, or a
// builtin of the agent.
type Tool struct {
	File           string // name of the file, such as "python3.json"
	Name           string // the file's stem; of a built-in tool the name in the file, if it has one
	Executor       string // program that runs the code; the stem where the file names none; empty for a built-in tool
	FileExtension  string // extension of the file that the code is written to
	StaticAnalysis string // program that checks the code; empty for none
	Description    string // for the model, from the file
	// Builtin is the builtin that executes the calls, [Remember] or [Recall]; empty
	// for an executor.
	Builtin string
	// Parameters is the JSON Schema of a built-in tool's arguments, of type "object"
	// and without white space.
	Parameters proto.Raw
}

// FunctionName returns the name by which a model calls the tool.
func (t Tool) FunctionName() string {
	if t.Builtin != "" {
		return t.Name
	}
	return functionPrefix + t.Executor
}

// Skill is a recipe for a kind of task, from a file in skills/.
type Skill struct {
	File           string    // name of the file, such as "disk.json"
	Name           string    // the file's stem
	Executor       string    // executor that runs the fabricated code; "bash" where the file names none
	FileExtension  string    // extension of the file that the code is written to
	StaticAnalysis string    // program that checks the code; empty for none
	Description    string    // for the model, from the file
	Interpreter    []Message // messages that have a model restate the request
	Fabricator     []Message // messages that have a model write the code
}

// Message is one message of a skill.
type Message struct {
	// Role is the author: system, user or assistant.
	Role string
	// Content is the text.
	Content string
	// Raw is the message as JSON without white space, with all keys of the file.
	Raw proto.Raw
}

const functionPrefix = "execute_"

// Executor returns the tool of an executor: the first in file order.
func (s *Snapshot) Executor(name string) (Tool, bool) {
	return s.Function(functionPrefix + name)
}

// Function returns the tool of a function name: execute_<executor>, or the name of a
// built-in tool. It is the first in file order.
func (s *Snapshot) Function(name string) (Tool, bool) {
	for _, t := range s.Tools {
		if t.FunctionName() == name {
			return t, true
		}
	}
	return Tool{}, false
}

// Skill returns the skill of a name.
func (s *Snapshot) Skill(name string) (Skill, bool) {
	for _, k := range s.Skills {
		if k.Name == name {
			return k, true
		}
	}
	return Skill{}, false
}

// Executors returns one tool for every executor, in file order.
func (s *Snapshot) Executors() []Tool {
	return s.distinct(func(t Tool) bool { return t.Builtin == "" })
}

// Builtins returns one tool for every name of a built-in tool, in file order.
func (s *Snapshot) Builtins() []Tool {
	return s.distinct(func(t Tool) bool { return t.Builtin != "" })
}

// distinct returns the tools of a kind, the first one of every name.
func (s *Snapshot) distinct(kind func(Tool) bool) []Tool {
	list := make([]Tool, 0, len(s.Tools))
	for _, t := range s.Tools {
		known := func(d Tool) bool { return d.FunctionName() == t.FunctionName() }
		if kind(t) && !slices.ContainsFunc(list, known) {
			list = append(list, t)
		}
	}
	return list
}
