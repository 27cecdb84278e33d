package fakellm

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Prefixes of headings and calls.
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

// unquoteLine removes the backslash that escapes a heading or a call.
func unquoteLine(line string) string {
	rest := strings.TrimLeft(line, `\`)
	if rest != line && (strings.HasPrefix(rest, heading) || strings.HasPrefix(rest, calling)) {
		return line[1:]
	}
	return line
}

// addCall parses the rest of a line that begins with @call.
func (t *Turn) addCall(rest string) error {
	if t.Status != 0 || t.Silent {
		return fmt.Errorf("a call in a turn that is not a reply; a line of text is written \\%s", calling)
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

// set parses an option of a call; false if the word is not an option.
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

// splitWords splits at spaces, except inside a Go string at the end of a word.
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

// set parses one setting of a heading.
func (t *Turn) set(key, value string) (err error) {
	switch key {
	case "match":
		t.Match = value
	case "wait":
		t.Wait = value
	case "pause":
		t.Pause = value
	case "whole":
		t.Whole = true
	case "event":
		t.Event = value
	case "type":
		t.Type = value
	case "header":
		t.Header = append(t.Header, value)
	case "redirect":
		t.Redirect = value
	case "size":
		t.Size, err = strconv.Atoi(value)
	case "bytes":
		t.Bytes, err = parseCount(key, value)
	case "times":
		t.Times, err = parseTimes(value)
	case "refuses":
		t.Refuses = strings.Split(value, ",")
	case "end":
		t.End, err = parseEnd(value)
	case "fault":
		t.Faults, err = parseFaults(t.Faults, value)
	default:
		err = t.setContent(key, value)
	}
	return err
}

// setContent parses a setting of a reply's reasoning, finish reason and usage.
func (t *Turn) setContent(key, value string) (err error) {
	switch key {
	case "reasoning":
		t.Reasoning = value
	case "reasoning_key":
		t.ReasoningKey, err = parseReasoningKey(value)
	case "finish":
		t.Finish = value
	case "usage":
		t.Usage, err = parseUsage(value)
	case "nousage":
		t.NoUsage = true
	case "cost":
		t.Cost, err = parseCost(value)
	default:
		err = fmt.Errorf("unknown setting %q", key)
	}
	return err
}

func parseCount(key, value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s=%s: not a number from 1", key, value)
	}
	return n, nil
}

func parseTimes(value string) (int, error) {
	if value == "forever" {
		return Forever, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("times=%s: neither a number from 1 nor forever", value)
	}
	return n, nil
}

func parseEnd(value string) (End, error) {
	switch end := End(value); end {
	case "done":
		return Done, nil
	case Finish, Mark, Cut, Stall, Hangup:
		return end, nil
	}
	return "", fmt.Errorf("end=%s: none of done, finish, mark, cut, stall, hangup", value)
}

func parseFaults(to []Fault, value string) ([]Fault, error) {
	for name := range strings.SplitSeq(value, ",") {
		if !slices.Contains(Faults(), Fault(name)) {
			return nil, fmt.Errorf("fault=%s: none of %v", name, Faults())
		}
		to = append(to, Fault(name))
	}
	return to, nil
}

// The forms of reasoning on the OpenAI wire, besides reasoning_content.
const (
	keyReasoning = "reasoning"
	keyDetails   = "reasoning_details"
	keyExtra     = "extra_content"
)

func parseReasoningKey(value string) (string, error) {
	switch value {
	case "reasoning_content", keyReasoning, keyDetails, keyExtra:
		return value, nil
	}
	return "", fmt.Errorf("reasoning_key=%s: none of reasoning_content, reasoning, reasoning_details, extra_content", value)
}

func parseUsage(value string) (*Usage, error) {
	var u Usage
	fields := []*int{&u.In, &u.Out, &u.CacheRead, &u.CacheWrite, &u.Reasoning}
	words := strings.Split(value, ",")
	ok := len(words) >= 2 && len(words) <= len(fields)
	for i := 0; ok && i < len(words); i++ {
		n, err := strconv.Atoi(words[i])
		ok = err == nil && n >= 0
		*fields[i] = n
	}
	if !ok {
		return nil, fmt.Errorf("usage=%s: not IN,OUT[,CACHE_READ[,CACHE_WRITE[,REASONING]]]", value)
	}
	if u.CacheRead > u.In-u.CacheWrite || u.Reasoning > u.Out {
		return nil, fmt.Errorf("usage=%s: IN counts the cached tokens too, and OUT those of the reasoning", value)
	}
	return &u, nil
}

func parseCost(value string) (json.Number, error) {
	if !json.Valid([]byte(value)) || strings.Trim(value, "0123456789.eE+-") != "" {
		return "", fmt.Errorf("cost=%s: not a number", value)
	}
	return json.Number(value), nil
}
