package handoff

import "strings"

// A command that can be pasted has at most so many bytes and lines.
const (
	commandBytes = 1000
	commandLines = 12
)

// interpreters run a line of code that executors of these names run.
var interpreters = map[string]string{
	"execute_python3": "python3 -c", "execute_python": "python3 -c", "execute_node": "node -e",
	"execute_ruby": "ruby -e", "execute_perl": "perl -e",
}

// commandOf is the shell command that a call stands for, "" if there is none.
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

// pasteable reports whether a command is whole and of a size to be pasted.
func pasteable(command string) bool {
	return command != "" && len(command) <= commandBytes && strings.Count(command, "\n") < commandLines &&
		exact(command) && closed(command)
}

// closed reports whether a command ends with itself: no quote and no backslash
// takes in what is pasted behind it. What is in a here-document is not looked at.
func closed(command string) bool {
	if strings.Contains(command, "<<") {
		return true
	}
	s := scanner{word: true}
	for i := range len(command) {
		s.take(command[i])
	}
	return !s.escaped && (s.quote == 0 || s.quote == '#')
}

// scanner knows where in a shell's text it is.
type scanner struct {
	quote   byte // the one that is open, '#' in a comment, 0 for none
	escaped bool
	word    bool // a word may begin
}

func (s *scanner) take(c byte) {
	switch {
	case s.escaped:
		s.escaped = false
	case s.quote == '#':
		if c == '\n' {
			s.quote = 0
		}
	case c == '\\' && s.quote != '\'':
		s.escaped = true
	case s.quote != 0:
		if c == s.quote {
			s.quote = 0
		}
	case c == '\'' || c == '"' || c == '`' || c == '#' && s.word:
		s.quote = c
	}
	s.word = strings.IndexByte(" \t\n;&|(", c) >= 0
}
