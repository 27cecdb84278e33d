package mem

import (
	"context"
	"errors"
	"fmt"

	"zino/proto"
	"zino/services/mem/recall"
)

// Limits of the results of recall_sessions.
const (
	passagesDefault = 10
	passagesMax     = 100
)

func (s *sessions) recall(ctx context.Context, req proto.RecallSessions) (proto.SessionPassages, error) {
	if !s.indexed {
		return proto.SessionPassages{}, &proto.Error{Code: proto.CodeUnavailable, Message: "session index is switched off: see [mem] session_index"}
	}
	q := recall.Query{Text: req.Query, K: passagesDefault, NotSession: req.NotSession, Role: req.Role, MinScore: req.MinScore, Explain: req.Explain, Owner: req.Owner}
	if req.TopK != nil {
		q.K = *req.TopK
	}
	if q.K < 1 || q.K > passagesMax {
		return proto.SessionPassages{}, invalid(fmt.Errorf("top_k must be from 1 to %d", passagesMax))
	}
	var err error
	if q.Since, err = moment("since", req.Since); err == nil {
		q.Until, err = moment("until", req.Until)
	}
	if err != nil {
		return proto.SessionPassages{}, err
	}
	switch req.Role {
	case "", proto.RoleUser, proto.RoleAssistant, proto.RoleTool:
	default:
		return proto.SessionPassages{}, invalid(fmt.Errorf(`role must be "user", "assistant" or "tool"`))
	}
	if !(req.MinScore >= 0 && req.MinScore <= 1) {
		return proto.SessionPassages{}, invalid(errors.New("min_score must be from 0 to 1"))
	}
	if req.Owner != nil && *req.Owner < 0 {
		return proto.SessionPassages{}, invalid(errors.New("owner must be a uid"))
	}
	if req.NotSession != "" {
		if err := proto.CheckSessionID(req.NotSession); err != nil {
			return proto.SessionPassages{}, invalid(fmt.Errorf("not_session: %w", err))
		}
	}
	store, err := s.open()
	if err != nil {
		return proto.SessionPassages{}, err
	}
	return recall.New(store).Search(ctx, q)
}
