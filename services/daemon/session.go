package daemon

import (
	"context"
	"fmt"

	"zino/pkg/rpc"
	"zino/proto"
)

// turn is one message of a session and what comes of it.
type turn struct {
	s      *Service
	req    proto.Chat
	out    *rpc.Out
	record *record // nil: nothing is stored
}

// session is a turn of a session. Nobody else has a turn on that session until
// it ends, and everything is stored as it happens, the caller's leaving too.
func (s *Service) session(ctx context.Context, req proto.Chat, out *rpc.Out) (proto.Text, error) {
	t := &turn{s: s, req: req, out: out}
	text, e := t.run(ctx)
	if e != nil {
		return proto.Text{}, s.parting(ctx, out, req.Events, e)
	}
	return shape(text, req), nil
}

// run has the turn played while the session is locked. A turn that stores
// nothing needs no lock.
func (t *turn) run(ctx context.Context) (proto.Text, *proto.Error) {
	if t.req.NoSave {
		return t.play(ctx)
	}
	lock, err := t.s.hold(ctx, t.req.SessionID, t.waiting)
	if err != nil {
		return proto.Text{}, offerNoSave(ending(ctx, err))
	}
	defer lock.release()
	t.record = &record{lock: lock, log: t.s.log}
	return t.play(lock.ctx)
}

func (t *turn) waiting() error {
	if !t.req.Events {
		return nil
	}
	text := fmt.Sprintf("Another turn is under way on session %s: waiting for its end.", t.req.SessionID)
	return sent(t.out.Event("notice", proto.Notice{Kind: "wait", Text: text}))
}

// play is the turn itself. Of one that fails before the user's line is stored
// nothing is.
func (t *turn) play(ctx context.Context) (proto.Text, *proto.Error) {
	messages, err := t.prompt(ctx)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return proto.Text{}, ending(ctx, err)
	}
	if err := t.record.begin(t.req.Root, t.req.Message); err != nil {
		return proto.Text{}, offerNoSave(ending(ctx, err))
	}
	r := &relay{out: t.out, events: t.req.Events, record: t.record}
	text, err := t.answer(ctx, messages, r)
	if err != nil {
		e := ending(ctx, err)
		t.record.end(r.text, e)
		return proto.Text{}, e
	}
	return text, nil
}

// offerNoSave adds to an error of the session's file, such as a full disk, how
// the message is answered all the same.
func offerNoSave(e *proto.Error) *proto.Error {
	if e.Code == proto.CodeInternal && e.Kind == kindSession {
		e.Message += "; --no-save answers without storing anything"
	}
	return e
}

// prompt assembles what the model is sent. Other than in a plain message no
// part of it may be missing: the model would not know what was said before, or
// what it must not do.
func (t *turn) prompt(ctx context.Context) (proto.Raw, error) {
	p := t.s.parts(ctx, promptOf(t.req), &proto.Build{SessionID: t.req.SessionID, UserMessage: t.req.Message})
	if p.sysErr != nil {
		return nil, p.sysErr
	}
	if p.ctxErr != nil {
		return nil, sessionError(p.ctxErr)
	}
	if t.req.Events {
		if err := announce(t.out, p.system); err != nil {
			return nil, err
		}
	}
	return p.list(t.req.Message), nil
}

// answer has the agent answer. It is asked for events whatever the caller asked
// for: they say what is to be stored.
func (t *turn) answer(ctx context.Context, messages proto.Raw, r *relay) (proto.Text, error) {
	run := t.s.runOf(t.req, messages, t.s.cfg.Agr.SessionIterations)
	run.Stream, run.Events = new(true), true
	text, err := rpc.CallText(ctx, t.s.agr, proto.AgrRun, run, r)
	if err != nil {
		return text, err
	}
	return text, r.end()
}
