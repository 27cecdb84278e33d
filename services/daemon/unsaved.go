package daemon

import (
	"slices"

	"zino/pkg/wire"
	"zino/proto"
)

// abandon drops a turn whose end could not be stored. A turn whose log was
// changed by another process has ended, which its followers are sent. Any other one stays
// open in the log, to be resumed when the session is locked again; its followers get the
// error.
func (t *turn) abandon(e *proto.Error) {
	w := t.w
	t.mu.Lock()
	defer t.mu.Unlock()
	if !w.edited.Load() {
		t.leaveFollowers(e)
		return
	}
	e = w.failed.Load()
	result, err := wire.AppendObject(nil, proto.TypeError, *e)
	if err != nil { // cannot happen: it has strings and a number
		result = proto.Raw("{}")
	}
	end := proto.TurnEnd{Turn: t.id, State: proto.TurnError, Reason: string(e.Code), Result: result}
	for _, say := range t.says {
		end.Returned = append(end.Returned, proto.Say{Say: say.Say, Text: say.Text})
	}
	payload, err := wire.AppendObject(nil, proto.TypeTurnEnded, end)
	if err != nil { // likewise
		return
	}
	t.state, t.reason, t.unsaved = end.State, end.Reason, payload
	t.drop(t)
	t.send(packet{payload: payload, turn: t.id})
	t.leaveFollowers(nil)
}

// leaveFollowers ends the followers of the turn, with an error unless e is nil.
// session.mu is locked.
func (t *turn) leaveFollowers(e *proto.Error) {
	t.live = slices.DeleteFunc(t.live, func(f *follower) bool {
		if f.until != t.id {
			return false
		}
		f.mu.Lock()
		f.err = e
		f.mu.Unlock()
		f.leave(false)
		return true
	})
}

// unsavedEnd returns the packet of a turn's end that could not be stored, nil if there is
// none. sess.mu is locked.
func (sess *session) unsavedEnd(turn string) []byte {
	for _, t := range sess.recent {
		if t.id == turn {
			return t.unsaved
		}
	}
	return nil
}
