package rtr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/rtr/retry"
	"zino/services/rtr/wire"
)

// call is one request to the router, over all attempts to have it answered.
type call struct {
	s      *Service
	ctx    context.Context
	in     proto.Infer
	out    *rpc.Out
	req    wire.Request // without what depends on the target
	answer *wire.Answer // of the attempt under way
	asked  *target      // the last one, nil before the first
	passed bool         // a part of an answer went to the caller: no attempt may follow
}

func (s *Service) infer(ctx context.Context, in proto.Infer, out *rpc.Out) (proto.Text, error) {
	c := &call{s: s, ctx: ctx, in: in, out: out}
	if err := c.read(); err != nil {
		return proto.Text{}, err
	}
	if !s.set.streaming {
		out.Collect()
	}
	c.req.Stream, c.req.Whole = out.Streaming(), !s.set.streaming
	w := wish{provider: in.Provider, model: in.Model}
	text, err := c.ask(w)
	var before []string
	for _, next := range s.fallbacks(w) {
		if !c.mayFallBack(err) {
			break
		}
		before = append(before, firstLine(err))
		c.notice(proto.Notice{Kind: "fallback", Text: fmt.Sprintf("%s; asking %s instead", firstLine(err), strings.TrimSpace(next.provider+" "+next.model))})
		text, err = c.ask(next)
	}
	return text, inFull(c.suggested(err), before)
}

// inFull is an error in the words for the caller, with those of the models that
// were asked before the last one.
func inFull(err error, before []string) error {
	told, ok := errors.AsType[*proto.Error](err)
	if !ok {
		return err
	}
	if len(before) == 0 {
		return told // without a chain
	}
	all := *told
	all.Message = strings.Join(append(before, told.Message), "; then ")
	return &all
}

// read validates the request.
func (c *call) read() (err error) {
	raw := c.in.Messages
	if c.req.Messages, err = wire.ReadMessages(raw); err != nil {
		return err
	}
	if c.in.System != "" {
		if raw, err = withSystem(c.in.System, raw); err != nil {
			return err
		}
		if c.req.Messages, err = wire.ReadMessages(raw); err != nil {
			return err
		}
	}
	c.req.Raw, c.req.Temperature, c.req.TopP = raw, c.in.Temperature, c.in.TopP
	c.req.Tools, err = wire.ReadTools(c.in.Tools)
	switch {
	case c.in.MaxTokens < 0:
		return &proto.Error{Code: proto.CodeInvalid, Message: `Invalid request: field "max_tokens": expected 0 or more`}
	case c.in.Effort != "" && !slices.Contains(config.Efforts, c.in.Effort):
		return &proto.Error{Code: proto.CodeInvalid, Message: `Invalid request: field "effort": expected one of ` + strings.Join(config.Efforts, ", ")}
	case !isProvider(c.in.Provider):
		return &proto.Error{Code: proto.CodeInvalid, Message: unknownProvider(c.in.Provider)}
	}
	return err
}

// mayFallBack reports whether another provider may do what failed. A request
// that is wrong is wrong everywhere, and a budget is for all.
func (c *call) mayFallBack(err error) bool {
	if err == nil || c.passed || c.ctx.Err() != nil {
		return false
	}
	if f, ok := errors.AsType[*wire.Fault](err); ok {
		return !f.TooLong && f.Status != 400 && f.Status != 413 && f.Status != 422
	}
	return errors.Is(err, proto.ErrUnavailable) || errors.Is(err, proto.ErrBusy)
}

// ask has one target answer, in as many attempts as are sensible.
func (c *call) ask(w wish) (proto.Text, error) {
	t, err := c.s.target(c.ctx, w)
	if err != nil {
		return proto.Text{}, err
	}
	if t.caps.Fallback && c.in.NeedModel {
		return proto.Text{}, &proto.Error{Code: proto.CodeUnavailable, Message: "no model is connected and none answers on this host: " +
			connectFully() + ", start a model server on loopback, or set provider = \"offline\""}
	}
	t = c.s.learn(c.ctx, t)
	c.asked = t
	backoff := retry.NewBackoff(nil)
	for attempt := 1; ; attempt++ {
		text, err := c.attempt(t)
		f, failed := errors.AsType[*wire.Fault](err)
		if failed && t.caps.Found && f.Unsent {
			c.s.forget(c.ctx, t) // the server may have gone: look again next time
		}
		if failed && !c.passed && c.ctx.Err() == nil {
			if without := c.withoutSampling(t, f); without != nil {
				t = without
				attempt--
				continue
			}
		}
		if failed && f.NoResponses && t.anyWire {
			c.refuseResponses(t, f)
			return c.ask(w)
		}
		if failed && f.Effort && !c.passed && c.ctx.Err() == nil {
			c.refuseEffort(t, f)
			attempt--
			continue
		}
		if !failed || c.passed || f.Verdict.Class != retry.Retry || c.ctx.Err() != nil {
			return text, err
		}
		wait, more := backoff.Next(f.Verdict.Wait, f.Verdict.HasWait)
		if !more {
			return text, exhausted(f, attempt, wait)
		}
		c.notice(proto.Notice{
			Kind: "retry", WaitMS: wait.Milliseconds(),
			Text: fmt.Sprintf("%s; asking again in %s (%d of %d)", firstLine(f), seconds(wait), attempt, retry.MaxRetries),
		})
		if err := c.s.pause(c.ctx, wait); err != nil {
			return text, err
		}
	}
}

// exhausted words the error after the last attempt.
func exhausted(f *wire.Fault, attempts int, wait time.Duration) error {
	told := *errors.Unwrap(f).(*proto.Error)
	switch {
	case wait > retry.MaxAsked:
		told.Message += fmt.Sprintf(" (come back in %s)", seconds(wait))
	case attempts > 1:
		told.Message += fmt.Sprintf(" (asked %d times)", attempts)
	}
	if f.Status == http.StatusTooManyRequests {
		told.Details = strings.TrimSpace("Try again later, or ask another model with --model (zino models lists them). " + told.Details)
	}
	return f.With(&told)
}

// Event takes an event of the answer and passes on what the caller wants.
func (c *call) Event(e wire.Event) error {
	c.answer.Event(e)
	switch e.Kind {
	case wire.Text:
		c.passed = c.passed || c.out.Streaming()
		return c.out.Text(e.Delta)
	case wire.Reasoning:
		if c.in.Events && c.out.Streaming() {
			c.passed = true
			return c.out.Event("reasoning", proto.Reasoning{Text: string(e.Delta)})
		}
	}
	return nil
}

// Flush sends what was gathered.
func (c *call) Flush() error { return c.out.Flush() }

// notice tells the caller, if it asked for events, and the log.
func (c *call) notice(n proto.Notice) {
	c.s.log.Info("notice", "kind", n.Kind, "text", n.Text, "trace", rpc.Trace(c.ctx))
	if c.in.Events && c.out.Streaming() {
		_ = c.out.Event("notice", n) // a caller that is gone is noticed with the next packet
	}
}
