package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

// cancelTimeout is how long turn_cancel waits for the end of the turn.
const cancelTimeout = 5 * time.Second

// turnCancel ends a turn. One that has ended stays as it is.
func (s *Service) turnCancel(ctx context.Context, req proto.TurnCancel) (proto.TurnStarted, error) {
	if err := proto.CheckSessionID(req.SessionID); err != nil {
		return proto.TurnStarted{}, err
	}
	sess, leave, err := s.enterLoaded(ctx, req.SessionID)
	if err != nil {
		return proto.TurnStarted{}, err
	}
	defer leave()
	sess.mu.Lock()
	t := sess.active()
	if req.Turn != "" {
		t = sess.find(req.Turn)
	}
	if req.Jobs {
		defer func() {
			for _, id := range append(s.agentSessions(ctx, req.SessionID), req.SessionID) {
				s.stopJobs(ctx, id)
			}
		}()
	}
	if t == nil {
		sess.mu.Unlock()
		return sess.past(ctx, req.Turn)
	}
	launched, parked := t.launched, t.state == proto.TurnParked
	sess.mu.Unlock()
	if launched {
		t.cancel()
	} else if parked {
		if err := t.cancelParked(ctx); err != nil {
			return proto.TurnStarted{}, err
		}
	} else if err := t.withdrawQueued(ctx, reasonCanceled); codeOf(err) == proto.CodeNotFound { // it has begun meanwhile
		t.cancel()
	} else if err != nil {
		return proto.TurnStarted{}, err
	}
	select {
	case <-t.done:
	case <-time.After(s.cancelTimeout):
		return proto.TurnStarted{}, proto.Errorf(proto.CodeTimeout, "the end of turn %s is not stored yet: it is being canceled", t.id)
	case <-ctx.Done():
		return proto.TurnStarted{}, ctx.Err()
	}
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if !proto.TurnEnded(t.state) { // its end could not be stored
		return proto.TurnStarted{}, fmt.Errorf("turn %s was stopped, but its end is not stored", t.id)
	}
	return proto.TurnStarted{SessionID: sess.id, Turn: t.id, State: t.state, Next: t.next}, nil
}

// stopJobs stops the background jobs of a session.
func (s *Service) stopJobs(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandsTimeout)
	defer cancel()
	for _, job := range s.runningJobs(ctx, id) {
		if _, err := rpc.Call(ctx, s.services["exc"], proto.ExcJobStop, proto.JobID{Job: job.ID, SessionID: id}); err != nil {
			s.log.Warn("a job could not be stopped", "session", id, "job", job.ID, "error", err)
		}
	}
}

// runningJobs lists the running jobs of a session, or of all. Without exc there are none.
func (s *Service) runningJobs(ctx context.Context, id string) (running []proto.JobInfo) {
	list, err := rpc.Call(ctx, s.services["exc"], proto.ExcJobs, proto.ListJobs{SessionID: id})
	if err != nil {
		if !errors.Is(err, rpc.ErrConnect) {
			s.log.Warn("jobs are not known", "session", id, "error", err)
		}
		return nil
	}
	for _, job := range list.Jobs {
		if job.State == proto.JobRunning {
			running = append(running, job)
		}
	}
	return running
}

// cancelParked ends a parked turn whose session is locked.
func (t *turn) cancelParked(ctx context.Context) error {
	_, queued := t.withdrawn() // the messages are in the log
	t.mu.Lock()
	w, lt := t.w, t.log.Turn(t.id)
	t.launched = true // it does not wake up any more
	t.mu.Unlock()
	err := t.endCrashed(context.WithoutCancel(ctx), w, lt, reasonCanceled, queued)
	if err == nil {
		t.mu.Lock()
		t.end(proto.TurnInterrupted, reasonCanceled)
		t.mu.Unlock()
	}
	for _, q := range queued {
		q.finish()
	}
	t.finish()
	return err
}

// past returns a turn that has ended; without id the last one.
func (sess *session) past(ctx context.Context, id string) (proto.TurnStarted, error) {
	log, err := sess.readLog(ctx, sess.id, 0)
	if err != nil {
		return proto.TurnStarted{}, err
	}
	t := log.Turn(id)
	if n := len(log.Turns); id == "" && n > 0 {
		t = log.Turns[n-1]
	}
	switch {
	case t == nil && id == "":
		return proto.TurnStarted{}, noTurn(sess.id)
	case t == nil:
		return proto.TurnStarted{}, proto.Errorf(proto.CodeNotFound, "no turn %s in session %s", id, sess.id)
	case t.End == 0:
		return proto.TurnStarted{}, proto.Errorf(proto.CodeBusy, "turn %s of session %s is carried out by another constellation", t.ID, sess.id)
	}
	return proto.TurnStarted{SessionID: sess.id, Turn: t.ID, State: t.State, Next: t.End, Ended: true}, nil
}

// shutdown ends the turns of a private constellation before the daemon stops, and then all
// followers. Chat requests end as requests do.
func (s *Service) shutdown(ctx context.Context) {
	defer s.part()
	if s.lifetime != proto.LifetimePrivate {
		return // see parkAll
	}
	s.halt()
	var running []*turn
	for _, sess := range s.allSessions() {
		sess.mu.Lock()
		for _, t := range sess.turns {
			if t.launched && !t.attached {
				t.cancel()
				running = append(running, t)
			}
		}
		sess.mu.Unlock()
	}
	for _, t := range running {
		select {
		case <-t.done:
		case <-ctx.Done():
			return
		}
	}
}
