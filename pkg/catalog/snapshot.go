package catalog

import (
	"slices"
	"strings"

	"zino/proto"
)

// Snapshot is the content of both directories at one moment. It is never
// changed once it is published.
type Snapshot struct {
	// Tools are the tools in byte order of their file names.
	Tools []Tool
	// Skills are the skills in byte order of their file names.
	Skills []Skill
	// Problems has one line for each file that was skipped: path, line, column
	// and reason.
	Problems []string
}

// Tool is a way to run code, from a file in tools/.
type Tool struct {
	File           string // name of the file, such as "python3.json"
	Name           string // the file's stem
	Executor       string // program that runs the code; the stem where the file names none
	FileExtension  string // extension of the file that the code is written to
	StaticAnalysis string // program that checks the code; empty for none
	Description    string // what the tool is good for, in the words of the file
}

// FunctionName is the name that a model calls the tool by.
func (t Tool) FunctionName() string { return functionPrefix + t.Executor }

// Skill is a recipe for a kind of task, from a file in skills/.
type Skill struct {
	File           string    // name of the file, such as "disk.json"
	Name           string    // the file's stem
	Executor       string    // executor that runs the fabricated code; "bash" where the file names none
	FileExtension  string    // extension of the file that the code is written to
	StaticAnalysis string    // program that checks the code; empty for none
	Description    string    // what the skill is good for, in the words of the file
	Interpreter    []Message // messages that have a model restate the request
	Fabricator     []Message // messages that have a model write the code
}

// Message is one message of a skill.
type Message struct {
	// Role is the author: system, user or assistant.
	Role string
	// Content is the text.
	Content string
	// Raw is the message as JSON without white space, keys that we do not
	// know included.
	Raw proto.Raw
}

const functionPrefix = "execute_"

// Executor finds the tool of an executor: the first in file order.
func (s *Snapshot) Executor(name string) (Tool, bool) {
	for _, t := range s.Tools {
		if t.Executor == name {
			return t, true
		}
	}
	return Tool{}, false
}

// Function finds a tool by the name that a model calls, execute_<executor>.
func (s *Snapshot) Function(name string) (Tool, bool) {
	executor, ok := strings.CutPrefix(name, functionPrefix)
	if !ok {
		return Tool{}, false
	}
	return s.Executor(executor)
}

// Skill finds a skill by its name.
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
	distinct := make([]Tool, 0, len(s.Tools))
	for _, t := range s.Tools {
		known := func(d Tool) bool { return d.Executor == t.Executor }
		if !slices.ContainsFunc(distinct, known) {
			distinct = append(distinct, t)
		}
	}
	return distinct
}
