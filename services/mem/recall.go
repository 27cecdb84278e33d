package mem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
	q := recall.Query{Text: req.Query, K: passagesDefault, NotSession: req.NotSession, Role: req.Role, MinScore: req.MinScore - step/2, Explain: req.Explain, Owner: req.Owner}
	if req.TopK != nil {
		q.K = *req.TopK
	}
	if len(req.Query) > recall.QueryMax {
		return proto.SessionPassages{}, invalid(fmt.Errorf("query has %d bytes, the limit is %d", len(req.Query), recall.QueryMax))
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
	for _, id := range []struct{ field, value string }{{"session_id", req.SessionID}, {"not_session", req.NotSession}} {
		if err := proto.CheckSessionID(id.value); id.value != "" && err != nil {
			return proto.SessionPassages{}, invalid(fmt.Errorf("%s: %w", id.field, err))
		}
	}
	store, err := s.open()
	if err != nil {
		return proto.SessionPassages{}, err
	}
	if req.SessionID != "" {
		if q.Session, err = store.Resolve(req.SessionID); err != nil {
			return proto.SessionPassages{}, err
		}
	}
	found, err := s.recaller.Search(ctx, q)
	return passages(found, req.MinScore), err
}

// passages returns the reply for what was found.
func passages(found recall.Result, least float64) proto.SessionPassages {
	reply := proto.SessionPassages{Results: []proto.SessionPassage{}, Searched: found.Searched, Pending: found.Pending, LeftOut: found.LeftOut}
	for _, hit := range found.Hits {
		p := proto.SessionPassage{SessionID: hit.Session, From: hit.From, Role: hit.Role, Score: rounded(hit.Score), Excerpt: hit.Excerpt}
		if p.Score < least {
			continue
		}
		if hit.TS != 0 {
			p.TS = time.Unix(hit.TS, 0).UTC().Format(time.RFC3339)
		}
		if hit.Own > 0 {
			p.Own = rounded(hit.Own)
		}
		for _, w := range shares(hit.Words, p.Own) {
			p.Words = append(p.Words, proto.WordShare{Word: w.Word, Share: w.Share, As: w.As})
		}
		reply.Results = append(reply.Results, p)
	}
	// Rounding can make scores equal: the newest passage comes first.
	slices.SortStableFunc(reply.Results, func(a, b proto.SessionPassage) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.TS, a.TS))
	})
	return reply
}
