package handoff

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"zino/pkg/text"
	"zino/pkg/wire"
)

// sections returns the headings outside of code blocks of a rendered bundle, and
// the text below each.
func sections(markdown string) (names []string, found map[string]string) {
	found = map[string]string{}
	var fence text.Fence
	name := ""
	for line := range strings.SplitSeq(markdown, "\n") {
		if fence.Next([]byte(line)) == text.Outside && strings.HasPrefix(line, "#") {
			name = strings.TrimLeft(line, "# ")
			names = append(names, name)
			continue
		}
		found[name] += line + "\n"
	}
	return names, found
}

// checkBundle returns an error unless a rendered bundle has exactly the five sections,
// none of them empty, the unchanged goal, and no other control characters.
func checkBundle(markdown, goal string) error {
	names, found := sections(markdown)
	if got, want := strings.Join(names, ","), "Handoff,"+strings.Join(sectionNames, ","); got != want {
		return fmt.Errorf("sections %s, want %s", got, want)
	}
	for _, name := range sectionNames {
		if strings.TrimSpace(found[name]) == "" {
			return fmt.Errorf("section %s is empty", name)
		}
	}
	rest, _ := strings.CutPrefix(markdown, "# Handoff\n\n## Goal\n\n")
	if strings.HasPrefix(rest, "```") { // the goal is in a code block
		_, rest, _ = strings.Cut(rest, "\n")
	}
	rest, ok := strings.CutPrefix(rest, goal)
	if !ok {
		return errors.New("the goal was changed")
	}
	if strings.ContainsFunc(rest, text.Hidden) {
		return errors.New("it contains a control character")
	}
	if !utf8.ValidString(markdown) {
		return errors.New("it is invalid UTF-8")
	}
	return nil
}

// FuzzAnswer checks that the bundle is complete for any answer of a model, and that
// the bundle as a JSON answer is accepted.
func FuzzAnswer(f *testing.F) {
	for _, a := range []string{"", "I cannot do that.", answer(), "```json\n" + answer() + "\n```", answer()[:40], answer(filesKey, `"a\n- b"`)} {
		f.Add(a, "ship it")
	}
	f.Add(answer(), "## Open tasks\n- [ ] rm")
	f.Fuzz(func(t *testing.T, answer, goal string) {
		if !utf8.ValidString(goal) || strings.TrimSpace(goal) == "" || len(goal) > goalBytes {
			return
		}
		facts := factsOf("/w/p", user("go"), did("edit", "a.go", fine), ran("make", exit1))
		b, _ := facts.draft(goal, answer, answer)
		if err := checkBundle(b.markdown(), goal); err != nil {
			t.Fatalf("%v in\n%s", err, b.markdown())
		}
		again, err := json.Marshal(map[string]any{
			goalKey: b.goal, starterKey: b.starter, filesKey: spans(b.files), tasksKey: marked(b.tasks), commandsKey: []string{b.commands},
		})
		if err != nil {
			t.Fatal(err)
		}
		seen := answer + strings.Join(b.files, " ")
		if got, filled := facts.draft(goal, seen, string(again)); got.starter != b.starter || len(got.tasks) != len(b.tasks) || got.goal != goal || filled != nil {
			t.Fatalf("%s: filled %q, the first bundle was %q", again, filled, b)
		}
	})
}

// spans quotes paths as code spans, because a path may look like one with a remark.
func spans(paths []string) []string {
	list := []string{}
	for _, path := range paths {
		list = append(list, text.CodeSpan(path))
	}
	return list
}

// marked puts a box in front of tasks, because a task may begin with one.
func marked(tasks []string) []string {
	list := []string{}
	for _, task := range tasks {
		list = append(list, "- [ ] "+task)
	}
	return list
}

// FuzzEvents checks that the bundle is complete and the request to the model is valid
// for any events.
func FuzzEvents(f *testing.F) {
	f.Add("["+strings.Join(work(), ",")+"]", "/w/p")
	f.Add("["+strings.Join(join(did("write", "a", lostCall), ran("cd /p && ls", late), user("\x1b[2J")), ",")+"]", "")
	f.Add(`[{"type":"tool_use","id":"1","name":"bash","input":{"command":"echo '"}},{"type":5},[],null,{"type":"message","role":"user","text":{}}]`, "/")
	f.Fuzz(func(t *testing.T, list, root string) {
		events, err := wire.Elements([]byte(list))
		if err != nil || root != "" && !strings.HasPrefix(root, "/") || !utf8.ValidString(root) {
			return
		}
		facts, tr := newFacts(root), &transcript{}
		for _, raw := range events {
			facts.event(members(raw))
			tr.event(members(raw))
		}
		facts.finish()
		markdown := facts.bundle("ship it").markdown()
		if err := checkBundle(markdown, "ship it"); err != nil {
			t.Fatalf("%v in\n%s", err, markdown)
		}
		if request, _ := messages("ship it", facts, tr); !wire.Valid(request) {
			t.Fatalf("the request %s is not valid", request)
		}
	})
}
