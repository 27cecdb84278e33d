// Package turn runs turns of the agent: it finds the session, has the daemon carry the
// turn out, and renders it.
package turn

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"syscall"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// Run has the daemon carry out one turn and renders it. It returns ErrReported if the
// error was rendered, and ErrDetached if the turn goes on without this run. session is
// where the turn ended: another session if it was continued there.
func Run(ctx context.Context, env *command.Env, d *connect.Daemon, req proto.Chat, turns render.Turns) (session string, err error) {
	return RunInput(ctx, env, d, req, turns, nil)
}

// Inputs is a renderer that answers requests of MCP servers for input.
type Inputs interface {
	// AnswersInputs reports whether it gets input_requested and input_closed.
	AnswersInputs() bool
}

// RunInput is Run, with commands for the turn from in, which may be nil: see Input.
func RunInput(ctx context.Context, env *command.Env, d *connect.Daemon, req proto.Chat, turns render.Turns, in io.Reader) (session string, err error) {
	turns.Turn()
	var done render.Done
	inputs, _ := turns.(Inputs)
	denied := newDenials(turns)
	turns = denied
	f := &follower{d: d, turns: turns, session: req.SessionID, strip: env.JSON(), own: true, files: req.ClientFiles, inputs: inputs != nil && inputs.AnswersInputs()}
	if in != nil || env.HasPerson() {
		f.turns = &lockedTurns{Turns: turns}
		f.input, f.asker = in, newAsker(env, d, f.turns, req.Root)
	}
	turns = f.turns
	if env.NoSave {
		done, err = f.chat(ctx, req)
	} else if done, err = f.run(ctx, env, req); isOlder(err) {
		done, err = f.chat(ctx, req)
	}
	err = finish(env, f.session, turns, done, d.ExplainKey(err))
	return f.session, denied.report(env, cmp.Or(f.mode, env.Mode), err)
}

// finish renders the end of a turn.
func finish(env *command.Env, session string, turns render.Turns, done render.Done, err error) error {
	if env.NoSave {
		err = withoutHandoff(err)
	}
	if errors.Is(err, errLost) {
		err = proto.Errorf(proto.CodeUnavailable, "Connection lost. The turn may go on: zino attach %s", ShortID(session))
		turns.End(done, err) // the line on stderr reports it
		env.Say("%s", err.Error())
		return render.ErrReported
	}
	reported, writing := turns.End(done, err)
	switch {
	case render.IsClosed(err), render.IsClosed(writing):
		return render.ErrOutputClosed
	case errors.Is(err, render.ErrDetached):
		env.Say("Detached. The turn goes on: zino attach %s", ShortID(session))
		return err
	case errors.Is(err, render.ErrInterrupted):
		env.Interrupted()
		return err
	case errors.Is(err, rpc.ErrConnect):
		return connect.Explain(err)
	case writing != nil && (reported || err == nil):
		return writing
	case reported && err != nil:
		return render.ErrReported
	}
	return err
}

// chat has the daemon answer a chat request, which ends with the connection.
func (f *follower) chat(ctx context.Context, req proto.Chat) (render.Done, error) {
	if f.asker != nil {
		defer f.asker.reset()
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	method := proto.Method[proto.Chat, render.Done]{Service: "daemon", Type: proto.DaemonChat.Type, Reply: "done"} // the answer with events
	done, err := rpc.CallEvents(ctx, f.d.Client, method, f.d.WithEnvironment(req), func(typ string, payload []byte) error {
		if typ == proto.TypeApprovalRequested || typ == proto.TypeApprovalClosed {
			return f.approval(asking, typ, payload)
		}
		return f.turns.Event(typ, payload)
	})
	if err != nil && ctx.Err() != nil {
		err = command.Interruption(ctx)
	}
	return done, err
}

// isOlder reports whether a daemon does not know turns.
func isOlder(err error) bool {
	e, ok := errors.AsType[*proto.Error](err)
	return ok && e.Message == "Unknown message type: "+proto.DaemonTurnStart.Type
}

// run starts a turn and follows it. If ctx ends first, the turn goes on or is canceled:
// see leave.
func (f *follower) run(ctx context.Context, env *command.Env, req proto.Chat) (render.Done, error) {
	started, err := start(ctx, f.d, req)
	if err != nil {
		return render.Done{}, err
	}
	f.session, f.turn, f.mode = started.SessionID, started.Turn, started.Mode
	if started.Next > 0 { // it is stored
		f.next = &started.Next
	}
	if started.State == proto.TurnQueued || started.State == proto.TurnWaiting {
		if err := f.notice(proto.NoticeWait, "Another turn is under way on session "+f.session+": waiting for its end."); err != nil {
			return render.Done{}, f.leave(ctx, env, err)
		}
	}
	if f.input != nil {
		go f.commands(f.input)
	}
	err = f.follow(ctx)
	f.busy.Lock() // the answer to a command comes before the end
	_, writing := errors.AsType[writeError](err)
	switch {
	case err == nil:
		return f.result()
	case writing || ctx.Err() != nil:
		return render.Done{}, f.leave(ctx, env, err)
	}
	return render.Done{}, err
}

// leaveLimit is how long a daemon may take to store the start or the end of a turn
// that is about to be left.
const leaveLimit = 6 * time.Second

// start starts a turn. Until the daemon has answered, ctx does not cancel it at once:
// the caller must know the turn to cancel it.
func start(ctx context.Context, d *connect.Daemon, req proto.Chat) (started proto.TurnStarted, err error) {
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(leaveLimit, cancel) })()
	request, lost := turnStart(d.WithEnvironment(req), rand.Text()), false
	for begun := time.Now(); ; {
		started, err = rpc.Call(call, d.Client, proto.DaemonTurnStart, request)
		lost = d.Started() == nil && (errors.Is(err, rpc.ErrHungUp) || lost && isLost(err, true))
		if !lost || ctx.Err() != nil || time.Since(begun) >= ReconnectLimit {
			break
		}
		select {
		case <-time.After(reconnectInterval):
		case <-ctx.Done():
		}
	}
	if err != nil && ctx.Err() != nil {
		err = command.Interruption(ctx)
	}
	return started, err
}

func turnStart(req proto.Chat, id string) proto.TurnStart {
	return proto.TurnStart{
		Message: req.Message, SessionID: req.SessionID, NeedModel: req.NeedModel, Root: req.Root, SystemPrompt: req.SystemPrompt,
		Provider: req.Provider, Model: req.Model, MaxTokens: req.MaxTokens, Effort: req.Effort,
		Sandbox: req.Sandbox, Network: req.Network, Env: req.Env, Cwd: req.Cwd, Umask: req.Umask, Recall: req.Recall, Mode: req.Mode, Reachable: req.Reachable, OutputSchema: req.OutputSchema, MCPServers: req.MCPServers, ClientFiles: req.ClientFiles, RequestID: id,
		Command: req.Command, Arguments: req.Arguments,
		Files: req.Files, Attachments: req.Attachments,
	}
}

// Gate asks what the daemon can do about approvals. It returns an error if a mode was
// chosen that restricts something and the daemon, an older one, would ignore it. With
// reachable, a person is there: it reports whether the daemon can ask.
func Gate(ctx context.Context, env *command.Env, d *connect.Daemon, reachable bool) (asks bool, err error) {
	restricts := env.Mode != "" && env.Mode != "yolo"
	if !restricts && !reachable {
		return false, nil
	}
	description, err := rpc.Call(ctx, d.Client, proto.Describe, proto.DescribeRequest{})
	if err != nil && restricts {
		return false, connect.Explain(err)
	}
	if description.TakesMode() {
		return reachable && description.Lists(proto.DaemonApprove.Type), nil
	}
	if !restricts {
		return false, nil // the turn reports an error of the connection
	}
	return false, NoApprovals(ctx, d)
}

// NoApprovals is the error of a request that an older daemon does not know.
func NoApprovals(ctx context.Context, d *connect.Daemon) error {
	version := "unknown"
	if d.Version != "" || d.Ping(ctx) == nil {
		version = d.Version
	}
	return render.Usage("Not available: this daemon has no approvals (version %s).", version)
}

// leave ends a run before its turn. If the terminal was closed, the turn goes on in
// services that do not belong to this run; else it is canceled.
func (f *follower) leave(ctx context.Context, env *command.Env, err error) error {
	closed := command.Signal(ctx) == syscall.SIGHUP || render.IsHangup(err)
	if closed && f.d.Started() == nil && env.OnHangup != config.HangupStop {
		return render.ErrDetached
	}
	if err := f.cancel(false); err != nil && f.d.Started() == nil {
		env.Say("Warning: the turn may go on: %v; try: zino stop %s", err, ShortID(f.session))
	}
	switch w, writing := errors.AsType[writeError](err); {
	case closed:
		return render.ErrHangup
	case ctx.Err() != nil:
		return command.Interruption(ctx)
	case writing:
		return w.error
	}
	return err
}

// cancel stops the turn.
func (f *follower) cancel(jobs bool) error {
	ctx, stop := context.WithTimeout(context.Background(), leaveLimit)
	defer stop()
	_, err := rpc.Call(ctx, f.d.Client, proto.DaemonTurnCancel, proto.TurnCancel{SessionID: f.session, Turn: f.turn, Jobs: jobs})
	return err
}

// result returns how the turn ended.
func (f *follower) result() (done render.Done, err error) {
	if len(f.ended.Result) == 0 {
		f.ended.Result = proto.Raw(`{"type":"error","message":"The turn ended without a result."}`)
	}
	typ, err := wire.ReplyType(f.ended.Result)
	if err == nil && typ == proto.TypeDone {
		return done, wire.DecodeReply(f.ended.Result, &done)
	}
	failure := &proto.Error{}
	if err := wire.DecodeReply(f.ended.Result, failure); err != nil {
		return done, err
	}
	if f.ended.State == proto.TurnInterrupted && (f.ended.Reason == "" || f.ended.Reason == reasonCanceled) {
		return done, render.ErrInterrupted
	}
	return done, failure
}

// reasonCanceled is the reason of a turn that a person stopped.
const reasonCanceled = "canceled"

// withoutHandoff replaces the advice of ctx and rtr to hand the session off, because
// a session that is not stored cannot be handed off.
func withoutHandoff(err error) error {
	e, ok := errors.AsType[*proto.Error](err)
	if !ok {
		return err
	}
	message, advice, found := strings.Cut(e.Message, " Go on in a new ")
	if !found || !strings.Contains(advice, "zino handoff") {
		return err
	}
	changed := *e
	changed.Message = message + " Begin again with a shorter message; without --no-save a session can be handed off."
	return &changed
}
