package fakellm

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// What begins a line that is not text.
const (
	heading = "==="
	calling = "@call"
)

// Load reads a script from a file.
func Load(path string) ([]Turn, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	turns, err := Parse(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return turns, nil
}

// Parse reads a script from text. Its errors begin with the line's number.
func Parse(text string) ([]Turn, error) {
	var turns []Turn
	var body []string
	end := func() {
		if len(turns) > 0 {
			turns[len(turns)-1].Text = strings.Join(body, "\n")
		}
		body = nil
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, heading):
			end()
			turn, err := parseHeading(line[len(heading):])
			if err != nil {
				return nil, fmt.Errorf("%d: %w", i+1, err)
			}
			turns = append(turns, turn)
		case len(turns) > 0 && strings.HasPrefix(line, calling):
			if err := turns[len(turns)-1].addCall(line[len(calling):]); err != nil {
				return nil, fmt.Errorf("%d: %w", i+1, err)
			}
		case len(turns) > 0:
			body = append(body, unquoteLine(line))
		case strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#"):
			return nil, fmt.Errorf("%d: text before the first turn: begin one with a line such as %q", i+1, "=== reply")
		}
	}
	end()
	return turns, nil
}

// unquoteLine drops the backslash of a line of text that looks like a heading
// or a call.
func unquoteLine(line string) string {
	rest := strings.TrimLeft(line, `\`)
	if rest != line && (strings.HasPrefix(rest, heading) || strings.HasPrefix(rest, calling)) {
		return line[1:]
	}
	return line
}

// addCall takes the rest of a line that begins with @call.
func (t *Turn) addCall(rest string) error {
	if t.Status != 0 || t.Silent {
		return fmt.Errorf("a call in a turn that is no reply; a line of text is written \\%s", calling)
	}
	name, after := cutWord(rest)
	if name == "" || strings.ContainsAny(name, `{="`) || strings.HasPrefix(rest, name) {
		return fmt.Errorf("a call is %s NAME ARGUMENTS; a line of text is written \\%[1]s", calling)
	}
	rest = after
	call := Call{Name: name}
	for {
		word, after := cutWord(rest)
		if !call.set(word) {
			call.Args = strings.TrimSpace(rest)
			t.Calls = append(t.Calls, call)
			return nil
		}
		rest = after
	}
}

// set takes one setting of a call; false if the word is none.
func (c *Call) set(word string) bool {
	switch key, value, _ := strings.Cut(word, "="); key {
	case "id":
		c.ID = value
	case "noid":
		c.NoID = true
	case "noindex":
		c.NoIndex = true
	case "whole":
		c.Whole = true
	default:
		return false
	}
	return true
}

// cutWord cuts off the first word.
func cutWord(s string) (word, rest string) {
	s = strings.TrimLeft(s, " \t\r")
	if n := strings.IndexAny(s, " \t\r"); n >= 0 {
		return s[:n], s[n:]
	}
	return s, ""
}

func parseHeading(rest string) (Turn, error) {
	words, err := splitWords(rest)
	if err != nil {
		return Turn{}, err
	}
	if len(words) == 0 {
		return Turn{}, fmt.Errorf("no kind of turn: reply, status, stall or hangup")
	}
	turn, words, err := parseKind(words)
	if err != nil {
		return Turn{}, err
	}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		if err := turn.set(key, value); err != nil {
			return Turn{}, err
		}
	}
	return turn, nil
}

func parseKind(words []string) (Turn, []string, error) {
	switch kind := words[0]; kind {
	case "reply":
		return Turn{}, words[1:], nil
	case "stall", "hangup":
		return Turn{Silent: true, End: End(kind)}, words[1:], nil
	case "status":
		if len(words) > 1 {
			if code, err := strconv.Atoi(words[1]); err == nil && code >= 200 && code <= 599 {
				return Turn{Status: code}, words[2:], nil
			}
		}
		return Turn{}, nil, fmt.Errorf("status needs a code from 200 to 599")
	default:
		return Turn{}, nil, fmt.Errorf("unknown kind of turn %q: reply, status, stall or hangup", kind)
	}
}

// splitWords cuts at spaces, except in a Go string that a word ends with.
func splitWords(s string) ([]string, error) {
	var words []string
	for {
		if s = strings.TrimLeft(s, " \t\r"); s == "" {
			return words, nil
		}
		n := strings.IndexAny(s, " \t\r\"`")
		if n < 0 {
			return append(words, s), nil
		}
		word := s[:n]
		if s = s[n:]; s[0] == '"' || s[0] == '`' {
			quoted, err := strconv.QuotedPrefix(s)
			if err != nil {
				return nil, fmt.Errorf("a string without its end: %s", s)
			}
			value, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, fmt.Errorf("not a Go string: %s", quoted)
			}
			word, s = word+value, s[len(quoted):]
		}
		words = append(words, word)
	}
}
