package daemon

import (
	"context"
	"errors"
	"slices"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/daemon/turnlog"
)

// pageBytes is how much of a session log is read at a time.
const pageBytes = 1 << 20

// settleTimeout limits what is done about crashed turns when a session is locked.
const settleTimeout = 60 * time.Second

// settle prepares a session that has just been locked: it ends the turns that have
// crashed, since no process had the lock.
func (sess *session) settle(w *writer, held proto.SessionHeld) error {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	log := turnlog.New(sess.id, held.Next)
	marked := sess.jobsMarked(sess.id)
	whole := len(held.OpenTurns) > 0 || marked
	var crashed []*turnlog.Turn
	if whole {
		var err error
		if log, err = sess.readLog(ctx, sess.id, 0); err != nil {
			return err
		}
		crashed = sess.crashed(log)
	}
	sess.mu.Lock()
	sess.log, sess.logFrom = log, log.Next
	if whole {
		sess.logFrom = 0
	}
	sess.marked = marked
	sess.noteJobs()
	sess.expire(held.Next)
	sess.settling = sess.lifetime == proto.LifetimePersistent
	sess.mu.Unlock()
	if err := sess.finishUndo(ctx, w); err != nil {
		return err
	}
	if sess.lifetime == proto.LifetimePersistent {
		sess.lot.take(sess.id)
		err := sess.adopt(ctx, w, crashed)
		sess.mu.Lock()
		if sess.settling = false; err != nil {
			sess.expire(-1)
		}
		sess.mu.Unlock()
		return err
	}
	for _, t := range crashed {
		if !t.Attached && t.Lifetime != proto.LifetimePrivate {
			return proto.SessionErrorf(proto.CodeBusy, "session %s has an open turn %s of another constellation: zino attach %[1]s, or zino stop %[1]s", sess.id, t.ID)
		}
	}
	for _, t := range crashed {
		if err := sess.endCrashed(ctx, w, t, reasonCrashed, nil); err != nil {
			return err
		}
	}
	return nil
}

// crashed returns the open turns that no process carries out, except parked ones and
// what is queued behind them.
func (sess *session) crashed(log *turnlog.Log) (list []*turnlog.Turn) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	for _, t := range log.Open() {
		if t.State == proto.TurnParked && sess.lifetime == proto.LifetimePrivate {
			return nil
		}
		if !slices.ContainsFunc(sess.turns, func(own *turn) bool { return own.id == t.ID }) {
			list = append(list, t)
		}
	}
	return list
}

// endCrashed stores the end of a turn that this daemon has not carried out, with results
// for its open calls. Its undelivered messages, and the queued turns, end with it.
func (sess *session) endCrashed(ctx context.Context, w *writer, t *turnlog.Turn, reason string, queued []*turn) error {
	sess.mu.Lock()
	open := sess.log.Calls(t)
	sess.mu.Unlock()
	used := sess.cancelAgents(ctx, t.ID, open)
	sess.endApprovals(sess.id, t.ID)
	sess.stopCommands(ctx, sess.id, t.ID)
	r := record{turnID: t.ID, command: t.Command}
	for _, call := range open {
		r.interrupt(openCall{id: call.ID, name: call.Name, step: call.Step, usage: used[call.ID]}, nil)
	}
	sess.mu.Lock()
	var says []proto.LogSay
	for _, say := range t.Says {
		says = append(says, proto.LogSay{Say: say.ID, Turn: t.ID})
	}
	sess.mu.Unlock()
	r.fail(sess.id, proto.ErrCanceled, reason)
	r.withdraw(sess.id, says, queued)
	list, err := r.take()
	if err != nil {
		return err
	}
	return sess.append(ctx, w, list, nil, func() {})
}

// commandsTimeout is how long exc may take to stop the commands of a turn.
const commandsTimeout = 3 * time.Second

// stopCommands ends the foreground commands of a turn. Nothing is left of them when the
// turn's end is stored, unless exc cannot be reached.
func (s *Service) stopCommands(ctx context.Context, sessionID, turnID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandsTimeout)
	defer cancel()
	_, err := rpc.Call(ctx, s.services["exc"], proto.ExcStopTurn, proto.StopTurn{SessionID: sessionID, Turn: turnID})
	if err != nil && !errors.Is(err, rpc.ErrConnect) {
		s.log.Warn("the commands of a turn could not be stopped", "session", sessionID, "turn", turnID, "error", err)
	}
}

// readLog reads a session log from the start of an event on. Errors are about the
// session.
func (s *Service) readLog(ctx context.Context, id string, from int64) (*turnlog.Log, error) {
	return s.readEvents(ctx, id, from, func([]byte) {})
}

// readEvents is readLog, and calls each for every event.
func (s *Service) readEvents(ctx context.Context, id string, from int64, each func(event []byte)) (*turnlog.Log, error) {
	log := turnlog.New(id, from)
	for more := true; more; {
		page, err := s.readPage(ctx, id, log.Next)
		if err != nil {
			return nil, err
		}
		for event, next := range turnlog.Events(page.Events, page.Offsets) {
			log.Add(event, next)
			each(event)
		}
		log.Next, more = page.Next, page.More
	}
	return log, nil
}

// readPage reads about 1 MiB of a session log.
func (s *Service) readPage(ctx context.Context, id string, from int64) (proto.SessionEvents, error) {
	page, err := rpc.Call(ctx, s.mem, proto.MemReadSession, proto.ReadSession{SessionID: id, From: from, MaxBytes: pageBytes})
	if from == 0 && errors.Is(err, proto.ErrInvalid) { // the id is the prefix of several others
		return page, proto.Errorf(proto.CodeNotFound, "no session %q", id)
	}
	if err != nil {
		return page, sessionError(err)
	}
	if page.SessionID != id {
		return page, proto.Errorf(proto.CodeNotFound, "no session %q", id)
	}
	return page, nil
}
