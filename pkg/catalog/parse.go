package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// defaultSkillExecutor runs the code of skills that name no executor.
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

// toolFile has keys that only built-in tools use as they stand: whatever an
// executor's file holds under them says nothing.
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

// parseTool reads a file of tools/.
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

// parseSkill reads a file of skills/.
func parseSkill(file string, data []byte) (Skill, error) {
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

// checkNames refuses what would break the prompt's lines or lead the code's
// file out of its directory.
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

// parseMessages reads one of a skill's two lists. The elements are looked for
// in data, in order, to say where a fault is.
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

// parseMessage takes the keys exactly as they are spelled, unlike
// encoding/json: the message goes to the provider as it is.
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
