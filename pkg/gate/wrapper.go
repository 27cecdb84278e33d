package gate

import (
	"path/filepath"
	"slices"
	"strings"
)

// wrapper describes the command line of a program that runs another one.
type wrapper struct {
	flags  string   // short options without a value
	values string   // short options with one
	long   []string // long options; one with a value ends in "="
	number bool     // a number is an option, as in nice -5
	skip   int      // words between the options and the command
	set    bool     // variables may be set before the command
	own    bool     // has to be allowed itself: it changes rights, or runs a command often
}

// wrappers are the programs that are looked through. An option that is not listed hides
// the command behind it.
var wrappers = map[string]wrapper{
	"builtin": {},
	"command": {flags: "p"},
	"doas":    {flags: "n", values: "u", own: true},
	"env":     {flags: "i0v", values: "u", long: []string{"ignore-environment", "null", "debug", "unset="}, set: true},
	"exec":    {},
	"ionice":  {flags: "t", values: "cn", long: []string{"ignore", "class=", "classdata="}},
	"nice":    {values: "n", long: []string{"adjustment="}, number: true},
	"nohup":   {},
	"stdbuf":  {values: "ioe", long: []string{"input=", "output=", "error="}},
	"sudo":    {flags: "nEHP", values: "ug", long: []string{"non-interactive", "preserve-env", "set-home", "user=", "group="}, set: true, own: true},
	"time":    {flags: "pv", values: "f", long: []string{"portability", "verbose", "format="}},
	"timeout": {flags: "v", values: "sk", long: []string{"foreground", "preserve-status", "verbose", "signal=", "kill-after="}, skip: 1},
	"xargs":   {flags: "0rtx", values: "nPLsdEI", long: []string{"null", "no-run-if-empty", "verbose", "exit", "max-args=", "max-procs=", "max-chars=", "delimiter=", "eof="}, own: true},
}

// changers are builtins after which other commands may mean something else.
var changers = []string{"hash", "enable", "bind", "complete", "coproc", "fc", "function", "select", ".", "source"}

// command adds a simple command, and the commands that it runs.
func (r *reader) command(words []word, open bool, doubt string) {
	sources := make([]string, len(words))
	for i, w := range words {
		sources[i] = w.source
	}
	p := part{tool: "bash", source: strings.Join(sources, " "), words: words, open: open, doubt: doubt}
	if !words[0].known {
		p.doubt = unknownName
	}
	if r.moved {
		p.lose()
	}
	at := len(r.parts)
	r.parts = append(r.parts, p)
	if !words[0].known {
		return
	}
	name := words[0].text
	if dir := filepath.Dir(name); dir == "/bin" || dir == "/usr/bin" {
		name = filepath.Base(name)
	}
	args := words[1:]
	never := func(why string) { r.parts[at].doubt = name + " " + why }
	switch w, wraps := wrappers[name]; {
	case wraps:
		r.unwrap(at, name, w, open, doubt)
	case name == "sh", name == "bash", name == "dash":
		r.shell(at, open, doubt)
	case name == "find":
		r.find(at, doubt)
	case name == "cd", name == "pushd", name == "popd":
		r.moved = true
	case name == "test" || name == "[":
		for i, w := range args {
			if slices.Contains([]string{"-v", "-R"}, w.text) || !w.known && (!strings.HasPrefix(w.source, `"`) || i == 0 && len(args) <= 3) {
				never("may evaluate the name of a variable")
			}
		}
	case name == "eval":
		never("runs its words as commands")
		r.nested(args)
	case name == "trap":
		never("runs its first word as a command")
		if len(args) > 0 {
			r.nested(args[:1])
		}
	case name == "alias":
		never("can take the place of any command")
		for _, w := range args {
			_, w.text, _ = strings.Cut(w.text, "=")
			r.nested([]word{w})
		}
	case name == "let":
		never("evaluates its words")
	case slices.Contains(changers, name):
		never("can change what other commands are")
	case slices.Contains([]string{"export", "readonly", "declare", "typeset", "local", "read", "readarray", "mapfile", "getopts", "unset"}, name),
		name == "printf" && len(args) > 0 && (!args[0].known || strings.HasPrefix(args[0].text, "-v")):
		strict := slices.Contains([]string{"export", "readonly", "declare", "typeset", "local"}, name)
		for _, w := range args {
			variable, _, _ := strings.Cut(w.text, "=")
			option := strings.HasPrefix(variable, "-") && !strings.ContainsAny(variable, "Cv")
			if !w.known || !option && !r.listed(variable) && (strict || !isPrivate(variable)) {
				never("sets a variable that can change what a command does")
			}
		}
	}
}

// nested parses words that are run as a command, if they are known.
func (r *reader) nested(words []word) {
	texts := make([]string, len(words))
	for i, w := range words {
		if !w.known {
			return
		}
		texts[i] = w.text
	}
	r.parse(strings.Join(texts, " "))
}

// options reads the options of a wrapper, and returns the number of words before the
// command and the string that xargs replaces. known is false if one of the words is not
// known, ok if an option is not in the table.
func (w wrapper) options(words []word) (n int, replaced string, known, ok bool) {
	i := 1
	for ; i < len(words) && words[i].known; i++ {
		arg := words[i].text
		switch {
		case arg == "--":
			return w.skipped(words, i+1, replaced)
		case strings.HasPrefix(arg, "--"):
			option, _, has := strings.Cut(arg[2:], "=")
			if slices.Contains(w.long, option+"=") {
				if !has {
					i++
				}
			} else if !slices.Contains(w.long, option) {
				return 0, "", false, false
			}
		case strings.HasPrefix(arg, "-") && arg != "-":
			if w.number && strings.Trim(arg[1:], "0123456789") == "" {
				continue
			}
			letters := strings.TrimLeft(arg[1:], w.flags)
			if letters == "" {
				continue
			}
			if !strings.Contains(w.values, letters[:1]) {
				return 0, "", false, false
			}
			value := letters[1:]
			if value == "" {
				if i++; i < len(words) {
					value = words[i].text
				}
			}
			if letters[0] == 'I' {
				replaced = value
			}
		default:
			return w.skipped(words, i, replaced)
		}
	}
	return w.skipped(words, i, replaced)
}

// skipped goes past the words between the options and the command.
func (w wrapper) skipped(words []word, i int, replaced string) (n int, repl string, known, ok bool) {
	n = min(i+w.skip, len(words))
	return n, replaced, !slices.ContainsFunc(words[:n], func(w word) bool { return !w.known }), true
}

// unwrap adds the command that the one at runs.
func (r *reader) unwrap(at int, name string, w wrapper, open bool, doubt string) {
	words := r.parts[at].words
	if name == "command" && len(words) > 1 && (words[1].text == "-v" || words[1].text == "-V") {
		return // it only says what a command is
	}
	n, replaced, known, ok := w.options(words)
	if !ok {
		r.conceal(at, "an option of "+name+" hides the command that it runs")
		return
	}
	if !known {
		doubt = unknownName
	}
	for ; w.set && n < len(words) && words[n].known && strings.Contains(words[n].text, "="); n++ {
		variable, _, _ := strings.Cut(words[n].text, "=")
		if why := r.assignment(variable); why != "" {
			doubt = why
		}
	}
	inner := words[n:]
	switch {
	case name == "xargs" && replaced != "":
		inner = slices.Clone(inner)
		for i := range inner {
			inner[i].known = inner[i].known && !strings.Contains(inner[i].text, replaced)
		}
	case name == "xargs":
		open = true
	}
	if name == "xargs" && len(inner) == 0 {
		inner = []word{{"echo", true, "echo"}}
	}
	if len(inner) == 0 {
		if open || !known {
			r.parts[at].doubt = unknownName
		}
		return
	}
	r.parts[at].pass, r.parts[at].doubt = !w.own, ""
	r.command(inner, open, doubt)
}

// conceal marks the part at as one that hides commands.
func (r *reader) conceal(at int, why string) {
	r.parts[at].doubt, r.parts[at].opaque = why, true
}

// shell adds the commands of sh -c.
func (r *reader) shell(at int, open bool, doubt string) {
	words := r.parts[at].words
	script, i := false, 1
	for ; i < len(words) && words[i].known; i++ {
		arg := words[i].text
		if arg == "--" || arg == "-" {
			i++
			break
		}
		if arg == "--norc" || arg == "--noprofile" {
			continue
		}
		if len(arg) < 2 || arg[0] != '-' && arg[0] != '+' {
			break
		}
		if strings.Trim(arg[1:], "euxvfbCco") != "" {
			r.conceal(at, "an option of "+words[0].text+" hides the commands that it runs")
			return
		}
		script = script || strings.Contains(arg[1:], "c")
		if strings.HasSuffix(arg, "o") {
			i++
		} else if strings.Contains(arg, "o") {
			r.conceal(at, "an option of "+words[0].text+" hides the commands that it runs")
			return
		}
	}
	switch known := !slices.ContainsFunc(words[:min(i+1, len(words))], func(w word) bool { return !w.known }); {
	case !known:
		r.parts[at].doubt = unknownName
	case i >= len(words):
		r.parts[at].doubt = words[0].text + " runs the commands of its input"
	case script:
		r.parts[at].pass = doubt == ""
		r.parse(words[i].text)
	}
}

// find adds the commands and the files of find.
func (r *reader) find(at int, doubt string) {
	words := r.parts[at].words
	for i := 1; i < len(words); i++ {
		switch arg := words[i]; {
		case !arg.known:
			r.parts[at].doubt = "find may be asked to run a command by a word that is not known"
		case slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, arg.text):
			var inner []word
			end := false
			for i++; i < len(words) && !end; i++ {
				w := words[i]
				plus := w.text == "+" && len(inner) > 0 && inner[len(inner)-1].text == "{}"
				if end = w.known && (w.text == ";" || plus); end {
					break
				}
				w.known = w.known && !strings.Contains(w.text, "{}")
				inner = append(inner, w)
			}
			if !end || len(inner) == 0 {
				r.conceal(at, "the command behind "+arg.text+" has no end")
				return
			}
			if strings.HasSuffix(arg.text, "dir") && isRelative(inner[0]) {
				inner[0].known = false
			}
			r.command(inner, words[i].text == "+", doubt)
		case slices.Contains([]string{"-fprint", "-fprint0", "-fprintf", "-fls"}, arg.text):
			if i++; i < len(words) {
				p := part{tool: "write", source: arg.text + " " + words[i].source, path: words[i].text}
				if !words[i].known {
					p.path, p.doubt = "", unknownPath
				}
				if r.moved {
					p.lose()
				}
				r.parts = append(r.parts, p)
			}
		}
	}
}
