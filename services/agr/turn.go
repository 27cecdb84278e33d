package agr

import (
	"context"
	"sync"

	"zino/pkg/rpc"
	"zino/proto"
)

// turn is one inference of the loop with what its calls bring about.
type turn struct {
	s      *Service
	ctx    context.Context
	req    proto.Run
	last   bool // no inference follows that could see results
	out    *rpc.Out
	parser Parser

	text        []byte // what the model wrote; in a plain run with its blocks and their results
	said        []byte // what the model wrote besides blocks: of a plain run with events
	interrupted bool   // there was a call

	session *session   // nil in a plain run
	end     proto.Text // a session's: the end of the answer as the router gave it
	calls   []call     // a session's: the calls

	telling sync.Mutex // one event after the other goes out
}

// infer has the model continue messages. A plain run carries out the blocks as
// they are completed. A collected answer goes the same way, in one piece.
func (t *turn) infer(messages proto.Raw) error {
	if err := t.out.Flush(); err != nil { // the reader sees the last results while the model thinks
		return err
	}
	req := proto.Infer{Messages: messages, Stream: t.req.Chunks(), Events: t.req.Events}
	if t.session != nil {
		req.Tools = t.session.tools
	}
	whole, err := t.ask(req, t)
	if err == nil && !t.req.Streaming() {
		err = t.Text([]byte(whole.Content))
	}
	if err == nil {
		err = t.apply(t.parser.End())
	}
	if err == nil {
		err = t.takeCalls(whole)
	}
	if err != nil {
		return t.fail(err)
	}
	return t.tellAnswer(whole)
}

// fail sends what was held back and words the error, which follows it. The end
// of the turn itself is not the provider's doing.
func (t *turn) fail(err error) error {
	for _, e := range t.parser.End() {
		if sendErr := t.tellText(e.Body); sendErr != nil && t.ctx.Err() == nil {
			return sendErr
		}
	}
	if t.ctx.Err() != nil {
		return err
	}
	return providerError(err)
}

// Text takes a piece of the model's text.
func (t *turn) Text(delta []byte) error { return t.apply(t.parser.Feed(delta)) }

// Flush sends what has been gathered for the caller.
func (t *turn) Flush() error { return t.out.Flush() }

func (t *turn) apply(events []Event) error {
	for _, e := range events {
		var err error
		if e.Kind == Text {
			err = t.say(e.Body)
		} else {
			err = t.interrupt(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) say(text []byte) error {
	t.text = append(t.text, text...)
	if t.session == nil && t.req.Events {
		t.said = append(t.said, text...)
	}
	return t.tellText(text)
}

// interrupt takes a block. A session's is a call among others, and no part of
// the text.
func (t *turn) interrupt(e Event) error {
	if t.session != nil {
		t.calls = append(t.calls, blockCall(e))
		return nil
	}
	t.interrupted = true
	name := tags[e.Kind-1].open
	t.text = append(append(append(t.text, name...), e.Body...), tags[e.Kind-1].close...)
	if err := t.out.Flush(); err != nil { // the reader sees the text while the tool runs
		return err
	}
	return t.respond(e)
}

// respond carries out a plain run's block where it stands. The block itself
// stays in the text and is not streamed. Its result is both, where the caller
// is not told of it by events.
func (t *turn) respond(e Event) error {
	c := blockCall(e)
	c.identify(map[string]bool{})
	if err := t.gather(proto.TypeToolRequested, proto.ToolRequested{ID: c.id, Name: c.name, Input: c.input}); err != nil {
		return err
	}
	o, err := t.tellCall(c, func() outcome { return t.carryOut(e) })
	if err != nil {
		return err
	}
	wrap := "tool_response"
	if e.Kind == Task {
		wrap = "task_response"
	}
	response := "\n<" + wrap + ">\n" + o.plain() + "\n</" + wrap + ">\n"
	t.text = append(t.text, response...)
	if t.req.Events {
		return nil
	}
	return t.out.Text([]byte(response))
}

func (t *turn) carryOut(e Event) outcome {
	if e.Kind == Task {
		return t.task(e.Body)
	}
	return t.toolCall(e.Body)
}

// goOn carries out what is still to be carried out of a session's calls, and
// returns the conversation with this answer at its end, for the next inference.
func (t *turn) goOn(messages proto.Raw) (proto.Raw, error) {
	if t.session == nil {
		return appendMessage(messages, "assistant", t.text)
	}
	if err := t.out.Flush(); err != nil { // the reader sees the text while the tools run
		return nil, err
	}
	if err := t.performAll(); err != nil {
		return nil, err
	}
	return t.appendCalls(messages)
}
