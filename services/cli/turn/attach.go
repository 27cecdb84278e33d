package turn

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/term"
)

// Attach renders a turn of a session that another run started, from offset from on, or
// from its beginning if from is nil. turn is empty for the open turn, or else the last
// one. Leaving does not end the turn. The error is that of Run, but nil for a turn that
// had ended before.
func Attach(ctx context.Context, env *command.Env, d *connect.Daemon, session, turn string, from *int64) error {
	ctx, stop := command.UntilSignal(ctx, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)

	turns := env.Turns()
	if err := turns.Begin(session); err != nil {
		return render.OutputError(err)
	}
	turns = &lockedTurns{Turns: turns}
	f := &follower{d: d, turns: turns, session: session, turn: turn, next: from, raw: env.JSON(), asker: newAsker(env, d, turns, "")}
	for {
		turns.Turn()
		err := f.followUntil(ctx, interrupts)
		_, writing := errors.AsType[writeError](err)
		switch {
		case err == nil:
			return f.conclude(env)
		case render.IsClosed(err):
			return finish(env, f.session, turns, render.Done{}, err)
		case errors.Is(err, errPaused) && term.IsTerminal(env.In):
			turns.End(render.Done{}, render.ErrDetached) // nothing is drawn while the user is asked
			switch f.ask(ctx, env, interrupts) {
			case chooseContinue:
				f.paused = true
				f.text.reconnect()
				continue
			case chooseInterrupt:
				if err := f.cancel(false); err != nil {
					return err
				}
				return finish(env, f.session, turns, render.Done{}, render.ErrInterrupted)
			}
			err = render.ErrDetached
		case errors.Is(err, errPaused), ctx.Err() != nil, writing && render.IsHangup(err):
			err = render.ErrDetached
		}
		return finish(env, f.session, turns, render.Done{}, err)
	}
}

// errPaused ends the following of a turn at Ctrl-C.
var errPaused = errors.New("paused")

// followUntil follows until Ctrl-C.
func (f *follower) followUntil(ctx context.Context, interrupts <-chan os.Signal) error {
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f.follow(following) }()
	select {
	case err := <-done:
		return err
	case <-interrupts:
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || ctx.Err() != nil {
		return err
	}
	return errPaused
}

// conclude renders the end of the turn. One that had ended before is only shown.
func (f *follower) conclude(env *command.Env) error {
	done, failure := f.result()
	err := finish(env, f.session, f.turns, done, failure)
	switch {
	case f.live || err == nil, errors.Is(err, render.ErrOutputClosed):
		return err
	case !errors.Is(err, render.ErrReported) && !errors.Is(err, render.ErrInterrupted):
		env.PrintError(err)
	}
	return nil
}

// choice is what the user does at Ctrl-C.
type choice int

const (
	chooseDetach choice = iota
	chooseInterrupt
	chooseContinue
)

// ask asks what to do with the turn. A second Ctrl-C, the end of the input and the end
// of ctx detach.
func (f *follower) ask(ctx context.Context, env *command.Env, interrupts <-chan os.Signal) choice {
	screen := term.Screen(env.Err)
	for {
		io.WriteString(screen, "\r[d]etach, [i]nterrupt the turn, Enter to continue: ")
		answer, err := command.Await(ctx, func() (string, error) { return term.ReadLine(env.In) }, interrupts)
		if err != nil {
			io.WriteString(screen, "\n")
			return chooseDetach
		}
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "d", "detach":
			return chooseDetach
		case "i", "interrupt":
			return chooseInterrupt
		case "":
			return chooseContinue
		}
	}
}

// Open returns the turns of the daemon that have not ended, or, with all, the last ones
// too.
func Open(ctx context.Context, d *connect.Daemon, all bool) ([]proto.TurnInfo, error) {
	list, err := Call(ctx, d, proto.DaemonTurns, proto.ListTurns{All: all})
	return list.Turns, err
}

// Start starts a turn that goes on without this run.
func Start(ctx context.Context, d *connect.Daemon, req proto.Chat) (proto.TurnStarted, error) {
	started, err := start(ctx, d, req)
	return started, explainOlder(err)
}

// Call calls a method of the daemon that came with turns.
func Call[Req, Rep any](ctx context.Context, d *connect.Daemon, m proto.Method[Req, Rep], req Req) (Rep, error) {
	reply, err := rpc.Call(ctx, d.Client, m, req)
	return reply, explainOlder(err)
}

// explainOlder replaces the error of a daemon that does not know turns.
func explainOlder(err error) error {
	if e, ok := errors.AsType[*proto.Error](err); ok && e.Code == proto.CodeUnknown {
		return proto.Errorf(proto.CodeUnknown, "the daemon is of an older version, which has no turns of its own: restart the services (zino up, or systemctl restart 'zino-*.service')")
	}
	return err
}
