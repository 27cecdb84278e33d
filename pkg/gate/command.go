package gate

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

const (
	commandMax = 64 << 10 // bytes of a command that is parsed
	depthMax   = 4        // of commands in the words of others, such as sh -c
)

// word is a word of a command.
type word struct {
	text   string // without quotes, if known
	known  bool   // the text is the same whenever and wherever the command runs
	source string
}

// part is what a command line does: a simple command, or a redirection to or from a file.
type part struct {
	tool   string // "bash", or "write" and "read" for a redirection
	source string

	words []word // of a command
	open  bool   // more words follow, which are not known
	pass  bool   // the command runs another part, which alone has to be allowed

	path string // of a redirection; empty: not known

	// doubt says why no rule can allow this part.
	doubt string
	// opaque: commands may be hidden in this part, so that no rule could deny them.
	opaque bool
}

// reader collects the parts of a command line.
type reader struct {
	env   []string // patterns of variables that an assignment may set
	parts []part
	depth int
	moved bool // cd was seen: relative paths lead elsewhere
}

// partsOf returns the parts of a command line. env are patterns of the names of variables
// that may be set without a doubt.
func partsOf(command string, env []string) []part {
	r := &reader{env: env}
	r.parse(command)
	return r.parts
}

// note adds a doubt that belongs to no command.
func (r *reader) note(source, doubt string) {
	r.parts = append(r.parts, part{tool: "bash", source: source, doubt: doubt})
}

// hide adds a text in which commands may be hidden.
func (r *reader) hide(source, why string) {
	r.parts = append(r.parts, part{tool: "bash", source: source, doubt: why, opaque: true})
}

// dialects are the places at which shells differ: a line with one of them is read in both
// ways, since sh may be either.
var dialects = []string{"$'", "[[", "((", "&>", "|&", ">&", "<(", ">(", "+=", "coproc", "function", "select", "time", "!(", "?(", "*(", "@("}

// parse adds the parts of a command line: as POSIX has it, else as bash.
func (r *reader) parse(command string) {
	if r.depth++; r.depth > depthMax+1 {
		r.hide(command, "the commands are nested too deeply")
	} else if len(command) > commandMax {
		r.hide(command[:80]+"…", "the command is too long")
	} else {
		r.parseBoth(command)
	}
	r.depth--
}

func (r *reader) parseBoth(command string) {
	if strings.ContainsFunc(command, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }) {
		r.note(command, "the command has control characters")
	}
	file, err := parseAs(syntax.LangPOSIX, command)
	differs := slices.ContainsFunc(dialects, func(s string) bool { return strings.Contains(command, s) })
	if err == nil {
		r.walk(file, command)
		if !differs {
			return
		}
	}
	bash, bashErr := parseAs(syntax.LangBash, command)
	switch {
	case bashErr == nil && err == nil:
		seen := r.parts
		r.parts = nil
		r.walk(bash, command)
		r.parts = append(seen, slices.DeleteFunc(r.parts, func(p part) bool {
			return slices.ContainsFunc(seen, p.equal)
		})...)
	case bashErr == nil:
		r.walk(bash, command)
	case err == nil:
		r.note(command, "shells read this command in different ways")
	default:
		r.hide(command, "the command cannot be parsed: "+strings.TrimPrefix(bashErr.Error(), "command:"))
	}
}

// parsers are unused parsers of a dialect: a new one costs more than a short line.
var parsers = map[syntax.LangVariant]*sync.Pool{
	syntax.LangPOSIX: {New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangPOSIX)) }},
	syntax.LangBash:  {New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }},
}

func parseAs(lang syntax.LangVariant, command string) (*syntax.File, error) {
	p := parsers[lang].Get().(*syntax.Parser)
	defer parsers[lang].Put(p)
	return p.Parse(strings.NewReader(command), "command")
}

func (p *part) equal(o part) bool {
	return p.tool == o.tool && p.source == o.source && p.path == o.path && p.open == o.open && p.pass == o.pass && p.doubt == o.doubt && slices.Equal(p.words, o.words)
}

// walk adds the parts of a parsed command line.
func (r *reader) walk(file *syntax.File, source string) {
	text := func(n syntax.Node) string {
		start, end := int(n.Pos().Offset()), min(int(n.End().Offset()), len(source))
		return source[min(start, end):end]
	}
	var loops []int // the first parts of the loops around a node
	var around []syntax.Node
	moved := r.moved
	syntax.Walk(file, func(node syntax.Node) bool {
		if node == nil {
			last := around[len(around)-1]
			around = around[:len(around)-1]
			if isLoop(last) {
				start := loops[len(loops)-1]
				loops = loops[:len(loops)-1]
				if r.moved && !moved { // the commands before cd run again behind it
					for i := start; i < len(r.parts); i++ {
						r.parts[i].lose()
					}
				}
			}
			return true
		}
		switch n := node.(type) {
		case *syntax.CallExpr:
			doubt := ""
			for _, a := range n.Assigns {
				if doubt = r.assignment(a.Name.Value); doubt != "" {
					break
				}
			}
			if len(n.Args) > 0 {
				words := make([]word, len(n.Args))
				for i, arg := range n.Args {
					words[i] = wordOf(arg, text(arg))
				}
				r.command(words, false, doubt)
			} else if doubt != "" {
				r.note(text(n), doubt)
			}
		case *syntax.Redirect:
			r.redirect(n, text)
		case *syntax.DeclClause:
			words := []word{{n.Variant.Value, true, n.Variant.Value}}
			for _, a := range n.Args {
				w := word{source: text(a)}
				if a.Name != nil {
					w.text, w.known = a.Name.Value, true
				} else if a.Value != nil {
					w = wordOf(a.Value, w.source)
				}
				words = append(words, w)
			}
			r.command(words, false, "")
		case *syntax.FuncDecl:
			r.note(text(n), "a function can take the place of any command")
		case *syntax.WordIter:
			r.variable(n.Name.Value, text(n))
		case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
			r.arithmetic(strings.TrimPrefix(text(n), "let "), text(n))
		case *syntax.TestClause:
			if test := text(n); slices.ContainsFunc(evaluating, func(op string) bool { return strings.Contains(test, " "+op+" ") }) {
				r.note(test, evaluates)
			}
		case *syntax.ParamExp:
			if n.Excl || n.Exp != nil && n.Exp.Op == syntax.OtherParamOps {
				r.note(text(n), evaluates)
			}
			if n.Index != nil {
				r.arithmetic(text(n.Index), text(n))
			}
			if n.Slice != nil {
				_, offsets, _ := strings.Cut(text(n), ":")
				r.arithmetic(strings.TrimSuffix(offsets, "}"), text(n))
			}
			if n.Param != nil && n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
				r.variable(n.Param.Value, text(n))
			}
		case *syntax.BinaryArithm:
			if w, ok := n.X.(*syntax.Word); ok && strings.HasSuffix(n.Op.String(), "=") && !slices.Contains([]string{"==", "!=", "<=", ">="}, n.Op.String()) {
				r.variable(text(w), text(n))
			}
		case *syntax.UnaryArithm:
			if w, ok := n.X.(*syntax.Word); ok && (n.Op == syntax.Inc || n.Op == syntax.Dec) {
				r.variable(text(w), text(n))
			}
		case *syntax.ExtGlob:
			if strings.ContainsAny(n.Pattern.Value, "$`") {
				r.hide(text(n), "the pattern may run commands")
			}
		case *syntax.SglQuoted:
			r.subscript(n.Value, text(n))
		case *syntax.Lit:
			if strings.Contains(n.Value, `\`) {
				r.subscript(strings.ReplaceAll(n.Value, `\`, ""), text(n))
			}
		}
		if around = append(around, node); isLoop(node) {
			loops = append(loops, len(r.parts))
		}
		return true
	})
}

const evaluates = "bash runs the commands in a value that it evaluates"

// evaluating are operators of tests that evaluate their operands.
var evaluating = []string{"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"}

// arithmetic notes an expression with anything but numbers: bash runs the commands in the
// subscript of a variable's value, such as a[$(id)].
func (r *reader) arithmetic(expression, source string) {
	if strings.ContainsFunc(expression, func(c rune) bool { return unicode.IsLetter(c) || c == '_' || c == '`' || c == '[' }) {
		r.note(source, evaluates)
	}
}

// subscript notes a quoted text that bash may expand when it takes it for the name of a
// variable: test -v 'a[$(id)]'.
func (r *reader) subscript(quoted, source string) {
	_, inner, _ := strings.Cut(quoted, "[")
	if strings.Contains(inner, "$(") || strings.Contains(inner, "${") || strings.Contains(inner, "`") {
		r.note(source, "bash may run commands in a subscript")
	}
}

func isLoop(n syntax.Node) bool {
	switch n.(type) {
	case *syntax.WhileClause, *syntax.ForClause:
		return true
	}
	return false
}

// lose forgets what a relative path stands for.
func (p *part) lose() {
	if p.path != "" && !filepath.IsAbs(p.path) {
		p.path = ""
		p.doubt = unknownPath
	}
	if len(p.words) > 0 && isRelative(p.words[0]) {
		p.words[0].known = false
		p.doubt = unknownName
	}
}

// isRelative reports whether a word names a program by a relative path.
func isRelative(w word) bool {
	return w.known && strings.Contains(w.text, "/") && !filepath.IsAbs(w.text)
}

const (
	unknownName = "which command it is shows only when it runs"
	unknownPath = "which file it is shows only when it runs"
)

// listed reports whether a variable is in [gate] env.
func (r *reader) listed(name string) bool {
	return slices.ContainsFunc(r.env, func(pattern string) bool { return glob(pattern, name) })
}

// assignment returns the doubt about an assignment.
func (r *reader) assignment(name string) string {
	if r.listed(name) {
		return ""
	}
	return "the variable " + name + " can change what a command does"
}

// variable notes a variable that a loop or an expansion sets. Names in lower case have no
// meaning for programs, except those of proxies.
func (r *reader) variable(name, source string) {
	if !r.listed(name) && !isPrivate(name) {
		r.note(source, r.assignment(name))
	}
}

func isPrivate(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_0123456789") == "" && !strings.HasSuffix(name, "_proxy")
}

// wordOf returns a word. It is known if it has no expansion, brace list or glob.
func wordOf(w *syntax.Word, source string) word {
	if len(w.Parts) == 1 {
		if lit, ok := w.Parts[0].(*syntax.Lit); ok && strings.IndexFunc(lit.Value, isSpecial) < 0 {
			return word{lit.Value, true, source}
		}
	}
	var bare strings.Builder // the unquoted text, with a letter for each quoted part
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			plain, ok := unescaped(p.Value)
			if !ok {
				return word{source: source}
			}
			bare.WriteString(plain)
		case *syntax.SglQuoted:
			if p.Dollar {
				return word{source: source}
			}
			bare.WriteByte('x')
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if ok {
					_, ok = unescaped(lit.Value)
				}
				if !ok {
					return word{source: source}
				}
			}
			if p.Dollar {
				return word{source: source}
			}
			bare.WriteByte('x')
		default:
			return word{source: source}
		}
	}
	if expands(bare.String()) {
		return word{source: source}
	}
	fields, err := expand.Fields(&expand.Config{}, w)
	if err != nil || len(fields) != 1 {
		return word{source: source}
	}
	return word{fields[0], true, source}
}

// isSpecial reports whether a character may have a meaning for the shell.
func isSpecial(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_-./:=,+@%", c))
}

// unescaped replaces escaped characters by a letter; false if something is expanded.
func unescaped(s string) (string, bool) {
	if !strings.ContainsAny(s, "\\$`") {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
			b.WriteByte('x')
		case '$', '`':
			return "", false
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), true
}

// expands reports whether unquoted text has a glob, a brace list or a tilde.
func expands(bare string) bool {
	if strings.ContainsAny(bare, "*?") || bare != "[" && bare != "[[" && strings.Contains(bare, "[") {
		return true
	}
	if strings.Contains(bare, "{") && (strings.Contains(bare, ",") || strings.Contains(bare, "..")) {
		return true
	}
	return strings.HasPrefix(bare, "~") || strings.Contains(bare, "=~") || strings.Contains(bare, ":~")
}

// redirect adds a redirection to or from a file. Descriptors and /dev/null are free.
func (r *reader) redirect(n *syntax.Redirect, text func(syntax.Node) string) {
	if n.N != nil && strings.Trim(n.N.Value, "0123456789") != "" {
		r.variable(strings.Trim(n.N.Value, "{}"), text(n))
	}
	p := part{tool: "write", source: n.Op.String() + " " + text(n.Word)}
	target := wordOf(n.Word, text(n.Word))
	switch n.Op {
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return
	case syntax.DplIn, syntax.DplOut:
		if target.known && strings.Trim(target.text, "0123456789-") == "" {
			return
		}
	case syntax.RdrIn:
		p.tool = "read"
	}
	switch {
	case !target.known || target.text == "":
		p.doubt = unknownPath
	case slices.Contains([]string{"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"}, target.text), isDescriptor(target.text):
		return
	default:
		p.path = target.text
	}
	if r.moved {
		p.lose()
	}
	r.parts = append(r.parts, p)
}

// isDescriptor reports whether a path is one of /dev/fd.
func isDescriptor(path string) bool {
	n, ok := strings.CutPrefix(path, "/dev/fd/")
	return ok && n != "" && strings.Trim(n, "0123456789") == ""
}
