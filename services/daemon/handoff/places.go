package handoff

import (
	"path/filepath"
	"regexp"
	"strings"
)

// pathMax is the maximum length in bytes of a path in a bundle.
const pathMax = 512

// places are the directories to which the paths in a session and in its bundle are
// relative; "" is unknown. They need not exist: the session may be from another
// machine.
type places struct {
	root string // of the bundle
	base string // of the session: the working directory of its tools
}

// startedIn sets the directory in which the session was started. Only the first call
// has an effect.
func (p *places) startedIn(dir string) {
	if !filepath.IsAbs(dir) || p.base != "" {
		return
	}
	p.base = filepath.Clean(dir)
	if p.root == "" {
		p.root = p.base
	}
}

// toolPath returns the form of a tool's path in the bundle, or "" if it cannot be
// listed.
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
	if len(p.root) < 2 { // unknown, or "/", which is part of every path
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

// beginsPath reports whether a path can begin after a text: the text does not end
// within a path, but may end with a flag, as in -I/usr/include.
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

// command replaces the root by "." in a command and removes a leading cd to the root.
// ok is false if "." would mean another directory, because the command changes it.
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

// Limits of a listed command.
const (
	commandBytes = 1000
	commandLines = 12
)

// interpreters are the commands that run one line of code, by executor.
var interpreters = map[string]string{
	"execute_python3": "python3 -c", "execute_python": "python3 -c", "execute_node": "node -e",
	"execute_ruby": "ruby -e", "execute_perl": "perl -e",
}

// commandOf returns the shell command that is equivalent to a call, or "" if there is
// no such command.
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

// pasteable reports whether a command is complete and short enough to paste.
func pasteable(command string) bool {
	return command != "" && len(command) <= commandBytes && strings.Count(command, "\n") < commandLines &&
		exact(command) && closed(command)
}

// closed reports whether a command has no open quote and no final backslash, which
// would affect the text pasted after it. Here-documents are not scanned.
func closed(command string) bool {
	if strings.Contains(command, "<<") {
		return true
	}
	var quote byte               // the open quote, '#' in a comment, or 0
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
