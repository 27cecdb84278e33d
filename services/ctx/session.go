package assemble

import (
	"context"
	"errors"
	"fmt"

	"zino/pkg/rpc"
	"zino/proto"
)

// session is the context of a session's turn: its messages as mem has them.
// Neither limit nor budget cuts them, as a call without its result, or a turn
// without what was agreed on before, is worth less than an error. Examples and
// memories are left out: the messages in front of the last turn stay the same
// from turn to turn, so that providers can keep them in their caches.
func (s *Service) session(ctx context.Context, req proto.Build) (proto.Context, error) {
	var list joined
	reply, err := rpc.Call(ctx, s.mem, proto.MemGetMessages, proto.GetMessages{SessionID: req.SessionID})
	if errors.Is(err, proto.ErrNotFound) { // it begins with this turn
		return proto.Context{Messages: list.array()}, nil
	}
	if err != nil {
		return proto.Context{}, err // a turn without what came before it would do harm
	}
	inner, err := elements(reply.Messages)
	if err != nil {
		return proto.Context{}, err
	}
	list.add(inner)
	if err := fits(req, list.size()); err != nil {
		return proto.Context{}, err
	}
	return proto.Context{Messages: list.array()}, ctx.Err()
}

// fits compares a session of so many bytes, and the message that comes with it,
// with what the model can take in, as far as the caller knows that. One that is
// empty has nothing that could be handed off: a message that is too large alone
// is for the provider to refuse.
func fits(req proto.Build, bytes int) error {
	limit, have := req.ContextTokens, tokens(bytes+len(req.UserMessage))
	if limit <= 0 || have <= limit || bytes == 0 {
		return nil
	}
	return &proto.Error{Code: proto.CodeTooLarge, Message: fmt.Sprintf(
		"Session %s and the message have about %d tokens, the model can take in %d. Go on in a new one: zino handoff --from-session %s --goal \"…\".",
		req.SessionID, have, limit, req.SessionID,
	)}
}
