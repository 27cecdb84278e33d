package agr

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"zino/pkg/catalog"
	"zino/proto"
)

// Names of tools that no file defines.
const (
	readTool  = "read"
	writeTool = "write"
	editTool  = "edit"
	bashTool  = "bash"
	pageList  = "page_list"
	pageEval  = "page_eval"
	pageLog   = "page_log"
	pageView  = "page_outline"
)

// tool is a tool that agr offers and carries out.
type tool struct {
	function
	required []string // arguments that agr checks
	reads    bool     // it changes nothing: successive calls run side by side
	recover  recovery
	// byService: the service that carries it out asks a person if a hook demands that.
	byService bool
	gate      string // its name for the policy, if agr decides about it; "": the service that carries it out does
	call      func(*turn, *call, fields) result
}

// function is a tool's description in the form that providers accept.
type function struct {
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Parameters  proto.Raw `json:"parameters"` // a JSON Schema
}

// recovery says what agr does with a call of an earlier attempt that may have run.
type recovery int

const (
	interrupt recovery = iota // it is not repeated: the model decides
	repeat                    // it runs again: it changes nothing, or to the same
	askExc                    // exc knows its result
)

type schema struct {
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

// texts returns a schema of required strings, given as pairs of name and description.
func texts(pairs ...string) schema {
	s := schema{Type: "object", Properties: map[string]property{}, Required: []string{}}
	for pair := range slices.Chunk(pairs, 2) {
		s.Properties[pair[0]] = property{Type: "string", Description: pair[1]}
		s.Required = append(s.Required, pair[0])
	}
	return s
}

// with adds an optional parameter.
func (s schema) with(name string, optional property) schema {
	s.Properties[name] = optional
	return s
}

const pathParameter = "Relative to the working directory, or absolute."

// ownTools are the tools of every session. They are part of every request, so keep
// the descriptions short.
var ownTools = []tool{
	{
		function: function{
			readTool, `Reads a text file, its first 50 KiB, or shows an image or PDF. Where "truncated" is true there is more, which bash can show.`,
			encode(texts("path", pathParameter)),
		},
		reads: true, recover: repeat, byService: true, call: (*turn).readFile,
	},
	{
		function: function{
			writeTool, "Creates a file, with missing directories, or replaces its whole content. To change a part use edit.",
			encode(texts("path", pathParameter, "content", "The whole content.")),
		},
		recover: askExc, byService: true, call: (*turn).callExc,
	},
	{
		function: function{
			editTool, "Replaces text in a file. Read the file first: old must match exactly, white space included, and occur only once.",
			encode(texts("path", pathParameter, "old", "The text to replace.", "new", "The new text.").with("expected_replacements", property{
				Type: "integer", Minimum: 1, Default: 1, Description: "How often old occurs; all are replaced.",
			})),
		},
		recover: askExc, byService: true, call: (*turn).callExc,
	},
	{
		function: function{
			bashTool, "Runs a command with sh -c in the working directory: list, search, build, test. Each has a new shell and no input. One that exceeds its time limit goes on as a job.",
			encode(texts("command", "One or more lines.").
				with("timeout_s", property{Type: "integer", Description: "Time limit."}).
				with("background", property{Type: "boolean", Description: "Start as a job."}).
				with("wake", property{Type: "boolean", Description: "Report the end of the job."}).
				with("escalate", property{Type: "string", Description: `After a refusal by the sandbox: why to run outside. "network" if only that is missing.`})),
		},
		recover: askExc, byService: true, call: (*turn).callExc,
	},
}

// pageTools are the tools for live pages, offered while repl runs.
var pageTools = []tool{
	{
		function: function{pageList, "Lists the live pages (browser tabs, workers, programs) that code can be run in.", encode(texts())},
		reads:    true, recover: repeat, call: (*turn).listPages,
	},
	{
		function: function{
			pageEval, "Runs code in a live page, in the page's language, and returns its value, with what went to the console. Globals stay. Each call and its answer can be read in the page's Markdown file.",
			encode(texts("page", "The page, as name, name-id or id.", "code", "An expression or statements; await works.").with("timeout_ms", property{
				Type: "integer", Minimum: 1, Description: "How long the code may run, in milliseconds.",
			})),
		},
		required: []string{"page", "code"}, byService: true, call: (*turn).evalInPage,
	},
	{
		function: function{
			pageLog, "Returns what a live page logged last: console, errors, failed requests.",
			encode(texts("page", "As in page_eval.").with("after", property{Type: "string", Description: "next of an earlier result."})),
		},
		required: []string{"page"}, reads: true, recover: repeat, call: (*turn).readPageLog,
	},
	{
		function: function{
			pageView, "Shows a live page: each element's role, name, value, state, box and selector. zino.click(selector), zino.fill(selector, value) work in page_eval.",
			encode(texts("page", "As in page_eval.").with("selector", property{Type: "string", Description: "The part to show."}).
				with("depth", property{Type: "integer", Minimum: 1, Description: "Levels shown."})),
		},
		required: []string{"page"}, reads: true, recover: repeat, call: (*turn).outlinePage,
	},
}

// fileTool returns a tool of the catalog.
func fileTool(file catalog.Tool, k kit) tool {
	t := tool{call: func(t *turn, c *call, f fields) result { return t.use(file, c, f) }}
	switch file.Builtin {
	case catalog.Remember: // mem stores an exact duplicate once
		t.required, t.recover, t.reads, t.gate = []string{"text"}, repeat, k.propose, file.Builtin
	case catalog.Recall, catalog.RecallSessions:
		t.required, t.recover, t.reads, t.gate = []string{"query"}, repeat, true, file.Builtin
	default:
		t.required, t.recover, t.byService = []string{"code"}, askExc, true
		t.function = function{
			file.FunctionName(), cmp.Or(file.Description, file.Executor+" executor: runs code and returns its output"),
			encode(texts("code", "The whole program.")),
		}
		return t
	}
	t.function = function{file.FunctionName(), cmp.Or(file.Description, "built-in tool: "+file.Builtin), file.Parameters}
	return t
}

// taskOf returns the tool for all skills, and for sub-agents if the caller starts them.
func taskOf(skills []catalog.Skill, agents bool) tool {
	about, skill := "Gives a request to a skill, which writes a program for it, runs it and returns the output.", "The skill."
	var names []string
	if agents {
		names = append(names, proto.AgentSkill)
		if about += " The skill agent is another agent, which returns its last answer; several run in parallel."; len(skills) == 0 {
			about = "Gives a request to another agent, which returns its last answer; several run in parallel."
		}
		skill += "\nagent: knows only the request, and changes nothing unless write is true."
	}
	for _, s := range skills {
		names = append(names, s.Name)
		if s.Description != "" {
			skill += "\n" + s.Name + ": " + strings.TrimSpace(s.Description)
		}
	}
	s := texts("skill", "", "request", "What to do, in plain words.")
	s.Properties["skill"] = property{Type: "string", Description: skill, Enum: names}
	if agents {
		s = s.with("write", property{Type: "boolean", Description: "Whether the agent may change files."})
	}
	return tool{
		function: function{proto.TaskTool, about, encode(s)}, required: []string{"skill", "request"}, gate: proto.TaskTool,
		call: (*turn).runTask,
	}
}

func indexOf(tools []tool, name string) int {
	return slices.IndexFunc(tools, func(t tool) bool { return t.Name == name })
}

// kit says which tools a turn has besides those of every session and of files.
type kit struct {
	todo     bool // configured
	pages    bool // repl listens
	agents   bool // the caller starts sub-agents
	skill    bool // the prompt names skills
	propose  bool // remember proposes memories: a person decides, so it counts as a read
	readOnly bool // only what changes nothing
	mcp      *proto.ToolOffer
}

// offered returns the tools of a session's turn: its own, those of its kit, executors
// and built-in tools of the catalog, and one for all skills. Files cannot redefine the
// names of the first two.
func offered(snapshot *catalog.Snapshot, k kit) []tool {
	if k.readOnly {
		return readOnly(snapshot, k)
	}
	list := append(slices.Clone(ownTools), jobTool)
	if k.todo {
		list = append(list, todoTool)
	}
	if k.skill {
		list = append(list, skillTool)
	}
	if k.pages {
		list = append(list, pageTools...)
	}
	for _, t := range snapshot.Executors() {
		shell := slices.Contains([]string{"bash", "sh"}, filepath.Base(t.Executor)) // the tool bash replaces it
		// A tool with a name that a provider may refuse would make the whole request
		// invalid. It can be called from the text.
		if catalog.IsFunctionName(t.FunctionName()) && !shell {
			list = append(list, fileTool(t, k))
		}
	}
	for _, t := range snapshot.Builtins() {
		if indexOf(list, t.FunctionName()) < 0 {
			list = append(list, fileTool(t, k))
		}
	}
	if len(snapshot.Skills) > 0 || k.agents {
		list = append(list, taskOf(snapshot.Skills, k.agents))
	}
	return append(list, mcpTools(k.mcp)...)
}

// readOnly returns the tools of a turn that may not change anything.
func readOnly(snapshot *catalog.Snapshot, k kit) []tool {
	list := []tool{ownTools[indexOf(ownTools, readTool)], jobOutputTool}
	if k.skill {
		list = append(list, skillTool)
	}
	for _, t := range snapshot.Builtins() {
		if (t.Builtin != catalog.Remember || k.propose) && indexOf(list, t.FunctionName()) < 0 {
			list = append(list, fileTool(t, k))
		}
	}
	return list
}

// find returns the tool of a call: one that is offered, one of the catalog with a
// name that is not offered, or skill: the skills may be gone when a call is repeated.
func find(snapshot *catalog.Snapshot, k kit, list []tool, name string) (tool, bool) {
	if i := indexOf(list, name); i >= 0 {
		return list[i], true
	}
	if name == skillTool.Name {
		return skillTool, true
	}
	if file, ok := snapshot.Function(name); ok && !k.readOnly {
		return fileTool(file, k), true
	}
	return tool{}, false
}

// offer encodes the tools of a turn for rtr's infer.
func offer(snapshot *catalog.Snapshot, k kit) proto.Raw {
	list := proto.Raw{'['}
	for i, t := range offered(snapshot, k) {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(append(append(list, `{"type":"function","function":`...), encode(t.function)...), '}')
	}
	return append(list, ']')
}

func toolNames(list []tool) (names []string) {
	for _, t := range list {
		names = append(names, t.Name)
	}
	return names
}

// use carries out a call of a tool from the catalog.
func (t *turn) use(tool catalog.Tool, c *call, f fields) result {
	switch tool.Builtin {
	case catalog.Remember:
		return t.remember(f)
	case catalog.Recall:
		return t.recall(f)
	case catalog.RecallSessions:
		return t.recallSessions(f)
	}
	code, err := f.text("code")
	if err != nil {
		return malformedCall(err)
	}
	if strings.TrimSpace(code) == "" {
		return refused("Empty code block.")
	}
	r, err := t.execute(c, tool.Executor, code)
	if errors.Is(err, errLost) || r.Interrupted && r.Stderr == proto.InterruptedCall {
		return interrupted()
	}
	if err != nil {
		return failed(err)
	}
	return result{ran: &r, confined: r.Confinement, recovered: r.Recovered}
}
