package constellation_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// greetSkill are the files of a skill.
var greetSkill = map[string]string{
	"greet/SKILL.md":              "---\nname: greet\ndescription: Greets people. Use it when someone is to be greeted.\n---\nSee references/manners.md, then run scripts/greet.sh.\n",
	"greet/references/manners.md": "Always be polite.\n",
	"greet/scripts/greet.sh":      "echo \"Good day, $1\"\n",
}

// TestSkillAtEachLevel has the model use a skill of the user: it calls skill, reads a
// reference, and runs a script. Changing the folder works at the level off only.
func TestSkillAtEachLevel(t *testing.T) {
	place := zinotest.Dir(t)
	zinotest.WriteFiles(t, place, greetSkill)
	dir := filepath.Join(place, "greet")
	for _, level := range []proto.Level{proto.LevelOff, proto.LevelReadOnly, proto.LevelWorkspaceWrite} {
		t.Run(string(level), func(t *testing.T) {
			calls := []fakellm.Call{
				{ID: "read", Name: "read", Args: fmt.Sprintf(`{"path":%q}`, dir+"/references/manners.md")},
				{ID: "bash", Name: "bash", Args: fmt.Sprintf(`{"command":%q}`, "sh "+dir+"/scripts/greet.sh Ada")},
				{ID: "change", Name: "bash", Args: fmt.Sprintf(`{"command":%q}`, "echo changed >"+dir+"/changed; ls "+dir)},
			}
			e := newAgents(t, func(c *config.Config) { c.Skills.Paths = []string{place} },
				fakellm.Turn{Calls: []fakellm.Call{{ID: "skill", Name: "skill", Args: `{"name":"greet","arguments":"Ada"}`}}},
				fakellm.Turn{Calls: calls}, fakellm.Turn{Text: "Done."})
			e.begin(proto.TurnStart{Sandbox: level})
			if end := e.end("parent"); end.State != proto.TurnDone {
				t.Fatalf("the turn %s: %+v", end.State, end)
			}
			first := e.provider.Requests()[0].Body
			if !strings.Contains(string(first), "- greet: Greets people.") || !strings.Contains(string(first), `"skill"`) {
				t.Errorf("the first request is %s", first)
			}
			results := e.log("parent", proto.TypeToolResult)
			if len(results) != 4 {
				t.Fatalf("%d results", len(results))
			}
			var content struct {
				OK   bool
				Data proto.SkillContent
			}
			zinotest.Must(t, json.Unmarshal(results[0].Output, &content))
			want := "See references/manners.md, then run scripts/greet.sh.\n\nArguments: Ada\n"
			if c := content.Data; !content.OK || c.Content != want || c.Dir != dir || strings.Join(c.Files, " ") != "references/manners.md scripts/greet.sh" {
				t.Errorf("skill: %s", results[0].Output)
			}
			for i, want := range []string{"Always be polite.", "Good day, Ada", "references"} {
				if got := string(results[i+1].Output); !strings.Contains(got, want) {
					t.Errorf("%s: %s", calls[i].ID, got)
				}
			}
			_, err := os.Stat(filepath.Join(dir, "changed"))
			if changed := err == nil; changed != (level == proto.LevelOff) {
				t.Errorf("the folder was changed: %v, %s", changed, results[3].Output)
			}
			os.Remove(filepath.Join(dir, "changed"))
		})
	}
}

// TestProjectSkill: a skill of a project is used when it is trusted, and until its folder
// changes.
func TestProjectSkill(t *testing.T) {
	call := fakellm.Turn{Calls: []fakellm.Call{{ID: "a", Name: "skill", Args: `{"name":"greet"}`}}}
	e := newAgents(t, func(*config.Config) {}, fakellm.Turn{Text: "No skill."}, call, fakellm.Turn{Text: "Used."}, fakellm.Turn{Text: "Changed."})
	zinotest.WriteFiles(t, filepath.Join(e.root, ".claude/skills"), greetSkill)
	turn := func() string {
		t.Helper()
		e.begin(proto.TurnStart{})
		e.end("parent")
		requests := e.provider.Requests()
		return string(requests[len(requests)-1].Body)
	}
	offered := func(body string) bool { return strings.Contains(body, "- greet: Greets people.") }
	if body := turn(); offered(body) || strings.Contains(body, `"name":"skill"`) {
		t.Error("a skill is offered that is not trusted")
	}
	report, err := rpc.Call(t.Context(), e.daemon, proto.DaemonTrust, proto.TrustRequest{Root: e.root})
	zinotest.Must(t, err)
	if len(report.Files) != 1 || report.Files[0].Kind != proto.TrustSkill {
		t.Fatalf("files %+v", report.Files)
	}
	_, err = rpc.Call(t.Context(), e.daemon, proto.DaemonSetTrust, proto.SetTrust{Path: report.Files[0].Path, SHA256: report.Files[0].SHA256, Trusted: new(true)})
	zinotest.Must(t, err)
	if body := turn(); !offered(body) || !strings.Contains(body, "then run scripts/greet.sh") {
		t.Errorf("the trusted skill is not used: %s", body)
	}
	zinotest.Write(t, filepath.Join(e.root, ".claude/skills/greet/scripts/greet.sh"), "echo evil\n")
	if body := turn(); offered(body) {
		t.Error("a skill is offered that has changed")
	}
}

// TestSkillCommand: a skill is the command /NAME, also one that the model is not offered,
// unless it is for the model only.
func TestSkillCommand(t *testing.T) {
	place := zinotest.Dir(t)
	zinotest.WriteFiles(t, place, map[string]string{
		"greet/SKILL.md":  "---\ndescription: Greets people.\ndisable-model-invocation: true\nargument-hint: [person]\n---\nGreet $ARGUMENTS.\n",
		"hidden/SKILL.md": "---\ndescription: Hidden.\nuser-invocable: false\n---\nHide.\n",
	})
	e := newAgents(t, func(c *config.Config) { c.Skills.Paths = []string{place} }, fakellm.Turn{Text: "Done."})
	list, err := rpc.Call(t.Context(), e.daemon, proto.DaemonCommands, proto.ListCommands{Root: e.root})
	zinotest.Must(t, err)
	var greet proto.CommandInfo
	for _, c := range list.Commands {
		switch c.Name {
		case "greet":
			greet = c
		case "hidden":
			t.Errorf("listed: %+v", c)
		}
	}
	if greet.Source != proto.CommandSkill || greet.ArgumentHint != "[person]" || greet.Description != "Greets people." {
		t.Errorf("commands %+v", list.Commands)
	}
	_, err = rpc.Call(t.Context(), e.daemon, proto.DaemonTurnStart, proto.TurnStart{SessionID: "parent", Root: e.root, Command: "greet", Arguments: "Ada"})
	zinotest.Must(t, err)
	e.end("parent")
	body := string(e.provider.Requests()[0].Body)
	if !strings.Contains(body, "Greet Ada.") || !strings.Contains(body, filepath.Join(place, "greet")) {
		t.Errorf("the request is %s", body)
	}
	if strings.Contains(body, "Greets people.") || !strings.Contains(body, "- hidden: Hidden.") {
		t.Errorf("the prompt lists the wrong skills: %s", body)
	}
}
