package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"zino/pkg/config"
	"zino/pkg/gate"
	"zino/pkg/mask"
	"zino/pkg/realpath"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/daemon/approval"
)

const (
	// askFor is how long agr waits at the checkpoint for an answer; then the turn is parked.
	askFor = 120 * time.Second
	// pollEvery is how often answers are looked for that another daemon of the user has got.
	pollEvery = time.Second

	notifyTimeout  = 10 * time.Second
	previewTimeout = 10 * time.Second
	notifyMax      = 4 // commands of [gate] notify that run at a time

	approvalsLimit = 100     // requests of a list, unless the request says more
	approvalsBytes = 8 << 20 // of a list
)

// asked has the requests to allow calls, and who waits for their answers.
type asked struct {
	store     *approval.Store
	masks     *mask.Source
	wait      time.Duration // see askFor
	poll      time.Duration // see pollEvery
	notifying chan struct{}

	mu      sync.Mutex // guards what follows
	waiting map[string]chan struct{}
	polling bool
}

// openApprovals prepares what is kept of requests.
func (s *Service) openApprovals() {
	a := &s.asked
	a.store = approval.New(s.cfg.Daemon.DataDir, s.cfg.Gate.Env, time.Now, s.log)
	a.store.Changed = s.auditApproval
	a.masks = mask.NewSource(s.cfg.Mask, s.log)
	a.wait, a.poll, a.notifying = askFor, pollEvery, make(chan struct{}, notifyMax)
	a.waiting = map[string]chan struct{}{}
	if err := a.store.Start(); err != nil {
		s.log.Warn("approvals cannot be stored", "error", err)
	}
	s.pollApprovals()
}

// approval has a person, or a grant, decide about a call, without blocking the stream of the
// run: other calls of the batch may be running.
func (r *relay) approval(at proto.Checkpoint, p proto.Proceed) error {
	i := slices.IndexFunc(r.calls, func(c openCall) bool { return len(at.Batch) == 1 && c.id == at.Batch[0] && !c.settled })
	if at.Needed == nil || i < 0 {
		return errors.New("agr sent a malformed packet: a checkpoint for an approval without an open call")
	}
	call, needed := r.calls[i], *at.Needed
	needed.Call.Input = bytes.Clone(needed.Call.Input) // the packet is not kept
	r.delegated.Go(func() {
		token, result, parked := r.turn.decide(r, call, &needed)
		if r.ctx.Err() != nil {
			return
		}
		switch {
		case parked:
			p.Stop = proto.StopParked
		case token != "":
			p.Grants = map[string]string{call.id: token}
		default:
			p.Results = map[string]proto.Raw{call.id: result}
		}
		if err := r.proceed(p); err != nil {
			r.cut(err)
		}
	})
	return nil
}

// decide returns the token of a call that may be carried out, or the result of one that may
// not, or that the turn is parked until a person answers.
func (t *turn) decide(r *relay, call openCall, needed *proto.ApprovalNeeded) (token string, result proto.Raw, parked bool) {
	if needed.Kind == proto.ApprovalServer {
		return t.signServer(r, needed)
	}
	uid := t.requester()
	exact := gate.Exact{
		Tool: needed.Call.Tool, Input: needed.Call.Input, Root: needed.Call.Root, Dir: needed.Call.Cwd, Sandbox: needed.Call.Sandbox, Network: needed.Call.Network,
		Session: t.session.id, Turn: t.id, UID: uid, Files: needed.Call.Files,
	}
	if digest, err := exact.Digest(); err != nil || digest != needed.Digest {
		return "", denied(gate.ErrDigest.Error()), false
	}
	if err := r.within(needed); err != nil {
		return "", denied(err.Error()), false
	}
	store := t.asked.store
	sign := func(a proto.Approval, grant string, by int) (string, proto.Raw, bool) {
		token, err := t.signGrant(gate.GrantToken{
			Approval: a.ID, Grant: grant, Key: fmt.Sprintf("%s/%s/%d/%s", t.session.id, t.id, call.step, call.id), Digest: needed.Digest,
			Sandbox: needed.Call.Sandbox, Network: needed.Call.Network, By: by,
		})
		if err != nil {
			return "", denied("approvals are not available: " + err.Error()), false
		}
		return token, nil, false
	}
	a, found := store.Find(approval.Place{Session: t.session.id, Turn: t.id, Step: call.step, Call: call.id}, needed.Digest)
	if found && a.State == proto.ApprovalApproved && !store.Valid(a) {
		t.setApproval(a.ID, proto.ApprovalStale, proto.ApprovalApproved)
		found = false
	}
	if !found || a.State == proto.ApprovalUsed || a.State == proto.ApprovalStale || a.State == proto.ApprovalCanceled {
		if needed.Kind == proto.ApprovalCallKind {
			if id, ok := store.Use(approval.CallOf(needed.Call, t.session.id, uid), needed.Grantable); ok {
				return sign(proto.Approval{}, id, uid)
			}
		}
		t.mu.Lock()
		reachable := t.req.Reachable
		t.mu.Unlock()
		if !reachable {
			return "", denied(fmt.Sprintf("%s%s at sandbox level %s.", gate.NeedsPerson, needed.Call.Tool, needed.Call.Sandbox)), false
		}
		var err error
		if a, err = t.ask(r.ctx, call, needed, uid); err != nil {
			return "", denied(err.Error()), false
		}
	}
	if a.State == proto.ApprovalPending {
		if a, parked = t.awaitAnswer(r, a); parked {
			return "", nil, true
		}
	}
	switch {
	case r.ctx.Err() != nil:
		return "", nil, false
	case a.State == proto.ApprovalApproved && a.Answered != nil:
		return sign(a, a.Grant, a.Answered.UID)
	case a.State == proto.ApprovalDenied:
		return "", deniedBy(a), false
	}
	return "", denied(fmt.Sprintf("no person has answered: %s is %s", a.ID, a.State)), false
}

// serverOf returns what the token of an MCP server of the configuration says; false if it
// needs none.
func (s *Service) serverOf(ctx context.Context, server config.MCPServer, root string) (gate.Server, bool) {
	if len(server.Command) == 0 || server.Enabled != nil && !*server.Enabled {
		return gate.Server{}, false
	}
	dir := server.Cwd
	if dir == "{root}" {
		dir = root
	}
	variables := slices.Concat(slices.Collect(maps.Keys(server.Env)), slices.Collect(maps.Keys(server.Secrets)))
	level := server.Sandbox
	if level == "" {
		level = s.capabilities(ctx).Sandbox
	}
	return gate.Server{
		Definition: gate.ServerDefinition(server.Command, variables, dir), Sandbox: level, Network: server.Network == nil || *server.Network || !level.Confined(),
	}, true
}

// serverToken returns the token with which mcp starts the server of that name, empty where
// none is needed: only the host's constellation demands it.
func (s *Service) serverToken(ctx context.Context, name, root string) (string, error) {
	if s.signer == nil || !s.cfg.Gate.RequireToken {
		return "", nil
	}
	server, ok := s.serverOf(ctx, s.servers.Get()[name], root)
	if !ok {
		return "", nil
	}
	return s.signer.SignServer(server, time.Now())
}

// signServer returns the token of an MCP server of the configuration.
func (t *turn) signServer(r *relay, needed *proto.ApprovalNeeded) (token string, result proto.Raw, parked bool) {
	req := t.options()
	servers := t.servers.Get()
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		server, ok := t.serverOf(r.ctx, servers[name], cmp.Or(req.Root, req.Cwd))
		if !ok || server.Definition != needed.Digest {
			continue
		}
		if needed.Call.Sandbox != server.Sandbox || needed.Call.Network && !server.Network {
			return "", denied(fmt.Sprintf("the MCP server %s does not fit the configuration: its sandbox or its network is another", name)), false
		}
		if t.signer == nil {
			return "", denied("approvals are not available: " + t.signerErr.Error()), false
		}
		token, err := t.signer.SignServer(server, time.Now())
		if err != nil {
			return "", denied("approvals are not available: " + err.Error()), false
		}
		return token, nil, false
	}
	return "", denied("the configuration of this Zino has no such MCP server: its command and the names of its variables must be in [mcp.servers], without ${}"), false
}

// denied returns the result of a call that is not carried out.
func denied(message string) proto.Raw {
	return envelopeOf(proto.Envelope{Error: &proto.ToolError{Code: proto.ToolDenied, Message: message}})
}

// deniedBy returns the result of a call that a person has denied.
func deniedBy(a proto.Approval) proto.Raw {
	who := fmt.Sprintf("uid %d", a.Answered.UID)
	message := cmp.Or(a.Answered.User, who) + " denied this call"
	if a.Note != "" {
		message += ": " + a.Note
	}
	return denied(message)
}

// within returns an error if a call has not the level, the network or the root of its turn.
// An escalation has the same level with network, or none.
func (r *relay) within(needed *proto.ApprovalNeeded) error {
	t := r.turn
	caps := t.capabilities(r.ctx)
	t.mu.Lock()
	level, network, root := cmp.Or(r.level, caps.Sandbox), caps.Network, cmp.Or(t.req.Root, t.req.Cwd)
	if t.req.Network != nil {
		network = *t.req.Network
	}
	t.mu.Unlock()
	call := &needed.Call
	unfit := errors.New("the call does not fit its turn: sandbox")
	switch needed.Kind {
	case proto.ApprovalCallKind:
		if err := gate.Within(call.Sandbox, call.Network && level != proto.LevelOff, level, network); err != nil {
			return unfit
		}
	case proto.ApprovalEscalation:
		to := call.Sandbox == proto.LevelOff || call.Sandbox == level && call.Network
		if level == proto.LevelUnit {
			to = slices.Contains(t.cfg.Gate.EscalateTo, call.Sandbox)
		}
		if needed.From != level || !to {
			return unfit
		}
	default:
		return fmt.Errorf("unknown kind of request %.40q", needed.Kind)
	}
	if _, err := os.Stat(root); root != "" && err == nil { // the host's daemon sees no home directories
		if real, _, err := realpath.Follow(root); err == nil && real != call.Root {
			return errors.New("the call does not fit its turn: root")
		}
	}
	return nil
}

// signGrant signs the token of an approved call.
func (s *Service) signGrant(g gate.GrantToken) (string, error) {
	if s.signer == nil {
		return "", s.signerErr
	}
	return s.signer.SignGrant(g, time.Now())
}

// ask stores a request, and shows it to the followers.
func (t *turn) ask(ctx context.Context, call openCall, needed *proto.ApprovalNeeded, uid int) (proto.Approval, error) {
	grantable := needed.Grantable
	if needed.Kind == proto.ApprovalEscalation || !slices.Contains([]string{proto.AnswerOnce, proto.AnswerSession, proto.AnswerAlways}, grantable) {
		grantable = proto.AnswerOnce
	}
	a, err := t.asked.store.Add(proto.Approval{
		Kind: needed.Kind, SessionID: t.session.id, Turn: t.id, Parent: t.parent, Step: call.step, CallID: call.id, By: approval.RequesterOf(uid),
		Call: needed.Call, Digest: needed.Digest, Reasons: needed.Reasons, Preview: t.previewOf(ctx, needed), Grantable: grantable, From: needed.From,
	}, t.cfg.Gate.Expires.Value())
	if err != nil {
		return a, err
	}
	t.refreshHints(ctx)
	t.showApproval(a)
	t.notifyOf(a)
	t.hooks.notification(notifyApproval, "Zino needs an approval for "+a.Call.Tool+": zino approvals show "+a.ID)
	t.pollApprovals()
	return a, nil
}

// previewMax limits the bytes of the commands, and of the diff, in a preview.
const previewMax = 64 << 10

// previewOf returns what a call would do. What agr says about that does not count.
func (t *turn) previewOf(ctx context.Context, needed *proto.ApprovalNeeded) (p proto.ApprovalPreview) {
	switch needed.Call.Tool {
	case bashTool:
		var input struct {
			Command string `json:"command,omitzero"`
		}
		if wire.DecodeReply(needed.Call.Input, &input) != nil {
			return p
		}
		size := 0
		for _, command := range gate.Commands(input.Command) {
			if size += len(command); size > previewMax {
				break
			}
			p.Commands = append(p.Commands, command)
		}
	case "write", "edit":
		ctx, cancel := context.WithTimeout(ctx, previewTimeout)
		defer cancel()
		req := t.options()
		shown, err := rpc.Call(ctx, t.services["exc"], proto.ExcPreview, proto.Call{
			Tool: needed.Call.Tool, Input: needed.Call.Input, Root: req.Root, Sandbox: req.Sandbox, Network: req.Network, Env: req.Env, Cwd: req.Cwd,
			SessionID: t.session.id, Turn: t.id, Mask: t.masking(),
		})
		if err != nil { // such as that of a change that cannot be made
			t.Service.log.Info("a request for an approval has no diff", "session", t.session.id, "turn", t.id, "error", err)
		}
		p.Diff = text.Head(shown.Diff, previewMax)
	}
	return p
}

// awaitAnswer waits until a request is no longer pending. A turn that can be parked is
// parked when no person answers for a while, or when the daemon stops.
func (t *turn) awaitAnswer(r *relay, a proto.Approval) (now proto.Approval, parked bool) {
	answered := t.asked.waitFor(a.ID)
	defer func() {
		unlock := r.lock()
		r.asks = ""
		unlock()
	}()
	unlock := r.lock()
	r.asks = a.ID
	unlock()
	var late <-chan time.Time
	var stopping <-chan struct{}
	if !t.attached && t.lifetime == proto.LifetimePersistent {
		late, stopping = time.After(t.asked.wait), t.stopping.Done()
	}
	expires, err := time.Parse(time.RFC3339, a.Expires)
	if err != nil {
		expires = time.Now()
	}
	over := time.NewTimer(time.Until(expires))
	defer over.Stop()
	if known, err := t.asked.store.Get(a.ID); err == nil && known.State != proto.ApprovalPending { // answered before the wait
		return known, false
	}
	select {
	case <-answered:
	case <-over.C:
		t.expireApprovals()
	case <-r.ctx.Done():
		if context.Cause(t.runCtx) != errRestart {
			return a, false
		}
		parked = true
	case <-late:
		parked = true
	case <-stopping:
		parked = true
	}
	if known, err := t.asked.store.Get(a.ID); err == nil && known.State != proto.ApprovalPending {
		return known, false
	}
	if parked {
		t.mu.Lock()
		t.parkReason, t.parkUntil, t.parkApproval = proto.ParkedApproval, expires, a.ID
		t.mu.Unlock()
	}
	return a, parked
}

// waitFor returns a channel that is closed when a request is no longer pending.
func (a *asked) waitFor(id string) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting[id] == nil {
		a.waiting[id] = make(chan struct{})
	}
	return a.waiting[id]
}

// pollApprovals has the changes of other daemons looked for while requests are pending.
func (s *Service) pollApprovals() {
	a := &s.asked
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.polling || s.life.Err() != nil {
		return
	}
	a.polling = true
	go func() {
		for {
			a.mu.Lock()
			closed, more, err := a.store.Refresh()
			a.polling = more
			a.mu.Unlock()
			if err != nil {
				s.log.Warn("approvals cannot be read", "error", err)
			}
			for _, closed := range closed {
				s.approvalClosed(closed)
			}
			if !more {
				return
			}
			select {
			case <-time.After(a.poll):
			case <-s.life.Done():
				return
			}
		}
	}()
}

// approvalClosed shows the followers that a request is no longer pending, and has its turn
// go on.
func (s *Service) approvalClosed(a proto.Approval) {
	closed, err := wire.AppendObject(nil, proto.TypeApprovalClosed, proto.ApprovalClosed{Approval: a.ID, State: a.State, By: a.Answered, Turn: a.Turn, SessionID: a.SessionID})
	if err == nil { // always: it has strings and a number
		s.sendAbout(a.SessionID, a.Turn, a.Parent, packet{payload: closed})
	}
	s.asked.mu.Lock()
	if answered := s.asked.waiting[a.ID]; answered != nil {
		close(answered)
		delete(s.asked.waiting, a.ID)
	}
	s.asked.mu.Unlock()
	if a.State != proto.ApprovalApproved && a.State != proto.ApprovalDenied {
		return
	}
	s.lot.rouse(a.SessionID, a.Turn)
	if a.Parent != nil { // it is parked with the sub-agent
		s.lot.rouse(a.Parent.SessionID, a.Parent.Turn)
	}
}

// showApproval sends a request to the followers of its session, and of the session whose
// sub-agent asks.
func (s *Service) showApproval(a proto.Approval) {
	if payload := s.approvalPacket(a); payload != nil {
		s.sendAbout(a.SessionID, a.Turn, a.Parent, packet{payload: payload, asks: a.ID})
	}
}

// approvalPacket returns the packet of a request for followers.
func (s *Service) approvalPacket(a proto.Approval) []byte {
	payload, err := wire.AppendObject(nil, proto.TypeApprovalRequested, s.maskedApproval(a))
	if err != nil { // an input is valid JSON
		s.log.Error("a request for an approval cannot be shown", "approval", a.ID, "error", err)
		return nil
	}
	return payload
}

// sendAbout sends a packet about a request of a turn to the followers of its session, and of
// the session whose sub-agent it is.
func (s *Service) sendAbout(session, turn string, parent *proto.LogParent, p packet) {
	send := func(id, turn string) {
		sess := s.enter(id)
		defer sess.leave()
		sess.mu.Lock()
		defer sess.mu.Unlock()
		p.turn = turn
		sess.send(p)
	}
	send(session, turn)
	if parent != nil {
		send(parent.SessionID, parent.Turn)
	}
}

// sendWaiting queues the pending requests for a follower that has just joined. session.mu is
// locked.
func (f *following) sendWaiting() {
	f.shown = nil
	for _, a := range f.asked.store.Waiting(f.session.id) {
		turn := a.Turn
		if a.SessionID != f.session.id {
			turn = a.Parent.Turn
		}
		if payload := f.approvalPacket(a); payload != nil && (f.turn == "" || f.turn == turn) {
			f.follower.begin(packet{payload: payload, turn: turn})
			f.shown = append(f.shown, a.ID)
		}
	}
	f.sendInputs()
}

// maskedApproval returns a request whose texts of the model and of files are masked.
func (s *Service) maskedApproval(a proto.Approval) proto.Approval {
	m, err := s.asked.masks.Masker(s.masking(), os.Environ())
	if err != nil {
		s.log.Error("a request for an approval is shown without its input, whose secrets cannot be masked", "approval", a.ID, "error", err)
		a.Call.Input, a.Preview, a.Reasons, a.Note = proto.Raw(`{}`), proto.ApprovalPreview{}, nil, ""
		return a
	}
	hidden := func(s string) string {
		masked, n := m.Text([]byte(s))
		if n == 0 {
			return s
		}
		return string(masked)
	}
	a.Call.Input, _ = m.JSON(a.Call.Input)
	a.Preview.Diff, a.Note = hidden(a.Preview.Diff), hidden(a.Note)
	a.Preview.Commands, a.Reasons = slices.Clone(a.Preview.Commands), slices.Clone(a.Reasons)
	for _, list := range [][]string{a.Preview.Commands, a.Reasons} {
		for i := range list {
			list[i] = hidden(list[i])
		}
	}
	return a
}

// isAnswered reports whether a person has answered a request.
func (s *Service) isAnswered(id string) bool {
	a, err := s.asked.store.Get(id)
	return err == nil && (a.State == proto.ApprovalApproved || a.State == proto.ApprovalDenied)
}

// unstarted returns the call that waits for an approval, and the open calls that have not
// begun. For that of a sub-agent it is those behind the sub-agents.
func (r *relay) unstarted(id string) (calls []string) {
	a, _ := r.turn.asked.store.Known(id)
	if a.SessionID != r.turn.session.id {
		return r.turn.notStarted
	}
	for _, c := range r.calls {
		started := slices.ContainsFunc(r.running, func(o *callOutput) bool { return o.id == c.id })
		if !c.settled && (!started || c.id == a.CallID) {
			calls = append(calls, c.id)
		}
	}
	return calls
}

// notifyOf runs the command of [gate] notify.
func (s *Service) notifyOf(a proto.Approval) {
	argv, err := s.cfg.Gate.NotifyArgv()
	if err != nil || len(argv) == 0 {
		return
	}
	select {
	case s.asked.notifying <- struct{}{}:
	default:
		s.log.Warn("the command of [gate] notify is not run: too many of them are running", "approval", a.ID)
		return
	}
	go func() {
		defer func() { <-s.asked.notifying }()
		ctx, cancel := context.WithTimeout(s.life, notifyTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Stdin = strings.NewReader(a.ID + " " + a.Call.Tool + " " + a.SessionID + "\n")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = time.Second
		if err := cmd.Run(); err != nil {
			s.log.Warn("the command of [gate] notify failed", "approval", a.ID, "error", err)
		}
	}()
}

// setApproval stores the state of a request that no longer is in one of those before.
func (s *Service) setApproval(id, to string, before ...string) {
	if _, _, err := s.asked.store.Set(id, to, before...); err != nil {
		s.log.Error("the state of an approval could not be stored", "approval", id, "state", to, "error", err)
	}
}

// usedApproval closes the request of a call that has a result.
func (r *relay) usedApproval(payload []byte) {
	t := r.turn
	approved := t.asked.store.Approved(t.session.id, t.id)
	if approved == nil {
		return
	}
	var f proto.ToolFinished
	if decodePacket(payload, &f) != nil {
		return
	}
	var result struct {
		Error proto.ToolError `json:"error,omitzero"`
	}
	state := proto.ApprovalUsed
	if wire.DecodeReply(f.Result, &result) == nil && result.Error.Code == proto.ToolDenied {
		state = proto.ApprovalStale
	}
	if id := approved[f.ID]; id != "" {
		t.setApproval(id, state, proto.ApprovalApproved)
	}
}

// endApprovals cancels the pending requests of a turn that has ended, and has the grants of
// its session hold on.
func (s *Service) endApprovals(session, turn string) {
	canceled, err := s.asked.store.Cancel(session, turn)
	if err != nil {
		s.log.Error("the requests of an ended turn could not be canceled", "session", session, "turn", turn, "error", err)
	}
	for _, a := range canceled {
		s.approvalClosed(a)
	}
	if err := s.asked.store.Extend(session); err != nil {
		s.log.Warn("the grants of a session are not extended", "session", session, "error", err)
	}
}

// expireApprovals closes the requests whose time is over.
func (s *Service) expireApprovals() {
	expired, err := s.asked.store.Expire()
	if err != nil {
		s.log.Error("the end of requests for approvals could not be stored", "error", err)
	}
	for _, a := range expired {
		s.approvalClosed(a)
	}
}

// approvals lists requests.
func (s *Service) approvals(ctx context.Context, req proto.ListApprovals) (proto.ApprovalList, error) {
	state := cmp.Or(req.State, proto.ApprovalPending)
	if state != "all" && !slices.Contains(approval.States, state) {
		return proto.ApprovalList{}, proto.Errorf(proto.CodeInvalid, "invalid state %.40q: use all, %s", req.State, strings.Join(approval.States, ", "))
	}
	if req.SessionID != "" {
		if err := proto.CheckSessionID(req.SessionID); err != nil {
			return proto.ApprovalList{}, err
		}
	}
	limit := approvalsLimit
	if req.Limit != nil {
		if limit = *req.Limit; limit < 1 {
			return proto.ApprovalList{}, proto.Errorf(proto.CodeInvalid, "invalid limit %d: use 1 or more", limit)
		}
	}
	s.expireApprovals()
	list, err := s.asked.store.List(state, req.SessionID)
	if err != nil {
		return proto.ApprovalList{}, err
	}
	s.refreshHints(ctx)
	reply, size := []proto.Approval{}, 0
	for _, a := range list[max(0, len(list)-limit):] {
		a = s.maskedApproval(a)
		if size += len(a.Call.Input) + len(a.Preview.Diff); size > approvalsBytes && len(reply) > 0 {
			a.Call.Input, a.Preview = proto.Raw(`{}`), proto.ApprovalPreview{} // list fewer of them
		}
		reply = append(reply, a)
	}
	return proto.ApprovalList{Approvals: reply}, nil
}

// approve answers a request.
func (s *Service) approve(ctx context.Context, req proto.Approve) (proto.Approval, error) {
	uid := rpc.PeerUID(ctx)
	allowed := func(a proto.Approval) error { return approval.Approvers(s.cfg.Gate.Approvers).Allow(uid, a) }
	a, err := s.asked.store.Answer(approval.Answer{Approve: req, By: approval.RequesterOf(uid)}, allowed, s.cfg.Gate.GrantDays)
	if err != nil {
		return proto.Approval{}, err
	}
	s.approvalClosed(a)
	return s.maskedApproval(a), nil
}

// grants lists the grants of the caller; root and the daemon's user see all.
func (s *Service) grants(ctx context.Context, _ proto.ListGrants) (proto.GrantList, error) {
	list, problems := s.asked.store.Grants.Grants()
	mine := ownGrants(ctx)
	return proto.GrantList{Grants: append([]proto.Grant{}, slices.DeleteFunc(list, func(g proto.Grant) bool { return !mine(g) })...), Problems: problems}, nil
}

// ownGrants returns which grants the caller may see and revoke.
func ownGrants(ctx context.Context) func(proto.Grant) bool {
	uid := rpc.PeerUID(ctx)
	return func(g proto.Grant) bool { return uid == 0 || uid == os.Geteuid() || uid == g.UID }
}

// revokeGrant removes a grant, or all that the caller may see.
func (s *Service) revokeGrant(ctx context.Context, req proto.RevokeGrant) (proto.GrantList, error) {
	if (req.ID == "") != req.All {
		return proto.GrantList{}, proto.Errorf(proto.CodeInvalid, "name one grant by its id, or all")
	}
	mine := ownGrants(ctx)
	list, _ := s.asked.store.Grants.Grants()
	var found []string
	for _, g := range list {
		if mine(g) && (req.All || g.ID == req.ID || strings.HasPrefix(g.ID, req.ID) || strings.HasPrefix(g.ID, "g-"+req.ID)) {
			found = append(found, g.ID)
		}
	}
	switch {
	case req.All:
	case slices.Contains(found, req.ID):
		found = []string{req.ID}
	case len(found) == 0:
		return proto.GrantList{}, proto.Errorf(proto.CodeNotFound, "no grant %.40q", req.ID)
	case len(found) > 1:
		return proto.GrantList{}, proto.Errorf(proto.CodeInvalid, "%.40s is the beginning of several grants: use more of its id", req.ID)
	}
	removed, err := s.asked.store.Revoke(func(g proto.Grant) bool { return slices.Contains(found, g.ID) })
	s.auditRevoked(ctx, removed)
	return proto.GrantList{Grants: append([]proto.Grant{}, removed...)}, err
}
