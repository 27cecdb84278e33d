package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/daemon/handoff"
	"zino/services/daemon/turnlog"
)

// A turn whose context is nearly full goes on in a new session. Two appends to two
// sessions make that: the new session's first one, with the whole start of the turn
// there, and then the end of the old turn. The new ids are derived from the old ones.
// A daemon that locks the old session and finds the turn open thus sees whether the
// new one has begun, and only adds the end.

// goalMax is how much of the user's first message is the goal of the handoff. All of it
// follows below the handoff.
const goalMax = 4 << 10

// isFull reports whether the turn's next inference would take more of the model's
// context than [agent] continue_at. It is false without a known context, and for turns
// whose caller waits for the answer of this session: chat requests and sub-agents.
func (t *turn) isFull() bool {
	at := t.cfg.Agent.ContinueAt
	if at == 0 || t.attached || t.parent != nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	lt := t.log.Turn(t.id)
	return lt != nil && lt.Window > 0 && float64(lt.Tokens+lt.Results/bytesPerToken) > at*float64(lt.Window)
}

// goOn carries the turn on in a new session. Its run in agr has ended behind a batch.
func (t *turn) goOn(r *relay) error {
	if err := r.commit(); err != nil {
		return err
	}
	task, err := t.taskOf(t.runCtx, t.session.id, t.id, t.cfg.Agent.ContinueMax)
	if errors.Is(err, errContinuedTooOften) {
		return proto.SessionErrorf(proto.CodeTooLarge,
			"The model's context is nearly full, and the turn was continued %s in a row. Go on in a new session: zino handoff --from-session %s --goal \"…\".",
			text.Count(t.cfg.Agent.ContinueMax, "time"), t.session.id)
	}
	if err != nil {
		return err
	}
	bundle, err := t.bundle(task.messages[0])
	if err != nil {
		return err
	}
	says, queued := t.withdrawn()
	next, start, err := t.startNext(task, task.handover(bundle, says), queued)
	if err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.says, t.failing = says, false
		for _, q := range queued {
			q.launched = false
		}
		return err
	}
	r.moved(t.session.id, next.session.id, next.id, queued)
	err = r.store(nil, func() {
		t.end(proto.TurnContinued, "")
		for _, q := range queued {
			q.end(proto.TurnInterrupted, reasonWithdrawn)
		}
	})
	for _, q := range queued {
		q.finish()
	}
	if t.ctx.Err() != nil { // turn_cancel came meanwhile
		next.cancel()
	} else if t.stopping.Err() != nil {
		next.cut(errRestart)
	}
	go start()
	return err
}

// moved adds the end of a turn that goes on in another session, and of the turns that
// turn_say had queued behind it, which are queued there now.
func (r *record) moved(sessionID, to, toTurn string, queued []*turn) {
	r.event(proto.TypeTurn, proto.LogTurn{Turn: r.turnID, SessionID: sessionID, State: proto.TurnContinued, To: to, ToTurn: toTurn, TS: timestamp()})
	r.withdraw(sessionID, nil, queued)
}

// bundle makes a handoff of the session: by the model, or if that fails from the events.
func (t *turn) bundle(goal string) (string, error) {
	maker := handoff.Maker{Mem: t.mem, Rtr: t.rtr, Temperature: t.cfg.Agent.Temperature, TopP: t.cfg.Agent.TopP, Effort: t.cfg.Agent.Effort}
	req := proto.Handoff{
		Goal: text.Head(goal, goalMax), SessionID: t.session.id, Root: t.req.Root,
		Provider: t.req.Provider, Model: t.req.Model, MaxTokens: t.req.MaxTokens, Effort: t.req.Effort,
	}
	made, err := maker.Make(t.runCtx, req)
	if err != nil && t.runCtx.Err() == nil {
		t.Service.log.Warn("the handoff is made without a model", "session", t.session.id, "turn", t.id, "error", err)
		req.Offline = true
		made, err = maker.Make(t.runCtx, req)
	}
	if cause := context.Cause(t.runCtx); cause != nil {
		return "", cause
	}
	return made.Content, err
}

// startNext stores the start of the turn in the new session, with those that are queued
// behind it. start runs it.
func (t *turn) startNext(task task, message string, queued []*turn) (next *turn, start func(), err error) {
	id, turnID, begun, err := t.continuation(t.runCtx, t.session.id, t.id)
	if err != nil {
		return nil, nil, err
	}
	if begun != nil { // by another process
		return nil, nil, proto.SessionErrorf(proto.CodeBusy, "turn %s goes on in session %s already", t.id, id)
	}
	origin, err := t.firstLine(t.runCtx, t.session.id)
	if err != nil {
		return nil, nil, err
	}
	sess := t.enter(id)
	ctx := context.WithoutCancel(t.ctx)
	next = sess.successor(ctx, t, message)
	next.id, next.title, next.origin = turnID, title(task.messages[0]), &origin
	t.mu.Lock()
	next.continues = &proto.LogContinues{SessionID: t.session.id, Turn: t.id, Until: t.log.Next}
	t.mu.Unlock()
	for _, q := range queued {
		behind := sess.successor(ctx, q, q.message)
		behind.slash, behind.arguments = q.slash, q.arguments
		behind.id, behind.requestID, behind.say, behind.created = q.id, q.requestID, q.say, q.created
		behind.launch = func() { go behind.detached() }
		next.behind = append(next.behind, behind)
	}
	launched := make(chan struct{})
	next.launch = func() { close(launched) }
	next.counted, t.counted = t.counted, false // it takes the place among the running turns
	if next.keepsEnv() {
		err = t.keepEnv(next.id, next.req)
	}
	for _, moved := range append([]*turn{next}, next.behind...) {
		if err == nil {
			err = t.copyAttachments(t.runCtx, t.session.id, id, moved.files)
		}
	}
	if err == nil {
		sess.add(next)
		select {
		case <-launched:
		case <-next.refused:
			err = next.refusal()
		case <-t.runCtx.Done():
			err = context.Cause(t.runCtx)
		}
	}
	var r *relay
	var run proto.Run
	if err == nil {
		var e *proto.Error
		if r, run, e = next.open(nil); e != nil {
			err = e
		}
	}
	if err != nil {
		next.finish() // frees the place
		return nil, nil, err
	}
	return next, func() { defer next.finish(); next.follow(r, run) }, nil
}

// successor returns a turn with the options of one of another session.
func (sess *session) successor(ctx context.Context, t *turn, message string) *turn {
	req := t.options()
	req.SessionID, req.Message = sess.id, message
	next := sess.newTurn(ctx, req)
	next.unplanned = t.unplanned
	next.uid, next.onLimit, next.keeps, next.files = t.uid, t.onLimit, true, t.files
	return next
}

// continuation returns the session and the turn in which a turn goes on, and the log of
// that session, nil if it has not begun. If only a part of a session's first append was
// written, it is another session.
func (s *Service) continuation(ctx context.Context, session, turn string) (to, toTurn string, begun *turnlog.Log, err error) {
	for n := 0; ; n++ {
		to, toTurn = continuationIDs(session, turn, n)
		log, err := s.readLog(ctx, to, 0)
		if errors.Is(err, proto.ErrNotFound) {
			return to, toTurn, nil, nil
		}
		if err != nil {
			return "", "", nil, err
		}
		if t := log.Turn(toTurn); t != nil && t.Text != "" {
			return to, toTurn, log, nil
		}
	}
}

// continuationIDs derives the ids of a session and of a turn.
func continuationIDs(session, turn string, n int) (to, toTurn string) {
	to = uuidOf("continue", session, turn, strconv.Itoa(n))
	return to, firstTurn(to)
}

// firstTurn derives the id of the turn that goes on in a session. A fork has another.
func firstTurn(session string) string {
	sum := sha256.Sum256([]byte(session))
	return "t-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:12])
}

// endContinued stores the end of a turn of an earlier process, if it goes on in another
// session. moved are the turns of open that are queued there now.
func (sess *session) endContinued(ctx context.Context, w *writer, t *turnlog.Turn, open []*turnlog.Turn) (moved []*turn, continued bool, err error) {
	if t.State == proto.TurnQueued || t.Window == 0 {
		return nil, false, nil
	}
	to, toTurn, begun, err := sess.continuation(ctx, sess.id, t.ID)
	if err != nil || begun == nil {
		return nil, false, err
	}
	for _, q := range open {
		if q.State == proto.TurnQueued && begun.Turn(q.ID) != nil {
			moved = append(moved, &turn{id: q.ID})
		}
	}
	r := record{turnID: t.ID}
	r.moved(sess.id, to, toTurn, moved)
	list, err := r.take()
	if err == nil {
		err = sess.append(ctx, w, list, nil, func() {})
	}
	return moved, true, err
}

// task is what a turn has to do since a person started it.
type task struct {
	messages []string         // of the user; the first one began it
	todo     []proto.TodoItem // that is open
}

// errContinuedTooOften is the error of a turn behind too many continuations.
var errContinuedTooOften = errors.New("the turn was continued too often")

// taskOf reads what a turn has to do. A turn that was continued began in the sessions
// before; most is how many are read.
func (s *Service) taskOf(ctx context.Context, session, turn string, most int) (task, error) {
	if most <= 0 {
		return task{}, errContinuedTooOften
	}
	var now task
	log, err := s.readEvents(ctx, session, 0, func(event []byte) {
		var m proto.LogMessage
		if typ, err := wire.ReplyType(event); err == nil && typ == proto.TypeMessage && wire.DecodeReply(event, &m) == nil &&
			m.Role == proto.RoleUser && m.Turn == turn && proto.ViaUser(m.Via) {
			now.messages = append(now.messages, m.Text)
		}
	})
	if err != nil {
		return task{}, err
	}
	lt := log.Turn(turn)
	if lt == nil || len(now.messages) == 0 {
		return task{}, proto.SessionErrorf(proto.CodeNotFound, "turn %s of session %s has no message", turn, session)
	}
	if lt.State == proto.TurnContinued {
		for _, say := range lt.Says {
			now.messages = append(now.messages, say.Text)
		}
	}
	now.todo = log.OpenTodo()
	before := log.Meta.Continues
	if before == nil || turn != firstTurn(session) {
		return now, nil
	}
	all, err := s.taskOf(ctx, before.SessionID, before.Turn, most-1)
	if errors.Is(err, proto.ErrNotFound) { // it was removed; the handoff is what is left of it
		return now, nil
	}
	if err != nil {
		return task{}, err
	}
	all.messages = append(all.messages, now.messages[1:]...)
	if log.Todo != nil {
		all.todo = now.todo
	}
	return all, nil
}

// handover is the message with which the turn begins in the new session.
func (t task) handover(bundle string, says []proto.LogSay) string {
	var b strings.Builder
	section := func(title, about string) { fmt.Fprintf(&b, "\n## %s\n\n%s\n", title, about) }
	b.WriteString(bundle)
	section("Messages of the user", "The turn goes on here because the model's context was nearly full. The user's messages in it so far, word for word:")
	for _, message := range t.messages {
		b.WriteString("\n" + text.Fenced("text", message) + "\n")
	}
	if len(t.todo) > 0 {
		section("Open todo items", "Your list, which the tool todo replaces:")
		b.WriteByte('\n')
		for _, item := range t.todo {
			fmt.Fprintf(&b, "- [ ] %s (%s)\n", item.Text, item.Status)
		}
	}
	if len(says) > 0 {
		section("New messages of the user", "These came meanwhile, and are not answered yet:")
		for _, say := range says {
			b.WriteString("\n" + text.Fenced("text", say.Text) + "\n")
		}
	}
	return b.String()
}
