package daemon

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// noticesMax is how many notices of an inference, and of a turn, are kept for followers
// that come later.
const noticesMax = 8

// relay stores the packets of an answer and passes them on: to the followers of the
// turn, and to the caller of a chat request, unchanged if it asked for events, otherwise
// as text. A packet with an event is passed on after its append, so that no client receives
// a packet that could be lost. The packets of an inference share an append, as do those
// of a batch of tool calls.
type relay struct {
	out    *rpc.Out // the caller; nil: none
	events bool     // the caller requested events
	turn   *turn    // nil: nothing is stored
	hooks  *turnHooks
	before spent // of earlier runs of the turn

	resumed   *proto.LogTurn          // the event of an attempt, until it is stored
	ctx       context.Context         // of the run in agr
	cut       context.CancelCauseFunc // ends it
	delegated sync.WaitGroup          // for sub-agents

	record
	typed   bool        // the text arrives as events, not as chunks
	waiting []proto.Raw // packets for the caller that wait for the next append

	// Written with turn.mu locked, so that followers can read them.
	step    int           // the present inference
	signed  time.Time     // when the token of the run was signed
	mode    gate.Mode     // that it has
	level   proto.Level   // of confinement of the run
	text    []byte        // of it
	running []*callOutput // the running calls, in the order of their start
	asks    string        // the request for an approval that a call waits for
	notices []proto.Raw   // of a pause since the last inference, at most noticesMax

	reported []string    // jobs whose end is among the messages so far
	agents   []*subAgent // of the present batch
}

// lock locks what followers read.
func (r *relay) lock() (unlock func()) {
	if r.turn == nil {
		return func() {}
	}
	r.turn.mu.Lock()
	return r.turn.mu.Unlock
}

// Flush sends the buffered packets to the caller.
func (r *relay) Flush() error {
	if r.out == nil {
		return nil
	}
	return sent(r.out.Flush())
}

// Text handles text that arrives as chunks, from rtr or from an agr without events. It
// ignores the text of the terminal packet if the text has arrived as events.
func (r *relay) Text(delta []byte) error {
	if r.typed || len(delta) == 0 {
		return nil
	}
	r.gather(wire.AppendString(nil, delta))
	switch {
	case r.out == nil:
		return nil
	case r.events:
		return sent(r.out.Delta(delta))
	}
	return sent(r.out.Text(delta))
}

// Event handles a packet of agr or rtr.
func (r *relay) Event(typ string, payload []byte) error {
	switch typ {
	case proto.TypeInterrupted: // turn sends its own after it has stored the end
		return nil
	case proto.TypeCheckpoint:
		return r.checkpoint(payload)
	case proto.TypeAssistantDelta:
		return r.delta(payload)
	case proto.TypeHook:
		return r.hookRan(payload)
	}
	r.typed = r.typed || typ == proto.TypeAssistantFinal
	if r.turn == nil {
		if typ == proto.TypeAssistantFinal {
			r.text = r.text[:0]
		}
		return r.pass(payload)
	}
	switch typ {
	case proto.TypeAssistantFinal, proto.TypeToolRequested, proto.TypeUsage, proto.TypeToolFinished, proto.TypeTodo, proto.TypeTools:
		if typ == proto.TypeAssistantFinal || typ == proto.TypeToolRequested || typ == proto.TypeTools {
			r.settled()
		}
		if typ == proto.TypeToolFinished {
			r.usedApproval(payload)
		}
		if err := r.add(typ, payload, r.step); err != nil {
			return err
		}
		r.forget()
		if r.out != nil && r.events {
			r.waiting = append(r.waiting, bytes.Clone(payload))
		}
		return nil
	}
	if err := r.watch(typ, payload); err != nil {
		return err
	}
	r.turn.broadcast(payload)
	return r.pass(payload)
}

// delta handles an assistant_delta.
func (r *relay) delta(payload []byte) error {
	r.typed = true
	known := len(r.text)
	for key, value := range wire.Members(payload) { // scanned, not decoded, for speed
		if string(key) == "text" {
			r.gather(value)
		}
	}
	switch {
	case r.out == nil:
		return nil
	case r.events:
		return sent(r.out.Frame(payload))
	}
	return sent(r.out.Text(r.text[known:]))
}

// gather appends a piece of text, a JSON string, and sends it to the followers. It
// ignores anything else.
func (r *relay) gather(value []byte) {
	defer r.lock()()
	known := len(r.text)
	text, ok := wire.Unquote(r.text, value)
	if !ok {
		r.text = r.text[:known]
		return
	}
	r.text = text
	if r.turn != nil {
		r.turn.delta(value)
	}
}

// checkpoint stores what came before, and lets agr go on.
func (r *relay) checkpoint(payload []byte) error {
	var at proto.Checkpoint
	if err := decodePacket(payload, &at); err != nil || r.turn == nil {
		return err
	}
	t := r.turn
	if at.Point == proto.PointRead {
		r.readClient(at, proto.Proceed{Turn: at.Turn, Step: at.Step, Point: at.Point, Batch: at.Batch})
		return nil
	}
	r.settled()
	proceed := proto.Proceed{Turn: at.Turn, Step: at.Step, Point: at.Point, Batch: at.Batch}
	var says []proto.LogSay
	if r.stopped {
		r.stopped = false
		if err := r.commit(); err != nil {
			return err
		}
		t.awaitStop()
	}
	if at.Point != proto.PointEnd && at.Point != proto.PointApproval && t.parksForStop() {
		if err := r.commit(); err != nil {
			return err
		}
		for _, call := range r.calls { // the earlier batches have results
			t.notStarted = append(t.notStarted, call.id)
		}
		proceed.Stop = proto.StopParked
		return r.proceed(proceed)
	}
	if at.Point == proto.PointEnd {
		// Without messages the last inference is stored together with the turn's end.
		if says = t.takeSays(true, t.endedJobs(r)); len(says) == 0 {
			var err error
			if says, err = r.structure(at); err == nil && len(says) == 0 {
				says, err = r.stopHooks(at.Step)
			}
			if err != nil {
				return err
			}
		}
		if r.answer = ""; len(says) > 0 {
			proceed.Says = r.deliver(says)
			if err := r.commit(); err != nil {
				return err
			}
			r.begins(at.Step + 1)
		}
	} else {
		if err := r.commit(); err != nil {
			return err
		}
		if at.Point == proto.PointDelegate {
			r.delegate(proceed)
			return nil
		}
		if at.Point == proto.PointApproval {
			return r.approval(at, proceed)
		}
		if at.Point == proto.PointInfer {
			if t.handsOff(r) {
				proceed.Stop = proto.StopContext
				return r.proceed(proceed)
			}
			if r.needsLevel() {
				proceed.Stop = proto.StopParked
				return r.proceed(proceed)
			}
			says = t.takeSays(false, t.endedJobs(r))
		}
	}
	if at.Point == proto.PointInfer {
		r.begins(at.Step + 1)
		proceed.Says = r.deliver(says)
	}
	return r.proceed(proceed)
}

// begins begins an inference.
func (r *relay) begins(step int) {
	defer r.lock()()
	r.step = step
}

// proceed lets agr go on.
func (r *relay) proceed(p proto.Proceed) (err error) {
	if p.Token, err = r.renewToken(); err != nil {
		return err
	}
	if _, err := rpc.Call(r.turn.runCtx, r.turn.agr, proto.AgrProceed, p); err != nil {
		return lostError{err}
	}
	return nil
}

// deliver adds the events of messages that go into the next inference.
func (r *relay) deliver(says []proto.LogSay) (list []proto.Say) {
	for _, say := range says {
		list = append(list, proto.Say{Say: say.Say, Text: say.Text})
		if say.Job != "" {
			r.event(proto.TypeSay, say)
		}
		r.event(proto.TypeMessage, proto.LogMessage{Role: proto.RoleUser, Text: say.Text, Turn: r.turn.id, Say: say.Say, Via: say.Mode, TS: timestamp()})
		if say.Context != "" {
			list = append(list, proto.Say{Text: say.Context})
			r.event(proto.TypeMessage, proto.LogMessage{Role: proto.RoleUser, Text: say.Context, Turn: r.turn.id, Via: proto.ViaHook, TS: timestamp()})
		}
	}
	return list
}

// commit stores the pending events and passes their packets on. If they cannot be
// stored, the packets are dropped, but r.text keeps the text that the caller has already
// received.
func (r *relay) commit() error {
	if r.turn == nil || r.pending == nil {
		return nil
	}
	if err := r.store(nil, func() {}); err != nil {
		r.waiting = nil
		return err
	}
	return r.release()
}

// store stores the pending events, and drops them if that fails. header is for a new
// session. then is called with turn.mu locked before the followers get the events.
func (r *relay) store(header proto.Raw, then func()) error {
	final := r.final
	list, err := r.take()
	if err != nil || list == nil {
		r.dropped()
		return err
	}
	t := r.turn
	if err := t.append(t.stalls(), t.w, list, header, func() {
		if final {
			r.text, r.notices = r.text[:0], nil
		}
		r.agents = nil // their usage is in the log now
		then()
	}); err != nil {
		r.dropped()
		return err
	}
	r.kept()
	r.resumed = nil
	return nil
}

// dropped undoes what the pending events changed, which are not stored.
func (r *relay) dropped() {
	r.record.dropped()
	if r.resumed != nil {
		r.resumed.TS = ""
	}
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
	if r.out == nil || !r.events {
		return nil
	}
	return sent(r.out.Frame(payload))
}

// finish is called at the end of an answer. It emits assistant_final for text without a
// final event.
func (r *relay) finish() error {
	if len(r.text) == 0 || r.final {
		return nil
	}
	text := string(r.text)
	if r.turn != nil {
		r.message(text, nil, false, r.step)
	} else {
		r.text = r.text[:0]
	}
	if r.out == nil || !r.events {
		return nil
	}
	final, err := wire.AppendObject(nil, proto.TypeAssistantFinal, proto.AssistantFinal{Text: text})
	if err != nil {
		return err
	}
	r.waiting = append(r.waiting, final)
	if r.turn == nil {
		return r.release()
	}
	return nil
}

// done stores the end of an answer, with the last inference.
func (r *relay) done(text proto.Text) error {
	r.settled()
	if err := r.finish(); err != nil {
		return err
	}
	t := r.turn
	end := proto.LogTurn{Turn: t.id, SessionID: t.session.id, State: proto.TurnDone, StopReason: text.StopReason, Structured: text.Structured, TS: timestamp()}
	end.Usage, end.Iterations = r.before.with(text.Usage), r.before.inferences
	if text.Iterations != nil {
		end.Iterations += *text.Iterations
	}
	r.event(proto.TypeTurn, end)
	if err := r.store(nil, func() { t.end(proto.TurnDone, "") }); err != nil {
		r.waiting = nil
		return err
	}
	return r.release()
}

// watch collects the output of the running calls.
func (r *relay) watch(typ string, payload []byte) error {
	if typ == proto.TypeNotice {
		var notice proto.Notice
		if err := wire.DecodeReply(payload, &notice); err != nil {
			return err
		}
		defer r.lock()()
		list := &r.notices
		if notice.Kind != proto.NoticeRetry && notice.Kind != proto.NoticeWait {
			list = &r.turn.notices
		}
		if len(*list) >= noticesMax {
			*list = slices.Delete(*list, 0, 1)
		}
		*list = append(*list, r.turn.mark(payload))
		return nil
	}
	if typ != proto.TypeToolStarted && typ != proto.TypeToolOutput {
		return nil
	}
	var o proto.ToolOutput // tool_started has its id
	if err := decodePacket(payload, &o); err != nil {
		return err
	}
	defer r.lock()()
	if typ == proto.TypeToolStarted {
		call := openCall{id: o.ID}
		if i := slices.IndexFunc(r.calls, func(c openCall) bool { return c.id == o.ID }); i >= 0 {
			call = r.calls[i]
		}
		r.running = append(r.running, newCallOutput(call, payload))
		return nil
	}
	for _, c := range r.running {
		if c.id == o.ID {
			c.add(o.Text, o.LeftOut)
		}
	}
	return nil
}

// forget removes the calls that have a result from the running ones.
func (r *relay) forget() {
	if len(r.running) == 0 {
		return
	}
	defer r.lock()()
	r.running = slices.DeleteFunc(r.running, func(c *callOutput) bool {
		return !r.isOpen(c.id)
	})
}

// stop stores the end of a failed or interrupted turn: the pending events, the results
// of the open calls, the text so far, the error, and what goes back to the user.
func (r *relay) stop(e *proto.Error) error {
	t := r.turn
	var open []proto.OpenCall
	t.mu.Lock()
	if lt := t.log.Turn(t.id); lt != nil {
		open = t.log.Calls(lt)
	}
	t.mu.Unlock()
	for _, call := range open { // of an attempt that ended before it asked agr to settle them
		if !slices.ContainsFunc(r.calls, func(c openCall) bool { return c.id == call.ID }) {
			r.calls = append(r.calls, openCall{id: call.ID, name: call.Name, step: call.Step, stored: true})
		}
	}
	used := t.cancelAgents(t.ctx, t.id, open)
	if err := t.w.failure(); err != nil {
		return err
	}
	t.stopCommands(t.ctx, t.session.id, t.id)
	r.settled()
	for _, call := range r.calls {
		if call.settled {
			continue
		}
		call.usage = used[call.id]
		i := slices.IndexFunc(r.running, func(c *callOutput) bool { return c.id == call.id })
		if i < 0 {
			r.interrupt(call, nil)
		} else {
			r.interrupt(call, r.running[i])
		}
	}
	if !r.final && len(bytes.TrimSpace(r.text)) > 0 {
		r.message(string(r.text), nil, true, r.step)
	}
	return r.storeFailure(e)
}

// storeFailure stores the pending events, the error, and what goes back to the user.
func (r *relay) storeFailure(e *proto.Error) error {
	t := r.turn
	says, queued := t.withdrawn()
	r.fail(t.session.id, e, cmp.Or(t.endReason, reasonOf(e)))
	r.withdraw(t.session.id, says, queued)
	state := proto.TurnError
	if interrupted(e) {
		state = proto.TurnInterrupted
	}
	err := r.store(nil, func() {
		t.end(state, reasonOf(e))
		for _, q := range queued {
			q.end(proto.TurnInterrupted, reasonWithdrawn)
		}
	})
	for _, q := range queued {
		q.finish()
	}
	return err
}
