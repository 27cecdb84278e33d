package handoff

import (
	"path/filepath"
	"regexp"
	"strings"
)

// pathMax is how long a path may be that a bundle lists, in bytes.
const pathMax = 512

// places are the directories that paths in a session and in its bundle are
// relative to; "" is unknown. They are not looked up on disk: the session may be
// from another machine.
type places struct {
	root string // of the bundle
	base string // of the session: where its tools worked
}

// startedIn sets the directory that the session was started in. The first one
// counts.
func (p *places) startedIn(dir string) {
	if !filepath.IsAbs(dir) || p.base != "" {
		return
	}
	p.base = filepath.Clean(dir)
	if p.root == "" {
		p.root = p.base
	}
}

// toolPath returns a path of a tool's input as the bundle lists it, "" if it
// cannot be listed.
func (p places) toolPath(path string) string {
	if path != "" && !filepath.IsAbs(path) && p.base != "" {
		path = filepath.Join(p.base, path)
	}
	return p.relative(path)
}

// relative returns a path relative to the root if it is below it, else absolute,
// and "" if it cannot be listed.
func (p places) relative(path string) string {
	if path == "" || len(path) > pathMax || strings.Contains(path, "\n") || !exact(path) {
		return ""
	}
	path = filepath.Clean(path)
	if p.root != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.root, path)
		}
		if rel, err := filepath.Rel(p.root, path); err == nil && filepath.IsLocal(rel) {
			path = rel
		}
	}
	if path == "." { // not a file
		return ""
	}
	return path
}

// withoutRoot replaces the root by "." in a text.
func (p places) withoutRoot(text string) string {
	if len(p.root) < 2 { // "/" is everywhere
		return text
	}
	var b strings.Builder
	done := 0
	for {
		i := strings.Index(text[done:], p.root)
		if i < 0 {
			b.WriteString(text[done:])
			return b.String()
		}
		start, end := done+i, done+i+len(p.root)
		b.WriteString(text[done:start])
		switch {
		case !beginsPath(text[:start]) || !endsName(text[end:]):
			b.WriteString(p.root)
		case strings.HasPrefix(text[end:], "."):
			b.WriteString("./") // ".." would be another directory
		default:
			b.WriteString(".")
		}
		done = end
	}
}

// beginsPath reports whether a path can begin behind a text: the text does not
// end within a path, but may end with a flag, as in -I/usr/include.
func beginsPath(before string) bool {
	before = before[max(0, len(before)-pathMax):] // bounds the search
	word := before[strings.LastIndexFunc(before, func(r rune) bool { return !inPath(r) })+1:]
	return word == "" || word[0] == '-' && !strings.Contains(word, "/")
}

// endsName reports whether a name can end before a text: the dot of a sentence
// ends it, that of an extension does not.
func endsName(after string) bool {
	after = strings.TrimPrefix(after, ".")
	for _, r := range after {
		return r == '/' || !inPath(r)
	}
	return true
}

func inPath(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r > 0x7f || strings.ContainsRune("/._-", r)
}

// changesDir matches commands that change the directory.
var changesDir = regexp.MustCompile(`(^|[\s;&|(])(cd|pushd)\s`)

// command returns a command with "." for the root, without a cd to the root in
// front. ok is false if "." would be another directory in it.
func (p places) command(text string) (command string, ok bool) {
	text = strings.TrimSpace(text)
	for _, quote := range []string{"", "'", `"`} {
		if rest, found := strings.CutPrefix(text, "cd "+quote+p.root+quote); found && p.root != "" {
			rest = strings.TrimLeft(rest, " ")
			for _, and := range []string{"&&", ";", "\n"} {
				if next, found := strings.CutPrefix(rest, and); found {
					text = strings.TrimSpace(next)
					break
				}
			}
		}
	}
	command = p.withoutRoot(text)
	return command, command == text || !changesDir.MatchString(text)
}

// Size of a command that is listed for pasting.
const (
	commandBytes = 1000
	commandLines = 12
)

// interpreters are the commands that run a line of an executor's code.
var interpreters = map[string]string{
	"execute_python3": "python3 -c", "execute_python": "python3 -c", "execute_node": "node -e",
	"execute_ruby": "ruby -e", "execute_perl": "perl -e",
}

// commandOf returns the shell command that does what a call did, "" if there is
// none.
func commandOf(tool string, input object) string {
	code := input.text("code")
	switch tool {
	case "bash":
		return strings.TrimSpace(input.text("command"))
	case "execute_bash", "execute_sh":
		return strings.TrimSpace(code)
	}
	run, code := interpreters[tool], strings.TrimSpace(code)
	if run == "" || code == "" || strings.Contains(code, "\n") {
		return ""
	}
	return run + " '" + strings.ReplaceAll(code, "'", `'\''`) + "'"
}

// pasteable reports whether a command is complete and short enough to be pasted.
func pasteable(command string) bool {
	return command != "" && len(command) <= commandBytes && strings.Count(command, "\n") < commandLines &&
		exact(command) && closed(command)
}

// closed reports whether no quote and no backslash at the end of a command
// affects what is pasted behind it. Here-documents are not scanned.
func closed(command string) bool {
	if strings.Contains(command, "<<") {
		return true
	}
	var quote byte               // the open one, '#' in a comment, 0 for none
	escaped, word := false, true // word: a word may begin here
	for i := range len(command) {
		c := command[i]
		switch {
		case escaped:
			escaped = false
		case quote == '#':
			if c == '\n' {
				quote = 0
			}
		case c == '\\' && quote != '\'':
			escaped = true
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"' || c == '`' || c == '#' && word:
			quote = c
		}
		word = strings.IndexByte(" \t\n;&|(", c) >= 0
	}
	return !escaped && (quote == 0 || quote == '#')
}
