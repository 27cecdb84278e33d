package assemble

import (
	"context"
	"errors"

	"zino/pkg/rpc"
	"zino/proto"
)

// recent is the part of a channel's history that is sent.
type recent struct {
	list     proto.Raw // the list
	elements []byte    // what stands between its brackets
}

// history asks for the end of a channel's history and cuts what is over the
// budget.
func (s *Service) history(ctx context.Context, channel string) recent {
	if channel == "" {
		return recent{}
	}
	list, err := s.ask(ctx, channel)
	var kept recent
	if err == nil {
		kept, err = newest(list, s.historyBudget)
	}
	if err != nil {
		s.without(ctx, "the history", err)
		return recent{}
	}
	if !s.historyBudget.holds(len(kept.elements)) {
		s.log.Warn(
			"the last question and answer of a channel are over [ctx] history_tokens; they are sent all the same",
			"channel", channel, "tokens", tokens(len(kept.elements)), "history_tokens", int(s.historyBudget), "trace", rpc.Trace(ctx),
		)
	}
	return kept
}

// ask asks mem for the history. Of one that does not fit into a packet fewer
// messages are asked for, until they do: the newest ones are what matters.
func (s *Service) ask(ctx context.Context, channel string) (proto.Raw, error) {
	query := proto.GetHistory{ChannelID: channel, Limit: max(0, s.historyLimit)}
	for {
		reply, err := rpc.Call(ctx, s.mem, proto.MemGetHistory, query)
		if !errors.Is(err, proto.ErrTooLarge) || query.Limit == 1 {
			return reply.Messages, err
		}
		if query.Limit == 0 {
			query.Limit = firstLimit
		}
		query.Limit /= 2
	}
}

// firstLimit is twice the number of messages that is tried when all are too many.
const firstLimit = 1 << 13

// newest cuts a history at its old end, between two messages. One that the
// budget holds is returned as it is, without a look at its messages. What is
// left of another one begins with a user's message if it has any, so that no
// answer stands without its question. The last question with its answer, or the
// last message if it is something else, stays whatever its size.
func newest(list proto.Raw, b budget) (recent, error) {
	inner, err := elements(list)
	if err != nil || b.holds(len(inner)) {
		return recent{list, inner}, err
	}
	messages, err := split(list)
	if err != nil {
		return recent{}, err
	}
	start := fitting(messages, b)
	if start > 0 {
		start = question(messages, min(start, lastExchange(messages)))
	}
	kept := joined{messages[start:]}
	list = kept.array()
	return recent{list, list[1 : len(list)-1]}, nil
}

// fitting is the index of the first message of the longest end that the budget
// holds, len(messages) if it does not hold the last one.
func fitting(messages [][]byte, b budget) int {
	size := 0
	for i := len(messages) - 1; i >= 0; i-- {
		size += len(messages[i])
		if !b.holds(size) {
			return i + 1
		}
		size += len(",")
	}
	return 0
}

// lastExchange is the index of the user's message that the last message
// answers, or that of the last message if it answers none.
func lastExchange(messages [][]byte) int {
	last := len(messages) - 1
	if last > 0 && !textOf(messages[last]).isUser() && textOf(messages[last-1]).isUser() {
		return last - 1
	}
	return last
}

// question is the index of the first user's message from start on, or start if
// there is none.
func question(messages [][]byte, start int) int {
	for i := start; i < len(messages); i++ {
		if textOf(messages[i]).isUser() {
			return i
		}
	}
	return start
}
