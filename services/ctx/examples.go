package assemble

import (
	"zino/pkg/catalog"
	"zino/proto"
)

// examples are the skills' example messages, made ready once for each
// snapshot of the skills.
type examples struct {
	snapshot *catalog.Snapshot
	elements proto.Raw // the elements of a list, with commas between them
	count    int
}

// current returns the examples of the skills as they are now.
func (s *Service) current() *examples {
	snapshot := s.cat.Snapshot()
	if e := s.examples.Load(); e != nil && e.snapshot == snapshot {
		return e
	}
	e := examplesOf(snapshot)
	s.examples.Store(e)
	return e
}

// examplesOf takes the messages of the fabricators that show how a request is
// answered. System messages are for the fabricator alone.
func examplesOf(snapshot *catalog.Snapshot) *examples {
	e := &examples{snapshot: snapshot}
	for _, skill := range snapshot.Skills {
		for _, m := range skill.Fabricator {
			if m.Role != "user" && m.Role != "assistant" {
				continue
			}
			if e.count > 0 {
				e.elements = append(e.elements, ',')
			}
			e.elements = append(e.elements, m.Raw...)
			e.count++
		}
	}
	return e
}
