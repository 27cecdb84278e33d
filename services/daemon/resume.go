package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"zino/pkg/gate"
	"zino/pkg/heap"
	"zino/pkg/message"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/daemon/turnlog"
)

// The events of a turn that could not be stored for storeTimeout are tried to be stored
// every storageEvery for storageFor.
const (
	storageEvery = 10 * time.Second
	storageFor   = 10 * time.Minute
)

// loadEvery is the interval of attempts to lock a session with an open turn: mem may be
// starting, or not have noticed yet that an earlier daemon was killed.
const loadEvery = 2 * time.Second

// elsewhereMax is how often that is tried while another process has the lock: it carries
// out the turn.
const elsewhereMax = 3

// discardedMax is how many bytes of a lost inference a resumed turn keeps.
const discardedMax = 64 << 10

// resumePauses are the pauses before the attempts to resume a turn; the last one counts
// for all further ones.
var resumePauses = []time.Duration{time.Second, 5 * time.Second, 25 * time.Second}

// Reasons of turns that were resumed or given up.
const (
	reasonLost       = "the run was lost" // agr or rtr went away
	reasonTooOld     = "too old"          // its last event is older than resume_window
	reasonSuperseded = "superseded"       // another turn was written while it was parked
	reasonExpired    = "approval expired"
	reasonMode       = "mode" // turn_mode has changed the level of confinement
)

// lostError marks an error of the connection to agr: the turn can be resumed.
type lostError struct{ error }

func (e lostError) Unwrap() error { return e.error }

// errRestart is the cause of a run that ends because the daemon stops.
var errRestart = errors.New("the daemon stops")

// resumes reports whether a turn whose run ended with err goes on with another attempt.
func (t *turn) resumes(err error) bool {
	if t.attached || t.lifetime == proto.LifetimePrivate || t.ctx.Err() != nil || t.w.failure() != nil {
		return false
	}
	e, ok := errors.AsType[*proto.Error](err)
	_, lost := errors.AsType[lostError](err)
	return lost || errors.Is(err, rpc.ErrConnect) || errors.Is(err, rpc.ErrHungUp) ||
		ok && (e.Kind == proto.ErrorKindTransport || interrupted(e)) // agr or rtr was asked to stop
}

// again begins another attempt of a turn whose run ended with cause, or whose process
// did: then old is empty, and reason is not an error. It stores what the lost run left,
// and returns the request to agr. The attempt is stored when the open calls are settled,
// with their results: until then another daemon does the same again.
func (t *turn) again(old *relay, reason string, cause error) (*relay, proto.Run, error) {
	t.mu.Lock()
	lt := t.log.Turn(t.id)
	attempts, pending, last, discarded := lt.Attempts, lt.Pending, lt.Updated, lt.Discarded
	t.mu.Unlock()
	if old.resumed != nil { // lost before its calls were settled
		attempts = old.resumed.Attempt
	}
	resumed := proto.LogTurn{Turn: t.id, SessionID: t.session.id, State: proto.TurnResumed, Reason: reason}
	if counted := reason == reasonCrashed || cause != nil; counted {
		if most := t.cfg.Daemon.ResumeAttempts; attempts >= most {
			why := "the daemon stopped each time"
			if cause != nil {
				why = cause.Error()
			}
			t.endReason = fmt.Sprintf("gave up after %s: %s", text.Count(most, "attempt"), text.OneLine(why))
			return old, proto.Run{}, proto.Errorf(proto.CodeCanceled, "The turn was interrupted: %s", t.endReason)
		}
		resumed.Attempt = attempts + 1
		wait := t.resumePauses[min(attempts, len(t.resumePauses)-1)]
		if at, err := time.Parse(time.RFC3339, last); err == nil && cause == nil {
			// The pause begins with the last stored event, so that each start of the
			// daemon does not begin it anew.
			wait -= max(time.Since(at), 0)
		}
		t.retract(old)
		select {
		case <-time.After(wait):
		case <-t.runCtx.Done():
			return old, proto.Run{}, context.Cause(t.runCtx)
		}
	}
	resumed.Discarded = cmp.Or(text.Head(string(old.text), discardedMax), discarded)
	if !old.asked && old.pending != nil { // results of the batch; anything else is asked again
		old.settled()
		if err := old.store(nil, func() {}); err != nil {
			return old, proto.Run{}, err
		}
	}
	r := &relay{turn: t, record: record{turnID: t.id}, resumed: &resumed}
	t.mu.Lock()
	t.state, t.relay = proto.TurnResumed, r
	t.mu.Unlock()
	run, err := t.resumedRun(r, pending)
	if err == nil && len(run.Calls) == 0 {
		err = r.store(nil, func() {})
	}
	return r, run, err
}

// settled adds the event of an attempt behind the results of the calls that it found
// open.
func (r *relay) settled() {
	if r.resumed != nil && r.resumed.TS == "" {
		r.resumed.TS = timestamp()
		r.event(proto.TypeTurn, *r.resumed)
	}
}

// messages returns those of the session with its open calls. mem is asked promptTries
// times, as sys and ctx are for a prompt.
func (t *turn) messages() (proto.SessionMessages, error) {
	for n := 1; ; n++ {
		stored, err := rpc.Call(t.runCtx, t.mem, proto.MemGetMessages, proto.GetMessages{SessionID: t.session.id, OpenCalls: true})
		if err == nil || n == promptTries || codeOf(err) != proto.CodeUnavailable {
			return stored, err
		}
		select {
		case <-time.After(t.promptPause):
		case <-t.runCtx.Done():
			return stored, err
		}
	}
}

// resumedRun returns the request to agr for what is left of the turn. The calls in
// pending were not started before the turn was parked.
func (t *turn) resumedRun(r *relay, pending []string) (proto.Run, error) {
	p, err := t.assemble(t.runCtx, t.options(), t.requester(), nil)
	if err != nil {
		return proto.Run{}, err
	}
	stored, err := t.messages()
	if err != nil {
		return proto.Run{}, sessionError(err)
	}
	var list []byte
	if p.system.Content != "" {
		list = message.Append(list, proto.RoleSystem, p.system.Content)
	}
	for _, n := range t.makeHooks(p.project, t.options()).notices {
		t.mu.Lock()
		t.notice(n.Kind, n.Text)
		t.mu.Unlock()
	}
	run := t.request(p.project, message.Close(message.Join(list, stored.Messages)))
	run.Skill, run.Offer = p.system.OfferSkill, stored.Offer
	t.mu.Lock()
	settles := len(t.log.Calls(t.log.Turn(t.id))) > 0
	t.mu.Unlock()
	var ended []proto.LogSay
	if !settles {
		ended = t.endedJobs(r)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	lt := t.log.Turn(t.id)
	run.FirstStep, run.Calls = lt.Step+1, t.log.Calls(lt)
	run.MaxIterations = new(max(*run.MaxIterations-lt.Step, 1))
	r.step, r.before = lt.Step+1, spent{lt.Step, lt.Usage}
	for i, call := range run.Calls {
		if slices.Contains(pending, call.ID) {
			run.Calls[i].Action = proto.ActionRun
		}
		r.calls = append(r.calls, openCall{id: call.ID, name: call.Name, subject: subject(call.Arguments()), step: call.Step, stored: true})
	}
	t.says = nil
	for _, say := range lt.Says {
		t.says = append(t.says, proto.LogSay{Say: say.ID, Turn: t.id, Mode: say.Mode, Text: say.Text, Context: say.Context, RequestID: say.RequestID, By: say.By})
	}
	if !settles { // else they follow the results, at the next checkpoint
		r.settled()
		run.Says = r.deliver(append(t.says, ended...))
		t.says = nil
	}
	return run, nil
}

// stalls returns the context of an append. A turn whose start is stored waits in memory
// until its events can be stored; a chat request fails.
func (t *turn) stalls() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.attached || !t.durable {
		return t.ctx
	}
	return context.WithValue(t.ctx, stallKey{}, &stalling{every: t.storageEvery, limit: t.storageFor, report: func(e *proto.Error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.stalled = ""
		if e != nil {
			t.stalled = e.Message
			t.notice(proto.NoticeStorage, e.Message)
		}
	}})
}

// retract tells the followers that the text since the last stored inference is void.
func (t *turn) retract(old *relay) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(old.text) > 0 {
		t.send(packet{payload: t.mark([]byte(`{"type":"retracted"}`)), turn: t.id})
	}
	t.notice(proto.NoticeResumed, "The run was lost; the turn goes on.")
}

// notice sends a notice to the followers. session.mu is locked.
func (t *turn) notice(kind, text string) {
	t.send(t.noticePacket(kind, text))
}

func (t *turn) noticePacket(kind, text string) packet {
	b, err := wire.AppendObject(nil, proto.TypeNotice, proto.Notice{Kind: kind, Text: text})
	if err != nil { // cannot happen: these are strings
		b = []byte(`{"type":"notice"}`)
	}
	return packet{payload: t.mark(b), turn: t.id}
}

// carryOn carries out a turn of an earlier process from its last stored step.
func (t *turn) carryOn(reason string) {
	defer t.finish()
	if t.envGone != "" {
		t.mu.Lock()
		t.notice(proto.NoticeWarning, t.envGone)
		t.mu.Unlock()
	}
	r, run, err := t.again(&relay{turn: t, record: record{turnID: t.id}}, reason, nil)
	if err == nil {
		t.follow(r, run)
		return
	}
	if reason, until := t.parksFor(proto.Text{}, err); reason == "" || t.park(r, reason, until) != nil {
		t.fail(r, err)
	}
}

// spent is what earlier runs of a turn have used.
type spent struct {
	inferences int
	usage      proto.Usage
}

// with returns the sum with the usage of a run, nil if nothing is known.
func (s spent) with(u *proto.Usage) *proto.Usage {
	if s.usage == (proto.Usage{}) {
		return u
	}
	sum := s.usage
	if u == nil {
		return &sum
	}
	sum.Add(*u)
	return &sum
}

// adopt makes turns of the log's open ones, which no process carries out any more, and
// ends those that are not resumed. They come before those that are in memory already.
func (sess *session) adopt(ctx context.Context, w *writer, open []*turnlog.Turn) error {
	var adopted []*turn
	var gone []string  // turns that go on in another session
	withdrawn := false // a turn failed: those that turn_say has queued end with it
	for _, lt := range open {
		if withdrawn && lt.Say != "" || slices.Contains(gone, lt.ID) {
			continue
		}
		moved, continued, err := sess.endContinued(ctx, w, lt, open)
		if err != nil {
			return err
		}
		if continued {
			for _, q := range append(moved, &turn{id: lt.ID}) {
				gone = append(gone, q.id)
				sess.dropEnv(q.id)
			}
			continue
		}
		reason := sess.notResumed(lt)
		if reason == "" {
			adopted = append(adopted, sess.adopted(lt))
			continue
		}
		var queued []*turn
		if lt.State != proto.TurnQueued {
			withdrawn = true
			for _, q := range open {
				if q.State == proto.TurnQueued && q.Say != "" {
					queued = append(queued, &turn{id: q.ID})
				}
			}
		}
		if err := sess.endCrashed(ctx, w, lt, reason, queued); err != nil {
			return err
		}
		for _, q := range append(queued, &turn{id: lt.ID}) {
			sess.dropEnv(q.id)
		}
	}
	for range adopted {
		sess.enter(sess.id)
	}
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.turns = append(adopted, sess.turns...)
	sess.count(len(adopted))
	return nil
}

// notResumed returns why an open turn of the log is ended; empty: it goes on.
func (sess *session) notResumed(t *turnlog.Turn) string {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	switch {
	case sess.unsavedEnd(t.ID) != nil:
		return reasonCrashed
	case t.State == proto.TurnParked && sess.log.Superseded(t):
		return reasonSuperseded
	case t.State == proto.TurnParked:
	case t.Attached, t.Lifetime == proto.LifetimePrivate, t.State != proto.TurnQueued && t.Text == "":
		return reasonCrashed
	case sess.tooOld(t.Updated):
		return reasonTooOld
	}
	return ""
}

// tooOld reports whether an event is too old for its turn to be resumed.
func (s *Service) tooOld(updated string) bool {
	window := s.cfg.Daemon.ResumeWindow.Value()
	at, err := time.Parse(time.RFC3339, updated)
	return err == nil && time.Since(at) > window
}

// adopted returns a turn of the log.
func (sess *session) adopted(lt *turnlog.Turn) *turn {
	var q logRequest
	if err := wire.DecodeReply(lt.Request, &q); err != nil {
		sess.Service.log.Warn("the request of an open turn is damaged", "session", sess.id, "turn", lt.ID, "error", err)
		q.Mode = string(gate.Plan) // its own is lost
	}
	t := &turn{
		session: sess, id: lt.ID, parent: lt.Parent, readOnly: q.ReadOnly, message: lt.Message, files: q.Attachments, requestID: lt.RequestID, uid: -1, say: lt.Say, job: lt.Job, onLimit: q.OnLimit,
		req: q.chat(sess.id), unplanned: cmp.Or(q.Asked, q.Sandbox),
		slash: q.Command, arguments: q.Arguments,
		state: lt.State, reason: lt.Reason, keeps: true, durable: true, created: lt.Started, stored: make(chan struct{}), done: make(chan struct{}), refused: make(chan struct{}),
	}
	if lt.By != nil {
		t.uid = lt.By.UID
	}
	close(t.stored)
	t.prepare(context.Background())
	reason := reasonCrashed
	if lt.State == proto.TurnParked {
		reason = lt.Reason
	}
	t.launch = func() {
		if q.HasEnv {
			t.envGone = sess.restoreEnv(t.id, &t.req)
		}
		if lt.State == proto.TurnQueued {
			go t.run(nil)
		} else {
			go t.carryOn(reason)
		}
	}
	return t
}

// Resume takes up the open turns of earlier processes. A private constellation has none.
// It must be called before the daemon serves requests.
func (s *Service) Resume() {
	if s.lifetime == proto.LifetimePersistent {
		s.known = make(chan struct{})
		go s.resumeAll()
		go s.awaitMarked()
	}
}

// resumeAll puts the sessions with open turns into the lot.
func (s *Service) resumeAll() {
	defer close(s.known)
	var open proto.OpenTurns
	defer func() {
		if len(open.Turns) > 0 {
			heap.Release() // what was read may be much more than what is kept
		}
	}()
	for {
		var err error
		if open, err = rpc.Call(s.life, s.mem, proto.MemOpenTurns, proto.ListOpenTurns{}); err == nil {
			break
		}
		if s.life.Err() != nil {
			return
		}
		s.log.Warn("open turns are not known", "error", err)
		select {
		case <-time.After(loadEvery):
		case <-s.life.Done():
			return
		}
	}
	seen := map[string]bool{}
	for _, o := range open.Turns {
		if seen[o.SessionID] {
			continue
		}
		seen[o.SessionID] = true
		// Copies: the answer of mem is not kept.
		p := parked{session: strings.Clone(o.SessionID), turn: strings.Clone(o.Turn), until: 1}
		if o.State == proto.TurnParked {
			log, err := s.readLog(s.life, o.SessionID, 0)
			if err != nil {
				s.log.Warn("a parked turn is not resumed", "session", o.SessionID, "error", err)
				continue
			}
			if t := log.Active(); t != nil {
				p = parkedOf(t, p.session)
				if t.Approval != "" && s.isAnswered(t.Approval) {
					p.reason, p.until = "", 1
				}
			}
		}
		s.lot.put(p)
	}
}

// errElsewhere is the error of a session that another process has locked.
var errElsewhere = errors.New("another process has the lock")

// elsewhere returns the error of a request that does not wait for another constellation.
func (sess *session) elsewhere(err error) error {
	if errors.Is(err, errElsewhere) {
		return proto.SessionErrorf(proto.CodeBusy, "another turn is under way on session %s: try again after its end", sess.id)
	}
	return sessionError(err)
}

// load locks a session and adopts its open turns.
func (sess *session) load() error {
	for {
		sess.mu.Lock()
		if sess.w == nil {
			sess.w = sess.lock(sess.life, sess.id, sess.settle, sess.locked)
		}
		w := sess.w
		sess.mu.Unlock()
		select {
		case <-w.granted:
			return nil
		case <-w.ended:
			if err := w.refused; sess.life.Err() != nil || !errors.Is(err, context.Canceled) {
				return err
			}
			continue // it was released meanwhile
		case <-w.waits:
		}
		sess.mu.Lock()
		unused := sess.w == w && len(sess.turns) == 0
		if unused {
			sess.w = nil
		}
		sess.mu.Unlock()
		if unused {
			w.close()
		}
		return errElsewhere
	}
}

// wake carries on with the open turn of a session that waited in the lot. If another
// process has the lock, it carries out the turn.
func (s *Service) wake(p parked) {
	sess := s.enter(p.session)
	defer sess.leave()
	if err := sess.load(); err != nil {
		s.log.Warn("an open turn cannot be resumed now", "session", p.session, "turn", p.turn, "error", err)
		if errors.Is(err, errElsewhere) {
			p.elsewhere++
		}
		if s.life.Err() == nil && !errors.Is(err, proto.ErrNotFound) && p.elsewhere < elsewhereMax {
			p.until = time.Now().Add(loadEvery).Unix()
			s.lot.put(p)
		}
		return
	}
	s.lot.loaded(p.session)
	sess.mu.Lock()
	var t *turn
	if len(sess.turns) > 0 {
		t = sess.turns[0]
	}
	if t != nil && t.state == proto.TurnParked && t.reason == proto.ParkedApproval && p.reason == proto.ParkedApproval {
		w, lt := sess.w, sess.log.Turn(t.id)
		sess.mu.Unlock()
		s.expireApprovals()
		if a, err := s.asked.store.Get(lt.Approval); err != nil || a.State != proto.ApprovalApproved && a.State != proto.ApprovalDenied {
			s.expire(sess, w, lt, t)
			return
		}
		sess.mu.Lock() // another daemon has got the answer
	}
	if t != nil && t.state == proto.TurnParked {
		t.state = proto.TurnRunning
	}
	sess.advance()
	sess.mu.Unlock()
	if t == nil {
		sess.rest()
		return
	}
	select {
	case <-t.done:
	case <-s.life.Done():
	}
}

// expire ends a turn whose approval did not come.
func (s *Service) expire(sess *session, w *writer, lt *turnlog.Turn, t *turn) {
	if err := sess.endCrashed(s.life, w, lt, reasonExpired, nil); err != nil {
		s.log.Error("the end of a turn could not be stored", "session", sess.id, "turn", t.id, "error", err)
	}
	sess.mu.Lock()
	t.state = proto.TurnInterrupted
	sess.mu.Unlock()
	t.finish()
}
