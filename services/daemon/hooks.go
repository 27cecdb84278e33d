package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"zino/pkg/config"
	"zino/pkg/gate"
	"zino/pkg/hook"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/daemon/trust"
)

const (
	stopHooksMax  = 3                // how often hooks of Stop have a turn go on
	longTurn      = 30 * time.Second // after which the end of a turn is a notification
	hookedMax     = 1024             // sessions whose hooks are counted
	settingsBytes = 1 << 20          // of ~/.claude/settings.json
	lastHooks     = 5 * time.Second  // for the hooks of notifications when the daemon ends
)

// hooked is what the daemon knows about the hooks of sessions.
type hooked struct {
	mu       sync.Mutex
	sessions map[string]*sessionHooks
	order    []string        // the one that was used first
	notifies []chan struct{} // closed when the hooks of a notification have ended

	hostFile string // the configuration of the host
	hostStat string // of hostFile when host was read
	host     []config.Hooks
	hostErr  string
}

// sessionHooks is that of one session.
type sessionHooks struct {
	started  bool           // SessionStart has run
	timeouts map[string]int // by the hash of the command
	noted    map[string]bool
}

// of returns what is known about a session; hooked.mu is locked.
func (h *hooked) of(id string) *sessionHooks {
	if known := h.sessions[id]; known != nil {
		return known
	}
	if h.sessions == nil {
		h.sessions = map[string]*sessionHooks{}
	}
	if h.order = append(h.order, id); len(h.order) > hookedMax {
		delete(h.sessions, h.order[0])
		h.order = slices.Delete(h.order, 0, 1)
	}
	known := &sessionHooks{timeouts: map[string]int{}, noted: map[string]bool{}}
	h.sessions[id] = known
	return known
}

// starts reports whether a session has not had its SessionStart here, which it has now.
func (h *hooked) starts(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.of(id)
	first := !known.started
	known.started = true
	return first
}

// didNotStart undoes starts: the first turn of the session is not stored.
func (h *hooked) didNotStart(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of(id).started = false
}

// once reports whether a line was not noted yet in a session.
func (h *hooked) once(id, line string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.of(id)
	first := !known.noted[line] && len(known.noted) < hookedMax
	known.noted[line] = true
	return first
}

// count counts timeouts. Those of no session, such as zino hooks test, do not count.
func (h *hooked) count(id string, list []proto.HookRan) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ran := range list {
		if ran.TimedOut && id != "" {
			h.of(id).timeouts[hook.Sum(ran.Command)]++
		}
	}
}

// known reports whether this process counts the timeouts of a session.
func (h *hooked) known(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[id] != nil
}

// counted sets the timeouts of earlier processes.
func (h *hooked) counted(id string, timeouts map[string]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.of(id).timeouts
	for sum, n := range timeouts {
		known[sum] = max(known[sum], n)
	}
}

// hooksOf returns the hooks for turns of a user: those of the host, the user and the
// project. On a daemon that several users share, only those of its own configuration run.
func (s *Service) hooksOf(project trust.Project, uid int) (list []proto.Hook, problems []string) {
	own := ownProject(uid)
	source := proto.SourceUser
	if !own || s.cfg.Source == s.hooked.hostFile {
		source = proto.SourceHost
	}
	if source == proto.SourceUser {
		list, problems = s.hooked.ofHost()
	}
	list = append(list, s.cfg.Hooks.List(source, s.cfg.Source)...)
	if !own {
		return list, problems
	}
	add := func(hooks []proto.Hook, more []string) {
		list, problems = append(list, hooks...), append(problems, more...)
	}
	if home := os.Getenv("HOME"); s.cfg.Hooks.Foreign && home != "" {
		path := filepath.Join(home, ".claude", "settings.json")
		content, err := readFile(path)
		switch {
		case err == nil:
			add(hook.ParseSettings(content, path, proto.SourceUser))
		case !errors.Is(err, fs.ErrNotExist):
			problems = append(problems, fmt.Sprintf("%s: its hooks are not used: %v", path, err))
		}
	}
	for _, settings := range project.Settings {
		hooks, more := hook.ParseSettings(settings.Content, settings.Path, proto.SourceProject)
		for i := range hooks {
			hooks[i].Scripts = &settings.Scripts
		}
		add(hooks, more)
	}
	return list, problems
}

// readFile reads a regular file of up to settingsBytes.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > settingsBytes:
		return nil, fmt.Errorf("not a file of at most %d bytes", settingsBytes)
	}
	return os.ReadFile(path)
}

// ofHost returns the hooks of the host's configuration, for a daemon with another one. The
// file must be root's: its hooks run as every user.
func (h *hooked) ofHost() (list []proto.Hook, problems []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	info, err := os.Stat(h.hostFile)
	if err != nil {
		return nil, nil // most hosts have none
	}
	stat, _ := info.Sys().(*syscall.Stat_t)
	if now := fmt.Sprint(info.ModTime(), info.Size(), stat.Ino, stat.Uid, info.Mode()); now != h.hostStat {
		h.hostStat, h.host, h.hostErr = now, nil, ""
		var cfg *config.Config
		switch {
		case stat.Uid != 0 && int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0:
			err = errors.New("it is not root's alone")
		default:
			cfg, err = config.Load(h.hostFile, "")
		}
		switch {
		case err == nil:
			h.host = []config.Hooks{cfg.Hooks}
		case !errors.Is(err, fs.ErrPermission): // a host may keep it from its users
			h.hostErr = fmt.Sprintf("the host's hooks are not used: %v", err)
		}
	}
	for i := range h.host {
		list = h.host[i].List(proto.SourceHost, h.hostFile)
	}
	if h.hostErr != "" {
		problems = []string{h.hostErr}
	}
	return list, problems
}

// turnHooks are the hooks of a turn. A nil one has none.
type turnHooks struct {
	s       *Service
	set     *hook.Set
	list    []proto.Hook // of calls, for agr
	req     proto.Chat   // options of the turn
	uid     int
	session string
	turn    string // for the token; empty: no turn
	saved   bool   // the session has a file
	notices []proto.Notice
	ran     []proto.HookRan // before the message, for the log
}

// makeHooks sets the hooks of the turn. Its session's log has the timeouts of earlier
// processes.
func (t *turn) makeHooks(project trust.Project, req proto.Chat) *turnHooks {
	h := t.hooksFor(project, req, t.requester(), t.id, func() map[string]int {
		t.mu.Lock()
		timeouts, whole := t.log.Timeouts, t.logFrom == 0
		t.mu.Unlock()
		if whole {
			return timeouts
		}
		log, err := t.readLog(t.runCtx, t.session.id, 0)
		if err != nil {
			t.Service.log.Warn("the timeouts of the hooks of a session are not known", "session", t.session.id, "error", err)
			return nil
		}
		return log.Timeouts
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hooks, t.began = h, time.Now()
	return h
}

// hooksFor returns the hooks of a turn that starts or is resumed. earlier, which may be nil,
// returns the timeouts that are stored.
func (s *Service) hooksFor(project trust.Project, req proto.Chat, uid int, turn string, earlier func() map[string]int) *turnHooks {
	list, problems := s.hooksOf(project, uid)
	if len(list) > 0 && earlier != nil && !s.hooked.known(req.SessionID) {
		s.hooked.counted(req.SessionID, earlier())
	}
	h := &turnHooks{s: s, req: req, uid: uid, session: req.SessionID, turn: turn, saved: !req.NoSave}
	s.hooked.mu.Lock()
	if known := s.hooked.sessions[req.SessionID]; known != nil && len(known.timeouts) > 0 {
		for i := range list {
			list[i].Timeouts = known.timeouts[hook.Sum(list[i].Command)]
		}
	}
	s.hooked.mu.Unlock()
	set, more := hook.Compile(list)
	h.set = set
	for _, problem := range append(problems, more...) {
		if s.hooked.once(req.SessionID, problem) {
			h.notices = append(h.notices, hookNotice(problem))
		}
	}
	for _, one := range list {
		if one.Event == proto.HookPreTool || one.Event == proto.HookPostTool {
			h.list = append(h.list, one)
		}
	}
	return h
}

func hookNotice(line string) proto.Notice { return proto.Notice{Kind: proto.NoticeHook, Text: line} }

// transcript returns the path of a session's file.
func (h *turnHooks) transcript() string {
	if !h.saved {
		return ""
	}
	mem := h.s.cfg.Mem
	return filepath.Join(cmp.Or(mem.SessionsDir, filepath.Join(mem.DataDir, "sessions")), h.session+".jsonl")
}

// run runs the hooks of an event, and counts. The lines of the result are masked.
func (h *turnHooks) run(ctx context.Context, event string, in hook.Input) (hook.Result, error) {
	if h == nil || !h.set.Any(event) && !in.Shown {
		return hook.Result{}, nil
	}
	req := h.req
	token, err := h.s.token(req, h.turn, h.uid)
	if err != nil {
		return hook.Result{}, err
	}
	in.SessionID, in.Transcript, in.Version = h.session, h.transcript(), rpc.Build
	r := h.set.Run(ctx, h.s.services["exc"], hook.Place{
		Root: req.Root, Cwd: req.Cwd, Sandbox: req.Sandbox, Network: req.Network, Confined: cmp.Or(req.Sandbox, h.s.cfg.Exc.Sandbox).Confined(),
		Env: req.Env, Umask: req.Umask, Turn: h.turn, Token: token,
	}, event, in)
	if err := ctx.Err(); err != nil {
		return r, context.Cause(ctx)
	}
	h.s.hooked.count(h.session, r.Ran)
	for i := range r.Notices {
		r.Notices[i] = h.s.maskHook(r.Notices[i], req.Env)
	}
	for i := range r.Context {
		r.Context[i].Text = h.s.maskHook(r.Context[i].Text, req.Env)
	}
	r.Reason, r.Why = h.s.maskHook(r.Reason, req.Env), h.s.maskHook(r.Why, req.Env)
	return r, nil
}

// maskHook masks the secrets in a text of a hook.
func (s *Service) maskHook(text string, env map[string]string) string {
	if text == "" {
		return ""
	}
	variables := os.Environ()
	for name, value := range env {
		variables = append(variables, name+"="+value)
	}
	m, err := s.maskSource.Masker(s.masking(), variables)
	if err != nil {
		return "(left out, since its secrets cannot be masked)"
	}
	masked, _ := m.Text([]byte(text))
	return string(masked)
}

// prompt runs the hooks before a message of the user is stored. source is that of
// SessionStart; empty: the session has started. The error has the code denied if a hook
// blocks the message.
func (h *turnHooks) prompt(ctx context.Context, source, message string, fromUser bool) (blocks []string, err error) {
	add := func(r hook.Result) {
		for _, line := range r.Notices {
			h.notices = append(h.notices, hookNotice(line))
		}
		h.ran = append(h.ran, r.Ran...)
		if block := r.Block(); block != "" {
			blocks = append(blocks, block)
		}
	}
	if source != "" {
		defer func() {
			if err != nil {
				h.s.hooked.didNotStart(h.session)
			}
		}()
		r, err := h.run(ctx, proto.HookSessionStart, hook.Input{Source: source})
		if err != nil {
			return nil, err
		}
		add(r)
	}
	if !fromUser {
		return blocks, nil
	}
	r, err := h.run(ctx, proto.HookUserPrompt, hook.Input{Prompt: message})
	if err != nil {
		return nil, err
	}
	add(r)
	if r.Blocks() {
		return nil, notSent(r)
	}
	return blocks, nil
}

func notSent(r hook.Result) error {
	return proto.Errorf(proto.CodeDenied, "The message was not sent: hook: %s", r.Message())
}

// steered runs the hooks before a message is added to the turn. The error is as that of
// prompt.
func (t *turn) steered(ctx context.Context, message string) (r hook.Result, err error) {
	t.mu.Lock()
	h, req := t.hooks, t.current()
	t.mu.Unlock()
	if h == nil { // it is being resumed
		project, err := t.projectOf(req.Root, t.requester())
		if err != nil {
			return r, err
		}
		h = t.hooksFor(project, req, t.requester(), t.id, nil)
	}
	if r, err = h.run(ctx, proto.HookUserPrompt, hook.Input{Prompt: message}); err != nil {
		return r, err
	}
	t.mu.Lock()
	for _, line := range r.Notices {
		t.notice(proto.NoticeHook, line)
	}
	t.mu.Unlock()
	if r.Blocks() {
		return r, notSent(r)
	}
	return r, nil
}

// startSource returns the source of SessionStart for a turn that begins; empty: its session
// has started.
func (t *turn) startSource() string {
	if t.parent != nil || !t.hooked.starts(t.session.id) {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.continues != nil:
		return "compact"
	case t.logFrom > 0 || t.log.Asked():
		return "resume"
	}
	return "startup"
}

// fromUser reports whether a person has written the message of the turn.
func (t *turn) fromUser() bool { return t.parent == nil && t.continues == nil && t.job == "" }

// notify sends a notice to the followers and the caller.
func (r *relay) notify(n proto.Notice) error {
	payload, err := wire.AppendObject(nil, proto.TypeNotice, n)
	if err != nil {
		return err
	}
	if r.turn == nil {
		return r.pass(payload)
	}
	if err := r.watch(proto.TypeNotice, payload); err != nil {
		return err
	}
	r.turn.broadcast(payload)
	return r.pass(payload)
}

// hookRan handles what agr reports about a hook.
func (r *relay) hookRan(payload []byte) error {
	var ran proto.HookRan
	h := r.hooks
	if r.turn != nil {
		h = r.turn.hooks
	}
	if err := decodePacket(payload, &ran); err != nil || h == nil {
		return err
	}
	h.s.hooked.count(h.session, []proto.HookRan{ran})
	r.timeouts([]proto.HookRan{ran})
	if ran.Allowed == "" || !h.s.hooked.once(h.session, "allowed "+ran.Command) {
		return nil
	}
	return r.notify(hookNotice(fmt.Sprintf("hook %s allowed %s; zino asks by policy: zino policy add …", ran.Hook, ran.Allowed)))
}

// stop runs the hooks before a turn ends well, which had it go on so many times before.
// If one blocks, its reason is the next message.
func (h *turnHooks) stop(ctx context.Context, r *relay, stops int, last string) (reason string, err error) {
	if stops >= stopHooksMax {
		return "", nil
	}
	res, err := h.run(ctx, proto.HookStop, hook.Input{StopActive: stops > 0, LastMessage: last})
	if err != nil {
		return "", err
	}
	r.timeouts(res.Ran)
	for _, line := range res.Notices {
		if err := r.notify(hookNotice(line)); err != nil {
			return "", err
		}
	}
	if res.Ends || res.Decision != proto.HookDeny {
		return "", nil
	}
	return res.Reason, nil
}

// stopHooks runs the hooks of Stop behind an inference of the turn.
func (r *relay) stopHooks(step int) ([]proto.LogSay, error) {
	t := r.turn
	if t.parent != nil {
		return nil, nil
	}
	t.mu.Lock()
	stops := 0
	if lt := t.log.Turn(t.id); lt != nil {
		stops = lt.Stops
	}
	t.mu.Unlock()
	reason, err := t.hooks.stop(t.runCtx, r, stops, string(r.text))
	switch {
	case err != nil || reason == "":
		return nil, err
	case step >= t.cfg.Agr.SessionIterations:
		return nil, r.notify(hookNotice("The turn ends at its limit of inferences, although a hook wants more: " + text.Clip(text.OneLine(reason), 300)))
	}
	t.mu.Lock()
	t.ending = false
	t.mu.Unlock()
	return []proto.LogSay{{Turn: t.id, Mode: proto.ViaStop, Text: reason}}, nil
}

// stopUnsaved runs the hooks of Stop for a turn that is not stored. It returns the messages
// with which it goes on; nil: it ends.
func (h *turnHooks) stopUnsaved(ctx context.Context, r *relay, messages proto.Raw, stops int, last string) (proto.Raw, error) {
	reason, err := h.stop(ctx, r, stops, last)
	if err != nil || reason == "" {
		return nil, err
	}
	return goOnWith(messages, last, reason)
}

// handsOff reports whether the turn goes on in a new session: its context is full, and no
// hook blocks that.
func (t *turn) handsOff(r *relay) bool {
	if !t.isFull() || t.stays {
		return false
	}
	res, err := t.hooks.run(t.runCtx, proto.HookPreHandoff, hook.Input{Trigger: "auto"})
	r.timeouts(res.Ran)
	if err != nil || !res.Blocks() {
		return err == nil
	}
	t.stays = true // also with the next inference
	t.mu.Lock()
	t.notice(proto.NoticeHook, "The turn stays in this session, although the model's context is nearly full: hook: "+res.Message())
	t.mu.Unlock()
	return false
}

// Types of notifications, as existing hooks know them.
const (
	notifyApproval = "permission_prompt"
	notifyEnd      = "idle_prompt"
)

// notification runs the hooks of a notification, and does not wait for them.
func (h *turnHooks) notification(kind, message string) {
	if h == nil || !h.set.Any(proto.HookNotification) {
		return
	}
	after := *h
	if kind == notifyEnd {
		after.turn = "" // it has ended
	}
	done := make(chan struct{})
	running, log := &h.s.hooked, h.s.log
	running.mu.Lock()
	running.notifies = append(running.notifies, done)
	running.mu.Unlock()
	go func() {
		defer func() {
			running.mu.Lock()
			defer running.mu.Unlock()
			running.notifies = slices.DeleteFunc(running.notifies, func(c chan struct{}) bool { return c == done })
			close(done)
		}()
		res, err := after.run(h.s.life, proto.HookNotification, hook.Input{Kind: kind, Message: message})
		for _, line := range res.Notices {
			log.Warn("a hook of a notification", "session", after.session, "notice", line)
		}
		if err != nil {
			log.Warn("the hooks of a notification were not run", "session", after.session, "error", err)
		}
	}()
}

// awaitNotifications lets the hooks of notifications end, for some time: a turn does not
// wait for them, and the services of a private constellation end with it.
func (s *Service) awaitNotifications(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastHooks)
	defer cancel()
	s.hooked.mu.Lock()
	running := slices.Clone(s.hooked.notifies)
	s.hooked.mu.Unlock()
	for _, done := range running {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

// notifyOfEnd runs the hooks for the end of a turn, if it was long.
func (h *turnHooks) notifyOfEnd(began time.Time) {
	if !began.IsZero() && time.Since(began) > longTurn {
		h.notification(notifyEnd, "Zino has finished the turn.")
	}
}

// hooks lists the hooks of a root.
func (s *Service) listHooks(ctx context.Context, req proto.ListHooks) (proto.HookList, error) {
	if err := checkPlace("", req.Root); err != nil {
		return proto.HookList{}, err
	}
	uid := rpc.PeerUID(ctx)
	project, err := s.projectOf(req.Root, uid)
	if err != nil {
		return proto.HookList{}, err
	}
	list, problems := s.hooksOf(project, uid)
	_, more := hook.Compile(list)
	if list == nil {
		list = []proto.Hook{}
	}
	return proto.HookList{Hooks: list, Problems: append(problems, more...)}, nil
}

// testHooks runs the hooks of an event that does not happen.
func (s *Service) testHooks(ctx context.Context, req proto.TestHooks) (proto.HookTest, error) {
	if err := checkPlace("", req.Root); err != nil {
		return proto.HookTest{}, err
	}
	if !slices.Contains(proto.HookEvents, req.Event) {
		return proto.HookTest{}, proto.Errorf(proto.CodeInvalid, "unknown event %.40q: use one of %s", req.Event, strings.Join(proto.HookEvents, ", "))
	}
	forCall := req.Event == proto.HookPreTool || req.Event == proto.HookPostTool
	if forCall != (req.Tool != "") {
		return proto.HookTest{}, proto.Errorf(proto.CodeInvalid, "PreToolUse and PostToolUse need a tool, other events have none")
	}
	for name, raw := range map[string]proto.Raw{"input": req.Input, "response": req.Response} {
		if len(raw) > 0 && (!wire.Valid(raw) || raw[0] != '{') {
			return proto.HookTest{}, proto.Errorf(proto.CodeInvalid, "%s is not an object", name)
		}
	}
	uid := rpc.PeerUID(ctx)
	chat := withoutForeignEnv(proto.Chat{Root: req.Root, Sandbox: req.Sandbox, Network: req.Network, Env: req.Env, Mode: string(gate.Yolo), NoSave: true}, uid)
	project, err := s.projectOf(req.Root, uid)
	if err != nil {
		return proto.HookTest{}, err
	}
	h := s.hooksFor(project, chat, uid, "", nil)
	in := hook.Input{Extra: req.Input, Shown: true}
	if forCall {
		in = hook.Input{Shown: true, Tool: req.Tool, ToolInput: req.Input, ToolUseID: "test", ToolResponse: req.Response}
		if len(in.ToolInput) == 0 {
			in.ToolInput = proto.Raw("{}")
		}
	}
	r, err := h.run(ctx, req.Event, in)
	if err != nil {
		return proto.HookTest{}, err
	}
	return r.Test(), nil
}
