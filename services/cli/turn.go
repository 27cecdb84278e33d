package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

// turnEnd is the packet done of a turn with events.
type turnEnd struct {
	Text       string       `json:"full_text"`
	Iterations *int         `json:"iterations,omitzero"`
	StopReason string       `json:"stop_reason,omitzero"`
	Usage      *proto.Usage `json:"usage,omitzero"`
	Provider   string       `json:"provider,omitzero"`
	Model      string       `json:"model,omitzero"`
}

// turnEvents is a chat request whose answer are events.
var turnEvents = proto.Method[proto.Chat, turnEnd]{Service: "daemon", Type: proto.DaemonChat.Type, Reply: "done"}

// now is the clock of what is shown.
var now = time.Now

// fancy reports whether a terminal may be given colours and moving lines.
func fancy() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }

// shower returns what shows the turns of this run.
func (a *app) shower() show {
	if a.asJSON() {
		a.lines = &jsonLines{w: a.out, terminal: isTerminal(a.out)}
		return a.lines
	}
	return a.texts()
}

// request is the part of every turn's request that flags decide.
func (a *app) request() (proto.Chat, error) {
	root, err := a.rootDir()
	req := proto.Chat{
		Root: root, Provider: a.provider, Model: a.model, MaxTokens: a.maxTokens, Effort: a.effort, NeedModel: true, Events: true,
	}
	req.Sandbox = proto.Level(a.sandbox)
	if a.networkSet {
		req.Network = &a.network
	}
	if a.systemPromptSet {
		req.SystemPrompt = &a.systemPrompt
	}
	return req, err
}

// play has the daemon answer one turn and shows what comes. The error is one
// that has still to be told; errQuiet says that it has been.
func (a *app) play(ctx context.Context, d *daemon, req proto.Chat, s show) error {
	s.turn()
	done, err := rpc.CallEvents(ctx, d.client, turnEvents, d.withEnvironment(req), s.event)
	if err = d.withoutKey(err); err != nil && ctx.Err() != nil {
		err = errInterrupted
	}
	if a.noSave {
		err = withoutHandoff(err)
	}
	told, writing := s.end(done, err)
	switch {
	case lost(err), lost(writing):
		return errLost
	case errors.Is(err, errInterrupted):
		a.interrupted()
		return err
	case errors.Is(err, rpc.ErrConnect):
		return unreachable(err)
	case writing != nil && (told || err == nil):
		return writing
	case told && err != nil:
		return errQuiet
	}
	return err
}

// withoutHandoff replaces the advice of ctx and rtr to hand the session off: one
// that is not stored cannot be.
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

// interrupted says so. A terminal may have shown the key already: that is
// written over.
func (a *app) interrupted() {
	if isTerminal(a.err) {
		fmt.Fprint(a.err, "\r")
	}
	a.say("^C Interrupted.")
}

// unreachable adds what to do to the error of a connection that failed.
func unreachable(err error) error {
	switch {
	case !errors.Is(err, rpc.ErrConnect):
		return err
	case !errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; is the daemon running? try: zino status", err)
	case !strings.Contains(err.Error(), filepath.Dir(hostSocket)+"/"):
		return fmt.Errorf("%w; its owner and mode decide who may connect", err)
	}
	name := "USER"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return fmt.Errorf("%w; root and members of the group zino may connect: run `sudo usermod -aG zino %s` and log in again", err, name)
}

// errLost ends a run whose output nobody reads any more: nobody wants to hear of
// that either.
var errLost = errors.New("standard output was closed")

// lost reports that an error says so.
func lost(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err) // of a file: a socket's is another
	return ok && errors.Is(err, syscall.EPIPE)
}

// hearPipe makes a write to a pipe that nobody reads an error. By default it
// would end the process before it could take its services down.
func hearPipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
