package catalog

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParseBuiltin(t *testing.T) {
	for _, c := range []struct {
		name, file, data string
		want             Tool
	}{
		{
			"all", "a.json", "{\"name\":\"note\",\"description\":\"keeps <it>\",\"parameters\":{ \"type\": \"object\",\n\"x\":[\"<\"] },\"builtin\":\"remember\"}",
			Tool{Name: "note", Builtin: Remember, Description: "keeps <it>", Parameters: []byte(`{"type":"object","x":["<"]}`)},
		},
		{"the file's stem", "recall.json", `{"builtin":"recall"}`, Tool{Name: "recall", Builtin: Recall, Parameters: []byte(noParameters)}},
		{"null for nothing", "r-1.json", `{"builtin":"recall","name":null,"parameters":null,"meta":null}`, Tool{Name: "r-1", Builtin: Recall, Parameters: []byte(noParameters)}},
		{
			"it has no executor", "recall.json", `{"builtin":"recall","meta":{"executor":"bash","file_extension":".sh"}}`,
			Tool{Name: "recall", Builtin: Recall, Parameters: []byte(noParameters)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.File = c.file
			got, err := parseTool(c.file, []byte(c.data))
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

// TestBuiltinFaults holds reason and place of what is wrong with such a file.
func TestBuiltinFaults(t *testing.T) {
	for _, c := range []struct {
		name, data string
		line, col  int
		reason     string
	}{
		{"unknown", "{\n  \"name\": \"x\",\n  \"builtin\": \"forget\"\n}", 3, 14, `builtin: unknown tool "forget" (want recall or remember)`},
		{"another case", `{"builtin":"Recall"}`, 1, 12, `builtin: unknown tool "Recall"`},
		{"behind a byte order mark", "\ufeff{\n\"Builtin\": \"x\"}", 2, 12, `builtin: unknown tool "x"`},
		{"the key stands in a value as well", "{\"parameters\":{\"builtin\":\"recall\"},\n\"builtin\":\"x\"}", 2, 11, `builtin: unknown tool "x"`},
		{"not a string", "{\n\"builtin\":[]}", 2, 11, "builtin: must be a string, not array"},
		{"a name that is none", "{\"builtin\":\"recall\",\n\"name\":5}", 2, 8, "name: must be a string"},
		{"a name that providers refuse", "{\"builtin\":\"recall\",\n\"name\": \"find it\"}", 2, 9, `name: "find it": must be 1 to 64 of`},
		{"a long name", `{"builtin":"recall","name":"` + strings.Repeat("x", 65) + `"}`, 1, 28, "must be 1 to 64 of"},
		{"an executor's name", `{"builtin":"recall","name":"execute_bash"}`, 1, 28, "is taken by skills and executors"},
		{"the skills' name", `{"builtin":"recall","name":"task"}`, 1, 28, "is taken by skills and executors"},
		{"a list for a schema", "{\"builtin\":\"recall\",\n\"parameters\":[]}", 2, 14, `parameters: must be a JSON Schema with "type": "object"`},
		{"a schema of a text", "{\"builtin\":\"recall\",\n\"parameters\":{\"type\":\"string\"}}", 2, 14, "parameters: must be a JSON Schema"},
		{"a schema in capitals", "{\"builtin\":\"recall\",\n\"parameters\":{\"TYPE\":\"object\"}}", 2, 14, "parameters: must be a JSON Schema"},
		{"a schema of nothing", `{"builtin":"recall","parameters":{}}`, 1, 34, "parameters: must be a JSON Schema"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseTool("x.json", []byte(c.data))
			if err == nil {
				t.Fatal("no error")
			}
			p := newProblem("/t/x.json", []byte(c.data), err)
			if p.line != c.line || p.column != c.col || !strings.Contains(p.reason, c.reason) {
				t.Errorf("got %d:%d %q, want %d:%d %q", p.line, p.column, p.reason, c.line, c.col, c.reason)
			}
		})
	}
	_, err := parseTool("my tool.json", []byte("\n {\"builtin\":\"recall\"}"))
	if p := newProblem("x", []byte("\n {"), err); p.line != 2 || p.column != 2 || !strings.HasPrefix(p.reason, `name: "my tool": must be`) {
		t.Errorf("a file's stem that is no name: %+v", p)
	}
}

// TestBuiltinsBesideExecutors: neither is taken for the other.
func TestBuiltinsBesideExecutors(t *testing.T) {
	tools, _ := dirs(t)
	for name, text := range map[string]string{
		"bash.json":     `{}`,
		"forget.json":   "{\n\"builtin\":\"forget\"}",
		"recall.json":   `{"builtin":"recall"}`,
		"search.json":   `{"builtin":"recall","name":"recall","description":"second"}`,
		"remember.json": `{"builtin":"remember","name":"note"}`,
	} {
		write(t, filepath.Join(tools, name), text)
	}
	s := open(t, tools, "", quiet()).Snapshot()
	var got []string
	for _, tool := range append(s.Executors(), s.Builtins()...) {
		got = append(got, tool.FunctionName()+"="+tool.File)
	}
	if want := "execute_bash=bash.json recall=recall.json note=remember.json"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for name, file := range map[string]string{"recall": "recall.json", "note": "remember.json", "execute_bash": "bash.json", "remember": "", "execute_recall": "", "execute_": "", "forget": ""} {
		if tool, ok := s.Function(name); tool.File != file || ok != (file != "") {
			t.Errorf("Function(%q) = %q, %v, want %q", name, tool.File, ok, file)
		}
	}
	for _, name := range []string{"", "recall", "note"} {
		if tool, ok := s.Executor(name); ok {
			t.Errorf("executor %q is %+v", name, tool)
		}
	}
	want := tools + `/forget.json:2:11: builtin: unknown tool "forget" (want recall or remember) (skipped; repair or remove it)`
	if len(s.Problems) != 1 || s.Problems[0] != want {
		t.Errorf("problems %q, want %q", s.Problems, want)
	}
}
