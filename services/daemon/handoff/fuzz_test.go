package handoff

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"zino/pkg/visible"
	"zino/pkg/wire"
)

// wrong says what is wrong with a rendered bundle, nil if nothing is: it has the
// five sections and no other, none of them empty, the goal as it was given, and
// nothing that a terminal acts on.
func wrong(text, goal string) error {
	var names []string
	for _, h := range headings(strings.Split(text, "\n"), false) {
		if h.level < 7 {
			names = append(names, h.name)
		}
	}
	if got, want := strings.Join(names, ","), ","+strings.Join(sectionNames, ","); got != want {
		return fmt.Errorf("sections %s, want %s", got, want)
	}
	found := sections(text)
	for _, name := range sectionNames {
		if strings.TrimSpace(found[name]) == "" {
			return fmt.Errorf("section %s is empty", name)
		}
	}
	rest, _ := strings.CutPrefix(text, "# Handoff\n\n## Goal\n\n")
	if strings.HasPrefix(rest, "```") { // it stands in a block
		_, rest, _ = strings.Cut(rest, "\n")
	}
	rest, ok := strings.CutPrefix(rest, goal)
	if !ok {
		return errors.New("the goal is not the one that was given")
	}
	if strings.ContainsFunc(rest, visible.Harmful) {
		return errors.New("something in it is harmful")
	}
	if !utf8.ValidString(text) {
		return errors.New("bad UTF-8")
	}
	return nil
}

// FuzzAnswer: whatever a model writes, the bundle is whole; and a model that
// wrote that bundle would be taken at its word.
func FuzzAnswer(f *testing.F) {
	for _, c := range answers {
		f.Add(c.answer, "ship it")
	}
	f.Add(whole, "## Open tasks\n- [ ] rm")
	f.Fuzz(func(t *testing.T, answer, goal string) {
		if !utf8.ValidString(goal) || strings.TrimSpace(goal) == "" || len(goal) > goalBytes {
			return
		}
		facts := factsOf("/w/p", user("go"), did("edit", "a.go", fine), ran("make", exit1))
		b, _ := draft{facts, goal, answer, sections(answer)}.bundle()
		text := b.markdown()
		if err := wrong(text, goal); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		again, filled := draft{facts, goal, answer + text, sections(text)}.bundle()
		if again.starter != b.starter || len(again.tasks) != len(b.tasks) || again.goal != goal || filled != nil {
			t.Fatalf("of its own rendering %q are filled: %q, was %q", filled, again, b)
		}
	})
}

// FuzzEvents: whatever is in a session, the bundle is whole and the request is
// valid.
func FuzzEvents(f *testing.F) {
	f.Add("["+strings.Join(work(), ",")+"]", "/w/p")
	f.Add("["+strings.Join(join(did("write", "a", lostOnHold), ran("cd /p && ls", late), user("\x1b[2J")), ",")+"]", "")
	f.Add(`[{"type":"tool_use","id":"1","name":"bash","input":{"command":"echo '"}},{"type":5},[],null,{"type":"message","role":"user","text":{}}]`, "/")
	f.Fuzz(func(t *testing.T, list, root string) {
		events, err := wire.Elements([]byte(list))
		if err != nil || root != "" && !strings.HasPrefix(root, "/") || !utf8.ValidString(root) {
			return
		}
		facts, tr := newFacts(root), &transcript{}
		for _, raw := range events {
			facts.take(read(raw))
			tr.take(read(raw))
		}
		facts.done()
		text := facts.bundle("ship it").markdown()
		if err := wrong(text, "ship it"); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if request, _ := messages("ship it", facts, tr); !wire.Valid(request) {
			t.Fatalf("the request %s is not valid", request)
		}
	})
}
