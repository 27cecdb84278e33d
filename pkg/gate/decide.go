package gate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"zino/proto"
)

// Mode says what happens to a call that no rule decides.
type Mode string

// The modes.
const (
	Plan Mode = "plan" // nothing is changed
	Asks Mode = "ask"
	Auto Mode = "auto" // what the sandbox confines is allowed
	Yolo Mode = "yolo" // everything is allowed
)

// Modes lists the modes from the strictest.
var Modes = []Mode{Plan, Asks, Auto, Yolo}

// Derive returns the mode of a turn for which none was chosen.
func Derive(sandbox proto.Level) Mode {
	if sandbox.Confined() {
		return Auto
	}
	return Yolo
}

// Call is what is decided.
type Call struct {
	Tool    string // such as "bash", or "mcp:SERVER/TOOL"
	Command string // of bash
	Path    string // of read, write and edit: absolute, or relative to Root
	Host    string // of an MCP server with a URL, or of an egress request; with the port if it has one
	Action  string // of job: "output", "wait" or "stop"; of remember: "propose" if it only proposes

	Root string // without symbolic links
	Home string // of the requester, without symbolic links: what ~ stands for
	UID  int    // of the requester, -1: unknown
	User string // the requester's name, empty: unknown

	Sandbox     proto.Level
	Mode        Mode
	FromSandbox bool // [repl] from_sandbox
	Trusted     bool // the user or the host has configured the MCP server
}

// Decision is the result for a call.
type Decision struct {
	Action Action `json:"decision"`
	// Parts are the simple commands and redirections of a command with what decided each,
	// and one part for another call.
	Parts []Part `json:"parts"`
	// Grantable is the widest answer that the rules allow to a question.
	Grantable Grant `json:"grantable,omitzero"`
}

// Part is the decision about a part of a call.
type Part struct {
	Command string `json:"command"`
	Action  Action `json:"decision"`
	// Rule says which rule of which file has decided, or which mode.
	Rule   string `json:"rule"`
	Reason string `json:"reason,omitzero"` // of the rule, or why no rule could allow
	about  string // what a mode asks about
}

// Decide decides a call by the files as they are now.
func (p *Policy) Decide(c *Call) Decision {
	d := p.decide(c)
	for _, part := range d.Parts {
		d.Action = max(d.Action, part.Action)
	}
	return d
}

func (p *Policy) decide(c *Call) (d Decision) {
	builtin, host, user := p.Files()
	one := part{tool: c.Tool, source: c.subject(), path: c.Path}
	if problems := slices.Concat(host.Problems, user.Problems); len(problems) > 0 && c.kind() != reads {
		d.Parts = []Part{{Command: one.source, Action: Deny, Rule: "broken policy", Reason: problems[0]}}
		return d
	}
	e := &evaluation{Call: c, files: []*File{builtin, host, user}, host: host, user: user}
	if c.Tool != "bash" {
		d.Parts = []Part{e.part(&one)}
		d.Grantable = e.grantable
		return d
	}
	for _, part := range partsOf(c.Command, p.env) {
		if result := e.part(&part); result.Action != None {
			d.Parts = append(d.Parts, result)
		}
	}
	if len(d.Parts) == 0 { // nothing but redirections to /dev/null, or comments
		d.Parts = []Part{e.byMode(&part{tool: "bash", source: c.Command}, location{})}
	}
	d.Grantable = e.grantable
	return d
}

// subject is what a call that is not a command is about.
func (c *Call) subject() string {
	for _, s := range []string{c.Command, c.Path, c.Host, c.Action} {
		if s != "" {
			return s
		}
	}
	return c.Tool
}

// evaluation is that of one call.
type evaluation struct {
	*Call
	files      []*File // in the order in which they are compared
	host, user *File
	grantable  Grant
}

// part decides a part of a call. The action is None for a wrapper, which only runs another
// part.
func (e *evaluation) part(p *part) Part {
	var at location
	if p.path != "" {
		at = e.locate(p.path)
	}
	result := Part{Command: p.source}
	for _, f := range e.files {
		rule, n := f.first(e.Call, p, at)
		switch {
		case rule == nil:
			continue
		case rule.Action == Allow && p.doubt != "":
			continue
		case rule.Action == Ask && f == e.user && e.Mode == Yolo: // the user has chosen to be asked nothing
			continue
		}
		if rule.Action == Ask {
			e.grantable = min(e.grantable, rule.Grantable)
		}
		if rule.Action > result.Action {
			result.Action, result.Reason = rule.Action, rule.Reason
			result.Rule = fmt.Sprintf("rule %d of %s", n, f.Path)
			if f == e.files[0] {
				result.Rule = f.Path
			}
		}
	}
	mode := e.byMode(p, at)
	switch {
	case result.Action == Deny:
		return result
	case p.pass && result.Action != Ask:
		return Part{}
	case mode.Action == Deny: // plan changes nothing, also with a rule that allows
		return mode
	case result.Action == None && p.opaque && mode.Action == Allow && e.hidden():
		return Part{Command: p.source, Action: Ask, Rule: "rules for commands", Reason: p.doubt}
	case result.Action == None:
		return mode
	}
	return result
}

// hidden reports whether a rule could deny or ask about a command that is hidden in a part.
func (e *evaluation) hidden() bool {
	for _, f := range e.files {
		for i := range f.Rules {
			r := &f.Rules[i]
			if r.Action == Deny && len(r.Commands) > 0 || r.Action == Ask && f == e.host && len(r.Commands) > 0 {
				return true
			}
		}
	}
	return false
}

// first returns the first rule that matches, and its number in the file.
func (f *File) first(c *Call, p *part, at location) (*Rule, int) {
	for i := range f.Rules {
		if r := &f.Rules[i]; r.match(c, p, at) {
			return r, i + 1
		}
	}
	return nil, 0
}

// match reports whether all keys of a rule match a part of a call.
func (r *Rule) match(c *Call, p *part, at location) bool {
	if len(r.Tools) > 0 && !slices.ContainsFunc(r.Tools, func(t toolPattern) bool { return t.match(p.tool) }) ||
		len(r.Sandboxes) > 0 && !slices.Contains(r.Sandboxes, level{text(c.Sandbox)}) {
		return false
	}
	strict := r.Action != Allow
	unknown := strict && c.UID < 0 // may be any user
	if len(r.Users) > 0 && !unknown && !slices.ContainsFunc(r.Users, func(u requester) bool {
		return u.text == text(strconv.Itoa(c.UID)) || u.text == text(c.User)
	}) {
		return false
	}
	if len(r.Commands) > 0 {
		if len(p.words) == 0 || !slices.ContainsFunc(r.Commands, func(pattern commandPattern) bool { return pattern.matchCommand(p, strict) }) {
			return false
		}
	}
	if len(r.Paths) > 0 && (p.path == "" || !slices.ContainsFunc(r.Paths, func(pattern pathPattern) bool { return pattern.match(at, strict) })) {
		return false
	}
	return len(r.Hosts) == 0 || c.Host != "" && slices.ContainsFunc(r.Hosts, func(pattern hostPattern) bool { return pattern.match(c.Host) })
}

// matchCommand compares a simple command. For a rule that is strict, /bin/rm is rm, too.
func (pattern *commandPattern) matchCommand(p *part, strict bool) bool {
	if pattern.match(p.words, p.open) {
		return true
	}
	name := p.words[0]
	i := strings.LastIndexByte(name.text, '/')
	if !strict || !name.known || i < 0 {
		return false
	}
	words := slices.Clone(p.words)
	words[0].text = name.text[i+1:]
	return pattern.match(words, p.open)
}

// kind is a column of the table of modes.
type kind int

const (
	reads kind = iota
	writes
	commands
	others // page_eval, tools of MCP servers and egress requests
)

// readers are the tools that change nothing.
var readers = []string{"read", "recall", "recall_sessions", "page_list", "page_log", "page_outline", "skill", "mcp_search", "todo"}

func (c *Call) kind() kind { return kindOf(c.Tool, c.Action) }

func kindOf(tool, action string) kind {
	switch {
	case slices.Contains(readers, tool),
		tool == "job" && (action == "output" || action == "wait"),
		tool == "remember" && action == "propose":
		return reads
	case slices.Contains([]string{"write", "edit", "remember", "task", "job"}, tool):
		return writes
	case tool == "page_eval", tool == "egress", strings.HasPrefix(tool, "mcp:"):
		return others
	}
	return commands
}

// byMode decides what no rule has decided.
func (e *evaluation) byMode(p *part, at location) Part {
	confined, kind, source := e.Sandbox.Confined(), kindOf(p.tool, e.Action), p.source
	if e.Tool == "bash" && confined {
		kind = commands // the sandbox confines redirections as well
	}
	isFile := slices.Contains([]string{"read", "write", "edit"}, p.tool)
	below := at.belowRoot() || !isFile
	result := Part{Command: source, Action: Allow, Rule: "mode " + string(e.Mode), Reason: p.doubt, about: p.tool}
	switch {
	case kind == commands:
		result.about = "commands at level " + string(e.Sandbox)
	case isFile && below:
		result.about += " below the root"
	case isFile:
		result.about += " outside of the root"
	}
	switch e.Mode {
	case Plan:
		if kind != reads && (kind != commands || e.Sandbox != proto.LevelReadOnly) {
			result.Action, result.Reason = Deny, "plan mode changes nothing; describe the change instead"
		}
	case Asks:
		if kind != reads || !below {
			result.Action = Ask
		}
	case Auto:
		if kind == writes && !below || kind == commands && !confined || kind == others && !e.usual() {
			result.Action = Ask
		}
	case Yolo:
		if e.Tool == "page_eval" && confined && !e.FromSandbox {
			result.Action, result.Reason = Deny, "[repl] from_sandbox does not allow it at sandbox level "+string(e.Sandbox)
		}
	default:
		result.Action = Deny // not a mode
	}
	return result
}

// usual reports whether mode auto allows a call that is neither of a file nor of a command.
func (e *evaluation) usual() bool {
	return e.Tool == "page_eval" && e.FromSandbox || strings.HasPrefix(e.Tool, "mcp:") && e.Trusted
}
