package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/daemon/trust"
	"zino/services/daemon/turnlog"
)

// turn is an open turn of a session. While it is queued, waiting or parked it has
// neither a goroutine nor a buffer.
type turn struct {
	*session
	id        string
	created   string // when it was added, in RFC 3339, UTC
	message   string
	files     []proto.Attachment // of the message, stored with the session
	req       proto.Chat         // its options
	requestID string
	uid       int
	attached  bool             // a chat request or a command: it ends with the caller's connection
	command   bool             // of run_command
	say       string           // of the turn_say that queued it
	job       string           // whose end started it
	slash     string           // the command that the message is made of
	arguments string           // of slash
	parent    *proto.LogParent // the call that started it as a sub-agent; nil: none did
	readOnly  bool             // of a sub-agent that no sandbox confines: it has only tools that read
	unplanned proto.Level      // the level that was asked for, which the mode plan replaces

	origin    *proto.LogMeta      // first line of the session it comes from: parent's, or that of continues
	continues *proto.LogContinues // where it comes from: see goOn
	title     string              // of the session then
	behind    []*turn             // queued behind it when it begins

	onLimit   string // proto.OnLimitPark: it is parked until a limit ends
	endReason string // of a turn that was given up
	envGone   string // the notice of a turn that was resumed without its environment

	notStarted []string // calls that a stop at a checkpoint left

	ctx    context.Context // of a running turn; cancel ends it
	cancel context.CancelFunc
	runCtx context.Context // of its run in agr, which cut ends when the daemon stops
	cut    context.CancelCauseFunc
	launch func()        // starts it when it is its turn
	stored chan struct{} // closed when an event of it is stored
	done   chan struct{} // closed when it has ended
	once   sync.Once     // for finish

	began time.Time // or was resumed
	stays bool      // a hook blocked its handoff

	counted bool // among the running ones of the table; set before it is launched

	// Guarded by session.mu:
	hooks      *turnHooks // set when it begins or is resumed
	state      string
	reason     string // of state
	begun      int64  // offset behind the first append of it
	next       int64  // offset behind its last turn event
	keeps      bool   // its session in the table
	launched   bool
	queueing   chan struct{} // closed when the attempt to store it as queued has ended
	durable    bool          // an event of it is stored
	err        *proto.Error
	refused    chan struct{}  // closed when err says why it cannot run
	notices    []proto.Raw    // packets about its prompt and what a person should know of its run
	relay      *relay         // of a running turn
	file       *clientFile    // that a call waits for
	silent     bool           // the clients have not answered about a file: they are not asked
	says       []proto.LogSay // undelivered messages
	saying     int            // turn_say requests whose append is under way
	said       []saidBefore
	ending     bool      // the answer is complete: messages are queued
	failing    bool      // no more messages are accepted
	stalled    string    // why its events cannot be stored now
	unsaved    []byte    // turn_ended of an end that could not be stored
	parkReason string    // of a sub-agent that is parked, or of an approval
	parkUntil  time.Time // likewise
	// mode and level replace those of req once turn_mode has changed them.
	mode  gate.Mode
	level proto.Level
	// remode: the run ended for a level that only another run has.
	remode bool
	// parkApproval is the request that the turn is parked for.
	parkApproval string
}

// newTurn returns a turn that is not in the table yet.
func (sess *session) newTurn(ctx context.Context, req proto.Chat) *turn {
	req.OutputSchema, req.MCPServers = bytes.Clone(req.OutputSchema), bytes.Clone(req.MCPServers) // they are in the connection's buffer
	t := &turn{
		session: sess, id: proto.NewTurnID(), created: timestamp(), message: req.Message, req: req, unplanned: req.Sandbox, uid: rpc.PeerUID(ctx),
		state: proto.TurnQueued, stored: make(chan struct{}), done: make(chan struct{}), refused: make(chan struct{}),
	}
	t.prepare(ctx)
	return t
}

// prepare makes the contexts of a turn.
func (t *turn) prepare(ctx context.Context) {
	t.ctx, t.cancel = context.WithCancel(ctx)
	t.runCtx, t.cut = context.WithCancelCause(t.ctx)
}

// refuse says why a turn cannot run. session.mu is locked.
func (t *turn) refuse(e *proto.Error) {
	if t.err == nil {
		t.err = e
		close(t.refused)
	}
}

// turn answers a message of a session; asked is the level of confinement as it was asked
// for. Turns of one session run one after the other.
// Events are stored as they happen, also after a disconnect of the caller. If a turn
// fails before the user's message is stored, nothing is stored.
func (s *Service) turn(ctx context.Context, req proto.Chat, asked proto.Level, out *rpc.Out) (proto.Text, *proto.Error) {
	if req.NoSave {
		return s.unsaved(ctx, req, out)
	}
	sess := s.enter(req.SessionID)
	defer sess.leave()
	files, err := s.references(ctx, req, true)
	if err != nil {
		return proto.Text{}, offerNoSave(turnError(ctx, err))
	}
	req.Files, req.Attachments = nil, nil
	t := sess.newTurn(ctx, req)
	t.files = files
	defer t.cancel()
	t.attached, t.unplanned = true, asked
	t.slash, t.arguments = req.Command, req.Arguments
	launched := make(chan struct{})
	t.launch = func() { close(launched) }
	sess.add(t)
	if err := t.await(ctx, launched, out); err != nil {
		sess.remove(t)
		return proto.Text{}, offerNoSave(turnError(ctx, err))
	}
	return t.run(out)
}

// await waits until a chat request is launched.
func (t *turn) await(ctx context.Context, launched <-chan struct{}, out *rpc.Out) error {
	t.mu.Lock()
	var waits <-chan struct{}
	if first := t.first() == t; t.w != nil && first {
		waits = t.w.waits
	} else if !first { // behind another turn of this daemon
		now := make(chan struct{})
		close(now)
		waits = now
	}
	t.mu.Unlock()
	for {
		select {
		case <-launched:
			return nil
		case <-waits:
			waits = nil
			if !t.req.Events {
				continue
			}
			if err := sent(out.Event(proto.TypeNotice, proto.Notice{Kind: proto.NoticeWait, Text: waitText(t.session.id)})); err != nil {
				return err
			}
		case <-t.refused:
			return t.err
		case <-ctx.Done():
			err := ctx.Err()
			if errors.Is(err, context.DeadlineExceeded) {
				err = fmt.Errorf("timed out waiting for the lock on session %q: %w", t.session.id, err)
			}
			return err
		}
	}
}

func waitText(id string) string {
	return fmt.Sprintf("Another turn is under way on session %s: waiting for its end.", id)
}

// unsaved answers a message of a session without storing anything. No lock is needed.
func (s *Service) unsaved(ctx context.Context, req proto.Chat, out *rpc.Out) (proto.Text, *proto.Error) {
	uid := rpc.PeerUID(ctx)
	p, err := s.assemble(ctx, req, uid, &proto.Build{SessionID: req.SessionID, UserMessage: req.Message})
	hooks := s.hooksFor(p.project, req, uid, "", nil)
	began := time.Now()
	defer func() { hooks.notifyOfEnd(began) }()
	var blocks []string
	if err == nil {
		source := ""
		if s.hooked.starts(req.SessionID) {
			source = "startup"
		}
		blocks, err = hooks.prompt(ctx, source, req.Message, true)
		p.hooked = hooks.notices
		err = cmp.Or(p.announce(req, out), err)
	}
	var files []proto.Attachment
	if err == nil {
		files, err = s.references(ctx, req, false)
	}
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return proto.Text{}, turnError(ctx, err)
	}
	r := &relay{out: out, events: req.Events, hooks: hooks}
	run := s.sessionRun(req, p.project, p.messages(req.Message, files, blocks...))
	run.Hooks = hooks.list
	run.Owner, run.Skill, run.Offer = ownerOf(uid), p.system.OfferSkill, p.offer
	var text proto.Text
	for repairs, stops := 0, 0; err == nil; {
		before := text.Usage
		if run.Token, err = s.token(req, "", uid); err == nil {
			text, err = rpc.CallText(ctx, s.agr, proto.AgrRun, run, r)
		}
		if err == nil {
			err = r.finish()
		}
		if err != nil {
			break
		}
		if before != nil && text.Usage != nil {
			text.Usage.Add(*before)
		}
		var again proto.Raw
		if again, err = structureUnsaved(req, run.Messages, &text, repairs); again != nil {
			repairs++
		} else if err == nil {
			again, err = hooks.stopUnsaved(ctx, r, run.Messages, stops, text.Content)
			stops++
		}
		if again == nil {
			break
		}
		run.Messages = again
	}
	if err != nil {
		return proto.Text{}, turnError(ctx, err)
	}
	return text, nil
}

// run carries out a turn from its prompt to its end. out is the caller of a chat
// request, else nil.
func (t *turn) run(out *rpc.Out) (proto.Text, *proto.Error) {
	defer t.finish()
	r, run, e := t.open(out)
	if e != nil {
		return proto.Text{}, t.failed(e)
	}
	return t.follow(r, run)
}

// open assembles the prompt, stores the start of the turn, and returns the request to agr.
func (t *turn) open(out *rpc.Out) (*relay, proto.Run, *proto.Error) {
	p, err := t.assemble(t.ctx, t.req, t.requester(), &proto.Build{SessionID: t.req.SessionID, UserMessage: t.message})
	var blocks []string
	if err == nil {
		blocks, err = t.makeHooks(p.project, t.req).prompt(t.ctx, t.startSource(), t.message, t.fromUser())
		p.hooked = t.hooks.notices
		if out != nil {
			err = cmp.Or(p.announce(t.req, out), err)
		}
	}
	t.mu.Lock()
	for _, notice := range p.notices() {
		if payload, err := wire.AppendObject(nil, proto.TypeNotice, notice); err == nil {
			t.notices = append(t.notices, t.mark(payload))
		}
	}
	t.mu.Unlock()
	if err = cmp.Or(err, t.ctx.Err()); err != nil {
		return nil, proto.Run{}, turnError(t.ctx, err)
	}
	r := &relay{out: out, events: t.req.Events, turn: t, step: 1, record: record{turnID: t.id}}
	if err := t.begin(r, blocks); err != nil {
		return nil, proto.Run{}, offerNoSave(turnError(t.ctx, err))
	}
	run := t.request(p.project, p.messages(t.message, t.files, blocks...))
	run.Skill, run.Offer = p.system.OfferSkill, p.offer
	run.Says = r.deliver(t.takeSays(false, t.endedJobs(r)))
	return r, run, nil
}

// failed ends a turn that could not begin. Only one that was queued has an event that
// needs an end.
func (t *turn) failed(e *proto.Error) *proto.Error {
	t.mu.Lock()
	t.refuse(e)
	durable := t.durable
	t.mu.Unlock()
	if durable {
		t.stop(&relay{turn: t, record: record{turnID: t.id}}, e)
	}
	return e
}

// stop stores the end of a turn that failed, and logs if that fails.
func (t *turn) stop(r *relay, e *proto.Error) (stored bool) {
	err := r.stop(e)
	if err != nil {
		t.Service.log.Error("the end of a turn could not be stored", "session", t.session.id, "turn", t.id, "error", err, "trace", rpc.Trace(t.ctx))
	}
	return err == nil
}

// begin stores the start of the turn, the user's message, and what hooks add to it.
func (t *turn) begin(r *relay, blocks []string) error {
	r.event(proto.TypeTurn, t.logTurn(proto.TurnRunning))
	via := ""
	switch {
	case t.job != "":
		via = proto.ViaJob
	case t.say != "":
		via = proto.ViaQueue
	}
	r.event(proto.TypeMessage, proto.LogMessage{Role: proto.RoleUser, Text: t.message, Command: t.slash, Arguments: t.arguments, Attachments: t.files, Turn: t.id, Say: t.say, Via: via, TS: timestamp()})
	for _, block := range blocks {
		r.event(proto.TypeMessage, proto.LogMessage{Role: proto.RoleUser, Text: block, Turn: t.id, Via: proto.ViaHook, TS: timestamp()})
	}
	r.timeouts(t.hooks.ran)
	if t.title != "" {
		r.event(proto.TypeTitle, proto.LogTitle{Text: t.title, TS: timestamp()})
	}
	for _, q := range t.behind {
		r.event(proto.TypeTurn, q.logTurn(proto.TurnQueued))
	}
	return r.store(t.header(), func() {
		t.state, t.relay = proto.TurnRunning, r
		t.isStored()
		for _, q := range t.behind {
			t.keep()
			t.session.turns = append(t.session.turns, q)
			t.count(1)
			q.isStored()
		}
		t.announce()
	})
}

// logTurn is the turn event of a turn that is queued or begins.
func (t *turn) logTurn(state string) proto.LogTurn {
	e := proto.LogTurn{
		Turn: t.id, SessionID: t.session.id, State: state, Request: t.logRequest(), RequestID: t.requestID,
		Lifetime: t.lifetime, Attached: t.attached, Command: t.command, Say: t.say, Job: t.job, TS: timestamp(),
	}
	if state == proto.TurnQueued {
		e.Message = t.message
	}
	if t.uid >= 0 {
		e.By = &proto.By{UID: t.uid}
	}
	return e
}

// logRequest is what is needed to run a turn again.
type logRequest struct {
	Root         string      `json:"root,omitzero"`
	Sandbox      proto.Level `json:"sandbox,omitzero"`
	Network      *bool       `json:"network,omitzero"`
	Mode         string      `json:"mode,omitzero"` // absent: yolo
	Reachable    bool        `json:"reachable,omitzero"`
	Provider     string      `json:"provider,omitzero"`
	Model        string      `json:"model,omitzero"`
	Effort       string      `json:"effort,omitzero"`
	MaxTokens    int         `json:"max_tokens,omitzero"`
	SystemPrompt *string     `json:"system_prompt,omitzero"`
	NeedModel    bool        `json:"need_model,omitzero"`
	OnLimit      string      `json:"on_limit,omitzero"`
	HasEnv       bool        `json:"has_env,omitzero"` // in a file: see keepEnv
	OutputSchema proto.Raw   `json:"output_schema,omitzero"`
	ClientFiles  bool        `json:"client_files,omitzero"`
	ReadOnly     bool        `json:"read_only,omitzero"`
	Asked        proto.Level `json:"asked_sandbox,omitzero"` // if it is another one

	Parent *proto.LogParent `json:"parent,omitzero"`

	Attachments []proto.Attachment `json:"attachments,omitzero"`
	Command     string             `json:"command,omitzero"`
	Arguments   string             `json:"arguments,omitzero"`
}

func (t *turn) logRequest() proto.Raw {
	req, asked := t.options(), t.unplanned
	if asked == req.Sandbox {
		asked = ""
	}
	b, err := wire.AppendObject(nil, "", logRequest{
		Root: req.Root, Sandbox: req.Sandbox, Network: req.Network, Mode: req.Mode, Reachable: req.Reachable, Provider: req.Provider, Model: req.Model,
		Effort: req.Effort, MaxTokens: req.MaxTokens, SystemPrompt: req.SystemPrompt, OnLimit: t.onLimit, NeedModel: req.NeedModel, HasEnv: t.keepsEnv(), ReadOnly: t.readOnly, Asked: asked, Parent: t.parent,
		OutputSchema: req.OutputSchema, ClientFiles: req.ClientFiles,
		Attachments: t.files,
		Command:     t.slash, Arguments: t.arguments,
	})
	if err != nil { // cannot happen: it has strings, numbers and truth values
		return proto.Raw("{}")
	}
	return b
}

// chat returns the request of a turn of a session, without its message.
func (q *logRequest) chat(sessionID string) proto.Chat {
	return proto.Chat{
		SessionID: sessionID, Root: q.Root, Sandbox: q.Sandbox, Network: q.Network, Mode: q.Mode, Reachable: q.Reachable, Provider: q.Provider, Model: q.Model,
		Effort: q.Effort, MaxTokens: q.MaxTokens, SystemPrompt: q.SystemPrompt, NeedModel: q.NeedModel,
		OutputSchema: q.OutputSchema, ClientFiles: q.ClientFiles,
	}
}

// follow has agr run the turn, and stores its end. A run that was lost is followed by
// another one.
func (t *turn) follow(r *relay, run proto.Run) (proto.Text, *proto.Error) {
	for {
		run.OnLimit = t.onLimit
		text, err := proto.Text{StopReason: proto.StopContext}, error(nil)
		if len(run.Calls) > 0 || !t.handsOff(r) { // a resumed turn can be full already
			text, err = r.run(run)
		}
		if err == nil && text.StopReason != proto.StopParked {
			if text.StopReason == proto.StopContext {
				err = t.goOn(r)
			} else {
				text.Structured = r.structured
				err = r.done(text)
			}
			if err == nil {
				return text, nil
			}
		}
		if err == nil && t.remodes() {
			out, events := r.out, r.events
			if r, run, err = t.again(r, reasonMode, nil); err == nil {
				r.out, r.events = out, events
				continue
			}
		}
		reason, until := t.parksFor(text, err)
		if reason == "" && t.resumes(err) {
			r, run, err = t.again(r, reasonLost, err)
			if err == nil {
				continue
			}
			reason, until = t.parksFor(proto.Text{}, err)
		}
		if reason != "" {
			if err = t.park(r, reason, until); err == nil {
				return text, nil
			}
		}
		return proto.Text{}, t.fail(r, err)
	}
}

// run has agr run the turn. What its checkpoints have started has ended when it returns.
func (r *relay) run(run proto.Run) (text proto.Text, err error) {
	unlock := r.lock()
	r.level = run.Sandbox
	unlock()
	if run.Token, err = r.signToken(); err != nil {
		return text, err
	}
	r.ctx, r.cut = context.WithCancelCause(r.turn.runCtx)
	text, err = rpc.CallText(r.ctx, r.turn.agr, proto.AgrRun, run, r)
	if cause, lost := errors.AsType[lostError](context.Cause(r.ctx)); lost {
		err = cause
	}
	r.cut(nil)
	r.delegated.Wait()
	return text, err
}

// fail stores the end of a turn whose run failed.
func (t *turn) fail(r *relay, err error) *proto.Error {
	e := turnError(t.ctx, err)
	if t.stop(r, e) {
		if err := r.release(); err != nil {
			t.Service.log.Debug("the caller has hung up during the turn", "error", err, "trace", rpc.Trace(t.ctx))
		}
	} else {
		t.abandon(e)
	}
	return e
}

// finish removes a turn that has ended, was given up or is parked.
func (t *turn) finish() {
	t.once.Do(func() {
		t.mu.Lock()
		open := t.durable && !proto.TurnEnded(t.state)
		t.mu.Unlock()
		if !open && !t.attached {
			t.dropEnv(t.id)
		}
		if !open {
			t.endApprovals(t.session.id, t.id)
			if t.parent == nil {
				t.hooks.notifyOfEnd(t.began)
			}
		}
		t.remove(t)
		t.cancel()
		close(t.done)
	})
}

// keepsEnv reports whether the environment of the caller is kept for a resume.
func (t *turn) keepsEnv() bool {
	_, has := envOf(t.req)
	return has && !t.attached && t.lifetime == proto.LifetimePersistent
}

// end marks the turn as ended; its end is stored. session.mu is locked.
func (t *turn) end(state, reason string) {
	t.state, t.reason = state, reason
	if known := t.log.Turn(t.id); known != nil {
		t.next = known.End
	}
	t.drop(t)
}

// Reasons of turns that were interrupted.
const (
	reasonCanceled  = "canceled"              // turn_cancel, or the caller of a chat request hung up
	reasonWithdrawn = turnlog.ReasonWithdrawn // queued by turn_say, and the turn before failed
	reasonCrashed   = "crashed"               // no process carries it out any more
)

// reasonOf is the reason of a turn that ends with an error.
func reasonOf(e *proto.Error) string {
	if interrupted(e) {
		return reasonCanceled
	}
	return string(e.Code)
}

// withdrawn returns what goes back to the user when the turn fails: undelivered messages,
// and the turns that turn_say has queued.
func (t *turn) withdrawn() (says []proto.LogSay, queued []*turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failing = true
	for t.saying > 0 {
		t.stopped.Wait()
	}
	says, t.says = t.says, nil
	for _, q := range t.turns {
		if q.say != "" && q.state == proto.TurnQueued && q.durable && !q.launched {
			q.launched = true // not any more
			queued = append(queued, q)
		}
	}
	return says, queued
}

// shown returns the state for people. session.mu is locked.
func (t *turn) shown() string {
	if !t.durable && !t.launched {
		return proto.TurnWaiting
	}
	return t.state
}

// announce sends the notices about the prompt to the live followers. session.mu is locked.
func (t *turn) announce() {
	for _, notice := range t.notices {
		t.send(packet{payload: notice, turn: t.id})
	}
}

// takeSays returns the messages for the next inference, with those of jobs that have
// ended; they count as delivered. With last the answer has no calls: without messages
// the turn accepts no more.
func (t *turn) takeSays(last bool, jobs []proto.LogSay) []proto.LogSay {
	t.mu.Lock()
	defer t.mu.Unlock()
	for last && t.saying > 0 { // those that are being stored were accepted
		t.stopped.Wait()
	}
	says := append(t.says, jobs...)
	t.says = nil
	t.ending = last && len(says) == 0
	return says
}

// sessionRun returns the request to agr for a message of a session. Its events are
// needed for the log; relay converts them into the requested form.
func (s *Service) sessionRun(req proto.Chat, project trust.Project, messages proto.Raw) proto.Run {
	run := s.run(req, project, messages, s.cfg.Agr.SessionIterations)
	run.Stream, run.Events = new(true), true
	return run
}

// request returns the request to agr for the turn. A sub-agent starts no others, and its
// usage counts for the session of its parent.
func (t *turn) request(project trust.Project, messages proto.Raw) proto.Run {
	run := t.sessionRun(t.options(), project, messages)
	if t.hooks != nil {
		run.Hooks, run.Transcript = t.hooks.list, t.hooks.transcript()
	}
	run.Turn, run.ReadOnly, run.Agents, run.Owner = t.id, t.readOnly, t.parent == nil, t.owner()
	if t.parent != nil {
		run.UsageSession, run.MaxIterations = t.parent.SessionID, new(agentSteps)
	}
	return run
}

// offerNoSave adds a hint about --no-save to an error of the session's file, such as a
// full disk.
func offerNoSave(e *proto.Error) *proto.Error {
	if e.Code == proto.CodeInternal && e.Kind == proto.ErrorKindSession {
		e.Message += "; --no-save answers without storing anything"
	}
	return e
}
