package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	openMax      = 256 // running and queued turns of turn_start
	queuedMax    = 16  // turns of a session behind the open one
	requestIDMax = 64
)

// turnStart starts a turn that goes on without its caller.
func (s *Service) turnStart(ctx context.Context, req proto.TurnStart) (proto.TurnStarted, error) {
	chat, err := checkStart(req)
	if err != nil {
		return proto.TurnStarted{}, err
	}
	uid := rpc.PeerUID(ctx)
	chat = withoutForeignEnv(chat, uid)
	asked := chat.Sandbox
	if err := s.settleMode(ctx, &chat); err != nil {
		return proto.TurnStarted{}, err
	}
	switch {
	case chat.SessionID == "" && req.RequestID != "":
		chat.SessionID = sessionOf(uid, req.RequestID)
	case chat.SessionID == "":
		chat.SessionID = proto.NewSessionID()
	}
	rpc.Note(ctx, slog.String("session", chat.SessionID), slog.Int("message_bytes", len(chat.Message)))
	sess := s.enter(chat.SessionID)
	defer sess.leave()
	if known, err := sess.requested(ctx, req.RequestID); err != nil || known != nil {
		return answered(known, err)
	}
	if req.OnBusy == proto.OnBusyError {
		select {
		case <-s.known: // else a turn of an earlier process would not count
		case <-ctx.Done():
			return proto.TurnStarted{}, ctx.Err()
		}
	}
	if s.lot.has(sess.id) { // a parked turn is open, and what is queued behind it counts
		if err := sess.load(); err != nil && !errors.Is(err, errElsewhere) {
			return proto.TurnStarted{}, err
		}
		defer sess.rest()
	}
	if err := s.expand(ctx, &chat); err != nil {
		return proto.TurnStarted{}, err
	}
	files, err := s.references(ctx, chat, true)
	if err != nil {
		return proto.TurnStarted{}, offerNoSave(errorPacket(err))
	}
	chat.Files, chat.Attachments = nil, nil
	t := sess.newTurn(context.WithoutCancel(ctx), chat)
	t.files = files
	t.slash, t.arguments = chat.Command, chat.Arguments
	t.requestID, t.onLimit, t.unplanned = req.RequestID, cmp.Or(req.OnLimit, s.cfg.Daemon.OnLimit), asked
	if t, err = t.submit(req.OnBusy == proto.OnBusyError); err != nil {
		return proto.TurnStarted{}, err
	}
	rpc.Note(ctx, slog.String("turn", t.id))
	return t.started()
}

// submit adds a turn to its session, with its environment in a file. It returns another
// turn of the same request_id if there is one.
func (t *turn) submit(onlyIdle bool) (*turn, error) {
	if t.keepsEnv() {
		if err := t.keepEnv(t.id, t.req); err != nil {
			return nil, err
		}
	}
	first, err := t.start(t, onlyIdle)
	if first != t && t.keepsEnv() {
		t.dropEnv(t.id)
	}
	return first, err
}

func answered(known *proto.TurnStarted, err error) (proto.TurnStarted, error) {
	if err != nil {
		return proto.TurnStarted{}, err
	}
	return *known, nil
}

// checkStart validates a turn_start and returns it as a chat request.
func checkStart(req proto.TurnStart) (proto.Chat, error) {
	chat := proto.Chat{
		Message: strings.TrimSpace(req.Message), SessionID: req.SessionID, NeedModel: req.NeedModel, Root: req.Root,
		SystemPrompt: req.SystemPrompt, Provider: req.Provider, Model: req.Model, MaxTokens: req.MaxTokens, Effort: req.Effort,
		Sandbox: req.Sandbox, Network: req.Network, Env: req.Env, Cwd: req.Cwd, Umask: req.Umask, Recall: req.Recall,
		Mode: req.Mode, Reachable: req.Reachable, OutputSchema: req.OutputSchema, MCPServers: req.MCPServers, ClientFiles: req.ClientFiles,
		Files: req.Files, Attachments: req.Attachments,
		Command: req.Command, Arguments: req.Arguments,
	}
	if req.NoSave {
		return chat, proto.Errorf(proto.CodeInvalid, "turn_start stores the turn: no_save is not possible")
	}
	if err := checkRequestID(req.RequestID); err != nil {
		return chat, err
	}
	if !slices.Contains([]string{"", proto.OnBusyQueue, proto.OnBusyError}, req.OnBusy) {
		return chat, proto.Errorf(proto.CodeInvalid, "invalid on_busy %q: use %q or %q", req.OnBusy, proto.OnBusyQueue, proto.OnBusyError)
	}
	if !slices.Contains([]string{"", proto.OnLimitStop, proto.OnLimitPark}, req.OnLimit) {
		return chat, proto.Errorf(proto.CodeInvalid, "invalid on_limit %q: use %q or %q", req.OnLimit, proto.OnLimitStop, proto.OnLimitPark)
	}
	return chat, checkChat(chat)
}

func checkRequestID(id string) error {
	ok := len(id) <= requestIDMax
	for _, c := range id {
		ok = ok && (c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	}
	if !ok {
		return proto.Errorf(proto.CodeInvalid, "invalid request_id %.80q: use letters, digits, '_' and '-', at most %d", id, requestIDMax)
	}
	return nil
}

// sessionOf returns the session of a turn_start without a session_id: the same for each
// repeat, and one that no other user can guess.
func sessionOf(uid int, requestID string) string {
	return uuidOf(strconv.Itoa(uid), requestID)
}

// uuidOf returns a UUID with version and variant of v4 that is made of texts.
func uuidOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	b := sum[:16]
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// requested returns the turn that a turn_start with the same request_id started before. One
// of an earlier process is in the log only until the session is locked.
func (sess *session) requested(ctx context.Context, requestID string) (*proto.TurnStarted, error) {
	if requestID == "" {
		return nil, nil
	}
	log, err := sess.readLog(ctx, sess.id, 0)
	if errors.Is(err, proto.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t := log.Requested(requestID)
	if t == nil || t.End == 0 && sess.lifetime == proto.LifetimePrivate {
		return nil, nil
	}
	state := t.State
	if state == proto.TurnResumed {
		state = proto.TurnRunning
	}
	reply := &proto.TurnStarted{SessionID: sess.id, Turn: t.ID, State: state, Next: t.Begun}
	var q logRequest
	if wire.DecodeReply(t.Request, &q) == nil { // a turn that has ended has none
		reply.Mode = string(modeOf(proto.Chat{Mode: q.Mode}))
	}
	return reply, nil
}

// start adds a turn to the session. It returns another turn of the same request_id if
// there is one.
func (sess *session) start(t *turn, onlyIdle bool) (*turn, error) {
	sess.mu.Lock()
	for _, list := range [][]*turn{sess.turns, sess.recent} {
		for _, known := range list {
			if t.requestID != "" && known.requestID == t.requestID {
				sess.mu.Unlock()
				return known, nil
			}
		}
	}
	if t.job != "" && !slices.Contains(sess.log.Jobs, t.job) {
		sess.mu.Unlock()
		return nil, errNotDue
	}
	if err := sess.room(onlyIdle); err != nil {
		sess.mu.Unlock()
		return nil, err
	}
	sess.keep()
	t.keeps = true
	t.launch = func() { go t.detached() }
	sess.turns = append(sess.turns, t)
	sess.advance()
	queue := sess.ready && !t.launched
	sess.mu.Unlock()
	if queue {
		t.queue()
	}
	return t, nil
}

// room returns the error busy if the session takes no further turn, and counts the turn
// otherwise. session.mu is locked.
func (sess *session) room(onlyIdle bool) error {
	if open := sess.active(); onlyIdle && open != nil {
		state := open.state
		if open.reason != "" {
			state += ": " + open.reason
		}
		return proto.Errorf(proto.CodeBusy, "session %s has an open turn %s (%s)", sess.id, open.id, state)
	}
	if len(sess.turns) > queuedMax {
		return proto.Errorf(proto.CodeBusy, "session %s has %d queued turns", sess.id, queuedMax)
	}
	tab := &sess.table
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch {
	case sess.stopping.Err() != nil:
		return proto.Errorf(proto.CodeUnavailable, "the daemon is stopping")
	case tab.open >= openMax:
		return proto.Errorf(proto.CodeBusy, "%d turns are running or queued", openMax)
	}
	tab.open++
	return nil
}

// started returns the answer to turn_start: when the turn is stored, cannot run, or turns
// out to wait for another constellation. It may have ended by then: a follower from next
// gets all that came behind its start.
func (t *turn) started() (proto.TurnStarted, error) {
	t.mu.Lock()
	var waits <-chan struct{}
	if t.w != nil {
		waits = t.w.waits
	}
	t.mu.Unlock()
	select {
	case <-t.stored:
	case <-t.refused:
	case <-waits:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	reply := proto.TurnStarted{SessionID: t.session.id, Turn: t.id, State: t.state, Next: t.begun, Mode: string(modeOf(t.current()))}
	switch {
	case t.durable:
		return reply, nil
	case t.err != nil:
		return reply, t.err
	}
	reply.State, reply.Durable = proto.TurnWaiting, new(false)
	return reply, nil
}

// queue stores a turn that has to wait, unless it has begun meanwhile.
func (t *turn) queue() {
	t.mu.Lock()
	if t.launched || t.durable || t.queueing != nil || t.attached || t.w == nil {
		t.mu.Unlock()
		return
	}
	queueing := make(chan struct{})
	t.queueing = queueing
	w := t.w
	t.mu.Unlock()
	defer close(queueing)
	r := record{turnID: t.id}
	r.event(proto.TypeTurn, t.logTurn(proto.TurnQueued))
	list, err := r.take()
	if err == nil {
		err = t.append(t.ctx, w, list, t.header(), t.isStored)
	}
	if err == nil {
		return
	}
	t.mu.Lock()
	t.refuse(errorPacket(err))
	launched := t.launched
	t.mu.Unlock()
	if !launched {
		t.finish()
	}
}

// isStored marks a turn as stored. session.mu is locked.
func (t *turn) isStored() {
	if !t.durable {
		t.durable, t.begun = true, t.log.Next
		close(t.stored)
	}
	t.next = t.log.Next
}

// detached carries out a turn of turn_start.
func (t *turn) detached() {
	t.mu.Lock()
	queueing := t.queueing
	t.mu.Unlock()
	if queueing != nil {
		<-queueing
	}
	if t.refusal() != nil {
		t.finish()
		return
	}
	t.run(nil)
}

// refusal returns why a turn cannot run.
func (t *turn) refusal() *proto.Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
