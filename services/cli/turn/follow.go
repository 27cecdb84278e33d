package turn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// ReconnectLimit is how long a lost daemon is waited for. Tests shorten it.
var ReconnectLimit = time.Minute

const reconnectInterval = 100 * time.Millisecond

// errLost ends the following of a turn whose daemon did not come back.
var errLost = errors.New("connection lost")

// writeError is an error of the renderer, not of the daemon.
type writeError struct{ error }

func (w writeError) Unwrap() error { return w.error }

// follower renders a turn while the daemon carries it out.
type follower struct {
	d       *connect.Daemon
	turns   render.Turns
	session string
	mode    string     // that the daemon has taken
	turn    string     // empty: the open turn, else the last one
	next    *int64     // where to go on after a lost connection; nil: at the start of the turn
	raw     bool       // pass packets on as they are
	strip   bool       // remove the fields that packets of a chat do not have
	files   bool       // the renderer answers file_requested
	inputs  bool       // the renderer answers input_requested
	own     bool       // the turn's first message is known: do not render it
	input   io.Reader  // commands for the turn; nil: none
	digests sync.Map   // of requests to allow a call, by id, for input
	asker   *asker     // asks a person; nil: none is there
	busy    sync.Mutex // locked while a command is carried out; guards session and turn

	text     answerText
	paused   bool // the renderer was ended and began again
	live     bool // the replay has ended
	received bool // since the last connection was lost
	moved    *proto.Continued
	ended    *proto.TurnEnd
}

// follow renders packets until the turn has ended. A lost connection is made again,
// unless the services belong to this run.
func (f *follower) follow(ctx context.Context) error {
	var lost time.Time // zero: connected
	for {
		f.received = false
		asking, stop := context.WithCancel(ctx)
		packet := func(typ string, payload []byte) error { return f.packet(asking, typ, payload) }
		end, err := rpc.CallEvents(ctx, f.d.Client, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: f.session, Turn: f.turn, From: f.next, Inputs: f.inputs || f.asker != nil && !f.raw, ClientFiles: f.files}, packet)
		stop()
		if f.asker != nil {
			f.asker.reset()
		}
		if w, ok := errors.AsType[writeError](err); ok {
			return w
		}
		switch {
		case f.ended != nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && f.moved != nil:
			f.busy.Lock()
			f.session, f.turn = f.moved.SessionID, f.moved.Turn
			f.busy.Unlock()
			f.next, f.moved, lost = nil, nil, time.Time{}
			f.own = true // the handoff repeats what was shown
			f.text.reset()
			continue
		case err == nil && end.Reason != reasonRestart:
			return proto.Errorf(proto.CodeInternal, "the daemon ended the turn's events in state %q", end.State)
		case f.d.Started() != nil && err != nil:
			return err
		case f.d.Started() != nil:
			return proto.Errorf(proto.CodeUnavailable, "the services of this run were stopped")
		case err != nil && !isLost(err, !lost.IsZero()):
			return err
		}
		if lost.IsZero() || f.received {
			lost = time.Now()
		}
		if time.Since(lost) >= ReconnectLimit {
			return errLost
		}
		f.turns.Status("connecting again")
		f.text.reconnect()
		select {
		case <-time.After(reconnectInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reasonRestart is the reason of a followed packet of a daemon that was stopped.
const reasonRestart = "restart"

// isLost reports whether the daemon may be back soon. One that is stopped without a wait
// cancels what it does. A supervisor answers unavailable for a service that does not
// start.
func isLost(err error, again bool) bool {
	return errors.Is(err, rpc.ErrHungUp) || errors.Is(err, rpc.ErrConnect) || errors.Is(err, proto.ErrTimeout) || errors.Is(err, proto.ErrCanceled) ||
		again && errors.Is(err, proto.ErrUnavailable)
}

// packet renders one packet. asking ends the questions that it asks.
func (f *follower) packet(asking context.Context, typ string, payload []byte) error {
	f.received = true
	var place struct {
		Turn   string `json:"turn,omitzero"`
		Next   *int64 `json:"next,omitzero"`
		Replay bool   `json:"replay,omitzero"`
	}
	if err := wire.DecodeReply(payload, &place); err != nil {
		return err
	}
	if place.Next != nil {
		f.next = place.Next
	}
	if f.ended != nil && place.Turn != "" && place.Turn != f.ended.Turn { // a replay of several turns
		f.ended = nil
	}
	if f.live && (place.Replay || typ == proto.TypeLive) { // too slow: the daemon has left out packets
		f.text.reconnect()
	}
	if typ == proto.TypeLive {
		f.live = true
		if f.turn == "" {
			f.turn = place.Turn
		}
	}
	if f.raw {
		if err := f.render(typ, payload); err != nil {
			return err
		}
	}
	switch typ {
	case proto.TypeTurnEnded:
		var end proto.TurnEnd
		if err := wire.DecodeReply(payload, &end); err != nil {
			return err
		}
		if f.turn == "" || end.Turn == "" || end.Turn == f.turn {
			end.Result = bytes.Clone(end.Result)
			if end.State != proto.TurnContinued {
				f.ended = &end
			}
		}
		if f.raw || len(end.Returned) == 0 {
			return nil
		}
	case proto.TypeContinued:
		f.moved = new(proto.Continued)
		if err := wire.DecodeReply(payload, f.moved); err != nil {
			return err
		}
	}
	if f.raw {
		return nil
	}
	switch typ {
	case proto.TypeApprovalRequested, proto.TypeApprovalClosed:
		return f.approval(asking, typ, payload)
	case proto.TypeInputRequested, proto.TypeInputClosed: // with an asker, or a renderer that answers
		if f.asker != nil {
			return f.asker.packet(asking, typ, payload)
		}
	}
	return f.event(typ, payload)
}

// approval asks about a request, or renders the packet.
func (f *follower) approval(asking context.Context, typ string, payload []byte) error {
	if f.asker != nil {
		return f.asker.packet(asking, typ, payload)
	}
	if f.input != nil && typ == proto.TypeApprovalRequested {
		var a proto.Approval
		if err := wire.DecodeReply(payload, &a); err != nil {
			return err
		}
		f.digests.Store(a.ID, a.Digest)
	}
	return f.render(typ, payload)
}

// event renders a packet like an event of a chat.
func (f *follower) event(typ string, payload []byte) error {
	switch typ {
	case proto.TypeLive, proto.TypeInterrupted: // the end of the turn reports the interruption
		return nil
	case proto.TypeUserMessage:
		var message proto.UserMessage
		if err := wire.DecodeReply(payload, &message); err != nil {
			return err
		}
		if f.own && (message.Via == "" || message.Via == proto.ViaStart) {
			return nil
		}
	case proto.TypeTurnState:
		var state proto.TurnState
		if err := wire.DecodeReply(payload, &state); err != nil {
			return err
		}
		f.turns.Status(describeState(state))
		if state.State == proto.TurnRunning {
			return nil
		}
	case proto.TypeRetracted:
		f.text.reset()
	case proto.TypeAssistantDelta:
		var delta proto.AssistantDelta
		if err := wire.DecodeReply(payload, &delta); err != nil {
			return err
		}
		return f.piece(f.text.delta(delta.Text))
	case proto.TypeAssistantFinal:
		var final proto.AssistantFinal
		if err := wire.DecodeReply(payload, &final); err != nil {
			return err
		}
		shown := len(f.text.shown) > 0
		rest, retracted := f.text.final(final.Text)
		if shown && f.paused && rest == "" { // or else the renderer prints all of it again
			if err := f.render(proto.TypeAssistantDelta, []byte(`{"type":"assistant_delta","text":""}`)); err != nil {
				return err
			}
		}
		if err := f.piece(rest, retracted); err != nil {
			return err
		}
	}
	return f.render(typ, payload)
}

// describeState describes the state of a turn that does not run.
func describeState(s proto.TurnState) string {
	switch {
	case s.State == proto.TurnParked && s.Reason == proto.ParkedApproval:
		return "waiting for approval " + s.Approval
	case s.State == proto.TurnParked && s.Until != "":
		return "parked (" + s.Reason + ") until " + render.LocalTime(s.Until)
	case s.State == proto.TurnParked:
		return "parked (" + s.Reason + ")"
	case s.State == proto.TurnQueued, s.State == proto.TurnWaiting:
		return s.State
	}
	return "waiting"
}

// piece renders text of the assistant.
func (f *follower) piece(text string, retracted bool) error {
	if retracted {
		if err := f.render(proto.TypeRetracted, []byte(`{"type":"retracted"}`)); err != nil {
			return err
		}
	}
	if text == "" {
		return nil
	}
	packet, err := wire.AppendObject(nil, proto.TypeAssistantDelta, proto.AssistantDelta{Text: text})
	if err != nil {
		return err
	}
	return f.render(proto.TypeAssistantDelta, packet)
}

func (f *follower) render(typ string, payload []byte) error {
	if f.strip {
		var err error
		if payload, err = chatEvent(typ, payload); err != nil {
			return err
		}
	}
	if err := f.turns.Event(typ, payload); err != nil {
		return writeError{err}
	}
	return nil
}

// chatEvent returns a packet as a chat request has it: without turn, next, replay and the
// fields of the session log, and with the fields in the order of the contract. Packets
// of other types are returned as they are.
func chatEvent(typ string, payload []byte) ([]byte, error) {
	for _, e := range proto.Events() {
		if e.Type != typ {
			continue
		}
		fields := reflect.New(e.Fields)
		if err := wire.DecodeReply(payload, fields.Interface()); err != nil {
			return nil, fmt.Errorf("the daemon sent something that is not an event: %w", err)
		}
		return wire.AppendObject(nil, typ, fields.Elem().Interface())
	}
	return payload, nil
}
