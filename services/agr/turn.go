package agr

import (
	"context"

	"zino/pkg/rpc"
	"zino/proto"
)

// turn is one inference of the loop with what its blocks bring about.
type turn struct {
	s      *Service
	ctx    context.Context
	req    proto.Run
	out    *rpc.Out
	parser Parser

	text        []byte // what the model wrote, with the results in their places
	interrupted bool   // there was a block, or a native call

	session *session   // nil in a plain run
	end     proto.Text // a session's: the end of the answer as the router gave it
	calls   []call     // a session's: the native calls
}

// infer has the model continue messages and carries out the blocks as they are
// completed. A collected answer goes the same way, in one piece.
func (t *turn) infer(messages proto.Raw) error {
	if err := t.out.Flush(); err != nil { // the reader sees the last results while the model thinks
		return err
	}
	req := proto.Infer{Messages: messages, Stream: t.req.Stream}
	if t.session != nil {
		req.Tools = t.session.tools
	}
	whole, err := t.ask(req, t)
	if err == nil && !t.req.Stream {
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
	return nil
}

// fail sends what was held back and words the error, which follows it. The end
// of the turn itself is not the provider's doing.
func (t *turn) fail(err error) error {
	for _, e := range t.parser.End() {
		if sendErr := t.out.Text(e.Body); sendErr != nil && t.ctx.Err() == nil {
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
	return t.out.Text(text)
}

// interrupt carries out a block. The block itself stays in the text and is not
// streamed; its result is both.
func (t *turn) interrupt(e Event) error {
	t.interrupted = true
	name := tags[e.Kind-1].open
	t.text = append(append(append(t.text, name...), e.Body...), tags[e.Kind-1].close...)
	if err := t.out.Flush(); err != nil { // the reader sees the text while the tool runs
		return err
	}
	result, wrap := t.carryOut(e)
	if err := t.ctx.Err(); err != nil {
		return err
	}
	return t.say([]byte("\n<" + wrap + ">\n" + result + "\n</" + wrap + ">\n"))
}

func (t *turn) carryOut(e Event) (result, wrap string) {
	if e.Kind == Task {
		return t.task(e.Body), "task_response"
	}
	return t.toolCall(e.Body), "tool_response"
}
