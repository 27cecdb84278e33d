package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"zino/proto"
)

// Builtins that a file in tools/ can name.
const (
	Remember       = "remember"        // stores a hard memory
	Recall         = "recall"          // finds hard memories
	RecallSessions = "recall_sessions" // finds what was said in earlier sessions
)

var builtins = []string{Recall, RecallSessions, Remember}

// IsFunctionName reports whether every provider accepts a function's name.
func IsFunctionName(name string) bool {
	const accepted = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	return 1 <= len(name) && len(name) <= 64 && strings.Trim(name, accepted) == ""
}

// noParameters is the schema of a tool whose file has no parameters.
const noParameters = `{"type":"object","properties":{}}`

// defaultSkillExecutor is the executor of skills that name none.
const defaultSkillExecutor = "bash"

// header is what the files of tools and skills have in common.
type header struct {
	Description string `json:"description"`
	Meta        struct {
		Executor       string `json:"executor"`
		FileExtension  string `json:"file_extension"`
		StaticAnalysis string `json:"static_analysis"`
	} `json:"meta"`
}

// toolFile has raw fields for keys that only built-in tools use: in the file of an
// executor they may have any value.
type toolFile struct {
	header
	Builtin    string          `json:"builtin"`
	Name       json.RawMessage `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
}

type skillFile struct {
	header
	Interpreter []json.RawMessage `json:"interpreter"`
	Fabricator  []json.RawMessage `json:"fabricator"`
}

// parseTool parses a file of tools/.
func parseTool(file string, data []byte) (Tool, error) {
	var f toolFile
	if err := decode(data, &f); err != nil {
		return Tool{}, err
	}
	if f.Builtin != "" {
		return parseBuiltin(file, data, f)
	}
	m := f.Meta
	t := Tool{
		File: file, Name: stem(file), FileExtension: m.FileExtension,
		StaticAnalysis: m.StaticAnalysis, Description: f.Description,
	}
	t.Executor = cmp.Or(m.Executor, t.Name)
	return t, checkNames(t.Name, t.Executor, t.FileExtension, t.StaticAnalysis)
}

// parseBuiltin parses a file that names a builtin. Such a tool has no executor, even
// if the file has meta.
func parseBuiltin(file string, data []byte, f toolFile) (Tool, error) {
	t := Tool{File: file, Description: f.Description, Builtin: f.Builtin}
	if !slices.Contains(builtins, f.Builtin) {
		return Tool{}, at(data, "builtin", fmt.Errorf("unknown tool %q (want %s)", f.Builtin, strings.Join(builtins, ", ")))
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

// functionName returns the name by which a model calls a built-in tool. It must not
// shadow an executor or the skills.
func functionName(file string, raw json.RawMessage) (string, error) {
	var given string
	if len(raw) > 0 && json.Unmarshal(raw, &given) != nil {
		return "", fmt.Errorf("must be a string")
	}
	name := cmp.Or(given, stem(file))
	if !IsFunctionName(name) {
		return "", fmt.Errorf("%q: must be 1 to 64 of A-Z, a-z, 0-9, _ and -", name)
	}
	if name == proto.TaskTool || strings.HasPrefix(name, functionPrefix) {
		return "", fmt.Errorf("%q: is taken by skills and executors", name)
	}
	return name, nil
}

// schema checks what every provider requires of a function's parameters.
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

// at adds to an error the position of a key's value in the file, or that of the whole
// object if the key is absent.
func at(data []byte, key string, err error) error {
	text := bytes.TrimPrefix(data, []byte("\ufeff"))
	offset := len(data) - len(bytes.TrimLeft(text, " \t\r\n"))
	for name, value := range members(text) {
		if strings.EqualFold(name, key) { // encoding/json ignores case
			offset = len(data) - len(text) + value
		}
	}
	return &fault{offset, key + ": " + err.Error()}
}

// members iterates over the keys of a JSON object, each with the offset of its value.
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

// parseSkill parses a file of skills/.
func parseSkill(file string, data []byte) (Skill, error) {
	if stem(file) == proto.AgentSkill {
		return Skill{}, &fault{0, fmt.Sprintf("the name %q is taken by sub-agents", proto.AgentSkill)}
	}
	var f skillFile
	if err := decode(data, &f); err != nil {
		return Skill{}, err
	}
	m := f.Meta
	s := Skill{
		File: file, Name: stem(file), FileExtension: m.FileExtension,
		StaticAnalysis: m.StaticAnalysis, Description: f.Description,
	}
	s.Executor = cmp.Or(m.Executor, defaultSkillExecutor)
	var err error
	if s.Interpreter, err = parseMessages(data, "interpreter", f.Interpreter); err != nil {
		return Skill{}, err
	}
	if s.Fabricator, err = parseMessages(data, "fabricator", f.Fabricator); err != nil {
		return Skill{}, err
	}
	return s, checkNames(s.Name, s.Executor, s.FileExtension, s.StaticAnalysis)
}

func stem(file string) string { return strings.TrimSuffix(file, suffix) }

// checkNames returns an error for names that would break lines of the prompt, or place
// the file of the code outside its directory.
func checkNames(name, executor, extension, analysis string) error {
	for _, n := range []struct{ what, text string }{
		{"file name", name},
		{"meta.executor", executor},
		{"meta.file_extension", extension},
		{"meta.static_analysis", analysis},
	} {
		if !utf8.ValidString(n.text) || strings.ContainsFunc(n.text, unicode.IsControl) {
			return fmt.Errorf("%s %q: has characters that cannot be shown", n.what, n.text)
		}
	}
	if strings.Contains(extension, "/") {
		return fmt.Errorf("meta.file_extension %q: must not contain a slash", extension)
	}
	return nil
}

// parseMessages parses one of a skill's two lists. The elements are searched in data,
// in order, for the position of a fault.
func parseMessages(data []byte, key string, raws []json.RawMessage) ([]Message, error) {
	var list []Message
	at := max(0, bytes.Index(data, []byte(`"`+key+`"`)))
	for i, raw := range raws {
		at += max(0, bytes.Index(data[at:], raw))
		m, err := parseMessage(raw)
		if err != nil {
			return nil, &fault{at, fmt.Sprintf("%s[%d]: %v", key, i, err)}
		}
		list = append(list, m)
		at += len(raw)
	}
	return list, nil
}

// parseMessage matches keys exactly, unlike encoding/json: the message is sent to the
// provider as it is.
func parseMessage(raw json.RawMessage) (Message, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil || keys == nil {
		return Message{}, fmt.Errorf("is not an object")
	}
	var m Message
	for key, to := range map[string]*string{"role": &m.Role, "content": &m.Content} {
		if !bytes.HasPrefix(keys[key], []byte{'"'}) {
			return Message{}, fmt.Errorf("has no text under %q", key)
		}
		if err := json.Unmarshal(keys[key], to); err != nil {
			return Message{}, err
		}
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return Message{}, err
	}
	m.Raw = compact.Bytes()
	return m, nil
}
