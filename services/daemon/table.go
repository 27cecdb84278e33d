package daemon

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"zino/pkg/wire"
	"zino/proto"
	"zino/services/daemon/turnlog"
)

// table has the sessions with open turns, followers or requests in progress.
type table struct {
	mu       sync.Mutex
	sessions map[string]*session
	running  int        // turns that running_max counts
	waiting  []*session // whose next turn waits for its place among the running ones
	open     int        // running and queued turns

	idle      []*session // that nothing refers to, the last ones
	followers int        // turn_follow requests
}

// session is a session in the table. Its open turns run one after the other.
type session struct {
	*Service
	id   string
	refs int // guarded by table.mu

	mu      sync.Mutex
	w       *writer      // of the lock; nil: none was asked for
	ready   bool         // w has the lock
	log     *turnlog.Log // what the log says from logFrom on; set with the lock
	logFrom int64
	turns   []*turn     // open ones in their order
	live    []*follower // those that get packets as they come
	persons []*follower // those with inputs, also while they are not live

	writing  int  // requests that append without a turn: the lock is not released
	settling bool // it is locked, and its open turns are being adopted or ended

	marked    bool      // see noteJobs
	stopped   sync.Cond // a turn_say has been stored
	recent    []*turn   // remains of those of turn_start that have ended, the last recentMax
	followers int
}

// enter returns the session of that id, which stays in the table until leave.
func (s *Service) enter(id string) *session {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	sess := s.table.sessions[id]
	if sess == nil {
		sess = &session{Service: s, id: id}
		sess.stopped.L = &sess.mu
		s.table.sessions[id] = sess
	}
	if sess.refs == 0 {
		s.table.idle = slices.DeleteFunc(s.table.idle, func(idle *session) bool { return idle == sess })
	}
	sess.refs++
	return sess
}

// enterKnown is enter for a request about open turns: after a start of the daemon it
// waits until those of earlier processes are known.
func (s *Service) enterKnown(ctx context.Context, id string) (*session, error) {
	select {
	case <-s.known:
		return s.enter(id), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// enterLoaded is enterKnown for a request about the turns of a session: parked ones are read
// from its log. leave undoes it.
func (s *Service) enterLoaded(ctx context.Context, id string) (sess *session, leave func(), err error) {
	if sess, err = s.enterKnown(ctx, id); err != nil {
		return nil, nil, err
	}
	if !sess.lot.has(sess.id) {
		return sess, sess.leave, nil
	}
	if err := sess.load(); err != nil {
		sess.leave()
		return nil, nil, err
	}
	return sess, func() { sess.rest(); sess.leave() }, nil
}

// keep keeps the session in the table until another leave.
func (sess *session) keep() {
	sess.table.mu.Lock()
	sess.refs++
	sess.table.mu.Unlock()
}

// idleMax is how many sessions without references are remembered: a follower often comes
// just after the end of a short turn.
const idleMax = 32

// recentMax is how many ended turns of a session are remembered.
const recentMax = 20

// leave undoes enter.
func (sess *session) leave() {
	sess.table.mu.Lock()
	defer sess.table.mu.Unlock()
	if sess.refs--; sess.refs > 0 {
		return
	}
	tab := &sess.table
	if tab.idle = append(tab.idle, sess); len(tab.idle) > idleMax {
		delete(tab.sessions, tab.idle[0].id)
		tab.idle = slices.Delete(tab.idle, 0, 1)
	}
}

// add appends a turn. It is launched at once if no other turn is before it.
func (sess *session) add(t *turn) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.turns = append(sess.turns, t)
	sess.count(1)
	sess.advance()
}

func (sess *session) count(n int) {
	sess.table.mu.Lock()
	sess.table.open += n
	sess.table.mu.Unlock()
}

// allSessions returns the sessions in the table.
func (s *Service) allSessions() (list []*session) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	for _, sess := range s.table.sessions {
		list = append(list, sess)
	}
	return list
}

// openTurns reports whether the daemon has open turns: it must not exit when idle.
func (s *Service) openTurns() bool {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	return s.table.open > 0 || s.lot.size() > 0
}

// remove removes a turn that has ended or was given up. It launches the next one, or
// releases the lock.
func (sess *session) remove(t *turn) {
	if t.counted {
		t.counted = false
		sess.freePlace()
	}
	sess.mu.Lock()
	sess.drop(t)
	if t.state == proto.TurnParked {
		sess.enter(sess.id)
		sess.turns = slices.Insert(sess.turns, 0, sess.adopted(sess.log.Turn(t.id)))
		sess.count(1)
	}
	if w := sess.w; w != nil && w.failure() != nil { // the next turn needs the log as it is now
		sess.w, sess.ready = nil, false
		sess.mu.Unlock()
		w.close()
		sess.mu.Lock()
	}
	sess.advance()
	sess.mu.Unlock()
	if t.keeps {
		sess.leave()
	}
	sess.rest()
}

// drop takes a turn out of the table: a turn_start that follows its end finds no open
// turn. sess.mu is locked.
func (sess *session) drop(t *turn) {
	i := slices.Index(sess.turns, t)
	if i < 0 {
		return
	}
	sess.turns = slices.Delete(sess.turns, i, i+1)
	sess.count(-1)
	if t.attached || !t.durable {
		return
	}
	if sess.recent = append(sess.recent, t.remains()); len(sess.recent) > recentMax {
		sess.recent = slices.Delete(sess.recent, 0, 1)
	}
}

// remains returns what is kept of a turn that has ended, for followers that come late and
// for a turn_start with the same request_id. The whole turn would keep its request, the
// buffers of the connection that it came from, and its last run. session.mu is locked.
func (t *turn) remains() *turn {
	return &turn{
		session: t.session, id: t.id, requestID: t.requestID, req: proto.Chat{Mode: t.current().Mode},
		state: t.state, begun: t.begun, durable: t.durable, err: t.err, parkReason: t.parkReason, parkUntil: t.parkUntil,
		stored: t.stored, refused: t.refused, done: t.done, notices: t.notices, unsaved: t.unsaved,
	}
}

// rest releases the lock of a session that has no turn to run. Turns that wait for a
// parked one leave the memory with it.
func (sess *session) rest() {
	sess.mu.Lock()
	if sess.first() != nil || sess.writing > 0 {
		sess.mu.Unlock()
		return
	}
	idle, resting := sess.w, sess.turns
	sess.w, sess.ready, sess.turns = nil, false, nil
	if len(resting) == 0 {
		sess.awaitJobs()
	}
	sess.count(-len(resting))
	waits := ""
	if len(resting) > 0 {
		first := sess.log.Turn(resting[0].id)
		waits = first.Approval
		sess.lot.put(parkedOf(first, sess.id))
	}
	sess.mu.Unlock()
	if idle != nil {
		idle.close()
	}
	for _, t := range resting {
		t.cancel()
		if t.keeps {
			sess.leave()
		}
	}
	if waits != "" && sess.isAnswered(waits) { // before it was in the lot
		sess.lot.rouse(sess.id, resting[0].id)
	}
}

// first returns the turn that runs, or that runs next. What was queued behind a parked
// turn waits for its end; chat requests do not.
func (sess *session) first() *turn {
	parked := false
	for _, t := range sess.turns {
		if t.state == proto.TurnParked {
			parked = true
		} else if !parked || t.attached {
			return t
		}
	}
	return nil
}

// advance launches the next turn if it can run now, and locks the session if it is not
// locked. sess.mu is locked.
func (sess *session) advance() {
	t := sess.first()
	switch {
	case t == nil || t.launched || !t.attached && sess.stopping.Err() != nil:
	case sess.w == nil:
		sess.w = sess.lock(context.WithoutCancel(t.ctx), sess.id, sess.settle, sess.locked)
	case sess.ready && sess.takePlace(t):
		t.launched = true
		t.launch()
	}
}

// takePlace counts a turn among the running ones. If there are too many, the session is
// advanced again when one has ended. Chat requests are not limited, nor are sub-agents,
// whose turns would wait for their parents, which wait for them.
func (sess *session) takePlace(t *turn) bool {
	if t.attached || t.parent != nil || t.counted {
		return true
	}
	tab := &sess.table
	tab.mu.Lock()
	defer tab.mu.Unlock()
	if tab.running >= sess.cfg.Daemon.RunningMax {
		if !slices.Contains(tab.waiting, sess) {
			tab.waiting = append(tab.waiting, sess)
		}
		return false
	}
	tab.running++
	t.counted = true
	return true
}

// freePlace advances the session that has waited longest for the end of a running turn.
func (s *Service) freePlace() {
	s.table.mu.Lock()
	s.table.running--
	var next *session
	if len(s.table.waiting) > 0 {
		next = s.table.waiting[0]
		s.table.waiting = slices.Delete(s.table.waiting, 0, 1)
	}
	s.table.mu.Unlock()
	if next != nil {
		next.mu.Lock()
		next.advance()
		next.mu.Unlock()
	}
}

// locked is called when the lock was granted or refused. Without it no turn that waits
// for it can run.
func (sess *session) locked(w *writer, err error) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if sess.w != w { // it was released meanwhile
		return
	}
	if err == nil {
		sess.ready = true
		sess.advance()
		for _, t := range sess.turns {
			if !t.launched {
				go t.queue()
			}
		}
		return
	}
	sess.w = nil
	for _, t := range sess.turns {
		if t.launched {
			continue
		}
		t.refuse(sessionError(err))
		if !t.attached || t.parent != nil {
			go t.finish()
		}
	}
}

// active returns the open turn that messages and requests without a turn are for.
// sess.mu is locked.
func (sess *session) active() *turn {
	for _, t := range sess.turns {
		if t.launched {
			return t
		}
	}
	if len(sess.turns) > 0 {
		return sess.turns[0]
	}
	return nil
}

// append stores events, and gives them to the followers. then is called together with
// that.
func (sess *session) append(ctx context.Context, w *writer, events, header proto.Raw, then func()) error {
	if w == nil {
		return proto.SessionErrorf(proto.CodeUnavailable, "session %q is not locked", sess.id)
	}
	return w.append(ctx, events, header, func(offsets []int64) {
		sess.mu.Lock()
		defer sess.mu.Unlock()
		sess.publish(events, offsets)
		sess.auditTurns(sess.id, events)
		sess.noteJobs()
		then()
	})
}

// header is the first line of the turn's session, if that is new.
func (t *turn) header() proto.Raw {
	header := wire.AppendString([]byte(`{"ts":`), timestamp())
	if t.req.Root != "" {
		header = wire.AppendString(append(header, `,"root":`...), t.req.Root)
	}
	if t.parent != nil {
		header = append(append(header, `,"parent":`...), envelopeOf(*t.parent)...)
	}
	if t.continues != nil {
		header = append(append(header, `,"continues":`...), envelopeOf(*t.continues)...)
	}
	uid, recall := &t.uid, t.req.Recall
	if t.origin != nil {
		uid, recall = t.origin.UID, t.origin.Recall
	}
	if uid != nil && *uid >= 0 {
		header = fmt.Appendf(header, `,"uid":%d`, *uid)
	}
	if recall != nil && !*recall {
		header = append(header, `,"recall":false`...)
	}
	return append(header, '}')
}

// timestamp returns the present time in the format of events.
func timestamp() string { return time.Now().UTC().Format(time.RFC3339) }
