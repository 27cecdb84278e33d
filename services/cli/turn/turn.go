// Package turn runs turns of the agent: it finds the session and has the daemon
// answer.
package turn

import (
	"context"
	"errors"
	"strings"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// Run has the daemon answer one turn and renders it. It returns ErrReported if the
// error was rendered.
func Run(ctx context.Context, env *command.Env, d *connect.Daemon, req proto.Chat, turns render.Turns) error {
	chat := proto.Method[proto.Chat, render.Done]{Service: "daemon", Type: proto.DaemonChat.Type, Reply: "done"} // the answer with events
	turns.Turn()
	done, err := rpc.CallEvents(ctx, d.Client, chat, d.WithEnvironment(req), turns.Event)
	if err = d.ExplainKey(err); err != nil && ctx.Err() != nil {
		err = render.ErrInterrupted
	}
	if env.NoSave {
		err = withoutHandoff(err)
	}
	reported, writing := turns.End(done, err)
	switch {
	case render.IsClosed(err), render.IsClosed(writing):
		return render.ErrOutputClosed
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
