package agr

import (
	"context"
	"maps"
	"slices"
	"sync"

	"zino/pkg/message"
	"zino/proto"
)

// barrier is where the run of a turn waits for its caller: at each checkpoint, until
// proceed is called with the same step and point.
type barrier struct {
	cancel context.CancelFunc // ends the run
	ended  chan struct{}      // closed when the run has ended
	answer chan proto.Proceed // has room for the one answer that the run waits for

	mu     sync.Mutex
	at     *proto.Checkpoint // the checkpoint that it waits at; nil: it is running
	passed *proto.Checkpoint // the last one before
}

// enter registers a run of a turn. A run of the same turn that is still there is ended
// first: its daemon was killed, and the hang-up may not have been noticed yet. So
// at no time two runs carry out calls of one turn.
func (s *Service) enter(ctx context.Context, turn string) (context.Context, *barrier, error) {
	runCtx, cancel := context.WithCancel(ctx)
	b := &barrier{cancel: cancel, ended: make(chan struct{}), answer: make(chan proto.Proceed, 1)}
	for {
		s.mu.Lock()
		old := s.turns[turn]
		if old == nil {
			s.turns[turn] = b
		}
		s.mu.Unlock()
		if old == nil {
			return runCtx, b, nil
		}
		old.cancel()
		select {
		case <-old.ended:
		case <-ctx.Done():
			cancel()
			return nil, nil, ctx.Err()
		}
	}
}

// leave removes a run.
func (s *Service) leave(turn string, b *barrier) {
	s.mu.Lock()
	delete(s.turns, turn)
	s.mu.Unlock()
	b.cancel()
	close(b.ended)
}

// finishTurns waits for the end of all turns: a server that drains accepts no proceed.
func (s *Service) finishTurns(ctx context.Context) {
	for {
		var one *barrier
		s.mu.Lock()
		for _, b := range s.turns {
			one = b
		}
		s.mu.Unlock()
		if one == nil {
			return
		}
		select {
		case <-one.ended:
		case <-ctx.Done():
			return
		}
	}
}

// proceed answers the daemon's method.
func (s *Service) proceed(_ context.Context, req proto.Proceed) (proto.Empty, error) {
	s.mu.Lock()
	b := s.turns[req.Turn]
	s.mu.Unlock()
	if b == nil {
		return proto.Empty{}, proto.Errorf(proto.CodeNotFound, "turn %q is not running here", req.Turn)
	}
	return proto.Empty{}, b.accept(req)
}

// accept ends the wait at a checkpoint. A repeat for the one before is ignored: its
// answer was lost.
func (b *barrier) accept(req proto.Proceed) error {
	names := func(c *proto.Checkpoint) bool {
		return c != nil && c.Step == req.Step && c.Point == req.Point && (req.Batch == nil || slices.Equal(c.Batch, req.Batch))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case names(b.at):
		b.passed, b.at = b.at, nil
		req.Results = maps.Clone(req.Results)
		for id, envelope := range req.Results {
			req.Results[id] = slices.Clone(envelope) // it is in the connection's buffer
		}
		b.answer <- req
		return nil
	case names(b.passed):
		return nil
	case b.at == nil:
		return proto.Errorf(proto.CodeNotFound, "turn %q does not wait at step %d, point %q: it is running", req.Turn, req.Step, req.Point)
	}
	return proto.Errorf(proto.CodeNotFound, "turn %q waits at step %d, point %q, not at step %d, point %q", req.Turn, b.at.Step, b.at.Point, req.Step, req.Point)
}

// stopped is the error of a run that the caller ended at a checkpoint: its stop reason.
type stopped string

func (s stopped) Error() string { return "stopped: " + string(s) }

// checkpoint waits until the caller has stored what led to this point. Without a turn
// it does not wait.
func (t *turn) checkpoint(step int, point string, calls ...call) (proto.Proceed, error) {
	at := proto.Checkpoint{Turn: t.req.Turn, Step: step, Point: point}
	for _, c := range calls {
		at.Batch = append(at.Batch, c.id)
	}
	return t.wait(at)
}

// wait waits at a checkpoint.
func (t *turn) wait(at proto.Checkpoint) (proto.Proceed, error) {
	b := t.barrier
	if b == nil {
		return proto.Proceed{}, nil
	}
	b.mu.Lock()
	b.at = &at // before the packet is sent: the answer can be faster than the return
	b.mu.Unlock()
	if err := t.report(t.out.Event, proto.TypeCheckpoint, at); err != nil {
		return proto.Proceed{}, err
	}
	select {
	case p := <-b.answer:
		if p.Token != "" {
			t.renewed.Store(&p.Token)
		}
		if p.Stop != "" {
			return p, stopped(p.Stop)
		}
		return p, nil
	case <-t.ctx.Done():
		return proto.Proceed{}, t.ctx.Err()
	}
}

// appendSays returns messages with the user's messages appended.
func appendSays(messages proto.Raw, says []proto.Say) (proto.Raw, error) {
	if len(says) == 0 {
		return messages, nil
	}
	room := 0
	for _, s := range says {
		room += len(s.Text) + around
	}
	list, err := reopen(messages, room)
	if err != nil {
		return nil, err
	}
	for _, s := range says {
		list = message.Append(list, proto.RoleUser, s.Text)
	}
	return message.Close(list), nil
}
