package daemon

import (
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// relay takes an answer as it comes, has stored what must last of it, and passes
// it on: packet by packet to callers that asked for events, else as text.
type relay struct {
	out    *rpc.Out
	events bool    // the caller asked for them
	record *record // nil: nothing is stored
	typed  bool    // the text comes in events
	text   []byte  // of the inference under way
}

// Flush sends what has been gathered for the caller.
func (r *relay) Flush() error { return sent(r.out.Flush()) }

// Text takes text that comes as chunks: the model's own where no agent could be
// reached. Text that came in events and stands in the terminal packet once more
// is known already.
func (r *relay) Text(delta []byte) error {
	if r.typed || len(delta) == 0 {
		return nil
	}
	r.text = append(r.text, delta...)
	if r.events {
		return sent(r.out.Delta(delta))
	}
	return sent(r.out.Text(delta))
}

// Event takes a packet of the agent's, or of the model's.
func (r *relay) Event(typ string, payload []byte) error {
	switch typ {
	case proto.TypeInterrupted: // the turn says it itself, when that is stored
		return nil
	case proto.TypeAssistantDelta:
		r.typed = true
		if err := r.delta(payload); err != nil {
			return err
		}
	default:
		if err := r.keep(typ, payload); err != nil {
			return err
		}
		if typ == proto.TypeAssistantFinal {
			r.typed, r.text = true, r.text[:0]
		}
	}
	if !r.events {
		return nil
	}
	return sent(r.out.Frame(payload))
}

// keep has what must last of a packet stored.
func (r *relay) keep(typ string, payload []byte) error {
	if r.record == nil {
		return nil
	}
	if err := r.record.follow(typ, payload); err != nil {
		return err
	}
	return r.record.add(kept(typ, payload))
}

// delta takes a piece of text, and passes it on to callers who read text.
func (r *relay) delta(payload []byte) error {
	known := len(r.text)
	r.gather(payload)
	if r.events {
		return nil
	}
	return sent(r.out.Text(r.text[known:]))
}

// gather adds a piece to the text. It is looked for by hand, as there are
// thousands. What is no text has none.
func (r *relay) gather(payload []byte) {
	known := len(r.text)
	for key, value := range wire.Members(payload) {
		if string(key) == "text" {
			r.text, _ = wire.Unquote(r.text[:known], value)
		}
	}
}

// end makes a whole text of one whose end nobody has told.
func (r *relay) end() error {
	if len(r.text) == 0 {
		return nil
	}
	final := proto.AssistantFinal{Text: string(r.text)}
	if err := r.record.add(appendEvent(nil, "message", spoken{Role: "assistant", Text: final.Text})); err != nil {
		return err
	}
	r.text = r.text[:0]
	if !r.events {
		return nil
	}
	return sent(r.out.Packet(proto.TypeAssistantFinal, final))
}
