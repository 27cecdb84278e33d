package session

import (
	"context"
	"slices"

	"zino/proto"
)

// openTurn is a turn that has not ended.
type openTurn struct {
	Turn    string `json:"turn"`
	State   string `json:"state"`
	Updated string `json:"updated,omitempty"` // the time of its last event
}

// isOpen reports whether a turn in this state has not ended.
func isOpen(state string) bool {
	switch state {
	case proto.TurnQueued, proto.TurnRunning, proto.TurnParked, proto.TurnResumed:
		return true
	}
	return false
}

// addTurn updates the open turns for an event with a turn. A turn event that names
// another session was copied from there, and is ignored.
func (d *digest) addTurn(id string, e *event) {
	at := slices.IndexFunc(d.OpenTurns, func(t openTurn) bool { return is(e.turn, t.Turn) })
	if e.kind == proto.TypeTurn {
		turn, named, state := str(e.turn), str(e.session), str(e.turnState)
		if turn == "" || named != "" && named != id {
			return
		}
		d.LastTurn = state
		switch starts := state == proto.TurnQueued || state == proto.TurnRunning; {
		case at < 0 && starts && named == id:
			at = len(d.OpenTurns)
			d.OpenTurns = append(d.OpenTurns, openTurn{Turn: turn, State: state})
		case at >= 0 && proto.TurnEnded(state):
			d.OpenTurns = slices.Delete(d.OpenTurns, at, at+1)
			return
		case at >= 0 && isOpen(state):
			d.OpenTurns[at].State = state
		}
	}
	if ts := timeOf(e.ts); at >= 0 && ts != "" {
		d.OpenTurns[at].Updated = ts
	}
}

// hasOpenTurn reports whether the daemon has to settle the calls without a result,
// because it will resume or end their turn.
func (d *digest) hasOpenTurn() bool { return len(d.OpenTurns) > 0 || isOpen(d.LastTurn) }

// openTurns returns the open turns of the session id.
func (d *digest) openTurns(id string) (list []proto.OpenTurn) {
	for _, t := range d.OpenTurns {
		list = append(list, proto.OpenTurn{SessionID: id, Turn: t.Turn, State: t.State, Updated: t.Updated})
	}
	return list
}

// OpenTurns lists the turns that have not ended: sessions in the order of their last
// change, latest first, and turns of one session in the order of their first events.
func (s *Store) OpenTurns(ctx context.Context, _ proto.ListOpenTurns) (proto.OpenTurns, error) {
	reply := proto.OpenTurns{Turns: []proto.OpenTurn{}}
	all, err := s.entries(ctx)
	if err != nil {
		return reply, err
	}
	for _, e := range all {
		d, err := s.digest(ctx, e)
		if err := ctx.Err(); err != nil {
			return reply, err
		}
		if err != nil && !isGone(err) && len(reply.Problems) < problemsMax {
			reply.Problems = append(reply.Problems, err.Error())
		}
		reply.Turns = append(reply.Turns, d.openTurns(e.id)...)
	}
	_ = s.saveIndex(all) // a directory that cannot be written can be listed
	return reply, nil
}
