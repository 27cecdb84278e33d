package handoff

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// drafted is what becomes of an answer in a session that dealt with a.go and /etc/x
// and ran make.
func drafted(answer string) (bundle, []string) {
	f := factsOf("/w/p", user("go"), did("edit", "a.go", fine), did("read", "/etc/x", fine), ran("make", fine), assistant("done"))
	return draft{f, "ship it", "ship it; main.go new/b.go a.go /etc/x", sections(answer)}.bundle()
}

const whole = `## Goal
ship it
## Starter prompt
` + "````text\nTo ship it, look at /w/p/main.go.\n````" + `
## Relevant files
- main.go
- /w/p/new/b.go
## Open tasks
- [ ] do a
- [ ] do b in /w/p
## Repro commands
` + "```sh\ncd /w/p && make test\n```\n"

// with is the whole answer with another text in a section.
func with(section, text string) string {
	found := sections(whole)
	found[section] = text
	var b strings.Builder
	for _, name := range sectionNames {
		b.WriteString("## " + name + "\n" + found[name] + "\n")
	}
	return b.String()
}

func TestDraft(t *testing.T) {
	b, filled := drafted(whole)
	want := bundle{"ship it", "To ship it, look at ./main.go.", []string{"main.go", "new/b.go"}, []string{"do a", "do b in ."}, "make test"}
	if got := fmt.Sprintf("%q", b); got != fmt.Sprintf("%q", want) || filled != nil {
		t.Errorf("got  %s, filled %q\nwant %q", got, filled, want)
	}
}

// TestDraftFilled: a section that is not there or makes no sense comes from the
// events, and nothing else does.
func TestDraftFilled(t *testing.T) {
	fromEvents := factsOf("/w/p", user("go"), did("edit", "a.go", fine), did("read", "/etc/x", fine), ran("make", fine), assistant("done")).bundle("ship it")
	for _, c := range []struct{ section, text string }{
		{starterSection, ""},
		{starterSection, "None."},
		{starterSection, "```\n```"},
		{starterSection, strings.Repeat("long ", starterBytes)},
		{filesSection, ""},
		{filesSection, "- /home/me/x"},
		{filesSection, "- unheard.go\n- ../main.go\n- /w/x/main.go"},
		{filesSection, "- ."},
		{filesSection, "- main.go\x1b[2J"},
		{tasksSection, ""},
		{tasksSection, "- [x] done"},
		{tasksSection, "- [ ]\n-\n"},
		{commandsSection, ""},
		{commandsSection, "```sh\n# nothing\n```"},
		{commandsSection, "```sh\necho 'a\n```"},
		{commandsSection, "```sh\na\x1b[2J\n```"},
		{commandsSection, "```json\n{}\n```"},
		{commandsSection, "```sh\n" + strings.Repeat("ls\n", scriptLines+1) + "```"},
		{commandsSection, "```sh\n" + strings.Repeat("l", scriptBytes+1) + "\n```"},
		{commandsSection, "```sh\ncd x\ncat /w/p/a.go\n```"},
	} {
		t.Run(c.section, func(t *testing.T) {
			b, filled := drafted(with(c.section, c.text))
			if !slices.Equal(filled, []string{c.section}) {
				t.Errorf("%.60q: filled %q", c.text, filled)
			}
			want, _ := drafted(whole)
			switch c.section {
			case starterSection:
				want.starter = fromEvents.starter
			case filesSection:
				want.files = fromEvents.files
			case tasksSection:
				want.tasks = fromEvents.tasks
			case commandsSection:
				want.commands = fromEvents.commands
			}
			if got, want := fmt.Sprintf("%q", b), fmt.Sprintf("%q", want); got != want {
				t.Errorf("%.60q:\ngot  %.600s\nwant %.600s", c.text, got, want)
			}
		})
	}
	if _, filled := drafted("I cannot do that."); !slices.Equal(filled, sectionNames) {
		t.Errorf("of prose: filled %q", filled)
	}
}

// TestDraftTaken: what a model writes in another form than it was told is taken
// all the same.
func TestDraftTaken(t *testing.T) {
	var tasks, paths []string
	for i := range 30 {
		tasks, paths = append(tasks, fmt.Sprintf("- t%d", i)), append(paths, fmt.Sprintf("- %d/main.go", i))
	}
	for _, c := range []struct{ section, text, want string }{
		{starterSection, "Ship   it now", "ship it\n\nShip   it now"},
		{starterSection, "ship\nit in /w/p", "ship\nit in ."},
		{starterSection, "ship it \x1b[2J", "ship it ^[[2J"},
		{filesSection, "None known.", ``},
		{filesSection, "- None", ``},
		{filesSection, "1. `main.go` — x\n2. ./main.go\n3. /etc/x\n4. unheard.go", `main.go /etc/x`},
		{filesSection, "- sub/../main.go\n- ../../etc/x", `main.go /etc/x`},
		{filesSection, strings.Join(paths, "\n"), strings.ReplaceAll(strings.Join(paths[:filesMax], " "), "- ", "")},
		{tasksSection, "None known.", ``},
		{tasksSection, "- [ ] None.", ``},
		{tasksSection, "1. one\n   more\n2. [x] done\n3. three", `one more three`},
		{tasksSection, strings.Join(tasks, "\n"), strings.ReplaceAll(strings.Join(tasks[:tasksMax], " "), "- ", "")},
		{tasksSection, "- " + strings.Repeat("é", taskBytes), strings.Repeat("é", taskBytes/2) + "…"},
		{commandsSection, "None known.", ``},
		{commandsSection, "```sh\n# None known.\n```", ``},
		{commandsSection, "- `make`\n- `/w/p/run.sh`", "make\n./run.sh"},
	} {
		b, filled := drafted(with(c.section, c.text))
		got := map[string]string{
			starterSection: b.starter, filesSection: strings.Join(b.files, " "), tasksSection: strings.Join(b.tasks, " "), commandsSection: b.commands,
		}[c.section]
		if got != c.want || filled != nil {
			t.Errorf("%s %.60q: got %.300q, filled %q, want %.300q", c.section, c.text, got, filled, c.want)
		}
	}
}

// TestDraftGoal: the goal is the user's, and a model that changed it is named.
func TestDraftGoal(t *testing.T) {
	for goal, ok := range map[string]bool{
		"ship it": true, "\n> ship it": false, "**\"ship  it\"**": true, "```text\nship it\n```": true, "Ship it": false, "ship it today": false, "": false,
	} {
		b, filled := drafted(with(goalSection, goal))
		if b.goal != "ship it" || slices.Equal(filled, []string{goalSection}) == ok {
			t.Errorf("%q: goal %q, filled %q", goal, b.goal, filled)
		}
	}
}
