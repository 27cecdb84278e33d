package sys

import (
	"strings"
	"testing"

	"zino/pkg/catalog"
	"zino/proto"
)

func TestRender(t *testing.T) {
	values := map[string]string{"PERSONALITY": "kind", "SOFT_MEMORIES": "%%PERSONALITY%% %%SOFT_MEMORIES%%", "TOOL_LIST": ""}
	for _, c := range []struct{ name, template, want string }{
		{"empty", "", ""},
		{"none", "text 100%", "text 100%"},
		{"every occurrence", "%%PERSONALITY%%,%%PERSONALITY%%", "kind,kind"},
		{"a value is not expanded", "<%%SOFT_MEMORIES%%>", "<%%PERSONALITY%% %%SOFT_MEMORIES%%>"},
		{"an unknown name", "%%UNKNOWN%% %%personality%%", "%%UNKNOWN%% %%personality%%"},
		{"empty value", "[%%TOOL_LIST%%]", "[]"},
		{"more signs", "%%%PERSONALITY%%%", "%kind%"},
		{"unfinished", "%%PERSONALITY% %%", "%%PERSONALITY% %%"},
		{"values do not join to a placeholder", "%%TOOL_LIST%%%%PERSONALITY%%", "kind"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := render(c.template, values); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestLines(t *testing.T) {
	s := &catalog.Snapshot{
		Tools: []catalog.Tool{
			{Name: "bash", Executor: "bash"}, {Name: "python", Executor: "python3"}, {Name: "sh", Executor: "bash"},
		},
		Skills: []catalog.Skill{
			{Name: "bash", Executor: "bash", StaticAnalysis: "shellcheck"}, {Name: "count", Executor: "python3"},
		},
	}
	if got, want := toolLines(s), "  - \"execute_bash\": bash executor\n  - \"execute_python3\": python3 executor"; got != want {
		t.Errorf("tools:\n%s\nwant:\n%s", got, want)
	}
	want := "  - \"bash\": bash executor, static analysis: shellcheck\n  - \"count\": python3 executor, static analysis: none"
	if got := skillLines(s); got != want {
		t.Errorf("skills:\n%s\nwant:\n%s", got, want)
	}
	none := &catalog.Snapshot{}
	if toolLines(none) != "  (none loaded)" || skillLines(none) != "  (none loaded)" {
		t.Errorf("nothing loaded: %q, %q", toolLines(none), skillLines(none))
	}
}

// TestBuiltinLines checks that a built-in tool is listed after the executors, with the
// first sentence of its description.
func TestArgumentNames(t *testing.T) {
	for schema, want := range map[string]string{
		"": "", "[]": "", `{"type":"object"}`: "", `{"properties":{}}`: "",
		`{"properties":{"a":{},"c":{},"b":{}},"required":["c"]}`: " {c, a?, b?}",
		`{"properties":{"b":{},"a":{}},"required":["b","a"]}`:    " {b, a}",
	} {
		if got := argumentNames(proto.Raw(schema)); got != want {
			t.Errorf("%s: got %q, want %q", schema, got, want)
		}
	}
}

func TestBuiltinLines(t *testing.T) {
	for _, c := range []struct{ name, description, want string }{
		{"one sentence", "Finds things.", "Finds things."},
		{"no full stop", "finds things", "finds things"},
		{"two", "Finds things. Slowly.", "Finds things."},
		{"a question", "Lost it? Find it.", "Lost it?"},
		{"dots inside", "Reads a.txt and 1.5. Then stops.", "Reads a.txt and 1.5."},
		{"lines", " Finds\n  things!\nAll of them.", "Finds things!"},
		{"letters of other scripts", "Sucht für ä. Ende.", "Sucht für ä."},
		{"none", " \n", "built-in tool"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &catalog.Snapshot{Tools: []catalog.Tool{
				{Name: "recall", Builtin: catalog.Recall, Description: c.description}, {Name: "sh", Executor: "bash", Description: "Runs. It."},
			}}
			if got, want := toolLines(s), "  - \"execute_bash\": bash executor\n  - \"recall\": "+c.want; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// FuzzRender compares render with a plain scan from left to right.
func FuzzRender(f *testing.F) {
	f.Add("a %%PERSONALITY%% b %%SOFT_MEMORIES%%", "%%SOFT_MEMORIES%%", "%%")
	f.Add("%%%PERSONALITY%%%%SOFT_MEMORIES%%%", "", "x")
	f.Add("%%PERSONALITY%%PERSONALITY%%", "%", "%")
	f.Add("%%X%%PERSONALITY%%", "p", "s")
	f.Fuzz(func(t *testing.T, template, personality, soft string) {
		values := map[string]string{"PERSONALITY": personality, "SOFT_MEMORIES": soft}
		var want strings.Builder
		for rest := template; rest != ""; {
			n, value := 1, rest[:1]
			for name, v := range values {
				if strings.HasPrefix(rest, "%%"+name+"%%") {
					n, value = len(name)+4, v
				}
			}
			want.WriteString(value)
			rest = rest[n:]
		}
		if got := render(template, values); got != want.String() {
			t.Errorf("render(%q) = %q, want %q", template, got, want.String())
		}
	})
}
