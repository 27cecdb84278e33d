package exc

import (
	"context"
	"time"

	"zino/pkg/wire"
	"zino/proto"
	"zino/services/exc/calls"
	"zino/services/exc/files"
	"zino/services/exc/run"
)

// steps are what calls and executes, with results of type T, do differently.
type steps[T any] struct {
	// run carries it out. It calls Service.begin before it changes anything.
	run func(context.Context) (T, error)
	// settle decides one that has begun and has no end. If settled is false, it is
	// carried out now.
	settle func(context.Context, calls.Call) (result T, settled bool, err error)
	// failed is the result of one that was not carried out.
	failed func(*files.Error) T
	// kept returns what the journal keeps of a result; nil: all of it.
	kept func(T) T
	// mark makes a result a recovered one.
	mark func(*T)
	// uncovered says in a result why undo does not cover its changes.
	uncovered func(*T, string)
}

// interrupted is the error of a call that may have run, and whose result is lost.
var interrupted = &files.Error{Code: proto.ToolInterrupted, Message: proto.InterruptedCall}

// once carries out c. Without a key the end of ctx cancels it. With a key it is
// carried out once: a call that runs with that key is joined, what is recorded of an
// earlier one decides whether it is carried out at all, and after the last caller has
// disconnected it continues for [exc] orphan_timeout. live, if not nil, shows its output.
func once[T any](ctx context.Context, s *Service, c *turnCall, live *run.Live, do steps[T]) (result T, err error) {
	base := ctx
	if c.key != "" {
		base = context.WithoutCancel(ctx)
	}
	working, leave, err := s.enter(base)
	if err != nil {
		return result, err
	}
	working, c.cancel = context.WithCancel(working)
	r, joined, err := s.turns.enter(c)
	if err != nil || joined {
		c.cancel()
		leave()
	}
	if err != nil {
		return result, err
	}
	defer r.watch(live)()
	lead := func() {
		defer leave()
		r.answer = attempt(working, func(ctx context.Context) (T, error) { return carry(ctx, s, c, do) })
		c.cancel()
		c.flush()
		s.turns.end(c)
	}
	switch {
	case joined:
	case c.key != "":
		go lead()
	default:
		lead()
	}
	select {
	case <-r.done:
	default:
		select {
		case <-r.done:
		case <-ctx.Done():
			s.turns.leave(r)
			return result, ctx.Err()
		}
	}
	a, ok := r.answer.(answer[T])
	if !ok { // call and execute
		return result, otherInput(c.key)
	}
	return a.result(ctx)
}

// carry carries out c unless an earlier request with its key has.
func carry[T any](ctx context.Context, s *Service, c *turnCall, do steps[T]) (result T, err error) {
	if c.key != "" {
		result, settled, err := recorded(ctx, s, c, do)
		if settled || err != nil {
			return result, err
		}
	}
	if err := s.turns.refused(c); err != nil {
		return result, err
	}
	started := time.Now()
	defer func() { s.recordCall(c, started) }()
	result, err = do.run(ctx)
	s.at("changed")
	if why := s.captureAfter(ctx, c); why != "" {
		do.uncovered(&result, why)
	}
	if !s.finish(c) || c.key == "" || err != nil {
		c.recorded()
		return result, err
	}
	s.at("done")
	record(s, c, result, do.kept)
	s.at("recorded")
	return result, nil
}

// record records the result of c, and then does what is left to do.
func record[T any](s *Service, c *turnCall, result T, kept func(T) T) {
	if kept != nil {
		result = kept(result)
	}
	text, err := wire.AppendObject(nil, "", result)
	if err == nil {
		err = s.journal.End(c.key, text)
	}
	if err != nil {
		s.log.Warn("the result of a call was not recorded: a repeat of it counts as interrupted", "key", c.key, "error", err)
		return
	}
	c.recorded()
}

// recorded is the result of c as far as earlier requests with its key decide it.
func recorded[T any](ctx context.Context, s *Service, c *turnCall, do steps[T]) (result T, settled bool, err error) {
	r, err := s.journal.Find(c.key, c.since)
	if err != nil {
		s.log.Warn("cannot read the journal of calls", "error", err)
		if !c.recover {
			return do.failed(notRecorded(err)), true, nil
		}
		r.State = calls.Unknown
	}
	if r.Call.Sum != c.sum && r.Call.Sum != "" {
		return result, false, otherInput(c.key)
	}
	lost := false
	switch r.State {
	case calls.NotBegun:
		if c.recover {
			return result, false, proto.Errorf(proto.CodeNotFound, "no call with this key")
		}
		return result, false, nil
	case calls.Unknown:
		if !c.recover {
			return result, false, nil
		}
		lost = true
	case calls.Begun:
		if result, settled, err = do.settle(ctx, r.Call); err != nil || !settled {
			return result, false, err
		}
		s.recordCall(c, time.Now())
		record(s, c, result, do.kept)
	case calls.Finished:
		err = wire.DecodeReply(r.Result, &result)
		lost = err != nil
	case calls.Dropped:
		lost = true
	}
	if lost {
		result = do.failed(interrupted)
	}
	do.mark(&result)
	return result, true, nil
}
