package agr

import (
	"time"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/agr/toolbox"
)

// What a caller sees of a turn. A caller that asked for events is told of every
// call; one that asked for a stream has the text alone, which in a plain run has
// the results in it.

// tellText passes on a piece of the model's text, soon: Flush says when.
func (t *turn) tellText(text []byte) error {
	if t.req.Events {
		t.telling.Lock()
		defer t.telling.Unlock()
		return t.out.Delta(text)
	}
	return t.out.Text(text)
}

// gather sends an event, soon, and report at once.
func (t *turn) gather(typ string, v any) error { return t.tell(t.out.Packet, typ, v) }

func (t *turn) report(typ string, v any) error { return t.tell(t.out.Event, typ, v) }

// tell is what calls that are carried out side by side have to share.
func (t *turn) tell(send func(string, any) error, typ string, v any) error {
	if !t.req.Events {
		return nil
	}
	t.telling.Lock()
	defer t.telling.Unlock()
	return send(typ, v)
}

// Event passes on what the router remarks between the pieces of its text.
func (t *turn) Event(typ string, payload []byte) error {
	if !t.req.Events || typ != proto.TypeNotice && typ != proto.TypeReasoning {
		return nil
	}
	return t.out.Frame(payload)
}

// aside takes the answer to an inference of a skill. Its text and reasoning are
// the skill's own; notices are for the person in front, who waits.
type aside struct{ *turn }

// Text takes a piece of text.
func (a aside) Text([]byte) error { return a.ctx.Err() }

// Event takes a packet that stands between the pieces.
func (a aside) Event(typ string, payload []byte) error {
	if typ == proto.TypeReasoning {
		return nil
	}
	return a.turn.Event(typ, payload)
}

var _ rpc.EventSink = aside{}

// tellAnswer reports what one inference came to: its text, its calls, and what
// it took. Calls that will not be carried out are not reported, so that no
// session holds one without a result; the reasoning state belongs to them and
// is left out with them.
func (t *turn) tellAnswer(answer proto.Text) error {
	if !t.req.Events {
		return nil
	}
	text, calls, state := t.text, t.calls, t.end.State
	if t.session == nil {
		text = t.said
	}
	if t.last && len(calls) > 0 {
		calls, state = nil, nil
	}
	if len(text) > 0 {
		if err := t.gather(proto.TypeAssistantFinal, proto.AssistantFinal{Text: string(text), State: state}); err != nil {
			return err
		}
		state = nil
	}
	for _, c := range calls {
		if err := t.gather(proto.TypeToolRequested, proto.ToolRequested{ID: c.id, Name: c.name, Input: c.input, State: state}); err != nil {
			return err
		}
		state = nil
	}
	return t.tellUsage(answer)
}

func (t *turn) tellUsage(answer proto.Text) error {
	u := answer.Usage
	if u == nil {
		return nil
	}
	return t.report(proto.TypeUsage, proto.InferenceUsage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CacheReadTokens: u.CacheReadTokens, CacheWriteTokens: u.CacheWriteTokens, ReasoningTokens: u.ReasoningTokens,
		CostUSD: u.CostUSD, Provider: answer.Provider, Model: answer.Model, ContextWindow: answer.ContextWindow,
	})
}

// tellCall has do carry out a call, between the events of its beginning and its
// end. The end of the turn is not a call's result.
func (t *turn) tellCall(c call, do func() outcome) (outcome, error) {
	if err := t.ctx.Err(); err != nil {
		return outcome{}, err
	}
	if err := t.report(proto.TypeToolStarted, proto.ToolStarted{ID: c.id, Name: c.name}); err != nil {
		return outcome{}, err
	}
	started := time.Now()
	o := do()
	if err := t.ctx.Err(); err != nil {
		return outcome{}, err
	}
	result := o.envelope()
	return o, t.report(proto.TypeToolFinished, proto.ToolFinished{
		ID: c.id, Name: c.name, OK: toolbox.Succeeded(result), Result: result, DurationMS: time.Since(started).Milliseconds(), Diff: o.diff, Confinement: o.confined,
	})
}
