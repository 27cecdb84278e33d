package assemble

import (
	"fmt"
	"strings"

	"zino/pkg/catalog"
)

// examples are the skills' example messages, made ready once for each
// snapshot of the skills.
type examples struct {
	snapshot *catalog.Snapshot
	elements []byte   // the elements of a list, with commas between them
	count    int      // messages among them
	left     []string // the skills that the budget had no room for
}

// current returns the examples of the skills as they are now.
func (s *Service) current() *examples {
	snapshot := s.cat.Snapshot()
	old := s.examples.Load()
	if old != nil && old.snapshot == snapshot {
		return old
	}
	e := examplesOf(snapshot, s.exampleBudget)
	// Of several requests that see new skills at once, one says what is missing.
	if s.examples.CompareAndSwap(old, e) && len(e.left) > 0 {
		s.log.Warn(e.problem(s.exampleBudget))
	}
	return e
}

// examplesOf takes the messages of the fabricators that show how a request is
// answered, in the order of the skills. A skill's examples go together: if the
// budget has no room for all of them none is taken, and those of a smaller
// skill behind it may have their place.
func examplesOf(snapshot *catalog.Snapshot, b budget) *examples {
	e := &examples{snapshot: snapshot}
	var all joined
	for _, skill := range snapshot.Skills {
		messages := shown(skill)
		switch {
		case len(messages.parts) == 0: // shows nothing
		case b.holds(all.sizeWith(messages.parts...)):
			all.add(messages.parts...)
		default:
			e.left = append(e.left, skill.Name)
		}
	}
	list := all.array()
	e.elements, e.count = list[1:len(list)-1], len(all.parts)
	return e
}

// shown are the messages of a skill that are examples. System messages are for
// the fabricator alone.
func shown(skill catalog.Skill) (messages joined) {
	for _, m := range skill.Fabricator {
		if m.Role == "user" || m.Role == "assistant" {
			messages.add(m.Raw)
		}
	}
	return messages
}

// problem words that skills were left out.
func (e *examples) problem(b budget) string {
	return fmt.Sprintf(
		"contexts go without the examples of these skills: %s: all examples together are over [ctx] examples_tokens = %d: raise it, or shorten the examples",
		strings.Join(e.left, ", "), int(b),
	)
}
