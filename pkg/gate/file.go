package gate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"zino/proto"
)

// Rule is one rule of a policy file. All its keys must match.
type Rule struct {
	Action    Action           `toml:"action" json:"action"`
	Tools     []toolPattern    `toml:"tool" json:"tool,omitempty"`
	Commands  []commandPattern `toml:"command" json:"command,omitempty"`
	Paths     []pathPattern    `toml:"path" json:"path,omitempty"`
	Hosts     []hostPattern    `toml:"host" json:"host,omitempty"`
	Users     []requester      `toml:"user" json:"user,omitempty"` // names or uids
	Sandboxes []level          `toml:"sandbox" json:"sandbox,omitempty"`
	Grantable Grant            `toml:"grantable" json:"grantable,omitzero"`
	Reason    string           `toml:"reason" json:"reason,omitempty"`
	Line      int              `toml:"-" json:"line,omitzero"`
}

// Patterns returns what the rule matches besides tools, for people.
func (r *Rule) Patterns() string {
	var list []string
	add := func(key string, texts []string) {
		if len(texts) > 0 {
			list = append(list, key+" "+strings.Join(texts, " | "))
		}
	}
	add("command", names(r.Commands))
	add("path", names(r.Paths))
	add("host", names(r.Hosts))
	add("user", names(r.Users))
	add("sandbox", names(r.Sandboxes))
	return strings.Join(list, ", ")
}

// ToolNames returns the tools that the rule is for, "*" for all.
func (r *Rule) ToolNames() string { return cmp.Or(strings.Join(names(r.Tools), ","), "*") }

// names returns patterns as they stand in the file.
func names[P fmt.Stringer](patterns []P) (list []string) {
	for _, p := range patterns {
		list = append(list, p.String())
	}
	return list
}

// AtOff reports whether the rule holds at the sandbox level off.
func (r *Rule) AtOff() bool {
	return len(r.Sandboxes) == 0 || slices.Contains(r.Sandboxes, level{text(proto.LevelOff)})
}

// File is a policy file that was read.
type File struct {
	Path  string
	Rules []Rule
	// Problems are its mistakes as lines "FILE:LINE:COLUMN: …". A file with a problem has
	// no rules, and everything but reads is denied.
	Problems []string

	data  []byte
	spans []span // of Rules
}

// rulesMax limits the rules of a file.
const rulesMax = 1000

// span is the position of a rule in the file.
type span struct {
	start, end   int // bytes
	line, column int // of the header
	keys         []position
}

// position is that of a key.
type position struct {
	name         string
	line, column int
}

// parse reads a policy file. Only that of the host may name users.
func parse(path string, data []byte, host bool) *File {
	f := &File{Path: path, data: data}
	var content struct {
		Version *int   `toml:"version"`
		Rules   []Rule `toml:"rule"`
	}
	decoder := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields()
	if err := decoder.Decode(&content); err != nil {
		f.explain(err)
		return f
	}
	top, spans := layout(data)
	for _, key := range top {
		if key.name == "rule" {
			f.problem(key.line, key.column, "write each rule as a table: [[rule]]")
		} else if *content.Version != 1 { // the only other key
			f.problem(key.line, key.column, "version must be 1: a newer Zino may have written this file")
		}
	}
	if len(f.Problems) == 0 {
		for i := range content.Rules {
			content.Rules[i].Line = spans[i].line
			f.check(&content.Rules[i], spans[i], host)
		}
	}
	if n := len(content.Rules); n > rulesMax {
		f.problem(1, 1, fmt.Sprintf("%d rules are more than %d", n, rulesMax))
	}
	if len(f.Problems) == 0 {
		f.Rules, f.spans = content.Rules, spans
	}
	return f
}

// problem adds a mistake.
func (f *File) problem(line, column int, text string) {
	f.Problems = append(f.Problems, fmt.Sprintf("%s:%d:%d: %s", f.Path, line, column, text))
}

// explain adds the mistakes of a parser's error.
func (f *File) explain(err error) {
	if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		for i := range strict.Errors {
			line, column := strict.Errors[i].Position()
			f.problem(line, column, fmt.Sprintf("unknown key %q", strings.Join(strict.Errors[i].Key(), ".")))
		}
		return
	}
	line, column := 1, 1
	if e, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, column = e.Position()
	}
	f.problem(line, column, strings.TrimPrefix(err.Error(), "toml: "))
}

// check adds the mistakes of a rule whose keys are valid one by one.
func (f *File) check(r *Rule, at span, host bool) {
	if r.Action == None {
		f.problem(at.line, at.column, "the rule has no action: allow, ask or deny")
	}
	for _, key := range at.keys {
		empty := map[string]bool{
			"tool": len(r.Tools) == 0, "command": len(r.Commands) == 0, "path": len(r.Paths) == 0, "host": len(r.Hosts) == 0,
			"user": len(r.Users) == 0, "sandbox": len(r.Sandboxes) == 0,
		}[key.name]
		switch {
		case empty:
			f.problem(key.line, key.column, key.name+" is an empty list: leave it out to match everything")
		case key.name == "user" && !host:
			f.problem(key.line, key.column, "user is for the host's file only: "+HostFile)
		}
	}
}

// layout returns the positions of the keys above the rules, and of the rules. data was
// decoded, so its syntax is valid.
func layout(data []byte) (top []position, spans []span) {
	p := unstable.Parser{}
	p.Reset(data)
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.ArrayTable:
			start := p.Shape(e.Child().Raw).Start
			offset := bytes.LastIndexByte(data[:start.Offset], '\n') + 1 // the header's line
			if n := len(spans); n > 0 {
				spans[n-1].end = offset
			}
			spans = append(spans, span{start: offset, end: len(data), line: start.Line, column: max(1, start.Column-2)})
		case unstable.KeyValue:
			it := e.Key()
			it.Next()
			start := p.Shape(it.Node().Raw).Start
			key := position{string(it.Node().Data), start.Line, start.Column}
			if n := len(spans); n > 0 {
				spans[n-1].keys = append(spans[n-1].keys, key)
			} else {
				top = append(top, key)
			}
		}
	}
	return top, spans
}

// Add returns the file's content with one more rule at its end.
func (f *File) Add(action Action, tool, pattern string) ([]byte, error) {
	var b bytes.Buffer
	b.Write(f.data)
	switch n := len(f.data); {
	case n == 0:
		b.WriteString("version = 1\n")
	case f.data[n-1] != '\n':
		b.WriteByte('\n')
	}
	key := ""
	switch tool {
	case "bash":
		key = "command"
	case "read", "write", "edit":
		key = "path"
	case "mcp":
		tool = "mcp:" + cmp.Or(pattern, "*")
		pattern = ""
	default:
		key = "host"
	}
	fmt.Fprintf(&b, "\n[[rule]]\naction = %q\ntool = [%s]\n", action, quote(tool))
	if pattern != "" {
		fmt.Fprintf(&b, "%s = [%s]\n", key, quote(pattern))
	}
	return f.checked(b.Bytes())
}

// quote returns a string of TOML.
func quote(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r == '"' || r == '\\' || !unicode.IsPrint(r) }) {
		return `"` + s + `"`
	}
	out, err := toml.Marshal(map[string]string{"x": s})
	if err != nil {
		return `""` // a string has a form
	}
	return strings.TrimSpace(strings.TrimPrefix(string(out), "x ="))
}

// Remove returns the file's content without a rule, counted from 1.
func (f *File) Remove(n int) ([]byte, error) {
	if n < 1 || n > len(f.spans) {
		return nil, proto.Errorf(proto.CodeInvalid, "%s has no rule %d: zino policy show lists them", f.Path, n)
	}
	at := f.spans[n-1]
	return f.checked(slices.Concat(f.data[:at.start], f.data[at.end:]))
}

// checked returns a new content of the user's file if it is valid.
func (f *File) checked(data []byte) ([]byte, error) {
	if now := parse(f.Path, data, false); len(now.Problems) > 0 {
		return nil, proto.Errorf(proto.CodeInvalid, "%s", now.Problems[0])
	}
	return data, nil
}
