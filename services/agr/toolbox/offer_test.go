package toolbox

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"zino/pkg/catalog"
	"zino/proto"
)

// executeJSON is the function of an executor.
func executeJSON(name, description string) string {
	return `{"type":"function","function":{"name":"` + name + `","description":"` + description + `","parameters":{"type":"object","properties":` +
		`{"code":{"type":"string","description":"The whole code. It is run from a file, without input."}},"required":["code"]}}}`
}

// taskJSON is the function of skills.
func taskJSON(description, names string) string {
	return `{"type":"function","function":{"name":"task","description":"Hands a request to a skill, which writes code for it, runs it and returns its output.",` +
		`"parameters":{"type":"object","properties":{"request":{"type":"string","description":"What is to be done, in plain words."},` +
		`"skill":{"type":"string","description":"` + description + `","enum":` + names + `}},"required":["skill","request"]}}}`
}

func TestOffer(t *testing.T) {
	perl := executeJSON("execute_perl", "perl executor: runs code and returns its output")
	long := strings.Repeat("x", 56)
	for _, c := range []struct {
		name     string
		snapshot catalog.Snapshot
		want     string
	}{
		{"nothing", catalog.Snapshot{}, ""},
		{"an executor", catalog.Snapshot{Tools: []catalog.Tool{{Executor: "perl"}}}, perl},
		{
			"described",
			catalog.Snapshot{Tools: []catalog.Tool{{Executor: "python3", Description: "runs <Python>"}, {Executor: "perl"}}},
			executeJSON("execute_python3", "runs <Python>") + "," + perl,
		},
		{
			"two files of one executor",
			catalog.Snapshot{Tools: []catalog.Tool{{Executor: "lua", Description: "first"}, {Executor: "lua", Description: "second"}}},
			executeJSON("execute_lua", "first"),
		},
		{
			"names that providers refuse",
			catalog.Snapshot{Tools: []catalog.Tool{{Executor: "c++"}, {Executor: "my tool"}, {Executor: "é"}, {Executor: "python3.12"}, {Executor: long + "x"}, {Executor: long}}},
			executeJSON("execute_"+long, long+" executor: runs code and returns its output"),
		},
		{"shells", catalog.Snapshot{Tools: []catalog.Tool{{Executor: "bash"}, {Executor: "sh"}, {Executor: "/bin/bash"}, {Executor: "zsh"}}}, executeJSON("execute_zsh", "zsh executor: runs code and returns its output")},
		{"only such names", catalog.Snapshot{Tools: []catalog.Tool{{Executor: "c++"}}}, ""},
		{"skills", catalog.Snapshot{Skills: []catalog.Skill{{Name: "disk"}, {Name: "a b"}}}, taskJSON("The skill.", `["disk","a b"]`)},
		{
			"built-in",
			catalog.Snapshot{Tools: []catalog.Tool{{Name: "recall", Builtin: "recall", Parameters: proto.Raw(`{"type":"object"}`)}, {Name: "read", Builtin: "recall"}, {Name: "note", Builtin: "remember", Description: "n", Parameters: proto.Raw(`{"type":"object","x":1}`)}}},
			`{"type":"function","function":{"name":"recall","description":"built-in tool: recall","parameters":{"type":"object"}}},{"type":"function","function":{"name":"note","description":"n","parameters":{"type":"object","x":1}}}`,
		},
		{
			"all",
			catalog.Snapshot{Tools: []catalog.Tool{{Executor: "perl"}}, Skills: []catalog.Skill{{Name: "disk", Description: "how full it is\n"}, {Name: "x"}, {Name: "y", Description: "z"}}},
			perl + "," + taskJSON(`The skill.\ndisk: how full it is\ny: z`, `["disk","x","y"]`),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := string(Offer(&c.snapshot, false))
			rest, ok := strings.CutPrefix(got, strings.TrimSuffix(string(Offer(&catalog.Snapshot{}, false)), "]"))
			if want := strings.TrimSuffix(","+c.want, ","); !ok || strings.TrimSuffix(rest, "]") != want {
				t.Errorf("got  %s\nwant the four, %s", got, want)
			}
			if !json.Valid([]byte(got)) {
				t.Errorf("%s is not JSON", got)
			}
		})
	}
}

// TestOwn: the four tools come first and are complete: every parameter that is
// required is described. They cost little, for every turn has them.
func TestOwn(t *testing.T) {
	raw := Offer(&catalog.Snapshot{}, false)
	if tokens := len(raw) / 4; tokens >= 500 {
		t.Errorf("%d tokens", tokens)
	}
	var list []struct {
		Type     string
		Function struct {
			Name, Description string
			Parameters        struct {
				Type       string
				Properties map[string]struct{ Type, Description string }
				Required   []string
			}
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	wants := map[string]string{Read: "path", Write: "path content", Edit: "path old new", Bash: "command"}
	if len(list) != len(wants) {
		t.Fatalf("%d functions", len(list))
	}
	for _, f := range list {
		p := f.Function.Parameters
		if f.Type != "function" || f.Function.Description == "" || p.Type != "object" || strings.Join(p.Required, " ") != wants[f.Function.Name] {
			t.Errorf("%+v", f)
		}
		for name, property := range p.Properties {
			optional := name == "expected_replacements"
			if property.Description == "" || optional != (property.Type == "integer") || optional == slices.Contains(p.Required, name) {
				t.Errorf("%s of %s: %+v", name, f.Function.Name, property)
			}
		}
		if !Own(f.Function.Name) {
			t.Errorf("%s is not ours", f.Function.Name)
		}
	}
	for _, name := range []string{"", "Read", "execute_bash", Task, "recall"} {
		if Own(name) {
			t.Errorf("%q is ours", name)
		}
	}
}

func TestNames(t *testing.T) {
	got := Names(&catalog.Snapshot{
		Tools:  []catalog.Tool{{Executor: "bash"}, {Executor: "perl"}, {Name: "recall", Builtin: "recall"}},
		Skills: []catalog.Skill{{Name: "disk"}},
	}, false)
	if want := []string{"read", "write", "edit", "bash", "execute_perl", "recall", "task"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
