package sys

import (
	"encoding/json"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"zino/pkg/catalog"
	"zino/pkg/zinotest"
	"zino/proto"
)

const root = "../../"

func shipped(t *testing.T) *catalog.Snapshot {
	t.Helper()
	cat, err := catalog.Open(root+"tools", root+"skills", slog.New(slog.DiscardHandler))
	zinotest.Must(t, err)
	t.Cleanup(func() { zinotest.Must(t, cat.Close()) })
	return cat.Snapshot()
}

// TestShippedTemplate checks that the template uses all placeholders and no others,
// and is short (four bytes are about a token).
func TestShippedTemplate(t *testing.T) {
	text, err := os.ReadFile(root + "SYSTEM.md")
	zinotest.Must(t, err)
	s := shipped(t)
	values := map[string]string{
		"PERSONALITY": "", "TOOL_LIST": toolLines(s), "SKILL_LINES": skillLines(s),
		"MAX_ITERATIONS": "5", "SOFT_MEMORIES": "",
	}
	for name := range values {
		if strings.Count(string(text), "%%"+name+"%%") != 1 {
			t.Errorf("%%%%%s%%%% does not occur exactly once", name)
		}
	}
	prompt := render(string(text), values)
	if strings.Contains(prompt, "%%") {
		t.Error("a placeholder is left")
	}
	if len(prompt) >= 4000 {
		t.Errorf("%d bytes", len(prompt))
	}
}

// TestShippedSessionTemplate checks that the rendered template has 200 to 300
// tokens.
func TestShippedSessionTemplate(t *testing.T) {
	b := newEnv(t, "")
	b.cfg.Sys.SessionTemplate = root + "SESSION.md"
	home := b.home()
	b.startMem()
	b.start()
	reply, err := b.ask(proto.GetPrompt{Session: true, Root: home})
	zinotest.Must(t, err)
	if strings.Contains(reply.Content, "%%") {
		t.Errorf("a placeholder is left in:\n%s", reply.Content)
	}
	if tokens := len(reply.Content) / 4; tokens < 200 || tokens > 300 {
		t.Errorf("%d tokens:\n%s", tokens, reply.Content)
	}
}

// TestShippedTemplateBlocks checks that agr can parse the template's example blocks.
func TestShippedTemplateBlocks(t *testing.T) {
	text, err := os.ReadFile(root + "SYSTEM.md")
	zinotest.Must(t, err)
	s := shipped(t)
	block := regexp.MustCompile(`(?s)\n<(tool_call|task)>\n(.*?)\n</(tool_call|task)>\n`)
	found := block.FindAllStringSubmatch(string(text), -1)
	if len(found) != 2 {
		t.Fatalf("%d blocks, want a tool_call and a task", len(found))
	}
	for _, b := range found {
		var call struct {
			Name, Skill, Request string
			Arguments            struct{ Code string }
		}
		if err := json.Unmarshal([]byte(b[2]), &call); err != nil {
			t.Errorf("%s: %v", b[1], err)
		}
		_, tool := s.Function(call.Name)
		_, skill := s.Skill(call.Skill)
		if b[1] == "tool_call" && (!tool || call.Arguments.Code == "") || b[1] == "task" && (!skill || call.Request == "") {
			t.Errorf("%s calls an unknown tool or skill: %s", b[1], b[2])
		}
	}
}

// TestShippedSkills checks that the skills load without problems, name an existing
// executor, and have examples in the form of requests and of code that agr accepts.
func TestShippedSkills(t *testing.T) {
	s := shipped(t)
	if len(s.Problems) != 0 || len(s.Skills) < 3 {
		t.Errorf("%d skills, problems: %q", len(s.Skills), s.Problems)
	}
	asked := regexp.MustCompile(`^\S.*\S \[KCR\] \S`)
	fenced := regexp.MustCompile("(?s)^```[a-z]+\n[^`]+\n```$")
	for _, k := range s.Skills {
		if tool, ok := s.Executor(k.Executor); !ok || tool.FileExtension != k.FileExtension {
			t.Errorf("%s: executor %s with %s is not among the tools", k.Name, k.Executor, k.FileExtension)
		}
		if k.Description == "" || len(k.Interpreter) == 0 || len(k.Fabricator) < 3 || k.Fabricator[0].Role != "system" {
			t.Errorf("%s: incomplete", k.Name)
			continue
		}
		for i, m := range k.Fabricator[1:] {
			want := []string{"user", "assistant"}[i%2]
			if m.Role != want || want == "user" && !asked.MatchString(m.Content) ||
				want == "assistant" && !fenced.MatchString(m.Content) {
				t.Errorf("%s: example %d is %s: %q", k.Name, i, m.Role, m.Content)
			}
		}
	}
}
