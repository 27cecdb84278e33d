package session

import (
	"context"
	"errors"

	"zino/pkg/durable"
	"zino/pkg/wire"
	"zino/proto"
)

// lostResult stands for the result of a call whose turn died before it came.
const lostResult = `{"ok":false,"error":{"code":"interrupted","message":"The call was interrupted and its result was lost."}}`

// Hold locks a session for a turn and gives the calls that an earlier turn left
// without a result one that says so. waiting is called once if somebody else
// has the lock, held as soon as it is there. Then the lock ends with ctx, and
// Hold returns nil. A turn that had the lock before names the session's end: it
// does not wait, and nothing is mended.
func (s *Store) Hold(ctx context.Context, req proto.HoldSession, waiting func() error, held func(proto.SessionHeld) error) (err error) {
	id, settle := req.SessionID, s.mend
	if err := checkID(id); err != nil {
		return err
	}
	if req.Next != nil {
		waiting = func() error { return used(id) }
		settle = func(ctx context.Context, id string) (proto.SessionHeld, error) {
			return s.unchanged(ctx, id, *req.Next)
		}
	}
	lock, err := durable.AwaitLockFile(ctx, s.root, id+lockEnd, waiting)
	if err != nil {
		return s.wrong(id, err)
	}
	defer func() {
		if released := lock.Unlock(); released != nil {
			err = s.wrong(id, released)
		}
	}()
	state, err := settle(ctx, id)
	if err == nil {
		s.setHeld(id, true)
		defer s.setHeld(id, false)
		err = held(state)
	}
	if err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (s *Store) setHeld(id string, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.held, id); held {
		s.held[id] = true
	}
}

// checkHeld refuses what counts on a lock that went with another service: its
// turn asks for it again.
func (s *Store) checkHeld(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[id] {
		return nil
	}
	return &proto.Error{Code: proto.CodeUnavailable, Message: "Session " + quote(id) + " is not held here."}
}

// unchanged holds that a session ends at next, as its turn has left it.
func (s *Store) unchanged(ctx context.Context, id string, next int64) (proto.SessionHeld, error) {
	d, err := s.look(ctx, id)
	if isGone(err) {
		d, err = digest{}, nil
	}
	if err == nil && d.End != next {
		err = used(id)
	}
	return proto.SessionHeld{SessionID: id, Next: next}, err
}

func used(id string) error {
	return &proto.Error{Code: proto.CodeBusy, Message: "Session " + quote(id) + " was used by somebody else since its turn had the lock."}
}

// mend closes the calls of a session that nobody works on.
func (s *Store) mend(ctx context.Context, id string) (proto.SessionHeld, error) {
	held := proto.SessionHeld{SessionID: id}
	err := s.writable(ctx, id, true)
	if err != nil {
		return held, err
	}
	d, err := s.look(ctx, id)
	if isGone(err) {
		return held, nil
	}
	if err != nil {
		return held, err
	}
	held.Next, held.Mended = d.End, len(d.Open)
	if held.Mended == 0 {
		return held, nil
	}
	var lines [][]byte
	for _, use := range d.Open {
		lines = append(lines, s.lost(use.ID))
	}
	held.Next, err = s.append(ctx, id, false, nil, lines)
	return held, err
}

// lost is the result of a call that was lost, as an event.
func (s *Store) lost(id string) []byte {
	line := wire.AppendString([]byte(`{"type":"tool_result","tool_use_id":`), id)
	line = append(line, `,"output":`+lostResult+`,"ok":false,"synthetic":true,"ts":"`...)
	return append(append(line, s.now()...), `"}`...)
}

// Remove deletes the session that an id or its beginning names, unless a turn
// holds it.
func (s *Store) Remove(_ context.Context, req proto.RemoveSession) (_ proto.SessionName, err error) {
	id, err := s.resolve(req.SessionID)
	if err != nil {
		return proto.SessionName{}, err
	}
	lock, err := durable.TryLockFile(s.root, id+lockEnd)
	if err != nil && !errors.Is(err, durable.ErrLocked) {
		return proto.SessionName{}, s.wrong(id, err)
	}
	if err != nil {
		return proto.SessionName{}, &proto.Error{Code: proto.CodeBusy, Kind: "session", Message: "A turn is under way on session " + quote(id) + ". Wait for its end, or interrupt it."}
	}
	err = s.lines(id).Remove()
	if err == nil {
		err = s.forget(id)
	}
	if released := lock.Unlock(); err == nil {
		err = released
	}
	return proto.SessionName{SessionID: id}, s.wrong(id, err)
}
