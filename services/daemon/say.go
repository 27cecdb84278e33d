package daemon

import (
	"context"
	"slices"
	"strings"

	"zino/pkg/hook"
	"zino/pkg/rpc"
	"zino/proto"
)

const (
	saysMax     = 32        // undelivered messages of a turn
	saysBytes   = 256 << 10 // of them in all
	saidPastMax = 64        // messages of a turn whose request_id is remembered
)

// saidBefore is the answer to a turn_say with a request_id.
type saidBefore struct {
	requestID string
	reply     proto.Said
}

// turnSay adds a message of the user to the open turn.
func (s *Service) turnSay(ctx context.Context, req proto.TurnSay) (proto.Said, error) {
	if err := proto.CheckSessionID(req.SessionID); err != nil {
		return proto.Said{}, err
	}
	if err := checkRequestID(req.RequestID); err != nil {
		return proto.Said{}, err
	}
	if !slices.Contains([]string{"", proto.ViaSteer, proto.ViaQueue}, req.Mode) {
		return proto.Said{}, proto.Errorf(proto.CodeInvalid, "invalid mode %q: use %q or %q", req.Mode, proto.ViaSteer, proto.ViaQueue)
	}
	text := strings.TrimSpace(req.Text)
	if text == "" && req.Say == "" {
		return proto.Said{}, proto.Errorf(proto.CodeInvalid, "Empty message.")
	}
	if text != "" && req.Say != "" {
		return proto.Said{}, proto.Errorf(proto.CodeInvalid, "a message with say is withdrawn: it has no text")
	}
	sess, leave, err := s.enterLoaded(ctx, req.SessionID)
	if err != nil {
		return proto.Said{}, err
	}
	defer leave()
	if req.Say != "" {
		return sess.withdraw(ctx, req.Turn, req.Say)
	}
	var hooked *turn // whose hooks have accepted the message
	var decided hook.Result
	for {
		sess.mu.Lock()
		t := sess.active()
		if t == nil || req.Turn != "" && req.Turn != t.id || t.failing {
			sess.mu.Unlock()
			return proto.Said{}, noTurn(sess.id)
		}
		for _, before := range t.said {
			if req.RequestID != "" && before.requestID == req.RequestID {
				sess.mu.Unlock()
				return before.reply, nil
			}
		}
		if said, known := sess.saidBefore(req.RequestID); known {
			sess.mu.Unlock()
			return said, nil
		}
		if req.Mode == proto.ViaQueue || t.ending {
			return sess.sayQueued(ctx, t, text, req.RequestID) // unlocks
		}
		if hooked == t {
			return sess.steer(ctx, t, proto.LogSay{Text: text, Context: decided.Block(), RequestID: req.RequestID}, decided.Ran) // unlocks
		}
		sess.mu.Unlock()
		if decided, err = t.steered(ctx, text); err != nil {
			return proto.Said{}, err
		}
		hooked = t
	}
}

// saidBefore returns the message of a request_id that the log has: an earlier process may
// have stored it. session.mu is locked.
func (sess *session) saidBefore(requestID string) (proto.Said, bool) {
	if requestID == "" || sess.log == nil {
		return proto.Said{}, false
	}
	if s, ok := sess.log.Said(requestID); ok {
		return proto.Said{SessionID: sess.id, Turn: s.Turn, Say: s.ID, Mode: proto.ViaSteer}, true
	}
	if t := sess.log.Requested(requestID); t != nil && t.Say != "" {
		return proto.Said{SessionID: sess.id, Turn: t.ID, Say: t.Say, Mode: proto.ViaQueue}, true
	}
	return proto.Said{}, false
}

func noTurn(id string) error {
	return proto.Errorf(proto.CodeNotFound, "no turn is open in session %s", id)
}

// steer stores a message for the next inference. It unlocks session.mu.
func (sess *session) steer(ctx context.Context, t *turn, say proto.LogSay, ran []proto.HookRan) (proto.Said, error) {
	size := len(say.Text)
	for _, other := range t.says {
		size += len(other.Text)
	}
	w := sess.w
	switch {
	case len(t.says)+t.saying >= saysMax || size > saysBytes:
		sess.mu.Unlock()
		return proto.Said{}, proto.Errorf(proto.CodeBusy, "too many undelivered messages (%d)", saysMax)
	case !t.durable || !sess.ready:
		sess.mu.Unlock()
		return proto.Said{}, proto.Errorf(proto.CodeBusy, "turn %s waits for session %s, which another constellation has locked", t.id, sess.id)
	}
	t.saying++
	sess.mu.Unlock()
	say.Say, say.Turn, say.Mode, say.By, say.TS = proto.NewSayID(), t.id, proto.ViaSteer, byOf(ctx), timestamp()
	r := record{turnID: t.id}
	r.timeouts(ran)
	r.event(proto.TypeSay, say)
	list, err := r.take()
	reply := proto.Said{SessionID: sess.id, Turn: t.id, Say: say.Say, Mode: proto.ViaSteer}
	if err == nil {
		err = sess.append(context.WithoutCancel(ctx), w, list, nil, func() {
			t.says = append(t.says, say)
			reply.Position = len(t.says)
			t.remember(say.RequestID, reply)
		})
	}
	sess.mu.Lock()
	t.saying--
	sess.stopped.Broadcast()
	sess.mu.Unlock()
	return reply, err
}

// remember keeps the answer to a request_id. session.mu is locked.
func (t *turn) remember(requestID string, reply proto.Said) {
	if requestID == "" {
		return
	}
	if t.said = append(t.said, saidBefore{requestID, reply}); len(t.said) > saidPastMax {
		t.said = slices.Delete(t.said, 0, 1)
	}
}

// sayQueued makes a message a turn of its own behind the open one, with its options. It
// unlocks session.mu.
func (sess *session) sayQueued(ctx context.Context, open *turn, text, requestID string) (proto.Said, error) {
	if err := sess.room(false); err != nil {
		sess.mu.Unlock()
		return proto.Said{}, err
	}
	sess.keep()
	req := open.current()
	req.Message = text
	t := sess.newTurn(context.WithoutCancel(ctx), req)
	t.requestID, t.onLimit, t.say = requestID, open.onLimit, proto.NewSayID()
	t.parent, t.readOnly, t.unplanned = open.parent, open.readOnly, open.unplanned
	t.keeps = true
	t.launch = func() { go t.detached() }
	sess.turns = append(sess.turns, t)
	reply := proto.Said{SessionID: sess.id, Turn: t.id, Say: t.say, Mode: proto.ViaQueue}
	for _, q := range sess.turns {
		if !q.launched {
			reply.Position++
		}
	}
	sess.advance()
	sess.mu.Unlock()
	t.queue()
	started, err := t.started()
	if err == nil && started.Durable != nil {
		err = proto.Errorf(proto.CodeBusy, "session %s is locked by another constellation", sess.id)
	}
	if err != nil {
		return proto.Said{}, err
	}
	sess.mu.Lock()
	open.remember(requestID, reply)
	sess.mu.Unlock()
	return reply, nil
}

// withdraw takes back a message that was not delivered.
func (sess *session) withdraw(ctx context.Context, turnID, sayID string) (proto.Said, error) {
	sess.mu.Lock()
	t := sess.active()
	if t == nil || turnID != "" && turnID != t.id {
		sess.mu.Unlock()
		return proto.Said{}, noTurn(sess.id)
	}
	reply := proto.Said{SessionID: sess.id, Turn: t.id, Say: sayID, Mode: proto.ViaSteer}
	if i := slices.IndexFunc(t.says, func(say proto.LogSay) bool { return say.Say == sayID }); i >= 0 {
		say := t.says[i]
		t.says = slices.Delete(t.says, i, i+1)
		t.saying++
		w := sess.w
		sess.mu.Unlock()
		var r record
		r.withdraw(sess.id, []proto.LogSay{say}, nil)
		err := sess.write(ctx, w, &r)
		sess.mu.Lock()
		t.saying--
		if err != nil {
			t.says = slices.Insert(t.says, min(i, len(t.says)), say)
		}
		sess.stopped.Broadcast()
		sess.mu.Unlock()
		return reply, err
	}
	for _, q := range sess.turns {
		if q.say == sayID && !q.launched {
			sess.mu.Unlock()
			reply.Turn, reply.Mode = q.id, proto.ViaQueue
			return reply, q.withdrawQueued(ctx, reasonWithdrawn)
		}
	}
	sess.mu.Unlock()
	return proto.Said{}, proto.Errorf(proto.CodeNotFound, "no undelivered message %s in session %s", sayID, sess.id)
}

// withdrawQueued ends a turn that has not begun. If it begins meanwhile, it is an error.
func (t *turn) withdrawQueued(ctx context.Context, reason string) error {
	t.mu.Lock()
	if t.launched {
		t.mu.Unlock()
		return proto.Errorf(proto.CodeNotFound, "turn %s has begun", t.id)
	}
	t.launched = true // so that it is not launched
	durable, w, queueing := t.durable, t.w, t.queueing
	t.mu.Unlock()
	if queueing != nil {
		<-queueing
		t.mu.Lock()
		durable = t.durable
		t.mu.Unlock()
	}
	var err error
	if durable {
		r := record{turnID: t.id}
		r.event(proto.TypeTurn, proto.LogTurn{Turn: t.id, SessionID: t.session.id, State: proto.TurnInterrupted, Reason: reason, TS: timestamp()})
		err = t.writeThen(ctx, w, &r, func() { t.end(proto.TurnInterrupted, reason) })
	} else {
		t.mu.Lock()
		t.refuse(proto.Errorf(proto.CodeCanceled, "The turn was interrupted."))
		t.state, t.reason = proto.TurnInterrupted, reason
		t.mu.Unlock()
	}
	t.finish()
	return err
}

// write stores events of a record.
func (sess *session) write(ctx context.Context, w *writer, r *record) error {
	return sess.writeThen(ctx, w, r, func() {})
}

func (sess *session) writeThen(ctx context.Context, w *writer, r *record, then func()) error {
	list, err := r.take()
	if err != nil {
		return err
	}
	return sess.append(context.WithoutCancel(ctx), w, list, nil, then)
}

// byOf returns the user who sent a request.
func byOf(ctx context.Context) *proto.By {
	if uid := rpc.PeerUID(ctx); uid >= 0 {
		return &proto.By{UID: uid}
	}
	return nil
}
