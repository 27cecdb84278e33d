package rtr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/rtr/ledger"
	"zino/services/rtr/limit"
	"zino/services/rtr/provider"
)

// call is one request to the router, over all attempts to have it answered.
type call struct {
	s      *Service
	ctx    context.Context
	in     proto.Infer
	out    *rpc.Out
	req    provider.Request // without what depends on the target
	answer *provider.Answer // of the attempt under way
	passed bool             // a part of an answer went to the caller: no attempt may follow
}

func (s *Service) infer(ctx context.Context, in proto.Infer, out *rpc.Out) (proto.Text, error) {
	c := &call{s: s, ctx: ctx, in: in, out: out}
	if err := c.read(); err != nil {
		return proto.Text{}, err
	}
	if !s.set.streaming {
		out.Collect()
	}
	c.req.Stream = out.Streaming()
	w := wish{in.Provider, in.Model}
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
	return text, inFull(err, before)
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
	if c.req.Messages, err = provider.ReadMessages(raw); err != nil {
		return err
	}
	if c.in.System != "" {
		if raw, err = withSystem(c.in.System, raw); err != nil {
			return err
		}
		if c.req.Messages, err = provider.ReadMessages(raw); err != nil {
			return err
		}
	}
	c.req.Raw, c.req.Temperature, c.req.TopP = raw, c.in.Temperature, c.in.TopP
	c.req.Tools, err = provider.ReadTools(c.in.Tools)
	if c.in.MaxTokens < 0 {
		return &proto.Error{Code: proto.CodeInvalid, Message: `Invalid request: field "max_tokens": expected 0 or more`}
	}
	return err
}

// mayFallBack reports whether another provider may do what failed. A request
// that is wrong is wrong everywhere, and a budget is for all.
func (c *call) mayFallBack(err error) bool {
	if err == nil || c.passed || c.ctx.Err() != nil {
		return false
	}
	if f, ok := errors.AsType[*provider.Fault](err); ok {
		return f.Status != 400 && f.Status != 413 && f.Status != 422
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
			howToConnect + ", start a model server on loopback, or set provider = \"offline\""}
	}
	t = c.s.learn(c.ctx, t)
	backoff := limit.NewBackoff(nil)
	for attempt := 1; ; attempt++ {
		text, err := c.attempt(t)
		f, failed := errors.AsType[*provider.Fault](err)
		if failed && t.caps.Found && f.Unsent {
			c.s.forget(c.ctx, t) // the server may have gone: look again next time
		}
		if !failed || c.passed || f.Verdict.Class != limit.Retry || c.ctx.Err() != nil {
			return text, err
		}
		wait, more := backoff.Next(f.Verdict.Wait, f.Verdict.HasWait)
		if !more {
			return text, exhausted(f, attempt, wait)
		}
		c.notice(proto.Notice{
			Kind: "retry", WaitMS: wait.Milliseconds(),
			Text: fmt.Sprintf("%s; asking again in %s (%d of %d)", firstLine(f), seconds(wait), attempt, limit.MaxRetries),
		})
		if err := c.s.pause(c.ctx, wait); err != nil {
			return text, err
		}
	}
}

// exhausted words the error after the last attempt.
func exhausted(f *provider.Fault, attempts int, wait time.Duration) error {
	told := *errors.Unwrap(f).(*proto.Error)
	switch {
	case wait > limit.MaxAsked:
		told.Message += fmt.Sprintf(" (come back in %s)", seconds(wait))
	case attempts > 1:
		told.Message += fmt.Sprintf(" (asked %d times)", attempts)
	}
	return f.With(&told)
}

// patience is how long a provider that wants a pause is waited for; more is
// reported, and not sat out.
const patience = 30 * time.Second

// longWait is the error of a provider that wants a long pause. A minute may be
// that of our own limit, which is waited for.
func (c *call) longWait(t *target) error {
	longest := patience
	if c.s.minutely[t.caps.Provider] {
		longest = time.Minute
	}
	if _, _, until := t.limiter.Waiting(); time.Until(until) > longest {
		return &proto.Error{Code: proto.CodeBusy, Message: fmt.Sprintf(
			"%s asks not to be asked before %s: try again then", t.caps.Provider, until.Local().Format("15:04:05"))}
	}
	return nil
}

// attempt asks a target once.
func (c *call) attempt(t *target) (proto.Text, error) {
	if !t.remote() {
		return c.exchange(t, c.req)
	}
	if c.s.unkept != nil {
		return proto.Text{}, c.s.unkept
	}
	if err := c.longWait(t); err != nil {
		return proto.Text{}, err
	}
	release, err := t.limiter.Acquire(c.ctx, func(wait time.Duration) {
		c.notice(proto.Notice{Kind: "wait", WaitMS: wait.Milliseconds(), Text: "waiting until " + t.caps.Provider + " may be asked" + about(wait)})
	})
	if err != nil {
		return proto.Text{}, err
	}
	defer release()
	req := c.requestFor(t)
	reserved, err := c.reserve(t, &req)
	if err != nil {
		return proto.Text{}, err
	}
	text, err := c.exchange(t, req)
	return text, c.settle(reserved, &text, err)
}

// exchange makes the request and gathers the answer.
func (c *call) exchange(t *target, req provider.Request) (proto.Text, error) {
	c.answer = &provider.Answer{}
	err := t.infer(c.ctx, t.ep, &req, c)
	text := proto.Text{Content: c.answer.Text(), Usage: c.answer.Usage()}
	if err == nil {
		text, err = c.answer.Finished()
		if open, ok := errors.AsType[*provider.UnclosedCall](err); ok {
			err = t.ep.Unclosed(open)
		}
	}
	text.Provider, text.Model = t.caps.Provider, t.caps.Model
	if f, ok := errors.AsType[*provider.Fault](err); ok && f.Verdict.Class == limit.Retry && f.Verdict.HasWait {
		t.limiter.Pause(f.Verdict.Wait)
	}
	return text, err
}

// requestFor makes the request what the target takes.
func (c *call) requestFor(t *target) provider.Request {
	req := c.req
	req.Model, req.Traits, req.Context = t.caps.Model, t.traits, t.context
	req.MaxTokens = c.in.MaxTokens
	if req.MaxTokens == 0 {
		req.MaxTokens = c.s.set.maxTokens
	}
	if t.traits.TextTools {
		req.Tools = nil
	}
	if len(req.Tools) == 0 {
		req.Messages = provider.AsText(req.Messages)
	}
	return req
}

// How long an answer is, in tokens, where nobody has said how long it may be.
const (
	leastAnswer = 16    // it may be made as short for a budget
	usualAnswer = 16384 // so much is reserved where the provider has no limit
)

// reserve takes what the request may cost out of the budget.
func (c *call) reserve(t *target, req *provider.Request) (*ledger.Reservation, error) {
	ask := ledger.Ask{
		Session: c.in.SessionID, Provider: t.caps.Provider, Model: t.caps.Model,
		Input: int64(len(req.Raw)+len(c.in.Tools)) / bytesPerToken, Output: int64(req.MaxTokens),
		Price: t.price, Told: t.caps.Provider == "openrouter",
	}
	if req.MaxTokens == 0 {
		ask.Output, ask.Least = cmp.Or(int64(t.maxTokens), usualAnswer), leastAnswer
	}
	r, err := c.s.books.Reserve(c.ctx, ask)
	if err == nil && (r.Output < ask.Output || req.MaxTokens+t.maxTokens > 0) {
		req.MaxTokens = int(r.Output)
	}
	return r, err
}

// bytesPerToken is how many bytes of JSON a token has, roughly: it is used
// before a request, where nobody can know, and never in the books.
const bytesPerToken = 4

// settle records what was used. A provider bills nothing for a request that it
// refused; what one that broke off has billed is known only if it has told.
func (c *call) settle(r *ledger.Reservation, text *proto.Text, err error) error {
	f, failed := errors.AsType[*provider.Fault](err)
	switch {
	case failed && (f.Unsent || f.Header != nil):
		_ = r.Cancel() // it has logged what is wrong; so below
	case err != nil && text.Usage != nil:
		// What came so far is the least that was used: tokens of the answer are
		// counted by the provider at the end only.
		text.Usage.OutputTokens = max(text.Usage.OutputTokens, int64(c.answer.Size())/bytesPerToken)
		_ = r.Settle(text.Usage)
	case err != nil:
		_ = r.Abandon(int64(c.answer.Size())/bytesPerToken*2 + unseenTokens)
	default:
		_ = r.Settle(text.Usage)
	}
	return err
}

// unseenTokens is what a model may have written, roughly, of which nothing had
// come when its answer was given up.
const unseenTokens = 256

// Event takes an event of the answer and passes on what the caller wants.
func (c *call) Event(e provider.Event) error {
	c.answer.Event(e)
	switch e.Kind {
	case provider.Text:
		c.passed = c.passed || c.out.Streaming()
		return c.out.Text(e.Delta)
	case provider.Reasoning:
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
