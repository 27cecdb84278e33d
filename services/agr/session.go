package agr

import (
	"context"
	"fmt"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/agr/toolbox"
)

// session is what the inferences of a session's turn have in common. Plain
// runs have none.
type session struct {
	tools proto.Raw    // what the model is offered
	pages bool         // the tools for live pages are among them
	usage *proto.Usage // of the inferences so far; nil while none has told
}

func (s *Service) sessionOf(ctx context.Context, req proto.Run) *session {
	if req.SessionID == "" {
		return nil
	}
	pages := s.hasPages(ctx)
	return &session{tools: toolbox.Offer(s.cat.Snapshot(), pages), pages: pages}
}

// count adds what one inference took, as far as that is known. The cost is the
// sum of the known ones.
func (s *session) count(u *proto.Usage) {
	if s == nil || u == nil {
		return
	}
	if s.usage == nil {
		s.usage = &proto.Usage{}
	}
	sum := s.usage
	sum.InputTokens += u.InputTokens
	sum.OutputTokens += u.OutputTokens
	sum.CacheReadTokens += u.CacheReadTokens
	sum.CacheWriteTokens += u.CacheWriteTokens
	sum.ReasoningTokens += u.ReasoningTokens
	if u.CostUSD != nil {
		if sum.CostUSD == nil {
			sum.CostUSD = new(float64)
		}
		*sum.CostUSD += *u.CostUSD
	}
}

// ask has the router answer req, which holds what differs between the main loop
// and skills, with all else as the turn has it, and counts what that takes.
func (t *turn) ask(req proto.Infer, sink rpc.Sink) (proto.Text, error) {
	r := t.req
	req.Temperature, req.TopP, req.NeedModel = r.Temperature, r.TopP, r.NeedModel
	req.Provider, req.Model, req.MaxTokens, req.SessionID, req.Effort = r.Provider, r.Model, r.MaxTokens, r.SessionID, r.Effort
	req.NoSave = r.NoSave
	text, err := rpc.CallText(t.ctx, t.s.rtr, proto.RtrInfer, req, sink)
	t.session.count(text.Usage)
	return text, err
}

// answer is the terminal packet of a run that ends with this inference. A plain
// run that reached its limit has the results of the last blocks in its text. In
// a session that is an error: no inference would see the results of the last
// calls, so they are not carried out, and nobody has been told of them.
func (t *turn) answer(iterations int) (proto.Text, error) {
	text := proto.Text{Content: string(t.text), Iterations: &iterations}
	if t.session == nil {
		return text, nil
	}
	if t.interrupted {
		return proto.Text{}, t.limitReached(iterations)
	}
	text.StopReason, text.Provider, text.Model = t.end.StopReason, t.end.Provider, t.end.Model
	text.Usage = t.session.usage
	return text, nil
}

// limitReached has the code of things over a limit: nothing has failed, and to
// try the same again later would not help.
func (t *turn) limitReached(limit int) error {
	notice := proto.Notice{Kind: "limit", Text: fmt.Sprintf("The limit of %d inferences is reached; what the last answer asked for was not carried out.", limit)}
	if err := t.report(proto.TypeNotice, notice); err != nil {
		return err
	}
	return &proto.Error{Code: proto.CodeTooLarge, Message: fmt.Sprintf(
		"The turn has reached its limit of %d inferences and the model still asks for tools: tell it to go on, or raise session_iterations in [agr].", limit)}
}
