package trust

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"zino/pkg/text"
	"zino/proto"
)

const jsonDepth = 64

// decode parses a JSON object. A key that is there twice has its last value, here and in
// the content that is used.
func decode(content []byte) (map[string]any, error) {
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	if deep(content) {
		return nil, fmt.Errorf("it is nested more than %d levels deep", jsonDepth)
	}
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is not JSON: there is more behind the object")
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("it is not a JSON object")
	}
	return object, nil
}

// deep reports whether JSON has more than jsonDepth levels.
func deep(content []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(content); i++ {
		switch c := content[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > jsonDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// parseMCP describes a .mcp.json. Its canonical form has nothing but the servers.
func (f *found) parseMCP(content []byte) error {
	object, err := decode(content)
	if err != nil {
		return err
	}
	servers, ok := object["mcpServers"].(map[string]any)
	if !ok && object["mcpServers"] != nil {
		return errors.New("mcpServers is not an object")
	}
	f.names = slices.Sorted(maps.Keys(servers))
	f.count = len(f.names)
	f.Summary = text.Count(f.count, "MCP server") + ": " + strings.Join(f.names, ", ")
	var details strings.Builder
	for _, name := range f.names {
		def, ok := servers[name].(map[string]any)
		if !ok {
			fmt.Fprintf(&details, "%s: not an object\n", text.VisibleLine(name))
			continue
		}
		words := texts(def["command"])
		words = append(words, texts(def["args"])...)
		f.scripts = append(f.scripts, words...)
		var line strings.Builder
		line.WriteString(strings.Join(append(words, texts(def["url"])...), " "))
		for _, key := range []string{"env", "headers"} {
			values, _ := def[key].(map[string]any)
			for _, k := range slices.Sorted(maps.Keys(values)) {
				line.WriteString(fmt.Sprintf(" [%s=%v]", k, values[k]))
			}
		}
		if cwd, ok := def["cwd"].(string); ok {
			line.WriteString(" [cwd " + cwd + "]")
		}
		fmt.Fprintf(&details, "%s: %s\n", text.VisibleLine(name), text.VisibleLine(line.String()))
	}
	f.Details = details.String()
	if servers == nil {
		servers = map[string]any{}
	}
	f.content, err = json.Marshal(map[string]any{"mcpServers": servers})
	return err
}

// texts returns a text, or the texts of a list.
func texts(v any) (list []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			list = append(list, fmt.Sprint(e))
		}
	}
	return list
}

// mergeServers returns the servers of two files; those of the first win.
func mergeServers(first, second proto.Raw) proto.Raw {
	type file struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
	}
	var a, b file
	if json.Unmarshal(first, &a) != nil || json.Unmarshal(second, &b) != nil || a.Servers == nil {
		return first
	}
	for name, def := range b.Servers {
		if _, ok := a.Servers[name]; !ok {
			a.Servers[name] = def
		}
	}
	if merged, err := json.Marshal(a); err == nil {
		return merged
	}
	return first
}

// parseHooks describes the hooks of a settings file.
func (f *found) parseHooks(content []byte) error {
	object, err := decode(content)
	if err != nil {
		return err
	}
	hooks, ok := object["hooks"].(map[string]any)
	if !ok && object["hooks"] != nil {
		return errors.New("hooks is not an object")
	}
	var details strings.Builder
	for _, event := range slices.Sorted(maps.Keys(hooks)) {
		groups, _ := hooks[event].([]any)
		for _, group := range groups {
			g, _ := group.(map[string]any)
			list, _ := g["hooks"].([]any)
			for _, hook := range list {
				h, _ := hook.(map[string]any)
				f.count++
				if !slices.Contains(f.names, event) {
					f.names = append(f.names, event)
				}
				command, ok := h["command"].(string)
				if !ok {
					command = fmt.Sprintf("(type %v, not run)", h["type"])
				}
				f.scripts = append(f.scripts, strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t\n\r\"';|&<>()", r) })...)
				line := event
				if m, ok := g["matcher"].(string); ok && m != "" {
					line += " (" + m + ")"
				}
				fmt.Fprintf(&details, "%s: %s\n", text.VisibleLine(line), text.VisibleLine(command))
			}
		}
	}
	f.Summary = text.Count(f.count, "hook") + ": " + strings.Join(f.names, ", ")
	f.Details = details.String()
	f.content, err = json.Marshal(object)
	return err
}
