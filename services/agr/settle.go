package agr

import (
	"fmt"

	"zino/pkg/message"
	"zino/pkg/wire"
	"zino/proto"
)

// openCalls checks the calls of an earlier attempt.
func openCalls(list []proto.OpenCall) ([]call, error) {
	var calls []call
	for i, o := range list {
		if o.ID == "" || o.Name == "" || o.Step < 1 || o.Action != proto.ActionRun && o.Action != proto.ActionRecover {
			return nil, fmt.Errorf("element %d needs an id, a name, a step from 1, and the action %s or %s", i, proto.ActionRun, proto.ActionRecover)
		}
		c := call{id: o.ID, name: o.Name, arguments: o.Input, input: o.Input, step: o.Step, recovers: o.Action == proto.ActionRecover, since: o.Since}
		if len(o.RunInput) > 0 {
			c.change(o.RunInput)
		}
		c.decide(o.Hook)
		for key, value := range wire.Members(o.Input) {
			if string(key) == proto.MalformedInput {
				c.arguments = unquoted(proto.Raw(value))
			}
		}
		calls = append(calls, c)
	}
	return calls, nil
}

// settle carries out or recovers the calls of an earlier attempt. It returns the
// messages of the request with their results and the user's messages since.
func (t *turn) settle() (proto.Raw, error) {
	messages, says := t.req.Messages, t.req.Says
	if len(t.open) > 0 {
		if err := t.perform(t.open); err != nil {
			return nil, err
		}
		next, err := t.checkpoint(t.open[len(t.open)-1].step, proto.PointInfer)
		if err != nil {
			return nil, err
		}
		room := 0
		for _, c := range t.open {
			room += len(c.result) + len(c.id) + around
		}
		list, err := reopen(messages, room+room/8)
		if err != nil {
			return nil, err
		}
		messages, says = message.Close(appendResults(list, t.open)), append(says, next.Says...)
	}
	return appendSays(messages, says)
}
