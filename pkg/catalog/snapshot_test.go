package catalog

import (
	"testing"
)

func TestLookups(t *testing.T) {
	s := &Snapshot{
		Tools: []Tool{
			{File: "a.json", Name: "a", Executor: "bash", FileExtension: ".a"},
			{File: "b.json", Name: "b", Executor: "python3"},
			{File: "c.json", Name: "c", Executor: "bash", FileExtension: ".c"},
		},
		Skills: []Skill{{Name: "disk", Executor: "bash"}},
	}
	if got := len(s.Executors()); got != 2 {
		t.Errorf("%d executors, want 2", got)
	}
	if first := s.Executors()[0]; first.FileExtension != ".a" {
		t.Errorf("bash is %+v, want the first in file order", first)
	}
	for _, c := range []struct {
		function string
		file     string
	}{
		{"execute_bash", "a.json"},
		{"execute_python3", "b.json"},
		{"execute_b", ""},
		{"bash", ""},
		{"execute_", ""},
		{"Execute_bash", ""},
		{"", ""},
	} {
		tool, ok := s.Function(c.function)
		if tool.File != c.file || ok != (c.file != "") {
			t.Errorf("Function(%q) = %q, %v, want %q", c.function, tool.File, ok, c.file)
		}
		if ok && tool.FunctionName() != c.function {
			t.Errorf("FunctionName of %q is %q", c.function, tool.FunctionName())
		}
	}
	if _, ok := s.Skill("disk"); !ok {
		t.Error("skill disk not found")
	}
	if _, ok := s.Skill("bash"); ok {
		t.Error("an executor's name found a skill")
	}
}

func TestEmptySnapshot(t *testing.T) {
	s := &Snapshot{}
	if _, ok := s.Executor("bash"); ok || len(s.Executors()) != 0 {
		t.Error("an empty snapshot knows an executor")
	}
}
