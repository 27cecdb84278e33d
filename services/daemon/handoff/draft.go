package handoff

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"zino/pkg/text"
)

// Limits of the texts from a model.
const (
	starterBytes = 16 << 10
	scriptBytes  = 4 << 10
	scriptLines  = 40
	tasksMax     = 20
	taskBytes    = 400
)

// draft returns the bundle of a model's answer. Missing or malformed sections are
// replaced by those of the facts; filled names them. seen is the text that the model
// was sent: files that do not occur in it are not accepted.
func (f *facts) draft(goal, seen, answer string) (b bundle, filled []string) {
	keys := answerKeys(answer)
	b = f.bundle(goal)
	use := func(section string, ok bool) bool {
		if !ok {
			filled = append(filled, section)
		}
		return ok
	}
	given, _ := stringOf(keys["goal"])
	use(goalSection, bareGoal(given) == bareGoal(goal)) // the bundle always has the user's text
	if starter, ok := f.draftStarter(goal, keys["starter_prompt"]); use(starterSection, ok) {
		b.starter = starter
	}
	if files, ok := f.draftFiles(seen, keys["relevant_files"]); use(filesSection, ok) {
		b.files = files
	}
	if tasks, ok := f.draftTasks(keys["open_tasks"]); use(tasksSection, ok) {
		b.tasks = tasks
	}
	if script, ok := f.draftScript(keys["repro_commands"]); use(commandsSection, ok) {
		b.commands = script
	}
	return b, filled
}

// answerKeys returns the members of the JSON object in an answer: from its first
// brace to its last, since models put text or a code fence around it.
func answerKeys(answer string) map[string]json.RawMessage {
	start, end := strings.Index(answer, "{"), strings.LastIndex(answer, "}")
	if start < 0 || end < start {
		return nil
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal([]byte(answer[start:end+1]), &keys) != nil {
		return nil
	}
	return keys
}

// stringOf decodes a string.
func stringOf(raw json.RawMessage) (s string, ok bool) {
	var p *string
	if json.Unmarshal(raw, &p) != nil || p == nil {
		return "", false
	}
	return *p, true
}

// listOf decodes a list of strings, or the lines of a string. It drops blank elements
// and "None".
func listOf(raw json.RawMessage) (list []string, ok bool) {
	if s, isString := stringOf(raw); isString {
		list = strings.Split(s, "\n")
	} else if json.Unmarshal(raw, &list) != nil || list == nil {
		return nil, false
	}
	return slices.DeleteFunc(list, func(s string) bool { return strings.TrimSpace(s) == "" || isNone(s) }), true
}

// isNone reports whether a text means that a section is empty.
func isNone(s string) bool {
	s = strings.ToLower(strings.Trim(oneLine(s), "-*_.`[]()# "))
	return s == "none" || s == "none known"
}

// bareGoal removes quotes and Markdown that a model may put around a goal.
func bareGoal(s string) string { return strings.Trim(oneLine(s), "\"'`*_ “”") }

// draftStarter returns the prompt, preceded by the goal unless it contains the goal.
func (f *facts) draftStarter(goal string, raw json.RawMessage) (starter string, ok bool) {
	s, ok := stringOf(raw)
	s = f.portable(s)
	if !ok || s == "" || isNone(s) || len(s) > starterBytes {
		return "", false
	}
	if goal = f.portable(goal); !strings.Contains(oneLine(s), oneLine(goal)) {
		s = goal + "\n\n" + s
	}
	return s, true
}

// draftFiles returns the files that occur in seen. A list that has only other files is
// malformed.
func (f *facts) draftFiles(seen string, raw json.RawMessage) (files []string, ok bool) {
	list, ok := listOf(raw)
	if !ok || len(list) == 0 {
		return nil, ok
	}
	for _, item := range list {
		path := f.relative(pathOf(itemOf(item)))
		known := strings.Contains(seen, filepath.Base(path))
		if filepath.IsAbs(path) {
			known = strings.Contains(seen, path)
		}
		if path != "" && known && !slices.Contains(files, path) && len(files) < filesMax {
			files = append(files, path)
		}
	}
	return files, len(files) > 0
}

// draftTasks returns the tasks without a ticked box.
func (f *facts) draftTasks(raw json.RawMessage) (tasks []string, ok bool) {
	list, ok := listOf(raw)
	if !ok || len(list) == 0 {
		return nil, ok
	}
	for _, item := range list {
		task := clip(f.withoutRoot(oneLine(itemOf(item))), taskBytes)
		if task != "" && !done.MatchString(item) && len(tasks) < tasksMax {
			tasks = append(tasks, task)
		}
	}
	return tasks, len(tasks) > 0
}

// draftScript returns the commands as a script.
func (f *facts) draftScript(raw json.RawMessage) (script string, ok bool) {
	list, ok := listOf(raw)
	if !ok || len(list) == 0 {
		return "", ok
	}
	for i := range list {
		list[i] = strings.TrimRight(strings.TrimPrefix(list[i], "$ "), " \t\n")
	}
	script, ok = f.command(strings.Join(list, "\n"))
	lines := strings.Split(script, "\n")
	return script, ok && len(lines) <= scriptLines && len(script) <= scriptBytes && exact(script) && closed(script) &&
		slices.ContainsFunc(lines, func(line string) bool {
			line = strings.TrimSpace(line)
			return line != "" && line[0] != '#'
		})
}

var (
	mark       = regexp.MustCompile(`^\s*(?:(?:[-*+•]|\d+[.)])(?:\s+|$))?(?:\[[ xX]?\](?:\s+|$))?`)
	done       = regexp.MustCompile(`^\s*(?:(?:[-*+•]|\d+[.)])\s+)?\[[xX]\]`)
	link       = regexp.MustCompile(`^\[([^\]]+)\]\(`)
	lineNumber = regexp.MustCompile(`:\d+([-:]\d+)?$`)
)

// itemOf removes a list marker and a box in front of an item.
func itemOf(s string) string { return strings.TrimSpace(mark.ReplaceAllString(s, "")) }

// pathOf returns the path at the start of an item: a code span, a link, or the
// text before a remark.
func pathOf(s string) string {
	if m := link.FindStringSubmatch(s); m != nil {
		s = m[1]
	}
	if code := codeOf(s); code != "" {
		s = code
	} else {
		for _, remark := range []string{" — ", " – ", " - ", ": ", " (", " #"} {
			s, _, _ = strings.Cut(s, remark)
		}
	}
	return lineNumber.ReplaceAllString(strings.Trim(s, "*\"' \t,;:"), "")
}

// codeOf returns the content of the code span at the start of a text, or "" if it does
// not start with a code span.
func codeOf(s string) string {
	s = strings.TrimLeft(s, "*_")
	code := strings.TrimLeft(s, "`")
	mark := s[:len(s)-len(code)]
	code, _, ok := strings.Cut(code, mark)
	if mark == "" || !ok {
		return ""
	}
	return strings.TrimSpace(code)
}

// clip shortens s to n bytes, followed by "…" if it was longer.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return text.Head(s, n) + "…"
}
