package session

import (
	"context"
	"errors"

	"zino/pkg/durable"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

// Hold locks a session for a turn, and closes the calls that an earlier turn left
// without a result, unless req.Mend is false or a turn is open: the daemon settles its
// calls. waiting is called once if another turn has the lock, held as soon as
// this one has it. The lock ends with ctx; then Hold returns nil. req.Next, which
// older daemons send, has the effect of Mend false.
func (s *Store) Hold(ctx context.Context, req proto.HoldSession, waiting func() error, held func(proto.SessionHeld) error) (err error) {
	id := req.SessionID
	if err := proto.CheckSessionID(id); err != nil {
		return err
	}
	lock, err := durable.AwaitLockFile(ctx, s.root, id+lockEnd, waiting)
	if err != nil {
		return s.fileError(id, err)
	}
	defer func() {
		if unlocked := lock.Unlock(); unlocked != nil {
			err = s.fileError(id, unlocked)
		}
	}()
	mend := req.Next == nil && (req.Mend == nil || *req.Mend)
	state, err := s.closeCalls(ctx, id, mend)
	if err == nil {
		err = held(state)
	}
	if err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// closeCalls appends results of code interrupted for the open calls of a session, if
// write is set and no turn is open. It returns the end of the session.
func (s *Store) closeCalls(ctx context.Context, id string, write bool) (proto.SessionHeld, error) {
	held := proto.SessionHeld{SessionID: id}
	if err := s.checkWritable(ctx, id, true); err != nil {
		return held, err
	}
	d, err := s.look(ctx, id)
	if isGone(err) {
		return held, nil
	}
	if err != nil {
		return held, err
	}
	held.Next, held.OpenTurns = d.End, d.openTurns(id)
	if len(d.Open) == 0 || !write || d.hasOpenTurn() {
		return held, nil
	}
	held.Mended = len(d.Open)
	held.Next, err = s.append(ctx, id, false, nil, s.results(d.Open))
	return held, err
}

// results returns results of code interrupted for calls.
func (s *Store) results(open []openCall) (lines [][]byte) {
	for _, call := range open {
		line := wire.AppendString([]byte(`{"type":"tool_result","tool_use_id":`), call.ID)
		line = append(line, `,"output":`+proto.InterruptedResult+`,"ok":false,"synthetic":true,"ts":"`...)
		lines = append(lines, append(append(line, s.now()...), `"}`...))
	}
	return lines
}

// Remove deletes a session, named by its id or a prefix of it, unless a turn has locked
// it.
func (s *Store) Remove(_ context.Context, req proto.RemoveSession) (proto.SessionName, error) {
	id, err := s.resolve(req.SessionID)
	if err != nil {
		return proto.SessionName{}, err
	}
	lock, err := durable.TryLockFile(s.root, id+lockEnd)
	if errors.Is(err, durable.ErrLocked) {
		return proto.SessionName{}, &proto.Error{Code: proto.CodeBusy, Kind: "session", Message: "A turn is under way on session " + text.Quote(id) + ". Wait for its end, or interrupt it."}
	}
	if err != nil {
		return proto.SessionName{}, s.fileError(id, err)
	}
	err = s.opt.Removing(id)
	if err == nil {
		err = s.log(id).Remove()
	}
	if err == nil {
		err = errors.Join(s.forget(id), s.opt.Removing(id), s.root.RemoveAll(id+filesEnd))
	}
	if unlocked := lock.Unlock(); err == nil {
		err = unlocked
	}
	return proto.SessionName{SessionID: id}, s.fileError(id, err)
}
