package assemble

import (
	"context"
	"slices"
	"strings"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// search asks for the hard memories nearest to the message, best first.
func (s *Service) search(ctx context.Context, message string) []proto.HardMemory {
	if s.topK <= 0 || strings.TrimSpace(message) == "" {
		return nil
	}
	query := proto.SearchHard{Query: message, TopK: &s.topK}
	found, err := rpc.Call(ctx, s.mem, proto.MemSearchHard, query)
	if err != nil {
		s.without(ctx, "hard memories", err)
		return nil
	}
	return found.Results
}

// memory is one that was found.
type memory struct {
	elements []byte // its messages, with commas between them
	texts    []text // the same, read
	sent     []bool // which of them the history has
}

// addMemories adds memories, best first. Left out is one that says nothing new:
// all its messages stand in the history that is sent, or in one better memory.
// So is one for which the budget has no room; a smaller one behind it may have
// its place. Nothing is asked for in their stead: what is less near than the
// best few was not wanted before either.
func (s *Service) addMemories(ctx context.Context, list *joined, found []proto.HardMemory, beside recent) {
	var chosen joined
	var better []memory
	for _, m := range marked(s.read(ctx, found), beside.list) {
		repeats := func(other memory) bool { return within(m.texts, other.texts) }
		if !slices.Contains(m.sent, false) || slices.ContainsFunc(better, repeats) || !s.memoryBudget.holds(chosen.sizeWith(m.elements)) {
			continue
		}
		chosen.add(m.elements)
		better = append(better, m)
	}
	list.add(chosen.parts...)
}

// read looks into memories. One that is no list is left out.
func (s *Service) read(ctx context.Context, found []proto.HardMemory) (memories []memory) {
	for _, f := range found {
		inner, err := elements(f.Messages)
		if err != nil {
			s.without(ctx, "a hard memory", err)
			continue
		}
		texts := textsOf(f.Messages)
		memories = append(memories, memory{inner, texts, make([]bool, len(texts))})
	}
	return memories
}

// marked notes which messages stand in a history. The history is long and the
// memories are few: it is walked once, and not at all if there are none.
func marked(memories []memory, history proto.Raw) []memory {
	if len(memories) == 0 {
		return nil
	}
	for message := range wire.Items(history) {
		t := textOf(message)
		for _, m := range memories {
			for i, own := range m.texts {
				m.sent[i] = m.sent[i] || own.same(t)
			}
		}
	}
	return memories
}
