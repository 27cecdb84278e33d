package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/daemon/turnlog"
)

const (
	agentsAtOnce = 4        // sub-agents of a turn that run side by side
	agentSteps   = 50       // inferences of a sub-agent
	agentTextMax = 32 << 10 // bytes of its answer
	agentRequest = "agent"  // request_id of the turn that carries out the call
)

// subAgent is a call that a sub-agent carries out: a turn in a session of its own, whose id
// is made of the call. So a repeat, or a resumed turn, finds the one that was started.
type subAgent struct {
	parent *turn
	call   proto.OpenCall
	asks   turnlog.Agent
	sess   *session

	tries  int       // attempts to start it
	result proto.Raw // the envelope; nil: it has not ended
	reason string    // why it is parked
	until  time.Time // when it wakes up
	waits  string    // the request for an approval that it waits for

	usage proto.Usage // of its end; guarded by session.mu of the parent
}

// agentSession returns the session of a sub-agent.
func agentSession(session, turn string, step int, call string) string {
	return uuidOf(session, turn, strconv.Itoa(step), call)
}

// delegate has sub-agents carry out a batch of calls, without blocking the stream of the
// run. agr goes on when all have ended. If one is parked, the turn is parked with it.
func (r *relay) delegate(p proto.Proceed) {
	t := r.turn
	var later []string // calls behind the batch
	for _, call := range r.calls {
		if !slices.Contains(p.Batch, call.id) {
			later = append(later, call.id)
		}
	}
	t.mu.Lock()
	agents := t.agents(p.Batch)
	r.agents = agents
	t.mu.Unlock()
	r.delegated.Go(func() {
		t.runAgents(r.ctx, agents)
		for _, a := range agents {
			a.sess.leave()
		}
		if r.ctx.Err() != nil {
			return
		}
		p.Results, p.Usage = map[string]proto.Raw{}, map[string]proto.Usage{}
		for _, a := range agents {
			if a.reason != "" {
				p.Stop = proto.StopParked
				t.parkWith(a, later)
			}
			p.Results[a.call.ID] = a.result
			if a.usage != (proto.Usage{}) {
				p.Usage[a.call.ID] = a.usage
			}
		}
		if p.Stop != "" {
			p.Results, p.Usage = nil, nil
		}
		if err := r.proceed(p); err != nil {
			r.cut(err)
		}
	})
}

// agents returns the sub-agents of calls. session.mu is locked.
func (t *turn) agents(batch []string) (list []*subAgent) {
	lt := t.log.Turn(t.id)
	for _, call := range t.log.Calls(lt) {
		asks, ok := turnlog.AgentOf(call)
		if !ok || !slices.Contains(batch, call.ID) {
			continue
		}
		a := &subAgent{parent: t, call: call, asks: asks, sess: t.enter(agentSession(t.session.id, t.id, call.Step, call.ID))}
		if !slices.Contains(lt.Agents, turnlog.AgentCall{Step: call.Step, ID: call.ID}) {
			a.result = agentError(proto.ToolTooManyCalls, fmt.Sprintf("Not started: a turn starts at most %d sub-agents.", turnlog.AgentsMax), "")
		}
		list = append(list, a)
	}
	return list
}

// runAgents carries out calls, agentsAtOnce at a time. When one is parked no other is
// started.
func (t *turn) runAgents(ctx context.Context, agents []*subAgent) {
	var all sync.WaitGroup
	var mu sync.Mutex
	parked := false
	slots := make(chan struct{}, agentsAtOnce)
	for _, a := range agents {
		if a.result != nil {
			continue
		}
		slots <- struct{}{}
		mu.Lock()
		if parked {
			a.reason = proto.ParkedRestart // it starts, or goes on, with the turn
		}
		mu.Unlock()
		if a.reason != "" {
			<-slots
			continue
		}
		all.Go(func() {
			a.run(ctx)
			mu.Lock()
			parked = parked || a.reason != ""
			mu.Unlock()
			<-slots
		})
	}
	all.Wait()
}

// parkWith has the turn park for the reason for which a sub-agent is parked: of several
// the one that ends last.
func (t *turn) parkWith(a *subAgent, later []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notStarted = later
	if t.parkReason == "" || a.until.After(t.parkUntil) {
		t.parkReason, t.parkUntil, t.parkApproval = a.reason, a.until, a.waits
	}
}

// run starts the sub-agent, or attaches to the one of an earlier attempt, and waits until
// it has ended or is parked.
func (a *subAgent) run(ctx context.Context) {
	for ctx.Err() == nil {
		if a.parent.parksForStop() {
			a.reason = proto.ParkedRestart
			return
		}
		ended, err := a.attempt(ctx)
		if ended && err == nil {
			return
		}
		if err != nil && !passes(err) {
			a.result = notStarted(err)
			return
		}
		select {
		case <-time.After(a.parent.agentPause):
		case <-ctx.Done():
		}
	}
}

// passes reports whether an error is that of a service which is not running now, or of
// another process that carries out the sub-agent.
func passes(err error) bool {
	switch codeOf(err) {
	case proto.CodeUnavailable, proto.CodeTimeout, proto.CodeCanceled:
		return true
	}
	return errors.Is(err, errElsewhere)
}

// attempt waits for the sub-agent once. ended is true if it has ended or is parked.
func (a *subAgent) attempt(ctx context.Context) (ended bool, err error) {
	known, err := a.sess.requested(ctx, agentRequest)
	if err != nil {
		return false, err
	}
	var c *turn
	switch {
	case known == nil:
		c, err = a.start(ctx)
	case proto.TurnEnded(known.State):
		return true, a.recorded(ctx)
	default:
		c, err = a.attach()
	}
	if err != nil || c == nil {
		return a.reason != "", err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		return false, nil
	}
	c.mu.Lock()
	hasEnded := proto.TurnEnded(c.state)
	c.mu.Unlock()
	if hasEnded {
		return true, a.recorded(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.state == proto.TurnParked:
		a.park(c)
	case c.err != nil:
		if a.tries++; a.tries < promptTries && passes(c.err) {
			return false, nil
		}
		a.result = notStarted(c.err)
	default:
		a.result = agentError(proto.ToolFailed, "The end of the sub-agent could not be stored.", a.sess.id)
	}
	return true, nil
}

func notStarted(err error) proto.Raw {
	return agentError(proto.ToolFailed, "The sub-agent could not be started: "+err.Error(), "")
}

// start starts the sub-agent: with the parent's options, but nothing of its messages.
func (a *subAgent) start(ctx context.Context) (*turn, error) {
	p := a.parent
	origin, err := p.firstLine(ctx, p.session.id)
	if err != nil {
		return nil, err
	}
	req := p.options()
	req.Message, req.SessionID, req.ChannelID, req.OutputSchema = a.asks.Request, a.sess.id, "", nil
	c := a.sess.newTurn(context.WithoutCancel(p.ctx), req)
	c.requestID, c.onLimit, c.uid, c.attached = agentRequest, p.onLimit, p.uid, p.attached
	c.parent, c.origin = &proto.LogParent{SessionID: p.session.id, Turn: p.id, Call: a.call.ID}, &origin
	if !a.asks.Write {
		c.req.Sandbox, c.readOnly = p.readOnlyLevel(ctx)
	}
	return c.submit(false)
}

// readOnlyLevel returns the level of a sub-agent that changes nothing, and whether it gets
// only tools that read: where the host has no sandbox for it, or the parent's level
// confines in another way.
func (t *turn) readOnlyLevel(ctx context.Context) (level proto.Level, toolsOnly bool) {
	sandbox := t.options().Sandbox
	switch cmp.Or(sandbox, t.cfg.Exc.Sandbox) {
	case proto.LevelReadOnly:
		return sandbox, false
	case proto.LevelUnit:
		return sandbox, true
	}
	caps, err := rpc.Call(ctx, t.services["exc"], proto.ExcCapabilities, proto.CapabilitiesRequest{})
	if err != nil || !slices.Contains(caps.Sandboxes, proto.LevelReadOnly) {
		return sandbox, true
	}
	return proto.LevelReadOnly, false
}

// attach returns the open turn of the sub-agent, which may be one of an earlier process;
// nil if it has ended meanwhile, or is parked.
func (a *subAgent) attach() (*turn, error) {
	sess := a.sess
	if err := sess.load(); err != nil {
		return nil, err
	}
	sess.mu.Lock()
	c := sess.byRequest(agentRequest)
	if c == nil || c.state != proto.TurnParked {
		sess.mu.Unlock()
		if c == nil {
			sess.rest()
		}
		return c, nil
	}
	if a.park(c); a.reason == proto.ParkedRestart || !a.until.After(time.Now()) || a.reason == proto.ParkedApproval && a.parent.isAnswered(a.waits) {
		a.reason, a.until, a.waits = "", time.Time{}, ""
		c.state = proto.TurnRunning
		sess.advance()
		sess.mu.Unlock()
		return c, nil
	}
	sess.mu.Unlock()
	sess.rest()
	return nil, nil
}

// park keeps why the sub-agent is parked. Its session.mu is locked.
func (a *subAgent) park(c *turn) {
	a.reason, a.until, a.waits = cmp.Or(c.reason, proto.ParkedRestart), time.Time{}, ""
	if lt := c.log.Turn(c.id); lt != nil {
		a.waits = lt.Approval
		if at, err := time.Parse(time.RFC3339, lt.Until); err == nil {
			a.until = at
		}
	}
}

// byRequest returns the open turn of a request_id, or nil. session.mu is
// locked.
func (sess *session) byRequest(id string) *turn {
	i := slices.IndexFunc(sess.turns, func(t *turn) bool { return t.requestID == id })
	if i < 0 {
		return nil
	}
	return sess.turns[i]
}

// agentEnd is the packet done or error of a sub-agent.
type agentEnd struct {
	FullText string     `json:"full_text"`
	Code     proto.Code `json:"code"`
	Message  string     `json:"message"`
}

// recorded makes the result of the end in the sub-agent's log.
func (a *subAgent) recorded(ctx context.Context) error {
	log := turnlog.New(a.sess.id, 0)
	var t *turnlog.Turn
	var last proto.TurnEnd
	for more := true; more; {
		page, err := a.sess.readPage(ctx, a.sess.id, log.Next)
		if err != nil {
			return err
		}
		for event, next := range turnlog.Events(page.Events, page.Offsets) {
			payload, _ := log.Packet(nil, event, next, false)
			if lt := log.Requested(agentRequest); lt == nil || lt.End != next {
				continue
			} else if err := wire.DecodeReply(payload, &last); err != nil {
				return err
			} else {
				t, last.Result = lt, slices.Clone(last.Result)
			}
		}
		log.Next, more = page.Next, page.More
	}
	if t == nil {
		return proto.SessionErrorf(proto.CodeInternal, "session %s has no end of turn %s", a.sess.id, agentRequest)
	}
	var end agentEnd
	if len(last.Result) > 0 {
		if err := wire.DecodeReply(last.Result, &end); err != nil {
			return err
		}
	}
	a.parent.mu.Lock()
	a.usage = t.Usage
	a.parent.mu.Unlock()
	a.result = a.envelope(t, end)
	return nil
}

// agentData is the data of a sub-agent's result.
type agentData struct {
	Text      *string `json:"text,omitzero"`
	SessionID string  `json:"session_id"`
	Truncated bool    `json:"truncated,omitzero"`
}

// envelope returns the result of a turn that has ended.
func (a *subAgent) envelope(t *turnlog.Turn, end agentEnd) proto.Raw {
	undo := ""
	if a.asks.Write {
		undo = fmt.Sprintf(" zino undo %s takes back its file changes.", a.sess.id)
	}
	where := fmt.Sprintf(" Its session is %s.%s", a.sess.id, undo)
	switch {
	case t.State == proto.TurnDone:
		answer := text.Head(end.FullText, agentTextMax)
		data := agentData{Text: &answer, SessionID: a.sess.id, Truncated: len(answer) < len(end.FullText)}
		note := "This is the sub-agent's last answer."
		if data.Truncated {
			note = fmt.Sprintf("This is the beginning of the sub-agent's last answer, which has %d bytes.", len(end.FullText))
		}
		return envelopeOf(proto.Envelope{OK: true, Data: envelopeOf(data), Note: note + where})
	case t.State == proto.TurnInterrupted:
		return agentError(proto.ToolInterrupted, "The sub-agent was interrupted."+where, a.sess.id)
	case end.Code == proto.CodeTooLarge && t.Step >= agentSteps:
		return agentError(proto.ToolFailed, fmt.Sprintf("The sub-agent was stopped at its limit of %d inferences.", agentSteps)+where, a.sess.id)
	}
	return agentError(proto.ToolFailed, "The sub-agent failed: "+cmp.Or(end.Message, t.Reason, t.State)+"."+where, a.sess.id)
}

// agentError returns the result of a call without an answer.
func agentError(code, message, session string) proto.Raw {
	e := proto.Envelope{Error: &proto.ToolError{Code: code, Message: message}}
	if session != "" {
		e.Data = envelopeOf(agentData{SessionID: session})
	}
	return envelopeOf(e)
}

// envelopeOf encodes a struct of strings and truth values.
func envelopeOf(v any) proto.Raw {
	b, err := wire.AppendObject(nil, "", v)
	if err != nil { // cannot happen: strings can be encoded
		return proto.Raw(interruptedResult)
	}
	return b
}

// spent returns what the sub-agent has used so far. session.mu of the parent is locked.
func (a *subAgent) spent() proto.Usage {
	a.sess.mu.Lock()
	defer a.sess.mu.Unlock()
	if a.sess.log != nil {
		if t := a.sess.log.Requested(agentRequest); t != nil {
			return t.Usage
		}
	}
	return a.usage
}

// cancelAgents ends the sub-agents of open calls of a turn, and returns what they have
// used, by call. Their ends are stored then, unless that takes longer than cancelTimeout.
func (sess *session) cancelAgents(ctx context.Context, turnID string, calls []proto.OpenCall) map[string]*proto.Usage {
	ctx = context.WithoutCancel(ctx)
	used := map[string]*proto.Usage{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, call := range calls {
		if _, ok := turnlog.AgentOf(call); !ok {
			continue
		}
		id := agentSession(sess.id, turnID, call.Step, call.ID)
		all.Go(func() {
			u, err := sess.cancelAgent(ctx, id)
			if err != nil {
				sess.Service.log.Warn("a sub-agent could not be canceled", "session", id, "parent", sess.id, "error", err)
			}
			if u != nil && *u != (proto.Usage{}) {
				mu.Lock()
				used[call.ID] = u
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return used
}

// cancelAgent ends the sub-agent in a session, and returns what it has used; nil if none
// was started there.
func (s *Service) cancelAgent(ctx context.Context, id string) (*proto.Usage, error) {
	sess := s.enter(id)
	defer sess.leave()
	turn := ""
	sess.mu.Lock()
	if c := sess.byRequest(agentRequest); c != nil {
		turn = c.id
	}
	sess.mu.Unlock()
	if turn == "" {
		log, err := s.readLog(ctx, id, 0)
		if codeOf(err) == proto.CodeNotFound {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		t := log.Requested(agentRequest)
		if t == nil || t.End > 0 {
			return usageOf(t), nil
		}
		turn = t.ID
		if err := sess.load(); err != nil { // one of an earlier process
			return usageOf(t), err
		}
		defer sess.rest()
	}
	if _, err := s.turnCancel(ctx, proto.TurnCancel{SessionID: id, Turn: turn}); err != nil {
		return nil, err
	}
	log, err := s.readLog(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	return usageOf(log.Turn(turn)), nil
}

func usageOf(t *turnlog.Turn) *proto.Usage {
	if t == nil {
		return nil
	}
	return &t.Usage
}

// agentSessions lists the sessions of the sub-agents that turns of a session started.
func (s *Service) agentSessions(ctx context.Context, id string) (list []string) {
	log, err := s.readLog(ctx, id, 0)
	if err != nil {
		s.log.Warn("the sub-agents of a session are not known", "session", id, "error", err)
		return nil
	}
	for _, t := range log.Turns {
		for _, call := range t.Agents {
			list = append(list, agentSession(id, t.ID, call.Step, call.ID))
		}
	}
	return list
}
