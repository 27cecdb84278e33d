package constellation_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestFolderOfSkills uses testdata/skills as it is: each skill that can be used is offered
// in the prompt, and served by the tool skill; a script is run, one is used as a command,
// and the broken ones stop nothing.
func TestFolderOfSkills(t *testing.T) {
	place, err := filepath.Abs("../../testdata/skills")
	zinotest.Must(t, err)
	dir := filepath.Join(place, "every-field")
	names := []string{"Warned_Name", "another-name", "byte-order-mark", "crlf", "empty-body", "every-field", "folded-yaml", "for-the-model", "größe-大", "links", "literal-yaml", "nested"}
	var calls []fakellm.Call
	for _, name := range append(names, "for-people", "broken-yaml", "not-a-skill") {
		calls = append(calls, fakellm.Call{ID: name, Name: "skill", Args: fmt.Sprintf(`{"name":%q,"arguments":"the report"}`, name)})
	}
	e := newAgents(t, func(c *config.Config) { c.Skills.Paths = []string{place} },
		fakellm.Turn{Calls: calls},
		fakellm.Turn{Calls: []fakellm.Call{
			{ID: "read", Name: "read", Args: fmt.Sprintf(`{"path":%q}`, dir+"/references/../references/rules.md")},
			{ID: "bash", Name: "bash", Args: fmt.Sprintf(`{"command":%q}`, "cd "+dir+" && sh scripts/count.sh assets/report.txt && ./scripts/count.sh assets/answer.md")},
			{ID: "linked", Name: "bash", Args: fmt.Sprintf(`{"command":%q}`, "cat "+place+"/links/references/inner.md '"+place+"/größe-大/references/übersicht.md'; echo evil >"+dir+"/SKILL.md")},
		}},
		fakellm.Turn{Text: "Done."}, fakellm.Turn{Text: "Measured."})
	e.begin(proto.TurnStart{Sandbox: proto.LevelReadOnly})
	if end := e.end("parent"); end.State != proto.TurnDone {
		t.Fatalf("the turn %s: %+v", end.State, end)
	}
	first := string(e.provider.Requests()[0].Body)
	zinotest.Contains(t, "the prompt", first,
		`- Warned_Name: Is long. `, `- another-name: Has another name than its folder.`, `- byte-order-mark: Begins with a mark.`, `- crlf: Comes from another system.`,
		`- empty-body: Has no instructions.`, `- every-field: Counts the lines of a report. Use it when someone asks how long a report is.`,
		`- folded-yaml: Folds what is written on several lines. Use it for \"quoted: text\" and # signs.`, `- for-the-model: Cannot be typed as a command.`,
		`- größe-大: Misst die Größe. 用于测量大小。 🙂`, `- links: Has links`, `- literal-yaml: Keeps lines and their blanks.`, `- nested: Lies one folder deeper.`)
	for _, absent := range []string{"for-people", "broken", "not-a-skill"} {
		if strings.Contains(first, "- "+absent) {
			t.Errorf("the prompt offers %s", absent)
		}
	}
	results := map[string]string{} // by the id of the call
	for _, r := range e.log("parent", proto.TypeToolResult) {
		results[r.ToolUseID] = string(r.Output)
	}
	for id, want := range map[string]string{
		"every-field":  `"content":"# Count the lines of the report\n\n1. Read [the rules](references/rules.md#what-counts).`,
		"another-name": `"content":"Other.\n`,
		"read":         `Blank lines count, too.`,
		"bash":         `total: 3 lines\ntotal: 1 lines`,
		"linked":       `Real.\nÜbersicht`,
		"crlf":         `"content":"# Lines\n\nend with CRLF.\n`,
		"empty-body":   `"content":"Arguments: the report\n"`,
		"größe-大":      `"content":"Miss the report.\n","files":["references/übersicht.md"]`,
		"links":        `"files":["references/inner.md","references/real.md"]`,
		"nested":       `"files":["references/deep/er/note.md"]`,
		"for-people":   `"ok":false`,
		"broken-yaml":  `broken-yaml/SKILL.md:3: `,
		"not-a-skill":  `no skill \"not-a-skill\"; there are: `,
		"folded-yaml":  `"content":"Folded.`,
		"Warned_Name":  `"content":"Warned.`,
		"literal-yaml": `"content":"Literal.`,
	} {
		zinotest.Contains(t, id, results[id], want)
	}
	zinotest.Contains(t, "the files", results["every-field"],
		`"files":["LICENSE.txt","assets/answer.md","assets/report.txt","references/rules.md","scripts/count.sh","scripts/lib/total.sh"]`)
	if strings.Contains(zinotest.Read(t, filepath.Join(dir, "SKILL.md")), "evil") {
		t.Error("a skill was changed")
	}

	list, err := rpc.Call(t.Context(), e.daemon, proto.DaemonCommands, proto.ListCommands{Root: e.root})
	zinotest.Must(t, err)
	commands := map[string]proto.CommandInfo{}
	for _, c := range list.Commands {
		commands[c.Name] = c
	}
	if c := commands["every-field"]; c.ArgumentHint != "[report]" || c.Source != proto.CommandSkill || c.Path != dir {
		t.Errorf("every-field: %+v", c)
	}
	if _, ok := commands["for-the-model"]; ok {
		t.Error("for-the-model is a command")
	}
	_, err = rpc.Call(t.Context(), e.daemon, proto.DaemonTurnStart, proto.TurnStart{SessionID: "other", Root: e.root, Command: "for-people", Arguments: "12 things"})
	zinotest.Must(t, err)
	e.end("other")
	all := e.provider.Requests()
	zinotest.Contains(t, "the command", string(all[len(all)-1].Body), "Follow the skill for-people.", "People asked for 12 things.")

	report, err := rpc.Call(t.Context(), e.daemon, proto.DaemonContext, proto.Preview{Root: e.root})
	zinotest.Must(t, err)
	problems := map[string]string{}
	for _, s := range report.Skills {
		problems[filepath.Base(s.Dir)] = strings.Join(append(s.Warnings, s.Problem), "; ")
	}
	for name, want := range map[string]string{
		"broken-alias":           "SKILL.md:3: YAML aliases are not allowed",
		"broken-no-description":  "SKILL.md:1: has no description",
		"broken-no-front-matter": "SKILL.md:1: has no front matter",
		"broken-not-utf-8":       "SKILL.md:3: is not UTF-8",
		"broken-open":            "SKILL.md:1: the front matter does not end",
		"broken-yaml":            "SKILL.md:3: mapping values are not allowed",
		"other-name":             `SKILL.md:2: name "another-name" is not the name of the folder`,
		"every-field":            "",
		"größe-大":                "",
		"folded-yaml":            "",
		"literal-yaml":           "",
	} {
		if got := problems[name]; !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	zinotest.Contains(t, "Warned_Name", problems["Warned_Name"], `name "Warned Name" has other characters`, "the description has 1079 characters, 1024 are used", "compatibility has 599 characters, more than 500", `unknown in front matter: "version"`)
}
