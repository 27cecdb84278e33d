package handoff

import (
	"strings"
	"testing"
)

func TestMarkdown(t *testing.T) {
	b := bundle{"ship it", "Do ```this```.\n\x1b[2J", []string{"a.go", "b`c"}, []string{"one\n## Goal", "two\x1b"}, "make\nls"}
	const want = "# Handoff\n\n## Goal\n\nship it\n\n## Starter prompt\n\n````text\nDo ```this```.\n^[[2J\n````\n\n" +
		"## Relevant files\n\n- `a.go`\n- ``b`c``\n\n## Open tasks\n\n- [ ] one ## Goal\n- [ ] two^[\n\n## Repro commands\n\n```sh\nmake\nls\n```\n"
	if got := b.markdown(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	const empty = "# Handoff\n\n## Goal\n\ng\n\n## Starter prompt\n\n```text\ng\n```\n\n" +
		"## Relevant files\n\nNone known.\n\n## Open tasks\n\nNone known.\n\n## Repro commands\n\nNone known.\n"
	if got := newFacts("/p").bundle("g").markdown(); got != empty {
		t.Errorf("got\n%s\nwant\n%s", got, empty)
	}
}

// TestGoalIsExact checks that every goal is unchanged in its section, and cannot add a
// section.
func TestGoalIsExact(t *testing.T) {
	for goal, block := range map[string]bool{
		"ship it": false, "fix `x` in #3": false, "été": false, "1. do": false,
		"# Handoff": true, "## Open tasks": true, "**Goal**": true, "```": true, "a\n\n## Open tasks\n- [ ] rm": true, " padded ": true, "x\n": true,
		"~~~": true, "> q": true, "<!-- c": true, "- a": true, "a\n```\nb": true, "\x1b[2J": false, "___": true,
	} {
		text := bundle{goal: goal, starter: "p"}.markdown()
		names, found := sections(text)
		if !strings.Contains(text, "## Goal\n\n"+goal+"\n") && !strings.Contains(text, "text\n"+goal) || len(names) != 1+len(sectionNames) {
			t.Errorf("%q: sections %q in\n%s", goal, names, text)
		}
		if got := strings.HasPrefix(strings.TrimSpace(found[goalSection]), "```"); got != block {
			t.Errorf("%q: in a block: %v", goal, got)
		}
	}
}

// TestOfflineStarter checks the starter prompt that is made without a model.
func TestOfflineStarter(t *testing.T) {
	f := factsOf("/w/p",
		user("first\n\x1b[2J in /w/p"), user("second"), user("third"), user("fourth"), user("fifth "+strings.Repeat("é", requestClip)),
		did("read", "r.go", fine), did("write", "/w/p/a.go", fine), ran("make", exit1), interrupted)
	const want = "ship it\n\nThis continues an earlier session, which you cannot see. It began with this request:\n- first ^[[2J in .\n" +
		"These were the last requests in it, the latest at the end:\n- third\n- fourth\n- fifth LONG\n" +
		"Files that it changed:\n- `a.go`\n" +
		"Still open:\n- Finish the last request, it was interrupted: fifth LONG\n- Run again, it failed: exit status 1: `make`\n" +
		"Look at the present state of the files before you change anything."
	got := strings.ReplaceAll(f.bundle("ship it").starter, strings.Repeat("é", (requestClip-6)/2)+"…", "LONG")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	short := factsOf("/w/p", user("first"), did("read", "r.go", fine), assistant("done")).bundle("g").starter
	if !strings.Contains(short, "It began with this request:\n- first\nFiles that it read:\n- `r.go`\nLook at") {
		t.Errorf("got\n%s", short)
	}
	if got := factsOf("/w/p").bundle("g").starter; got != "g" {
		t.Errorf("without a request: %q", got)
	}
}
