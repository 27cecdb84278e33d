package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strings"
	"unicode/utf8"

	"zino/pkg/text"
)

// MaxProblems is how many problems of a value are named.
const MaxProblems = 5

// maxShown is how many bytes of a value a problem quotes.
const maxShown = 60

// Check reads a model's answer: a JSON value, with white space or one fenced block of
// Markdown around it. It returns the value on one line, or what is wrong with it.
func (s *Schema) Check(answer string) (value []byte, problems []string) {
	raw := []byte(unfenced(answer))
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && len(raw) > 0 {
			return nil, []string{fmt.Sprintf("not a JSON value: %v, at byte %d", err, syntax.Offset)}
		}
		return nil, []string{"not a JSON value: " + err.Error()}
	}
	if err := s.resolved.Validate(v); err != nil {
		e := explainer{root: s.root}
		e.explain(s.root, v, "")
		if e.problems == nil { // of a keyword that explain does not know
			e.problems = []string{strings.TrimPrefix(err.Error(), "validating root: ")}
		}
		return nil, e.problems
	}
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return nil, []string{err.Error()}
	}
	return line.Bytes(), nil
}

// fence is the block of Markdown that a whole answer consists of.
var fence = regexp.MustCompile("(?s)^```[A-Za-z0-9]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```$")

// unfenced removes one fenced block around an answer.
func unfenced(answer string) string {
	answer = strings.TrimSpace(answer)
	if m := fence.FindStringSubmatch(answer); m != nil {
		return m[1]
	}
	return answer
}

// explainer finds out where a value departs from a schema. It knows the common keywords.
type explainer struct {
	root     any
	problems []string
	steps    int // schemas that were compared
}

func (e *explainer) add(at, format string, args ...any) {
	if len(e.problems) < MaxProblems {
		e.problems = append(e.problems, place(at)+": "+fmt.Sprintf(format, args...))
	}
}

func (e *explainer) explain(node, v any, at string) {
	if e.steps++; len(e.problems) >= MaxProblems || e.steps > maxEvaluations {
		return
	}
	object, ok := node.(map[string]any)
	if !ok {
		if node == false {
			e.add(at, "not allowed")
		}
		return
	}
	if ref, ok := object["$ref"].(string); ok {
		if sub, ok := lookup(e.root, ref); ok {
			e.explain(sub, v, at)
		}
	}
	for _, sub := range listOf(object["allOf"]) {
		e.explain(sub, v, at)
	}
	if want := typesOf(object["type"]); want != nil && !isType(v, want) {
		e.add(at, "want %s, got %s", strings.Join(want, " or "), typeOf(v))
		return
	}
	if enum, ok := object["enum"].([]any); ok && !contains(enum, v) {
		e.add(at, "want one of %s, got %s", shown(enum), shown(v))
		return
	}
	if want, ok := object["const"]; ok && !reflect.DeepEqual(want, v) {
		e.add(at, "want %s, got %s", shown(want), shown(v))
		return
	}
	switch v := v.(type) {
	case map[string]any:
		e.members(object, v, at)
	case []any:
		e.elements(object, v, at)
	case string:
		e.bounds(object, at, "minLength", "maxLength", float64(utf8.RuneCountInString(v)), " characters")
		if pattern, ok := object["pattern"].(string); ok {
			if re, err := regexp.Compile(pattern); err == nil && !re.MatchString(v) {
				e.add(at, "%s does not match %s", shown(v), pattern)
			}
		}
	case float64:
		e.bounds(object, at, "minimum", "maximum", v, "")
		if bound, ok := object["exclusiveMinimum"].(float64); ok && v <= bound {
			e.add(at, "want more than %v, got %v", bound, v)
		}
		if bound, ok := object["exclusiveMaximum"].(float64); ok && v >= bound {
			e.add(at, "want less than %v, got %v", bound, v)
		}
	}
}

// members compares an object.
func (e *explainer) members(object, v map[string]any, at string) {
	for _, name := range listOf(object["required"]) {
		if name, ok := name.(string); ok {
			if _, has := v[name]; !has {
				e.add(at, "required: %s", name)
			}
		}
	}
	properties, _ := object["properties"].(map[string]any)
	patterns, _ := object["patternProperties"].(map[string]any)
	for name, value := range ordered(v) {
		here := at + "/" + escape(name)
		sub, known := properties[name]
		if known {
			e.explain(sub, value, here)
		}
		for pattern, sub := range patterns {
			if re, err := regexp.Compile(pattern); err == nil && re.MatchString(name) {
				known = true
				e.explain(sub, value, here)
			}
		}
		if more, has := object["additionalProperties"]; has && !known {
			e.explain(more, value, here)
		}
	}
	e.bounds(object, at, "minProperties", "maxProperties", float64(len(v)), " properties")
}

// elements compares a list.
func (e *explainer) elements(object map[string]any, v []any, at string) {
	first := listOf(object["prefixItems"])
	rest := object["items"]
	if list, ok := rest.([]any); ok { // of draft 7
		first, rest = list, object["additionalItems"]
	}
	for i, value := range v {
		here := fmt.Sprintf("%s/%d", at, i)
		if i < len(first) {
			e.explain(first[i], value, here)
		} else if rest != nil {
			e.explain(rest, value, here)
		}
	}
	e.bounds(object, at, "minItems", "maxItems", float64(len(v)), " items")
}

// bounds compares a number with a least and a greatest one.
func (e *explainer) bounds(object map[string]any, at, least, most string, n float64, unit string) {
	if bound, ok := object[least].(float64); ok && n < bound {
		e.add(at, "want at least %v%s, got %v", bound, unit, n)
	}
	if bound, ok := object[most].(float64); ok && n > bound {
		e.add(at, "want at most %v%s, got %v", bound, unit, n)
	}
}

func listOf(v any) []any {
	list, _ := v.([]any)
	return list
}

func contains(list []any, v any) bool {
	for _, one := range list {
		if reflect.DeepEqual(one, v) {
			return true
		}
	}
	return false
}

// typesOf returns the names in the keyword type.
func typesOf(v any) (names []string) {
	if name, ok := v.(string); ok {
		return []string{name}
	}
	for _, name := range listOf(v) {
		if name, ok := name.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

func isType(v any, names []string) bool {
	is := typeOf(v)
	for _, name := range names {
		if name == is || name == "number" && is == "integer" {
			return true
		}
	}
	return false
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

// shown formats a value for a problem.
func shown(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return typeOf(v)
	}
	if s := text.Head(string(b), maxShown); len(s) < len(b) {
		return s + "…"
	}
	return string(b)
}
