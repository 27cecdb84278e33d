package agr

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/catalog"
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
	bash := executeJSON("execute_bash", "bash executor: runs code and returns its output")
	long := strings.Repeat("x", 56)
	for _, c := range []struct {
		name     string
		snapshot catalog.Snapshot
		want     string
	}{
		{"nothing", catalog.Snapshot{}, ""},
		{"an executor", catalog.Snapshot{Tools: []catalog.Tool{{Executor: "bash"}}}, "[" + bash + "]"},
		{
			"described",
			catalog.Snapshot{Tools: []catalog.Tool{{Executor: "python3", Description: "runs <Python>"}, {Executor: "bash"}}},
			"[" + executeJSON("execute_python3", "runs <Python>") + "," + bash + "]",
		},
		{
			"two files of one executor",
			catalog.Snapshot{Tools: []catalog.Tool{{Executor: "bash", Description: "first"}, {Executor: "bash", Description: "second"}}},
			"[" + executeJSON("execute_bash", "first") + "]",
		},
		{
			"names that providers refuse",
			catalog.Snapshot{Tools: []catalog.Tool{{Executor: "c++"}, {Executor: "my tool"}, {Executor: "é"}, {Executor: "python3.12"}, {Executor: long + "x"}, {Executor: long}}},
			"[" + executeJSON("execute_"+long, long+" executor: runs code and returns its output") + "]",
		},
		{"only such names", catalog.Snapshot{Tools: []catalog.Tool{{Executor: "c++"}}}, ""},
		{"skills", catalog.Snapshot{Skills: []catalog.Skill{{Name: "disk"}, {Name: "a b"}}}, "[" + taskJSON("The skill.", `["disk","a b"]`) + "]"},
		{
			"all",
			catalog.Snapshot{Tools: []catalog.Tool{{Executor: "bash"}}, Skills: []catalog.Skill{{Name: "disk", Description: "how full it is\n"}, {Name: "x"}, {Name: "y", Description: "z"}}},
			"[" + bash + "," + taskJSON(`The skill.\ndisk: how full it is\ny: z`, `["disk","x","y"]`) + "]",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := offer(&c.snapshot)
			if string(got) != c.want || err != nil {
				t.Errorf("got  %s, %v\nwant %s", got, err, c.want)
			}
			if len(got) > 0 && !json.Valid(got) {
				t.Errorf("%s is not JSON", got)
			}
		})
	}
}

// TestOffered: a session's turn offers what the catalog has when it begins.
func TestOffered(t *testing.T) {
	b := newBench(t, says("one"), says("two"))
	dir := filepath.Dir(b.path)
	b.ask(request(question, inSession))
	if err := os.WriteFile(filepath.Join(dir, "tools", "bash.json"), []byte(`{"description":"the \"shell\""}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "skills")); err != nil {
		t.Fatal(err)
	}
	b.cat.Reload()
	b.ask(request(question, inSession))
	python := executeJSON("execute_python3", "python3 executor: runs code and returns its output")
	for i, want := range []string{
		"[" + executeJSON("execute_bash", "bash executor: runs code and returns its output") + "," + python + "," + taskJSON("The skill.", `["disk","snake"]`) + "]",
		"[" + executeJSON("execute_bash", `the \"shell\"`) + "," + python + "]",
	} {
		if got := string(b.rtr.asked()[i].Tools); got != want {
			t.Errorf("turn %d\n got %s\nwant %s", i+1, got, want)
		}
	}
}

// TestNoTools: with nothing to offer the field is absent, and a call of the
// function task is one of a function that does not exist.
func TestNoTools(t *testing.T) {
	b := newBench(t, asks("", native("a", "task", `{"skill":"disk","request":"x"}`)), says("Done."))
	dir := filepath.Dir(b.path)
	for _, name := range []string{"tools", "skills"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.cat.Reload()
	if _, last := b.ask(request(question, inSession)); last.text() != "Done." {
		t.Errorf("last packet %s", last.raw)
	}
	asked := b.rtr.asked()
	if got, err := lastMessage(asked[1]); asked[0].Tools != nil || got != "Error: Unknown tool function 'task'" || err != nil {
		t.Errorf("offered %s, the model sees %q, %v", asked[0].Tools, got, err)
	}
}
