package rtr

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"zino/proto"
	"zino/services/rtr/ledger"
	"zino/services/rtr/retry"
	"zino/services/rtr/wire"
)

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
	req := c.requestFor(t)
	c.warnOfSampling(t)
	c.warnOfWire(t)
	if err := c.fits(t, &req); err != nil {
		return proto.Text{}, err
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
	reserved, err := c.reserve(t, &req)
	if err != nil {
		return proto.Text{}, err
	}
	if t.wire() == "anthropic" && wire.TooShortToThink(&req) {
		c.noticeEffort(t, fmt.Sprintf("max_tokens %d leaves no room for thinking", req.MaxTokens))
	}
	text, err := c.exchange(t, req)
	return text, c.advised(t, c.settle(reserved, &text, err))
}

// exchange makes the request and gathers the answer.
func (c *call) exchange(t *target, req wire.Request) (proto.Text, error) {
	c.answer = &wire.Answer{}
	err := t.infer(c.ctx, t.ep, &req, c)
	text := proto.Text{Content: c.answer.Text(), Usage: c.answer.Usage()}
	if err == nil {
		text = c.answer.Finished()
	}
	text.Provider, text.Model, text.ContextWindow = t.caps.Provider, t.caps.Model, t.window
	if f, ok := errors.AsType[*wire.Fault](err); ok && f.Verdict.Class == retry.Retry && f.Verdict.HasWait {
		t.limiter.Pause(f.Verdict.Wait)
	}
	return text, err
}

// requestFor makes the request what the target takes.
func (c *call) requestFor(t *target) wire.Request {
	req := c.req
	req.Model, req.Traits, req.Context = t.caps.Model, t.traits, t.context
	req.MaxTokens = c.in.MaxTokens
	c.askEffort(t, &req)
	if req.MaxTokens == 0 {
		req.MaxTokens = c.s.set.maxTokens
	}
	described := req.Tools
	if t.traits.TextTools {
		req.Tools = nil
	}
	if len(req.Tools) == 0 {
		req.Messages = wire.WithTextTools(wire.AsText(req.Messages), described)
	}
	return req
}

// How long an answer is, in tokens, where nobody has said how long it may be.
const (
	leastAnswer = 16    // it may be made as short for a budget
	usualAnswer = 16384 // so much is reserved where the provider has no limit
)

// reserve takes what the request may cost out of the budget.
func (c *call) reserve(t *target, req *wire.Request) (*ledger.Reservation, error) {
	ask := ledger.Ask{
		Session: c.in.SessionID, Provider: t.caps.Provider, Model: t.caps.Model,
		Input: int64(len(req.Raw)+len(c.in.Tools)) / bytesPerToken, Output: int64(req.MaxTokens),
		Price: t.price, ReportsCost: t.caps.Provider == "openrouter",
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
	f, failed := errors.AsType[*wire.Fault](err)
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
