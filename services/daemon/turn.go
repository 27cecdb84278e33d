package daemon

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// turn answers a message of a session. Turns of one session follow each other.
// What must last is stored as it happens, also when the caller hangs up. Of a
// turn that fails before the user's message is stored, nothing is.
func (s *Service) turn(ctx context.Context, req proto.Chat, out *rpc.Out) (proto.Text, *proto.Error) {
	var rec *record // nil: nothing is stored, and no lock is needed
	if !req.NoSave {
		session, err := s.open(ctx, req.SessionID, func() error {
			if !req.Events {
				return nil
			}
			text := fmt.Sprintf("Another turn is under way on session %s: waiting for its end.", req.SessionID)
			return sent(out.Event(proto.TypeNotice, proto.Notice{Kind: proto.NoticeWait, Text: text}))
		})
		if err != nil {
			return proto.Text{}, offerNoSave(turnError(ctx, err))
		}
		defer session.close()
		rec = &record{session: session, log: s.log}
	}
	// Other than in a plain message no part of the prompt may be missing: the
	// model would not know what was said before, or what it must not do.
	p := s.prompt(ctx, getPrompt(req), &proto.Build{SessionID: req.SessionID, UserMessage: req.Message})
	err := p.sysErr
	if err == nil && p.ctxErr != nil {
		err = sessionError(p.ctxErr)
	}
	if err == nil {
		err = cmp.Or(p.announce(req, out), ctx.Err())
	}
	if err != nil {
		return proto.Text{}, turnError(ctx, err)
	}
	if err := rec.begin(req.Root, req.Message); err != nil {
		return proto.Text{}, offerNoSave(turnError(ctx, err))
	}
	run := s.run(req, p.messages(req.Message), s.cfg.Agr.SessionIterations)
	run.Stream, run.Events = new(true), true // events name what to store; relay gives the caller the form that it asked for
	r := &relay{out: out, events: req.Events, record: rec}
	text, err := rpc.CallText(ctx, s.agr, proto.AgrRun, run, r)
	if err == nil {
		err = r.finish()
	}
	if err != nil {
		e := turnError(ctx, err)
		if rec.stop(r.text, e) {
			if err := r.release(); err != nil {
				s.log.Debug("the caller has hung up during the turn", "error", err, "trace", rpc.Trace(ctx))
			}
		}
		return proto.Text{}, e
	}
	return text, nil
}

// offerNoSave adds to an error of the session's file, such as a full disk, how
// to get an answer all the same.
func offerNoSave(e *proto.Error) *proto.Error {
	if e.Code == proto.CodeInternal && e.Kind == proto.ErrorKindSession {
		e.Message += "; --no-save answers without storing anything"
	}
	return e
}

// relay takes the packets of an answer, has stored what must last, and passes
// them on: whole to a caller of events, else as text. A packet that is stored
// is passed on after the append that stores it, so that a caller never sees what
// could still be lost. One append holds the packets of an inference, another one
// those of a batch of tool calls.
type relay struct {
	out    *rpc.Out
	events bool    // the caller asked for them
	record *record // nil: nothing is stored

	text    []byte      // of the inference in progress
	typed   bool        // the text comes as events
	waiting []proto.Raw // packets that wait for the next append
}

// Flush sends the caller what has been gathered.
func (r *relay) Flush() error { return sent(r.out.Flush()) }

// Text takes text that comes as chunks: from the model where agr could not be
// reached. The text of an answer that came as events is skipped when it comes
// again with the terminal packet.
func (r *relay) Text(delta []byte) error {
	if r.typed || len(delta) == 0 {
		return nil
	}
	if err := r.commit(); err != nil {
		return err
	}
	r.text = append(r.text, delta...)
	if r.events {
		return sent(r.out.Delta(delta))
	}
	return sent(r.out.Text(delta))
}

// Event takes a packet of agr, or of rtr.
func (r *relay) Event(typ string, payload []byte) error {
	if typ == proto.TypeInterrupted { // the turn sends it itself, when its end is stored
		return nil
	}
	if typ == proto.TypeAssistantDelta {
		return r.delta(payload)
	}
	r.typed = r.typed || typ == proto.TypeAssistantFinal
	if r.record == nil {
		if typ == proto.TypeAssistantFinal {
			r.text = r.text[:0]
		}
		return r.pass(payload)
	}
	switch typ {
	case proto.TypeAssistantFinal, proto.TypeToolRequested, proto.TypeUsage, proto.TypeToolFinished:
		if err := r.record.add(typ, payload); err != nil {
			return err
		}
		r.waiting = append(r.waiting, bytes.Clone(payload))
		// usage is the last packet of an inference. A batch ends when no call runs.
		if typ == proto.TypeUsage || typ == proto.TypeToolFinished && len(r.record.running) == 0 {
			return r.commit()
		}
		return nil
	}
	if len(r.record.running) == 0 {
		if err := r.commit(); err != nil { // of an inference without usage
			return err
		}
	}
	if err := r.record.follow(typ, payload); err != nil {
		return err
	}
	return r.pass(payload)
}

// delta takes a piece of text.
func (r *relay) delta(payload []byte) error {
	if err := r.commit(); err != nil {
		return err
	}
	r.typed = true
	known := len(r.text)
	r.gather(payload)
	if r.events {
		return sent(r.out.Frame(payload))
	}
	return sent(r.out.Text(r.text[known:]))
}

// gather adds a piece to the text. It scans the packet without decoding it:
// there are thousands. A text that is not a string is skipped.
func (r *relay) gather(payload []byte) {
	known := len(r.text)
	for key, value := range wire.Members(payload) {
		if string(key) == "text" {
			r.text, _ = wire.Unquote(r.text[:known], value)
		}
	}
}

// commit stores the events of the packets that wait, and passes the packets on.
// If they cannot be stored they are dropped; the text that the caller has seen of
// them stays.
func (r *relay) commit() error {
	if len(r.waiting) == 0 {
		return nil
	}
	final := r.record.final
	if err := r.record.commit(nil); err != nil {
		r.waiting = nil
		return err
	}
	if final {
		r.text = r.text[:0]
	}
	return r.release()
}

// release passes on the packets whose events are stored.
func (r *relay) release() error {
	waiting := r.waiting
	r.waiting = nil
	for _, payload := range waiting {
		if err := r.pass(payload); err != nil {
			return err
		}
	}
	return nil
}

func (r *relay) pass(payload []byte) error {
	if !r.events {
		return nil
	}
	return sent(r.out.Frame(payload))
}

// finish stores what waits and emits assistant_final for text that has no final
// event, at the end of an answer.
func (r *relay) finish() error {
	if err := r.commit(); err != nil || len(r.text) == 0 {
		return err
	}
	final := proto.AssistantFinal{Text: string(r.text)}
	if r.record != nil {
		r.record.message(final.Text, nil, false)
		if err := r.record.commit(nil); err != nil {
			return err
		}
	}
	r.text = r.text[:0]
	if !r.events {
		return nil
	}
	return sent(r.out.Packet(proto.TypeAssistantFinal, final))
}
