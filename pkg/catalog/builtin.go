package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What a file in tools/ can name as its builtin.
const (
	Remember = "remember" // stores a hard memory
	Recall   = "recall"   // finds hard memories
)

var builtins = []string{Recall, Remember}

// taskFunction is the name that skills are called by.
const taskFunction = "task"

// builtinName is what every provider takes for a function's name.
var builtinName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// noParameters is the schema of a tool that says nothing of its arguments.
const noParameters = `{"type":"object","properties":{}}`

// parseBuiltin reads a file that names a built-in tool. Such a tool has no
// executor, whatever stands under meta.
func parseBuiltin(file string, data []byte, f toolFile) (Tool, error) {
	t := Tool{File: file, Description: f.Description, Builtin: f.Builtin}
	if !slices.Contains(builtins, f.Builtin) {
		return Tool{}, at(data, "builtin", fmt.Errorf("unknown tool %q (want %s)", f.Builtin, strings.Join(builtins, " or ")))
	}
	var err error
	if t.Name, err = functionName(file, f.Name); err != nil {
		return Tool{}, at(data, "name", err)
	}
	if t.Parameters, err = schema(f.Parameters); err != nil {
		return Tool{}, at(data, "parameters", err)
	}
	return t, nil
}

// functionName is the name that a model calls a built-in tool by. It must not
// hide an executor or the skills.
func functionName(file string, raw json.RawMessage) (string, error) {
	var given string
	if len(raw) > 0 && json.Unmarshal(raw, &given) != nil {
		return "", fmt.Errorf("must be a string")
	}
	name := cmp.Or(given, stem(file))
	if !builtinName.MatchString(name) {
		return "", fmt.Errorf("%q: must be 1 to 64 of A-Z, a-z, 0-9, _ and -", name)
	}
	if name == taskFunction || strings.HasPrefix(name, functionPrefix) {
		return "", fmt.Errorf("%q: is taken by skills and executors", name)
	}
	return name, nil
}

// schema checks what every provider demands of a function's parameters.
func schema(raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return []byte(noParameters), nil
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(raw, &keys) != nil || string(keys["type"]) != `"object"` {
		return nil, fmt.Errorf(`must be a JSON Schema with "type": "object"`)
	}
	var compact bytes.Buffer
	err := json.Compact(&compact, raw)
	return compact.Bytes(), err
}

// at gives an error the place of a key's value in a file, or that of the whole
// object where the key is absent.
func at(data []byte, key string, err error) error {
	text := bytes.TrimPrefix(data, []byte("\ufeff"))
	place := len(data) - len(bytes.TrimLeft(text, " \t\r\n"))
	for name, value := range members(text) {
		if strings.EqualFold(name, key) { // as encoding/json finds it
			place = len(data) - len(text) + value
		}
	}
	return &fault{place, key + ": " + err.Error()}
}

// members walks the keys of a JSON object, each with the offset of its value.
func members(text []byte) func(yield func(string, int) bool) {
	return func(yield func(string, int) bool) {
		dec := json.NewDecoder(bytes.NewReader(text))
		if _, err := dec.Token(); err != nil {
			return
		}
		for dec.More() {
			key, err := dec.Token()
			name, ok := key.(string)
			var value json.RawMessage
			if err != nil || !ok || dec.Decode(&value) != nil || !yield(name, int(dec.InputOffset())-len(value)) {
				return
			}
		}
	}
}
