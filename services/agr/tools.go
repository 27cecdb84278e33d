package agr

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"zino/pkg/catalog"
	"zino/pkg/message"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

// Names of tools that no file defines.
const (
	readTool  = "read"
	writeTool = "write"
	editTool  = "edit"
	bashTool  = "bash"
	taskTool  = "task" // hands a request to a skill, as a <task> block does
	pageList  = "page_list"
	pageEval  = "page_eval"
)

// tool is a tool's description in the form that providers accept.
type tool struct {
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Parameters  proto.Raw `json:"parameters"` // a JSON Schema
}

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

const pathParameter = "The file, relative to the working directory or absolute."

// ownTools are the tools of every session, carried out by exc. They are part of
// every request, so keep the descriptions short.
var ownTools = []tool{
	{
		readTool, `Reads a text file: its first 50 KiB. Where "truncated" is true there is more, which bash can show.`,
		encode(texts("path", pathParameter)),
	},
	{
		writeTool, "Makes a file, and the directories to it, or replaces all that is in one. To change a part of a file use edit.",
		encode(texts("path", pathParameter, "content", "The file's whole text.")),
	},
	{
		editTool, "Replaces a piece of a file's text. Read the file first: old must be exactly what stands there, white space included, and long enough to stand nowhere else.",
		encode(texts("path", pathParameter, "old", "The exact text to be replaced.", "new", "What takes its place.").with("expected_replacements", property{
			Type: "integer", Minimum: 1, Default: 1, Description: "How often old stands in the file. All of them are replaced.",
		})),
	},
	{
		bashTool, "Runs a command with sh -c in the working directory, to list, search, build, test and all else. Each call is a new shell without input, under a time limit; nothing goes on in the background after it. The answer is stdout, stderr and exit_code.",
		encode(texts("command", "The command; it can have several lines.")),
	},
}

// pageTools are the tools for live pages, offered while repl runs.
var pageTools = []tool{
	{pageList, "Lists the live pages (browser tabs, workers, programs) that code can be run in.", encode(texts())},
	{
		pageEval, "Runs code in a live page, in the page's language, and returns its value, with what went to the console. Globals stay. Each call and its answer can be read in the page's Markdown file.",
		encode(texts("page", "The page, as name, name-id or id.", "code", "An expression or statements; await works.").with("timeout_ms", property{
			Type: "integer", Minimum: 1, Description: "How long the code may run, in milliseconds.",
		})),
	},
}

func has(tools []tool, name string) bool {
	return slices.ContainsFunc(tools, func(t tool) bool { return t.Name == name })
}

// validName matches the names that every provider accepts. A tool with another name
// is not offered, since it would make the whole request invalid, but it can be
// called from the text.
var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// offered returns the tools of a session's turn: the four of exc, those for
// pages if pages is set, executors and built-in tools of the catalog, and one
// for all skills. Files cannot redefine the names of the first two.
func offered(snapshot *catalog.Snapshot, pages bool) []tool {
	list := slices.Clone(ownTools)
	if pages {
		list = append(list, pageTools...)
	}
	for _, t := range snapshot.Executors() {
		shell := slices.Contains([]string{"bash", "sh"}, filepath.Base(t.Executor)) // the tool bash replaces it
		if validName.MatchString(t.FunctionName()) && !shell {
			list = append(list, tool{
				t.FunctionName(), cmp.Or(t.Description, t.Executor+" executor: runs code and returns its output"),
				encode(texts("code", "The whole code. It is run from a file, without input.")),
			})
		}
	}
	for _, t := range snapshot.Builtins() {
		if name := t.FunctionName(); !has(ownTools, name) && (!pages || !has(pageTools, name)) {
			list = append(list, tool{name, cmp.Or(t.Description, "built-in tool: "+t.Builtin), t.Parameters})
		}
	}
	if len(snapshot.Skills) > 0 {
		var description strings.Builder
		description.WriteString("The skill.")
		names := make([]string, len(snapshot.Skills))
		for i, skill := range snapshot.Skills {
			names[i] = skill.Name
			if skill.Description != "" {
				description.WriteString("\n" + skill.Name + ": " + strings.TrimSpace(skill.Description))
			}
		}
		s := texts("skill", "", "request", "What is to be done, in plain words.")
		s.Properties["skill"] = property{Type: "string", Description: description.String(), Enum: names}
		list = append(list, tool{taskTool, "Hands a request to a skill, which writes code for it, runs it and returns its output.", encode(s)})
	}
	return list
}

// offer encodes the tools of a turn for rtr's infer.
func offer(snapshot *catalog.Snapshot, pages bool) proto.Raw {
	list := proto.Raw{'['}
	for i, t := range offered(snapshot, pages) {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(append(append(list, `{"type":"function","function":`...), encode(t)...), '}')
	}
	return append(list, ']')
}

func toolNames(snapshot *catalog.Snapshot, pages bool) (names []string) {
	for _, t := range offered(snapshot, pages) {
		names = append(names, t.Name)
	}
	return names
}

// callExc forwards a call of one of exc's tools to exc, and its output to the caller
// as it arrives.
func (t *turn) callExc(c *call) result {
	answer, err := rpc.CallEvents(t.ctx, t.exc, proto.ExcCall, proto.Call{
		Tool: c.name, Input: c.input, Root: t.req.Root, Sandbox: t.req.Sandbox, Network: t.req.Network,
		Env: t.req.Env, Cwd: t.req.Cwd, Umask: t.req.Umask, OutputBytes: t.outputBytes, Events: t.req.Events,
	}, func(typ string, payload []byte) error {
		if typ != proto.TypeToolOutput {
			return nil
		}
		var output proto.ToolOutput
		if err := wire.DecodeReply(payload, &output); err != nil {
			return fmt.Errorf("exc answered with a malformed packet: %w", err)
		}
		output.ID = c.id
		return t.report(t.out.Event, typ, output)
	})
	if err == nil && !isEnvelope(answer.Result) {
		err = errors.New("exc answered with something that is not a result")
	}
	if err != nil {
		return failed(err)
	}
	return result{data: answer.Result, diff: answer.Diff, confined: answer.Confinement}
}

// use carries out a call of a tool from the catalog.
func (t *turn) use(tool catalog.Tool, f fields) result {
	switch tool.Builtin {
	case catalog.Remember:
		return t.remember(f)
	case catalog.Recall:
		return t.recall(f)
	}
	code, err := f.text("code")
	if err != nil {
		return malformedCall(err)
	}
	if strings.TrimSpace(code) == "" {
		return refused("Empty code block.")
	}
	r, err := t.execute(tool.Executor, code)
	if err != nil {
		return failed(err)
	}
	return result{ran: &r, confined: r.Confinement}
}

// execute runs code in exc.
func (t *turn) execute(executor, code string) (proto.Result, error) {
	return rpc.Call(t.ctx, t.exc, proto.ExcExecute, proto.Execute{
		Executor: executor, Code: code, Root: t.req.Root, Sandbox: t.req.Sandbox, Network: t.req.Network,
		Env: t.req.Env, Cwd: t.req.Cwd, Umask: t.req.Umask,
	})
}

// remember stores a text as a hard memory, with the role user: later prompts put
// memories between questions and answers, where a message of the assistant would
// read as the end of the one before it.
func (t *turn) remember(f fields) result {
	content, err := f.text("text")
	tag, tagErr := f.text("tag")
	if err := errors.Join(err, tagErr); err != nil {
		return malformedCall(err)
	}
	if content = strings.TrimSpace(content); content == "" {
		return refused("Empty text.")
	}
	// Ids only grow: the id of a text that mem already has is at most the newest id.
	// A mem without the method for lists counts as empty.
	newest := -1
	list, err := rpc.Call(t.ctx, t.mem, proto.MemListHard, proto.ListHard{Limit: 1})
	if err != nil && !errors.Is(err, proto.ErrUnknown) {
		return failed(err)
	}
	if len(list.Items) > 0 {
		newest = list.Items[0].ID
	}
	messages := message.Close(message.Append(nil, proto.RoleUser, content))
	stored, err := rpc.Call(t.ctx, t.mem, proto.MemStoreHard, proto.StoreHard{Messages: messages, Tag: strings.TrimSpace(tag), SessionID: t.req.SessionID})
	if err != nil {
		return failed(err)
	}
	if stored.ID <= newest {
		return result{text: fmt.Sprintf("Known already as memory %d.", stored.ID)}
	}
	return result{text: fmt.Sprintf("Remembered as memory %d.", stored.ID)}
}

// recall returns the hard memories nearest to a query, one per line.
func (t *turn) recall(f fields) result {
	const absent, most = 5, 20
	query, err := f.text("query")
	tag, tagErr := f.text("tag")
	k, countErr := f.count("top_k", absent, most)
	if err := errors.Join(err, tagErr, countErr); err != nil {
		return malformedCall(err)
	}
	if strings.TrimSpace(query) == "" {
		return refused("Empty query.")
	}
	found, err := rpc.Call(t.ctx, t.mem, proto.MemSearchHard, proto.SearchHard{Query: query, TopK: &k, Tag: strings.TrimSpace(tag)})
	if err != nil {
		return failed(err)
	}
	if len(found.Results) == 0 {
		return result{text: "No memories found."}
	}
	var lines []string
	for _, m := range found.Results {
		line := ""
		if m.ID != nil {
			line = fmt.Sprintf("[%d] ", *m.ID)
		}
		line += fmt.Sprintf("(score %.2f", m.Score)
		if m.Tag != "" {
			line += ", tag " + m.Tag
		}
		line += ") " + contents(m.Messages)
		lines = append(lines, strings.Join(strings.FieldsFunc(line, func(r rune) bool { return r == '\n' || r == '\r' }), " "))
	}
	return result{text: strings.Join(lines, "\n")}
}

// contents joins the contents of messages with blanks, as mem does for its index.
// Anything but messages is returned unchanged.
func contents(messages proto.Raw) string {
	if len(messages) == 0 || messages[0] != '[' || !wire.Valid(messages) {
		return strings.ToValidUTF8(string(messages), "\ufffd")
	}
	var all []string
	for raw := range wire.Items(messages) {
		var m struct {
			Content string `json:"content"`
		}
		if wire.DecodeReply(raw, &m) != nil {
			return string(messages)
		}
		all = append(all, m.Content)
	}
	return strings.Join(all, " ")
}

func (t *turn) listPages() result {
	pages, err := rpc.Call(t.ctx, t.repl, proto.ReplPages, proto.PagesRequest{})
	if err != nil {
		return failed(err)
	}
	return result{data: success(pages)}
}

// evalInPage runs code in a page. If the turn is canceled meanwhile, the answer is
// only in the page's file.
func (t *turn) evalInPage(f fields) result {
	const day = 86_400_000 // ms: the most that repl accepts
	page, err := f.text("page")
	code, codeErr := f.text("code")
	limit, limitErr := f.count("timeout_ms", 0, day)
	if err := errors.Join(err, codeErr, limitErr); err != nil {
		return malformedCall(err)
	}
	if strings.TrimSpace(code) == "" {
		return refused("Empty code block.")
	}
	level := cmp.Or(t.req.Sandbox, t.sandbox)
	r, err := rpc.Call(t.ctx, t.repl, proto.ReplEval, proto.Eval{Page: page, Code: code, TimeoutMS: int64(limit), Sandbox: level})
	switch {
	case errors.Is(err, proto.ErrNotFound), errors.Is(err, proto.ErrInvalid):
		return refused("%v %s shows the pages.", err, pageList)
	case err != nil:
		return failed(err)
	}
	return result{data: evaluated(r, t.outputBytes, level)}
}

// evaluated returns the envelope of code that ran in a page. If the code failed, the
// call failed, so that the model does not mistake the error for an answer. Value and
// error are shortened to about limit bytes, each text of the background to a fraction
// of it. With a sandbox, a note says that pages are outside of it.
func evaluated(r proto.Evaluated, limit int, sandbox proto.Level) proto.Raw {
	shorten := func(s string, limit int) string {
		return text.Middle(s, limit/4*3, limit/4, "\n... (%d bytes are left out here; the page's file has more) ...\n")
	}
	data := struct {
		Kind       string            `json:"kind,omitzero"`
		Value      string            `json:"value,omitzero"`
		Background []proto.PageEvent `json:"background,omitzero"`
		Omitted    int               `json:"background_omitted,omitzero"`
		DurationMS int64             `json:"duration_ms"`
		File       string            `json:"file,omitzero"`
		Note       string            `json:"note,omitzero"`
	}{Kind: r.Kind, Value: shorten(r.Value, limit), Omitted: r.Omitted, DurationMS: r.DurationMS, File: r.File}
	for _, e := range r.Background {
		const part = 32 // there are up to ten events with two texts each
		e.Message, e.Stack = shorten(e.Message, limit/part), shorten(e.Stack, limit/part)
		data.Background = append(data.Background, e)
	}
	if sandbox.Confined() {
		data.Note = fmt.Sprintf("Pages are not confined: this code ran outside the sandbox (%s) of this turn.", sandbox)
	}
	if r.OK {
		return success(data)
	}
	// The error comes first: data can be long.
	failed := encode(proto.Envelope{Error: &proto.ToolError{Code: proto.ToolPageError, Message: shorten(r.Error, limit)}})
	return append(append(append(failed[:len(failed)-1], `,"data":`...), encode(data)...), '}')
}
