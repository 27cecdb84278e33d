package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// trail records the steps of a test in their order.
type trail struct{ rpctest.Record[string] }

// has reports whether a step was recorded.
func (t *trail) has(step string) bool { return slices.Contains(t.All(), step) }

// stored returns the events that mem has stored, in their order.
func (t *trail) stored() (events []string) {
	for _, step := range t.All() {
		if event, ok := strings.CutPrefix(step, "store "); ok {
			if strings.Contains(event, `"interrupted":true`) { // its duration is that of the test
				event = duration.ReplaceAllString(event, `"duration_ms":0`)
			}
			events = append(events, event)
		}
	}
	return events
}

// fakeMem implements the locks and the events of sessions.
type fakeMem struct {
	trail *trail
	fail  func(event string) error                      // the error of storing an event
	hold  func(id string) error                         // the error of locking a session
	slow  func(ctx context.Context, event string) error // called before events are stored, with the first one

	mu     sync.Mutex
	locks  map[string]chan struct{} // each is full while a turn has the lock
	heads  []string                 // session, create and header of every request
	events map[string][]string      // of every session
}

var (
	sayID     = regexp.MustCompile(`"s-[a-z2-7]{8}"`)
	turnID    = regexp.MustCompile(`"t-[a-z2-7]{12}"`)
	request   = regexp.MustCompile(`"by":{"uid":\d+},("request":{[^}]*},)?`)    // of a turn event
	startedBy = regexp.MustCompile(`,?"uid":\d+}$`)                             // of a header, at its end
	stamped   = regexp.MustCompile(`,"ts":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"}$`) // the time at the end of an event
	timed     = regexp.MustCompile(`"ts":"[^"]*",?`)                            // the time in a header
	duration  = regexp.MustCompile(`"duration_ms":\d+`)
)

func newFakeMem(trail *trail) *fakeMem {
	return &fakeMem{
		trail: trail, locks: map[string]chan struct{}{}, events: map[string][]string{},
		fail: func(string) error { return nil }, hold: func(string) error { return nil }, slow: func(context.Context, string) error { return nil },
	}
}

func (m *fakeMem) register(s *rpc.Server) {
	rpc.HandleEvents(s, proto.MemHoldSession, m.holdSession)
	rpc.Handle(s, proto.MemAppendSession, m.appendSession)
}

func (m *fakeMem) lock(id string) chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[id] == nil {
		m.locks[id] = make(chan struct{}, 1)
	}
	return m.locks[id]
}

// of returns the events of a session.
func (m *fakeMem) of(id string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.events[id])
}

// next returns the offset behind the last event, here the number of events.
func (m *fakeMem) next(id string) int64 { return int64(len(m.of(id))) }

func (m *fakeMem) holdSession(ctx context.Context, req proto.HoldSession, out *rpc.Out) (proto.SessionName, error) {
	name := proto.SessionName{SessionID: req.SessionID}
	m.trail.Add("hold")
	if err := m.hold(req.SessionID); err != nil {
		return name, err
	}
	lock := m.lock(req.SessionID)
	select {
	case lock <- struct{}{}:
	default:
		if err := out.Event("waiting", proto.SessionWaiting{SessionID: req.SessionID}); err != nil {
			return name, err
		}
		select {
		case lock <- struct{}{}:
		case <-ctx.Done():
			m.trail.Add("given up")
			return name, ctx.Err()
		}
	}
	defer func() { <-lock }()
	m.trail.Add("held")
	if err := out.Event("held", proto.SessionHeld{SessionID: req.SessionID, Next: m.next(req.SessionID)}); err != nil {
		return name, err
	}
	<-ctx.Done()
	m.trail.Add("released")
	return name, nil
}

func (m *fakeMem) appendSession(ctx context.Context, req proto.AppendSession) (place proto.SessionPlace, err error) {
	var events []json.RawMessage
	if err := json.Unmarshal(req.Events, &events); err != nil {
		return place, err
	}
	for i, event := range events {
		if !stamped.Match(event) {
			return place, proto.Errorf(proto.CodeInvalid, "no time in %s", event)
		}
		event = stamped.ReplaceAll(event, []byte("}"))
		if bytes.HasPrefix(event, []byte(`{"type":"turn"`)) {
			event = request.ReplaceAll(event, nil)
		}
		events[i] = turnID.ReplaceAll(event, []byte(`"t"`))
		err = errors.Join(err, m.fail(string(events[i])))
	}
	if err != nil {
		var e *proto.Error
		errors.As(err, &e)
		return place, e
	}
	if err := m.slow(ctx, string(events[0])); err != nil {
		return place, err
	}
	head := req.SessionID
	if req.Create {
		head += " create "
	}
	if next := m.next(req.SessionID); req.At == nil || *req.At != next {
		return place, proto.SessionErrorf(proto.CodeBusy, "session %q ends at %d", req.SessionID, next)
	}
	defer func() { place.Next = m.next(req.SessionID) }()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heads = append(m.heads, head+string(timed.ReplaceAll(req.Header, nil)))
	for _, event := range events {
		m.events[req.SessionID] = append(m.events[req.SessionID], string(event))
		m.trail.Add("store " + string(event))
		place.Offsets = append(place.Offsets, int64(len(m.events[req.SessionID])))
	}
	return place, nil
}

// sessionEnv is a daemon with a fakeMem, and the trail of all services.
type sessionEnv struct {
	*env
	barrier
	trail *trail
	mem   *fakeMem
	proxy *proxy // between the daemon and mem
}

// agentScript sends the packets of a fake agr and returns its terminal packet.
type agentScript func(ctx context.Context, say func(packets ...string) error) (proto.Text, error)

func newSessionEnv(t *testing.T, n neighbours, script agentScript) *sessionEnv {
	t.Helper()
	b := &sessionEnv{trail: &trail{}, barrier: newBarrier()}
	b.mem = newFakeMem(b.trail)
	more := n.more
	n.more = func(service string, s *rpc.Server) {
		more(service, s)
		switch service {
		case "mem":
			b.mem.register(s)
		case "agr":
			b.barrier.register(s)
		}
	}
	n.agr = b.scripted(script)
	if sys := n.sys; sys != nil {
		n.sys = func(ctx context.Context, req proto.GetPrompt, out *rpc.Out) error {
			b.trail.Add("sys")
			return sys(ctx, req, out)
		}
	}
	if build := n.ctx; build != nil {
		n.ctx = func(ctx context.Context, req proto.Build, out *rpc.Out) error {
			b.trail.Add("ctx")
			return build(ctx, req, out)
		}
	}
	b.env = newEnv(t, n)
	if n.mem != nil {
		b.proxy = newProxy(t, b.cfg.Mem.Socket, nil)
	}
	return b
}

// scripted returns an agr that plays a script.
func (b *sessionEnv) scripted(script agentScript) func(context.Context, proto.Run, *rpc.Out) (proto.Text, error) {
	if script == nil {
		return nil
	}
	return func(ctx context.Context, req proto.Run, out *rpc.Out) (proto.Text, error) {
		b.trail.Add("agr")
		text, err := script(ctx, func(packets ...string) error {
			var errs []error
			for _, p := range packets {
				if strings.Contains(p, `"checkpoint"`) {
					errs = append(errs, b.wait(ctx, out, req.Turn, p))
				} else {
					errs = append(errs, out.Frame([]byte(p)))
				}
			}
			return errors.Join(append(errs, out.Flush())...)
		})
		if ctx.Err() != nil {
			b.trail.Add("agr cancelled")
		}
		return text, err
	}
}

// barrier is the part of a fake agr that waits at checkpoints.
type barrier struct{ proceeds chan proto.Proceed }

func newBarrier() barrier { return barrier{make(chan proto.Proceed, 1)} }

func (b barrier) register(s *rpc.Server) {
	rpc.Handle(s, proto.AgrProceed, func(_ context.Context, req proto.Proceed) (proto.Empty, error) {
		b.proceeds <- req
		return proto.Empty{}, nil
	})
}

// wait sends a checkpoint of a turn, and waits until the daemon lets it go on. Without a
// turn it does nothing.
func (b barrier) wait(ctx context.Context, out *rpc.Out, turn, checkpoint string) error {
	if turn == "" {
		return nil
	}
	var at proto.Checkpoint
	checkpoint = strings.Replace(checkpoint, `"turn":"t"`, `"turn":"`+turn+`"`, 1)
	if err := errors.Join(json.Unmarshal([]byte(checkpoint), &at), out.Frame([]byte(checkpoint)), out.Flush()); err != nil {
		return err
	}
	select {
	case p := <-b.proceeds:
		if p.Turn != at.Turn || p.Step != at.Step || p.Point != at.Point || !slices.Equal(p.Batch, at.Batch) {
			return fmt.Errorf("%+v is the answer to %+v", p, at)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
