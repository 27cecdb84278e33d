package assemble

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"zino/pkg/catalog"
	"zino/pkg/message"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// bytesPerToken estimates tokens: English prose has about four bytes a token,
// source code and other alphabets fewer.
const bytesPerToken = 4

// tokens estimates the tokens of so many bytes, rounded up.
func tokens(bytes int) int { return (bytes + bytesPerToken - 1) / bytesPerToken }

// budget is the maximum number of tokens of a part, measured as sent: its messages
// as JSON with the commas between them. 0 means no limit.
type budget int

// allows reports whether so many bytes are within the budget.
func (b budget) allows(bytes int) bool { return b <= 0 || tokens(bytes) <= int(b) }

// examples are the skills' example messages, made once for each snapshot of the
// catalog.
type examples struct {
	snapshot *catalog.Snapshot
	elements []byte   // messages with commas between them
	count    int      // of messages
	omitted  []string // skills over the budget
}

// current returns the examples of the current skills.
func (s *Service) current() *examples {
	snapshot := s.cat.Snapshot()
	old := s.examples.Load()
	if old != nil && old.snapshot == snapshot {
		return old
	}
	e := newExamples(snapshot, s.exampleBudget)
	// If concurrent requests see new skills, only one logs the problem.
	if s.examples.CompareAndSwap(old, e) && len(e.omitted) > 0 {
		s.log.Warn(e.problem(s.exampleBudget))
	}
	return e
}

// newExamples collects the user and assistant messages of the fabricators, in the
// order of the skills. A skill's examples are used together or not at all; if they do
// not fit, those of a later, smaller skill may.
func newExamples(snapshot *catalog.Snapshot, b budget) *examples {
	e := &examples{snapshot: snapshot}
	var all joined
	for _, skill := range snapshot.Skills {
		var own joined
		for _, m := range skill.Fabricator {
			if m.Role == "user" || m.Role == "assistant" {
				own.add(m.Raw)
			}
		}
		if len(own.parts) == 0 {
			continue
		}
		if !b.allows(all.sizeWith(own.parts...)) {
			e.omitted = append(e.omitted, skill.Name)
			continue
		}
		all.add(own.parts...)
	}
	list := all.array()
	e.elements, e.count = list[1:len(list)-1], len(all.parts)
	return e
}

// problem describes the skills left out.
func (e *examples) problem(b budget) string {
	return fmt.Sprintf(
		"contexts go without the examples of these skills: %s: all examples together are over [ctx] examples_tokens = %d: raise it, or shorten the examples",
		strings.Join(e.omitted, ", "), int(b),
	)
}

// search asks mem for the hard memories nearest to the user's message, best first.
func (s *Service) search(ctx context.Context, query string) []proto.HardMemory {
	if s.topK <= 0 || strings.TrimSpace(query) == "" {
		return nil
	}
	found, err := rpc.Call(ctx, s.mem, proto.MemSearchHard, proto.SearchHard{Query: query, TopK: &s.topK})
	if err != nil {
		s.without(ctx, "hard memories", err)
		return nil
	}
	return found.Results
}

// memory is a hard memory found by search.
type memory struct {
	elements []byte   // its messages with commas between them
	messages []spoken // the same, parsed
	sent     []bool   // for each message: the history contains it
}

// choose returns the messages of the memories that fit the budget, best first. A
// memory is left out if all its messages are in the history that is sent, or in a
// better memory. It is not replaced by others, which were not among the nearest.
func (s *Service) choose(ctx context.Context, found []proto.HardMemory, history proto.Raw) [][]byte {
	var memories []memory
	for _, f := range found {
		inner, err := message.Inner(f.Messages)
		if err != nil {
			s.without(ctx, "a hard memory", err)
			continue
		}
		m := memory{elements: inner}
		for element := range wire.Items(f.Messages) {
			m.messages = append(m.messages, readMessage(element))
		}
		m.sent = make([]bool, len(m.messages))
		memories = append(memories, m)
	}
	if len(memories) > 0 { // the history is long: scan it once, and only if needed
		for element := range wire.Items(history) {
			said := readMessage(element)
			for _, m := range memories {
				for i, own := range m.messages {
					m.sent[i] = m.sent[i] || own.equal(said)
				}
			}
		}
	}
	var chosen joined
	var better []memory
	for _, m := range memories {
		repeated := slices.ContainsFunc(better, func(other memory) bool { return containsAll(other.messages, m.messages) })
		if !slices.Contains(m.sent, false) || repeated || !s.memoryBudget.allows(chosen.sizeWith(m.elements)) {
			continue
		}
		chosen.add(m.elements)
		better = append(better, m)
	}
	return chosen.parts
}

// recent is the part of a channel's history that is sent.
type recent struct {
	list     proto.Raw
	elements []byte // between the list's brackets
}

// history requests the end of a channel's history and cuts it to the budget.
func (s *Service) history(ctx context.Context, channel string) recent {
	if channel == "" {
		return recent{}
	}
	list, err := s.fetch(ctx, channel)
	var kept recent
	if err == nil {
		kept, err = newest(list, s.historyBudget)
	}
	if err != nil {
		s.without(ctx, "the history", err)
		return recent{}
	}
	if !s.historyBudget.allows(len(kept.elements)) {
		s.log.Warn(
			"the last question and answer of a channel are over [ctx] history_tokens; they are sent all the same",
			"channel", channel, "tokens", tokens(len(kept.elements)), "history_tokens", int(s.historyBudget), "trace", rpc.Trace(ctx),
		)
	}
	return kept
}

// fetch requests the history. If it does not fit into a packet, it requests half
// as many messages until they do.
func (s *Service) fetch(ctx context.Context, channel string) (proto.Raw, error) {
	query := proto.GetHistory{ChannelID: channel, Limit: max(0, s.historyLimit)}
	for {
		reply, err := rpc.Call(ctx, s.mem, proto.MemGetHistory, query)
		if !errors.Is(err, proto.ErrTooLarge) || query.Limit == 1 {
			return reply.Messages, err
		}
		if query.Limit == 0 {
			query.Limit = 1 << 13 // all are too many
		}
		query.Limit /= 2
	}
}

// newest removes the oldest messages of a history that is over the budget; a history
// within the budget is not parsed. The rest begins with a user's message if it has
// any, so that no answer lacks its question. The last question with its answer, or
// else the last message, is kept, of any size.
func newest(list proto.Raw, b budget) (recent, error) {
	inner, err := message.Inner(list)
	if err != nil || b.allows(len(inner)) {
		return recent{list, inner}, err
	}
	messages, err := split(list)
	if err != nil {
		return recent{}, err
	}
	last := len(messages) - 1
	start, size := len(messages), 0
	for start > 0 && b.allows(size+len(messages[start-1])) {
		start--
		size += len(messages[start]) + len(",")
	}
	if start > 0 {
		isUser := func(i int) bool { return readMessage(messages[i]).isUser() }
		if last > 0 && !isUser(last) && isUser(last-1) {
			start = min(start, last-1)
		}
		start = min(start, last)
		for i := start; i <= last; i++ {
			if isUser(i) {
				start = i
				break
			}
		}
	}
	kept := joined{messages[start:]}
	list = kept.array()
	return recent{list, list[1 : len(list)-1]}, nil
}
