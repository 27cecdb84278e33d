// Package daemon is the entry point for clients. For every message it assembles the
// prompt, calls the agent, and stores the result: the exchange of a plain message
// when it is complete, and every event of a session's turn as it happens.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zino/pkg/audit"
	"zino/pkg/config"
	"zino/pkg/environ"
	"zino/pkg/gate"
	"zino/pkg/hook"
	"zino/pkg/keys"
	"zino/pkg/mask"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/daemon/handoff"
	"zino/services/daemon/slash"
	"zino/services/daemon/trust"
)

// Service answers chat requests and forwards requests of clients to other
// services.
type Service struct {
	cfg                     *config.Config
	servers                 *config.Servers
	sys, ctx, mem, agr, rtr *rpc.Client
	mcp                     *rpc.Client            // may not run
	services                map[string]*rpc.Client // by name, for forward
	log                     *slog.Logger
	lifetime                string        // of the constellation: proto.LifetimePrivate or proto.LifetimePersistent
	storeTimeout            time.Duration // see the constant
	promptPause             time.Duration // likewise
	resumePauses            []time.Duration
	storageEvery            time.Duration // see the constant
	storageFor              time.Duration // likewise
	agentPause              time.Duration // between two attempts to reach a sub-agent
	table                   table
	lot                     *lot
	stopping                context.Context // ends when no turn is launched any more
	halt                    context.CancelFunc
	life                    context.Context // ends with Close
	end                     context.CancelFunc
	cancelTimeout           time.Duration   // likewise
	parting                 context.Context // ends when the followers have to go
	part                    context.CancelFunc
	known                   chan struct{} // closed when the open turns of earlier processes are known
	wakes                   wakes
	allBytes                int64        // see the constant
	signer                  *gate.Signer // of tokens; nil: there is no key, see signerErr
	signerErr               error
	renewAfter              time.Duration // the age at which the token of a run is replaced
	masks                   masking
	asked                   asked
	inputs                  inputs
	audit                   *audit.Log   // nil: nothing is recorded
	answers                 *trust.Store // about files of projects
	hooked                  hooked
	maskSource              *mask.Source // of the texts of hooks
}

// New returns a daemon that uses the sockets of the other services.
func New(cfg *config.Config, log *slog.Logger) *Service {
	s := &Service{cfg: cfg, servers: config.ServersOf(cfg), services: map[string]*rpc.Client{}, log: log, storeTimeout: storeTimeout, promptPause: promptPause, cancelTimeout: cancelTimeout, lifetime: proto.LifetimePersistent}
	s.stopping, s.halt = context.WithCancel(context.Background())
	s.parting, s.part = context.WithCancel(context.Background())
	s.known = make(chan struct{})
	close(s.known)
	s.table.sessions, s.allBytes = map[string]*session{}, allBytes
	s.resumePauses, s.storageEvery, s.storageFor = resumePauses, storageEvery, storageFor
	s.agentPause = loadEvery
	s.life, s.end = context.WithCancel(context.Background())
	s.lot = newLot(cfg.Daemon.RunningMax, s.wake)
	s.renewAfter = gate.Life / 2
	public := gate.PublicPath(cfg.Daemon.Socket)
	if os.Getenv("ZINO_CONSTELLATION") == proto.LifetimePrivate {
		s.lifetime, public = proto.LifetimePrivate, "" // its sockets are in no directory
	}
	if s.signer, s.signerErr = gate.OpenSigner(cfg.Daemon.DataDir, public); s.signerErr != nil {
		log.Warn("no key for tokens: modes other than yolo are not available", "error", s.signerErr)
		s.signer = nil
	}
	s.openApprovals()
	s.inputs = inputs{wait: inputFor, open: map[string]*openInput{}}
	base, err := keys.Base(os.Getenv)
	if err != nil {
		log.Warn("no file of a project is trusted", "error", err)
		base = ""
	}
	s.answers = trust.NewStore(base)
	s.hooked.hostFile, s.maskSource = config.HostFile, mask.NewSource(cfg.Mask, log)
	for _, name := range append(slices.Clone(config.Services), "mcp") {
		s.services[name] = &rpc.Client{Service: name, Path: cfg.Socket(name)}
	}
	s.sys, s.ctx, s.mem, s.agr, s.rtr, s.mcp = s.services["sys"], s.services["ctx"], s.services["mem"], s.services["agr"], s.services["rtr"], s.services["mcp"]
	return s
}

// Register adds the service's methods to srv.
func (s *Service) Register(srv *rpc.Server) {
	srv.SetLifetime(s.lifetime)
	srv.BeforeShutdown(s.parkAll)
	rpc.HandleText(srv, proto.DaemonChat, s.chat)
	rpc.HandleRelay(srv, proto.DaemonForward, s.forward)
	rpc.Handle(srv, proto.DaemonContext, s.preview)
	rpc.Handle(srv, proto.DaemonHandoff, s.handoff)
	rpc.Handle(srv, proto.DaemonUndo, s.undo)
	rpc.Handle(srv, proto.DaemonRedo, s.redo)
	rpc.Handle(srv, proto.DaemonDiff, s.diff)
	rpc.Handle(srv, proto.DaemonTurnStart, s.turnStart)
	rpc.HandleEvents(srv, proto.DaemonTurnFollow, s.turnFollow)
	rpc.Handle(srv, proto.DaemonTurnSay, s.turnSay)
	rpc.Handle(srv, proto.DaemonTurnMode, s.turnMode)
	rpc.Handle(srv, proto.DaemonAnswerFile, s.answerFile)
	rpc.Handle(srv, proto.DaemonTurnCancel, s.turnCancel)
	rpc.HandleEvents(srv, proto.DaemonRunCommand, s.runCommand)
	rpc.Handle(srv, proto.DaemonRenameSession, s.renameSession)
	rpc.HandleEvents(srv, proto.DaemonRedact, s.redact)
	rpc.Handle(srv, proto.DaemonAttach, s.attach)
	rpc.Handle(srv, proto.DaemonTurns, s.turns)
	rpc.Handle(srv, proto.DaemonApprovals, s.approvals)
	rpc.Handle(srv, proto.DaemonHooks, s.listHooks)
	rpc.Handle(srv, proto.DaemonTestHooks, s.testHooks)
	rpc.Handle(srv, proto.DaemonApprove, s.approve)
	rpc.Handle(srv, proto.DaemonInputRequest, s.inputRequest)
	rpc.Handle(srv, proto.DaemonAnswerInput, s.answerInput)
	rpc.Handle(srv, proto.DaemonGrants, s.grants)
	rpc.Handle(srv, proto.DaemonRevokeGrant, s.revokeGrant)
	rpc.Handle(srv, proto.DaemonTrust, s.trust)
	rpc.Handle(srv, proto.DaemonSetTrust, s.setTrust)
	rpc.Handle(srv, proto.DaemonCommands, s.commands)
	srv.KeepWhile(s.openTurns)
	srv.KeepWhile(s.wakes.any)
	go s.renewLeases()
	srv.BeforeShutdown(s.shutdown)
	srv.BeforeShutdown(s.awaitNotifications)
}

// Close closes the connections to other services.
func (s *Service) Close() error {
	s.audit.Record(proto.AuditStop, audit.Event{Data: lifeData{Version: rpc.Build, PID: os.Getpid()}})
	s.end()
	s.lot.close()
	for _, c := range s.services {
		c.Close()
	}
	return s.asked.store.Close()
}

// chat answers a message: as a turn of a session, or as a plain one.
func (s *Service) chat(ctx context.Context, req proto.Chat, out *rpc.Out) (proto.Text, error) {
	req.Message = strings.TrimSpace(req.Message)
	if err := checkChat(req); err != nil {
		return proto.Text{}, err
	}
	if len(req.OutputSchema) > 0 && req.SessionID == "" {
		return proto.Text{}, proto.Errorf(proto.CodeInvalid, "output_schema needs session_id")
	}
	req = withoutForeignEnv(req, rpc.PeerUID(ctx))
	asked := req.Sandbox
	if err := s.settleMode(ctx, &req); err != nil {
		return proto.Text{}, err
	}
	s.auditConfig()
	if err := s.expand(ctx, &req); err != nil {
		return proto.Text{}, err
	}
	rpc.Note(ctx, slog.Int("message_bytes", len(req.Message)))
	if req.ChannelID != "" {
		rpc.Note(ctx, slog.String("channel", req.ChannelID))
	}
	if req.SessionID == "" {
		s.auditPlain(ctx, req, proto.TurnRunning)
		text, err := s.plain(ctx, req, out)
		if err != nil {
			s.auditPlain(ctx, req, proto.TurnError)
		} else {
			s.auditPlain(ctx, req, proto.TurnDone)
		}
		if err != nil && req.Events {
			err = s.ended(ctx, req, out, turnError(ctx, err))
		}
		return text, err
	}
	rpc.Note(ctx, slog.String("session", req.SessionID))
	text, e := s.turn(ctx, req, asked, out)
	if e != nil {
		return proto.Text{}, s.ended(ctx, req, out, e)
	}
	return shape(text, req), nil
}

// checkChat validates a message whose text has been trimmed.
func checkChat(req proto.Chat) error {
	if err := checkPlace(req.SessionID, req.Root); err != nil {
		return err
	}
	switch {
	case req.Command != "" && req.Message != "":
		return proto.Errorf(proto.CodeInvalid, "message and command exclude each other: leave one out")
	case req.Command == "" && req.Arguments != "":
		return proto.Errorf(proto.CodeInvalid, "arguments belong to a command")
	case req.Command != "" && !slash.Name.MatchString(req.Command):
		return proto.Errorf(proto.CodeInvalid, "invalid command %.80q: use the name of a command without the slash", req.Command)
	case req.Command == "" && req.Message == "":
		return proto.Errorf(proto.CodeInvalid, "Empty message.")
	}
	if err := checkFiles(req); err != nil {
		return err
	}
	if _, err := environ.List(req.Env); err != nil {
		return proto.Errorf(proto.CodeInvalid, "env: %v", err)
	}
	if req.Cwd != "" && !filepath.IsAbs(req.Cwd) {
		return proto.Errorf(proto.CodeInvalid, "invalid cwd %q: use an absolute path", req.Cwd)
	}
	if err := checkSchema(req.OutputSchema); err != nil {
		return err
	}
	if err := checkServers(req.MCPServers); err != nil {
		return err
	}
	if req.Umask != nil && (*req.Umask < 0 || *req.Umask > 0o777) {
		return proto.Errorf(proto.CodeInvalid, "invalid umask %d: use 0 to 511 (0777)", *req.Umask)
	}
	return nil
}

// checkPlace validates a session id and a root; both may be empty. It must be called
// before any request to another service, also for a turn that stores nothing: an
// invalid id could name a file outside of the sessions directory.
func checkPlace(sessionID, root string) error {
	if sessionID != "" {
		if err := proto.CheckSessionID(sessionID); err != nil {
			return err
		}
	}
	if root != "" && !filepath.IsAbs(root) {
		return proto.Errorf(proto.CodeInvalid, "invalid root %q: use an absolute path", root)
	}
	return nil
}

// withoutForeignEnv drops the environment of a caller with another uid than the
// daemon, which several users may share.
func withoutForeignEnv(req proto.Chat, uid int) proto.Chat {
	if uid != os.Geteuid() {
		req.Env, req.Cwd, req.Umask = nil, "", nil
	}
	return req
}

// shape returns the fields of an answer for the requested form. A collected answer
// has only the content, a streamed one also the iterations. Callers of events also get
// usage, model and provider. Tool calls are never included.
func shape(text proto.Text, req proto.Chat) proto.Text {
	text.ToolCalls, text.State = nil, nil
	switch {
	case req.Events:
		return text
	case req.Stream:
		return proto.Text{Content: text.Content, Iterations: text.Iterations, NotStored: text.NotStored}
	}
	return proto.Text{Content: text.Content, NotStored: text.NotStored}
}

// handoff makes a bundle of a session.
func (s *Service) handoff(ctx context.Context, req proto.Handoff) (proto.HandoffBundle, error) {
	project, err := s.projectOf(req.Root, rpc.PeerUID(ctx))
	if err != nil {
		return proto.HandoffBundle{}, err
	}
	chat := proto.Chat{SessionID: req.SessionID, Root: req.Root, Mode: string(gate.Yolo)}
	if _, err := s.hooksFor(project, chat, rpc.PeerUID(ctx), "", nil).run(ctx, proto.HookPreHandoff, hook.Input{Trigger: "manual"}); err != nil {
		return proto.HandoffBundle{}, err
	}
	maker := handoff.Maker{Mem: s.mem, Rtr: s.rtr, Temperature: s.cfg.Agent.Temperature, TopP: s.cfg.Agent.TopP, Effort: s.cfg.Agent.Effort}
	return maker.Make(ctx, req)
}

// forward relays a request to another service and the packets of its reply.
func (s *Service) forward(ctx context.Context, req proto.Forward, out *rpc.Out) error {
	service := s.services[req.Service]
	if service == nil {
		return proto.Errorf(proto.CodeNotFound, "forward: there is no service %q", req.Service)
	}
	typ, err := wire.RequestType(req.Request)
	if err != nil {
		return proto.Errorf(proto.CodeInvalid, "Invalid request: field %q: %v", "request", err)
	}
	if !proto.IsPublic(req.Service, typ) {
		return proto.Errorf(proto.CodeDenied, "forward: %q of %s is not open to clients", typ, req.Service)
	}
	if req.Service == "mem" && slices.Contains(owned, typ) {
		if req.Request, err = withOwner(req.Request, ownerOf(rpc.PeerUID(ctx))); err != nil {
			return err
		}
	}
	if req.Service == "exc" && typ == proto.ExcJobOutput.Type {
		s.refreshHints(ctx)
		mask, err := wire.AppendObject(nil, "", *s.masking())
		if err != nil {
			return err
		}
		if req.Request, err = withMember(req.Request, "mask", mask); err != nil {
			return err
		}
	}
	if req.Service == "mcp" {
		if err := s.checkServersUser(rpc.PeerUID(ctx), typ); err != nil {
			return err
		}
		if req.Request, err = s.withProject(ctx, typ, req.Request); err != nil {
			return err
		}
	}
	err = rpc.Relay(ctx, service, req.Request, out)
	if err == nil && req.Service == "mem" {
		s.auditForward(ctx, typ, req.Request)
	}
	return err
}

// errCallerGone marks the error of a packet that could not be sent because the
// caller has hung up.
var errCallerGone = errors.New("the caller has hung up")

// sent marks err, the result of sending a packet to the caller, with errCallerGone,
// unless the packet was too large or a deadline was exceeded.
func sent(err error) error {
	if err == nil || errors.Is(err, wire.ErrTooLarge) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return errors.Join(errCallerGone, err)
}

// turnError returns the error packet of a failed turn, which is stored and sent to the
// caller.
func turnError(ctx context.Context, err error) *proto.Error {
	e := errorPacket(err)
	if e.Kind == proto.ErrorKindTransport { // it was for resumes
		e.Kind = ""
	}
	if errors.Is(err, errCallerGone) || errors.Is(ctx.Err(), context.Canceled) || interrupted(e) {
		return proto.Errorf(proto.CodeCanceled, "The turn was interrupted.")
	}
	return e
}

// interrupted reports whether the turn ended because the caller, the daemon or
// the agent was asked to stop.
func interrupted(e *proto.Error) bool { return e.Code == proto.CodeCanceled && e.Kind == "" }

// ended sends the event interrupted to a caller of events if the turn was
// interrupted, and returns the error that follows it.
func (s *Service) ended(ctx context.Context, req proto.Chat, out *rpc.Out, e *proto.Error) error {
	if req.Events && interrupted(e) {
		if err := out.Event(proto.TypeInterrupted, proto.Interrupted{}); err != nil {
			s.log.Debug("the caller has hung up during the turn", "error", err, "trace", rpc.Trace(ctx))
		}
	}
	return e
}

// codeOf returns the code of an error, empty for nil.
func codeOf(err error) proto.Code {
	if err == nil {
		return ""
	}
	return errorPacket(err).Code
}

// errorPacket returns err as a packet with the whole chain as its message.
func errorPacket(err error) *proto.Error {
	e := proto.Error{Code: rpc.CodeOf(err)}
	if origin, ok := errors.AsType[*proto.Error](err); ok {
		e = *origin
	}
	e.Message = err.Error()
	return &e
}

// sessionError returns err as an error of kind session.
func sessionError(err error) *proto.Error {
	e := errorPacket(err)
	e.Kind = proto.ErrorKindSession
	return e
}
