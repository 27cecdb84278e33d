// Package toolbox is what a turn of a session offers to the model, and the form
// in which the model is given results.
//
// Four tools are always there and are carried out by exc: read, write, edit and
// bash. Behind them stand those for live pages, where a file REPL runs, and those
// that the catalog has: executors, built-in tools, and one function for all
// skills.
package toolbox

import (
	"slices"

	"zino/pkg/catalog"
	"zino/pkg/wire"
	"zino/proto"
)

// Names of the functions that are not named by a file.
const (
	Read  = "read"  // the text of a file
	Write = "write" // makes a file, or replaces what is in it
	Edit  = "edit"  // replaces a text in a file
	Bash  = "bash"  // runs a command
	Task  = "task"  // hands a request to a skill, as a <task> block does

	PageList = "page_list" // lists the live pages of the file REPL
	PageEval = "page_eval" // runs code in one of them
)

// Own reports whether a function is one of the four that are always there. A
// file cannot take their names.
func Own(name string) bool {
	return slices.ContainsFunc(own, func(f function) bool { return f.Name == name })
}

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
	Minimum     int      `json:"minimum,omitzero"`
	Default     int      `json:"default,omitzero"`
}

// texts describes parameters that are texts, all of them required: names and
// descriptions by turns.
func texts(words ...string) parameters {
	p := parameters{Type: "object", Properties: map[string]property{}}
	for pair := range slices.Chunk(words, 2) {
		p.Properties[pair[0]] = property{Type: "string", Description: pair[1]}
		p.Required = append(p.Required, pair[0])
	}
	return p
}

// with adds a parameter that need not be given.
func (p parameters) with(name string, optional property) parameters {
	p.Properties[name] = optional
	return p
}

func (p parameters) schema() proto.Raw { return encode(nil, p) }

// encode appends a struct as JSON.
func encode(b proto.Raw, v any) proto.Raw {
	b, err := wire.AppendObject(b, "", v)
	if err != nil {
		panic(err) // texts and numbers always encode
	}
	return b
}

const path = "The file, relative to the working directory or absolute."

// own are the tools that are always there. Every turn sends them, so each word
// is paid for many times.
var own = []function{
	{
		Read, `Reads a text file: its first 50 KiB. Where "truncated" is true there is more, which bash can show.`,
		texts("path", path).schema(),
	},
	{
		Write, "Makes a file, and the directories to it, or replaces all that is in one. To change a part of a file use edit.",
		texts("path", path, "content", "The file's whole text.").schema(),
	},
	{
		Edit, "Replaces a piece of a file's text. Read the file first: old must be exactly what stands there, white space included, and long enough to stand nowhere else.",
		texts("path", path, "old", "The exact text to be replaced.", "new", "What takes its place.").with("expected_replacements", property{
			Type: "integer", Minimum: 1, Default: 1, Description: "How often old stands in the file. All of them are replaced.",
		}).schema(),
	},
	{
		Bash, "Runs a command with sh -c in the working directory, to list, search, build, test and all else. Each call is a new shell without input, under a time limit; nothing goes on in the background after it. The answer is stdout, stderr and exit_code.",
		texts("command", "The command; it can have several lines.").schema(),
	},
}

// Offer lists the functions of a turn in the form that infer of rtr takes. pages
// says that there is a file REPL.
func Offer(snapshot *catalog.Snapshot, pages bool) proto.Raw {
	list := proto.Raw{'['}
	for i, f := range functions(snapshot, pages) {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(encode(append(list, `{"type":"function","function":`...), f), '}')
	}
	return append(list, ']')
}
