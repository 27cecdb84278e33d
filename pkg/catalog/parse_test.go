package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParseTool(t *testing.T) {
	for _, c := range []struct {
		name, file, data string
		want             Tool
	}{
		{
			"minimal", "bash.json", `{"meta":{"executor":"bash","file_extension":".sh","static_analysis":"shellcheck"}}`,
			Tool{Name: "bash", Executor: "bash", FileExtension: ".sh", StaticAnalysis: "shellcheck"},
		},
		{"null analysis", "sh.json", `{"meta":{"static_analysis":null}}`, Tool{Name: "sh", Executor: "sh"}},
		{"empty object", "perl.json", `{}`, Tool{Name: "perl", Executor: "perl"}},
		{"stem differs", "python.json", `{"meta":{"executor":"python3"}}`, Tool{Name: "python", Executor: "python3"}},
		{"empty executor", "lua.json", `{"meta":{"executor":""}}`, Tool{Name: "lua", Executor: "lua"}},
		{"null meta", "lua.json", `{"meta":null}`, Tool{Name: "lua", Executor: "lua"}},
		{
			"byte order mark and unknown keys", "x.json", "\ufeff{\"description\":\"d\",\"parameters\":{}}",
			Tool{Name: "x", Executor: "x", Description: "d"},
		},
		{"keys of builtins, of any type", "x.json", `{"name":5,"parameters":[],"builtin":null}`, Tool{Name: "x", Executor: "x"}},
		{"empty builtin", "x.json", `{"name":"y","parameters":{"type":"object"},"builtin":""}`, Tool{Name: "x", Executor: "x"}},
		{
			"builtin", "a.json", "{\"name\":\"note\",\"description\":\"keeps <it>\",\"parameters\":{ \"type\": \"object\",\n\"x\":[\"<\"] },\"builtin\":\"remember\"}",
			Tool{Name: "note", Builtin: Remember, Description: "keeps <it>", Parameters: []byte(`{"type":"object","x":["<"]}`)},
		},
		{"builtin named after its file", "recall.json", `{"builtin":"recall"}`, Tool{Name: "recall", Builtin: Recall, Parameters: []byte(noParameters)}},
		{"builtin with null keys", "r-1.json", `{"builtin":"recall","name":null,"parameters":null,"meta":null}`, Tool{Name: "r-1", Builtin: Recall, Parameters: []byte(noParameters)}},
		{
			"builtin without executor", "recall.json", `{"builtin":"recall","meta":{"executor":"bash","file_extension":".sh"}}`,
			Tool{Name: "recall", Builtin: Recall, Parameters: []byte(noParameters)},
		},
		{"dots in the name", "a.b.json", `{}`, Tool{Name: "a.b", Executor: "a.b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.File = c.file
			got, err := parseTool(c.file, []byte(c.data))
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

func TestParseSkill(t *testing.T) {
	data := `{"meta":{"file_extension":".sh"},"description":"looks at disks",
		"interpreter":[{"role":"system","content":"i"}],
		"fabricator":[{"role":"user","content":"<tool_call> \u00e9", "name": "n", "x":{"y": [1]}}]}`
	got, err := parseSkill("disk.json", []byte(data))
	want := Skill{
		File: "disk.json", Name: "disk", Executor: "bash", FileExtension: ".sh", Description: "looks at disks",
		Interpreter: []Message{{"system", "i", []byte(`{"role":"system","content":"i"}`)}},
		Fabricator: []Message{{
			"user", "<tool_call> é",
			[]byte(`{"role":"user","content":"<tool_call> \u00e9","name":"n","x":{"y":[1]}}`),
		}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

// TestFaults checks the reason and the position of faults in skills and tools.
func TestFaults(t *testing.T) {
	type test struct {
		name, data string
		line, col  int
		reason     string
	}
	check := func(t *testing.T, c test, err error) {
		t.Helper()
		if err == nil {
			t.Fatalf("%s: no error", c.name)
		}
		p := newProblem("/s/x.json", []byte(c.data), err)
		if p.line != c.line || p.column != c.col || !strings.Contains(p.reason, c.reason) {
			t.Errorf("%s: got %d:%d %q, want %d:%d %q", c.name, p.line, p.column, p.reason, c.line, c.col, c.reason)
		}
	}
	for _, c := range []test{
		{"empty", "", 1, 1, "is empty"},
		{"white space", " \n\n", 1, 1, "is empty"},
		{"null", "\n null", 2, 2, "is not a JSON object"},
		{"list", "[]", 1, 1, "is not a JSON object"},
		{"text", `"x"`, 1, 1, "is not a JSON object"},
		{"cut off", "{\n \"meta\": {", 2, 10, "unexpected end of JSON input"},
		{"comma", "{\n  \"meta\": {},\n}", 3, 1, "invalid character '}'"},
		{"column counts characters", `{"é": x}`, 1, 7, "invalid character 'x'"},
		{"rest", "{}\n{}", 2, 1, "after top-level value"},
		{"not UTF-8", "{\n\"meta\":\"\xff\"}", 2, 9, "is not UTF-8"},
		{"number for text", "{\"meta\":{\n\"executor\":5}}", 2, 12, "meta.executor: must be a string, not number"},
		{"list for an object", "{\n\"meta\":[]}", 2, 8, "meta: must be an object, not array"},
		{"object for a list", "{\n\"fabricator\":{}}", 2, 14, "fabricator: must be a list, not object"},
		{"message not an object", "{\"fabricator\":[\n5]}", 2, 1, "fabricator[0]: is not an object"},
		{"null message", "{\"fabricator\":[\nnull]}", 2, 1, "fabricator[0]: is not an object"},
		{"no role", "{\"interpreter\":[{\"role\":\"user\",\"content\":\"\"},\n{\"content\":\"x\"}]}", 2, 1, `interpreter[1]: has no text under "role"`},
		{"role in capitals", "{\"interpreter\":[\n{\"Role\":\"user\",\"content\":\"x\"}]}", 2, 1, `interpreter[0]: has no text under "role"`},
		{"content is a list", "{\"fabricator\":[\n{\"role\":\"user\",\"content\":[]}]}", 2, 1, `fabricator[0]: has no text under "content"`},
		{"content is null", "{\"fabricator\":[\n{\"role\":\"user\",\"content\":null}]}", 2, 1, `fabricator[0]: has no text under "content"`},
		{"newline in the executor", `{"meta":{"executor":"a\nb"}}`, 0, 0, "has characters that cannot be shown"},
		{"extension with a path", `{"meta":{"file_extension":"/../../x"}}`, 0, 0, "must not contain a slash"},
	} {
		_, err := parseSkill("x.json", []byte(c.data))
		check(t, c, err)
	}
	for _, c := range []test{
		{"unknown", "{\n  \"name\": \"x\",\n  \"builtin\": \"forget\"\n}", 3, 14, `builtin: unknown tool "forget" (want recall, recall_sessions, remember)`},
		{"another case", `{"builtin":"Recall"}`, 1, 12, `builtin: unknown tool "Recall"`},
		{"after a byte order mark", "\ufeff{\n\"Builtin\": \"x\"}", 2, 12, `builtin: unknown tool "x"`},
		{"key also in a value", "{\"parameters\":{\"builtin\":\"recall\"},\n\"builtin\":\"x\"}", 2, 11, `builtin: unknown tool "x"`},
		{"not a string", "{\n\"builtin\":[]}", 2, 11, "builtin: must be a string, not array"},
		{"name of another type", "{\"builtin\":\"recall\",\n\"name\":5}", 2, 8, "name: must be a string"},
		{"name that providers refuse", "{\"builtin\":\"recall\",\n\"name\": \"find it\"}", 2, 9, `name: "find it": must be 1 to 64 of`},
		{"a long name", `{"builtin":"recall","name":"` + strings.Repeat("x", 65) + `"}`, 1, 28, "must be 1 to 64 of"},
		{"an executor's name", `{"builtin":"recall","name":"execute_bash"}`, 1, 28, "is taken by skills and executors"},
		{"the skills' name", `{"builtin":"recall","name":"task"}`, 1, 28, "is taken by skills and executors"},
		{"a list for a schema", "{\"builtin\":\"recall\",\n\"parameters\":[]}", 2, 14, `parameters: must be a JSON Schema with "type": "object"`},
		{"a schema of a text", "{\"builtin\":\"recall\",\n\"parameters\":{\"type\":\"string\"}}", 2, 14, "parameters: must be a JSON Schema"},
		{"a schema in capitals", "{\"builtin\":\"recall\",\n\"parameters\":{\"TYPE\":\"object\"}}", 2, 14, "parameters: must be a JSON Schema"},
		{"an empty schema", `{"builtin":"recall","parameters":{}}`, 1, 34, "parameters: must be a JSON Schema"},
	} {
		_, err := parseTool("x.json", []byte(c.data))
		check(t, c, err)
	}
	_, err := parseTool("my tool.json", []byte("\n {\"builtin\":\"recall\"}"))
	check(t, test{"the name of the file", "\n {", 2, 2, `name: "my tool": must be`}, err)
}

func TestProblemIsOneLine(t *testing.T) {
	p := newProblem("/s/a\nb.json", nil, &fault{0, "bad\x1b[31m"})
	if got, want := p.String(), "/s/a?b.json:1:1: bad?[31m (skipped; repair or remove it)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFileNameNotUTF8(t *testing.T) {
	if _, err := parseTool("a\xff.json", []byte(`{}`)); err == nil {
		t.Error("a name that is not UTF-8 was accepted")
	}
}

// FuzzParse checks that any file gives either a usable definition or a problem with a
// position inside the file.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"meta":{"executor":"bash","file_extension":".sh","static_analysis":null}}`,
		`{"interpreter":[{"role":"system","content":"\ud800"}],"fabricator":[{"role":"user","content":"a","x":1}]}`,
		`{"fabricator":"fabricator"}`, "{\"meta\":\n5}", "\ufeff{}", "{\"a\":\"\xff\"}", `[`, `{"fabricator":[{}]}`,
		`{"name":"note","description":"d","parameters":{"type":"object","properties":{}},"builtin":"remember"}`,
		"\ufeff{\"name\":{\"builtin\":1},\n \"Builtin\":\"recall\"}", `{"builtin":"recall","parameters":{"type":1}}`, `{"builtin":"x","builtin":"y"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if tool, err := parseTool("x.json", data); err != nil {
			checkPlace(t, data, err)
		} else {
			checkTool(t, tool)
		}
		skill, err := parseSkill("x.json", data)
		if err != nil {
			checkPlace(t, data, err)
			return
		}
		for _, m := range append(skill.Interpreter, skill.Fabricator...) {
			checkMessage(t, m)
		}
	})
}

func checkTool(t *testing.T, tool Tool) {
	if (tool.Builtin == "") == (tool.Executor == "") || tool.FunctionName() == "" {
		t.Errorf("tool %+v", tool)
	}
	var schema struct{ Type string }
	if err := json.Unmarshal(tool.Parameters, &schema); tool.Builtin != "" && (err != nil || schema.Type != "object") {
		t.Errorf("parameters %s: %v", tool.Parameters, err)
	}
}

func checkPlace(t *testing.T, data []byte, err error) {
	p := newProblem("x.json", data, err)
	if p.reason == "" || p.line > 1+bytes.Count(data, []byte("\n")) {
		t.Errorf("problem %+v", p)
	}
	var f *fault
	if errors.As(err, &f) && (p.line < 1 || p.column < 1) {
		t.Errorf("a fault without a position: %+v", p)
	}
}

func checkMessage(t *testing.T, m Message) {
	var again struct{ Role, Content string }
	if err := json.Unmarshal(m.Raw, &again); err != nil || bytes.ContainsAny(m.Raw, "\n") {
		t.Errorf("raw message %q: %v", m.Raw, err)
	}
}
