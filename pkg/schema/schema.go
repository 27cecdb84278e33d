// Package schema checks JSON values against JSON Schemas of draft 2020-12 or 7.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// MaxBytes is the size of the largest schema.
const MaxBytes = 256 << 10

const (
	// maxEvaluations is how many schemas may apply to one value. $ref and anyOf multiply.
	maxEvaluations = 10_000
	// maxDepth is how deeply schemas are nested.
	maxDepth = 100
)

// Schema is a schema that can check values.
type Schema struct {
	root     any // decoded
	resolved *jsonschema.Resolved
}

// Keywords whose value is a schema, a list of schemas, or an object of schemas.
var (
	single = []string{"items", "additionalItems", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "not", "if", "then", "else", "contains", "propertyNames", "contentSchema"}
	lists  = []string{"prefixItems", "allOf", "anyOf", "oneOf", "items"}
	tables = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
	// inPlace are the keywords whose schemas apply to the value itself, not to a part of it.
	inPlace = []string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)

var types = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// Parse reads a schema. An error names the place in it, such as /properties/age/minimum.
// References lead to places of the same schema; nothing is fetched.
func Parse(raw []byte) (*Schema, error) {
	if len(raw) > MaxBytes {
		return nil, fmt.Errorf("the schema has %d bytes; at most %d are accepted", len(raw), MaxBytes)
	}
	s := &Schema{}
	if err := json.Unmarshal(raw, &s.root); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, ok := s.root.(map[string]any); !ok {
		return nil, errors.New("a schema is an object")
	}
	c := checker{root: s.root, cost: map[string]int{}}
	if err := c.check(s.root, "", 0); err != nil {
		return nil, err
	}
	var parsed jsonschema.Schema
	if err := json.Unmarshal(raw, &parsed); err != nil {
		return nil, err
	}
	var err error
	s.resolved, err = parsed.Resolve(nil)
	return s, err
}

// checker checks the schemas in a schema one by one, so that errors have a place.
type checker struct {
	root any
	cost map[string]int // by place: schemas that apply to a value there; 0: being counted
}

func (c *checker) check(node any, at string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: schemas are nested more than %d deep", place(at), maxDepth)
	}
	object, ok := node.(map[string]any)
	if !ok {
		if _, boolean := node.(bool); boolean {
			return nil
		}
		return fmt.Errorf("%s: a schema is an object or a boolean", place(at))
	}
	for key, value := range ordered(object) {
		here := at + "/" + escape(key)
		if err := checkKeyword(key, value, here, at == ""); err != nil {
			return err
		}
		if key == "$ref" {
			if _, err := c.target(value.(string), here); err != nil {
				return err
			}
			continue
		}
		for child, sub := range children(key, value) {
			if err := c.check(sub, here+child, depth+1); err != nil {
				return err
			}
		}
	}
	_, err := c.count(object, at)
	return err
}

// checkKeyword checks one keyword of a schema without the schemas in its value.
func checkKeyword(key string, value any, at string, root bool) error {
	switch {
	case key == "$ref":
		if ref, ok := value.(string); !ok || ref != "#" && !strings.HasPrefix(ref, "#/") {
			return fmt.Errorf("%s: only references such as #/$defs/NAME are resolved, nothing is fetched", at)
		}
		return nil
	case key == "$dynamicRef", key == "$recursiveRef", key == "$id" && !root:
		return fmt.Errorf("%s: %s is not supported here: use $ref with a place in this schema", at, key)
	case key == "patternProperties":
		table, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: want an object", at)
		}
		for pattern := range table {
			if _, err := regexp.Compile(pattern); err != nil {
				return fmt.Errorf("%s/%s: %w", at, escape(pattern), err)
			}
		}
		return nil
	case slices.Contains(tables, key):
		if _, ok := value.(map[string]any); !ok {
			return fmt.Errorf("%s: want an object", at)
		}
		return nil
	case slices.Contains(lists, key) && key != "items":
		if _, ok := value.([]any); !ok {
			return fmt.Errorf("%s: want a list of schemas", at)
		}
		return nil
	case slices.Contains(single, key):
		return nil
	case key == "type":
		for _, name := range typesOf(value) {
			if !slices.Contains(types, name) {
				return fmt.Errorf("%s: unknown type %q (want one of %s)", at, name, strings.Join(types, ", "))
			}
		}
	}
	alone, err := json.Marshal(map[string]any{key: value})
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	var s jsonschema.Schema
	if err = json.Unmarshal(alone, &s); err == nil {
		_, err = s.Resolve(nil)
	}
	if err != nil {
		return fmt.Errorf("%s: %s", at, strings.TrimPrefix(err.Error(), "root: "))
	}
	return nil
}

// children yields the schemas in the value of a keyword, with their places below it.
func children(key string, value any) func(yield func(string, any) bool) {
	return func(yield func(string, any) bool) {
		switch value := value.(type) {
		case map[string]any:
			if !slices.Contains(tables, key) {
				if slices.Contains(single, key) {
					yield("", value)
				}
				return
			}
			for name, sub := range ordered(value) {
				if _, names := sub.([]any); names && key == "dependencies" {
					continue
				}
				if !yield("/"+escape(name), sub) {
					return
				}
			}
		case []any:
			if !slices.Contains(lists, key) {
				return
			}
			for i, sub := range value {
				if !yield("/"+strconv.Itoa(i), sub) {
					return
				}
			}
		default:
			if slices.Contains(single, key) {
				yield("", value)
			}
		}
	}
}

// count counts the schemas that apply to a value of the schema at a place. A schema that
// applies to itself has no end.
func (c *checker) count(node any, at string) (int, error) {
	object, ok := node.(map[string]any)
	if !ok {
		return 1, nil
	}
	if n, known := c.cost[at]; known {
		if n == 0 {
			return 0, fmt.Errorf("%s: the schema refers to itself for the same value", place(at))
		}
		return n, nil
	}
	c.cost[at] = 0
	total := 1
	add := func(node any, at string) error {
		n, err := c.count(node, at)
		if total += n; err == nil && total > maxEvaluations {
			err = fmt.Errorf("%s: more than %d schemas apply to one value", place(at), maxEvaluations)
		}
		return err
	}
	for _, key := range inPlace {
		for child, sub := range children(key, object[key]) {
			if err := add(sub, at+"/"+key+child); err != nil {
				return 0, err
			}
		}
	}
	if ref, ok := object["$ref"].(string); ok {
		sub, err := c.target(ref, at+"/$ref")
		if err == nil {
			err = add(sub, strings.TrimPrefix(ref, "#"))
		}
		if err != nil {
			return 0, err
		}
	}
	c.cost[at] = total
	return total, nil
}

// target returns the schema that a reference leads to.
func (c *checker) target(ref, at string) (any, error) {
	if sub, ok := lookup(c.root, ref); ok {
		switch sub.(type) {
		case map[string]any, bool:
			return sub, nil
		}
	}
	return nil, fmt.Errorf("%s: no schema at %s", at, ref)
}

// lookup returns what a reference such as #/$defs/a leads to.
func lookup(root any, ref string) (any, bool) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, false
	}
	node := root
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch parent := node.(type) {
		case map[string]any:
			if node, ok = parent[part]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(parent) {
				return nil, false
			}
			node = parent[i]
		default:
			return nil, false
		}
	}
	return node, true
}

// place names a place in a schema or a value for people.
func place(at string) string {
	if at == "" {
		return "the value"
	}
	return at
}

func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

// ordered yields the members of an object in the order of their names.
func ordered(object map[string]any) func(yield func(string, any) bool) {
	return func(yield func(string, any) bool) {
		for _, key := range slices.Sorted(maps.Keys(object)) {
			if !yield(key, object[key]) {
				return
			}
		}
	}
}
