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

// turn answers a message of a session. Turns of one session run one after the other.
// Events are stored as they happen, also after a disconnect of the caller. If a turn
// fails before the user's message is stored, nothing is stored.
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
	// Unlike for a plain message no part of the prompt may be missing: the model needs
	// the earlier messages and its instructions.
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
	run.Stream, run.Events = new(true), true // events are needed for the log; relay converts them into the requested form
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

// offerNoSave adds a hint about --no-save to an error of the session's file, such as a
// full disk.
func offerNoSave(e *proto.Error) *proto.Error {
	if e.Code == proto.CodeInternal && e.Kind == proto.ErrorKindSession {
		e.Message += "; --no-save answers without storing anything"
	}
	return e
}

// relay stores the packets of an answer and passes them on: unchanged to a caller of
// events, otherwise as text. A packet with an event is passed on after its append, so
// that a caller never receives a packet that could be lost. The packets of an inference
// share an append, as do those of a batch of tool calls.
type relay struct {
	out    *rpc.Out
	events bool    // the caller requested events
	record *record // nil: nothing is stored

	text    []byte      // of the present inference
	typed   bool        // the text arrives as events, not as chunks
	waiting []proto.Raw // packets that wait for the next append
}

// Flush sends the buffered packets to the caller.
func (r *relay) Flush() error { return sent(r.out.Flush()) }

// Text handles text that arrives as chunks, from rtr or from an agr without events. It
// ignores the text of the terminal packet if the text has arrived as events.
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

// Event handles a packet of agr or rtr.
func (r *relay) Event(typ string, payload []byte) error {
	if typ == proto.TypeInterrupted { // turn sends its own after it has stored the end
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
		if err := r.commit(); err != nil { // the inference may have had no usage packet
			return err
		}
	}
	if err := r.record.follow(typ, payload); err != nil {
		return err
	}
	return r.pass(payload)
}

// delta handles an assistant_delta.
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

// gather appends the text of a delta. For speed it scans the packet instead of decoding
// it. It ignores a text that is not a string.
func (r *relay) gather(payload []byte) {
	known := len(r.text)
	for key, value := range wire.Members(payload) {
		if string(key) == "text" {
			r.text, _ = wire.Unquote(r.text[:known], value)
		}
	}
}

// commit stores the events of the waiting packets and passes the packets on. If they
// cannot be stored, the packets are dropped, but r.text keeps the text that the caller
// has already received.
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

// finish is called at the end of an answer. It stores the waiting packets and emits
// assistant_final for text without a final event.
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
