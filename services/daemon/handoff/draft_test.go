package handoff

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Keys of an answer.
const (
	goalKey     = "goal"
	starterKey  = "starter_prompt"
	filesKey    = "relevant_files"
	tasksKey    = "open_tasks"
	commandsKey = "repro_commands"
)

var sectionNames = []string{goalSection, starterSection, filesSection, tasksSection, commandsSection}

// answer returns an answer to the goal "ship it", with other values for some keys.
// An empty value drops the key.
func answer(changes ...string) string {
	keys := map[string]string{
		goalKey: `"ship it"`, starterKey: `"To ship it, look at /w/p/main.go."`, filesKey: `["main.go","/w/p/new/b.go"]`,
		tasksKey: `["do a","do b in /w/p"]`, commandsKey: `["cd /w/p && make test"]`,
	}
	for i := 0; i < len(changes); i += 2 {
		keys[changes[i]] = changes[i+1]
	}
	var members []string
	for key, value := range keys {
		if value != "" {
			members = append(members, fmt.Sprintf("%q: %s", key, value))
		}
	}
	slices.Sort(members)
	return "{" + strings.Join(members, ", ") + "}"
}

// drafted returns the bundle of an answer for a session that used a.go and /etc/x and
// ran make.
func drafted(answer string) (bundle, []string) {
	f := factsOf("/w/p", user("go"), did("edit", "a.go", fine), did("read", "/etc/x", fine), ran("make", fine), assistant("done"))
	return f.draft("ship it", "ship it; main.go new/b.go a.go /etc/x", answer)
}

var wholeBundle = bundle{"ship it", "To ship it, look at ./main.go.", []string{"main.go", "new/b.go"}, []string{"do a", "do b in ."}, "make test"}

func TestDraft(t *testing.T) {
	for _, text := range []string{
		answer(), "```json\n" + answer() + "\n```", "Here it is:\n" + answer() + "\nGood luck.", answer("more", `{"x":[1]}`), "\ufeff" + answer(),
	} {
		b, filled := drafted(text)
		if got, want := fmt.Sprintf("%q", b), fmt.Sprintf("%q", wholeBundle); got != want || filled != nil {
			t.Errorf("%s:\ngot  %s, filled %q\nwant %s", text, got, filled, want)
		}
	}
	for _, text := range []string{"", "I cannot do that.", "{", "}{", "[]", "{}", "null", `{"goal"}`, answer()[:40], "## Goal\nship it\n", answer() + answer()} {
		if b, filled := drafted(text); !slices.Equal(filled, sectionNames) || b.goal != "ship it" || b.commands != "make" {
			t.Errorf("%s: %+v, filled %q", text, b, filled)
		}
	}
}

// TestDraftFilled checks that a missing or malformed section is taken from the events.
func TestDraftFilled(t *testing.T) {
	events, _ := drafted("")
	for _, c := range []struct{ key, section, value string }{
		{starterKey, starterSection, ""},
		{starterKey, starterSection, `"None."`},
		{starterKey, starterSection, `" \n"`},
		{starterKey, starterSection, `["x"]`},
		{starterKey, starterSection, `null`},
		{starterKey, starterSection, `"` + strings.Repeat("long ", starterBytes) + `"`},
		{filesKey, filesSection, ""},
		{filesKey, filesSection, `null`},
		{filesKey, filesSection, `5`},
		{filesKey, filesSection, `[5]`},
		{filesKey, filesSection, `{"a":"main.go"}`},
		{filesKey, filesSection, `["/home/me/x"]`},
		{filesKey, filesSection, `["unheard.go","../main.go","/w/x/main.go"]`},
		{filesKey, filesSection, `["."]`},
		{filesKey, filesSection, `["main.go\u001b[2J"]`},
		{tasksKey, tasksSection, ""},
		{tasksKey, tasksSection, `["[x] done","- [X] done"]`},
		{tasksKey, tasksSection, `["[ ] ","-"]`},
		{commandsKey, commandsSection, ""},
		{commandsKey, commandsSection, `["# nothing"]`},
		{commandsKey, commandsSection, `["echo 'a"]`},
		{commandsKey, commandsSection, `["a\u001b[2J"]`},
		{commandsKey, commandsSection, `[{"command":"ls"}]`},
		{commandsKey, commandsSection, `[` + strings.Repeat(`"ls",`, scriptLines) + `"ls"]`},
		{commandsKey, commandsSection, `["` + strings.Repeat("l", scriptBytes+1) + `"]`},
		{commandsKey, commandsSection, `["cd x","cat /w/p/a.go"]`},
	} {
		b, filled := drafted(answer(c.key, c.value))
		if !slices.Equal(filled, []string{c.section}) {
			t.Errorf("%s %.60q: filled %q", c.key, c.value, filled)
		}
		want := wholeBundle
		switch c.key {
		case starterKey:
			want.starter = events.starter
		case filesKey:
			want.files = events.files
		case tasksKey:
			want.tasks = events.tasks
		case commandsKey:
			want.commands = events.commands
		}
		if got, want := fmt.Sprintf("%q", b), fmt.Sprintf("%q", want); got != want {
			t.Errorf("%s %.60q:\ngot  %.600s\nwant %.600s", c.key, c.value, got, want)
		}
	}
}

// TestDraftAccepted checks values that differ from the requested form but are accepted.
func TestDraftAccepted(t *testing.T) {
	var tasks, paths []string
	for i := range 30 {
		tasks, paths = append(tasks, fmt.Sprintf("t%d", i)), append(paths, fmt.Sprintf("%d/main.go", i))
	}
	quotedList := func(list []string) string {
		b, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, c := range []struct{ key, value, want string }{
		{starterKey, `"Ship   it now"`, "ship it\n\nShip   it now"},
		{starterKey, `"ship\nit in /w/p"`, "ship\nit in ."},
		{starterKey, `"ship it \u001b[2J"`, "ship it ^[[2J"},
		{filesKey, `[]`, ``},
		{filesKey, `["None known."]`, ``},
		{filesKey, `"None"`, ``},
		{filesKey, `["1. ` + "`main.go`" + ` — x","2. ./main.go","3. /etc/x","unheard.go"]`, `main.go /etc/x`},
		{filesKey, `"- sub/../main.go\n- ../../etc/x\n"`, `main.go /etc/x`},
		{filesKey, quotedList(paths), strings.Join(paths[:filesMax], " ")},
		{tasksKey, `[]`, ``},
		{tasksKey, `["- [ ] None."]`, ``},
		{tasksKey, `["1. one\n   more","[x] done","- [ ] three"]`, `one more three`},
		{tasksKey, quotedList(tasks), strings.Join(tasks[:tasksMax], " ")},
		{tasksKey, `["` + strings.Repeat("é", taskBytes) + `"]`, strings.Repeat("é", taskBytes/2) + "…"},
		{commandsKey, `[]`, ``},
		{commandsKey, `["# None known."]`, ``},
		{commandsKey, `["$ make","/w/p/run.sh\n"]`, "make\n./run.sh"},
		{commandsKey, `"make\nls"`, "make\nls"},
		{commandsKey, `["for i in 1\n  do ls\n  done"]`, "for i in 1\n  do ls\n  done"},
	} {
		b, filled := drafted(answer(c.key, c.value))
		got := map[string]string{
			starterKey: b.starter, filesKey: strings.Join(b.files, " "), tasksKey: strings.Join(b.tasks, " "), commandsKey: b.commands,
		}[c.key]
		if got != c.want || filled != nil {
			t.Errorf("%s %.60q: got %.300q, filled %q, want %.300q", c.key, c.value, got, filled, c.want)
		}
	}
	// The bundle has the user's goal, and reports that the model has changed it.
	for goal, ok := range map[string]bool{
		`"ship it"`: true, `"\n ship it"`: true, `"**\"ship  it\"**"`: true, `"Ship it"`: false, `"ship it today"`: false, `""`: false, "": false, "5": false,
	} {
		b, filled := drafted(answer(goalKey, goal))
		if b.goal != "ship it" || slices.Equal(filled, []string{goalSection}) == ok {
			t.Errorf("%s: goal %q, filled %q", goal, b.goal, filled)
		}
	}
}

func TestPathOf(t *testing.T) {
	for text, want := range map[string]string{
		"a.go": "a.go", "`a b.go` — the main one": "a b.go", "**`a.go`**: x": "a.go", "[a.go](./a.go) x": "a.go", "a.go - x": "a.go",
		"a.go: x": "a.go", "a.go (new)": "a.go", "a.go:12": "a.go", "`a.go:12-20`": "a.go", "*a.go*,": "a.go", `"a.go"`: "a.go",
		"``a`b``": "a`b", "`` `a ``": "`a", "a-b.go": "a-b.go", "./x/": "./x/", "": "", "``": "``",
	} {
		if got := pathOf(text); got != want {
			t.Errorf("pathOf(%q) = %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"": "", "- a": "a", "* b": "b", "• f": "f", "2) e": "e", "[ ] a": "a", "- [ ] a": "a", "-a": "-a", "[link](x)": "[link](x)", "- ": "", "[] a": "a", "- [x] b": "b",
	} {
		if got := itemOf(text); got != want {
			t.Errorf("itemOf(%q) = %q, want %q", text, got, want)
		}
	}
}
