// Package command contains what all commands of zino share: streams and options,
// signals, suggestions for mistyped names, the editor, and atomic file writes.
package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"zino/pkg/text"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/term"
)

// Env is the environment of a command: the streams, the global options and, in
// Target, configuration and daemon.
type Env struct {
	In, Out *os.File
	connect.Target
	Options

	Args     []string // the whole command line
	Events   bool     // the command runs turns: with --json its errors are events
	OnHangup string   // [cli] on_hangup, for commands that run turns
	turns    *render.JSONTurns
}

// Exit statuses.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitHangup      = 129
	exitInterrupted = 130
)

// Status ends a run with an exit status of the command's own. Its result was printed.
type Status int

func (Status) Error() string { return "" }

// Exit prints an error, if there is one, and returns the exit status.
func (e *Env) Exit(err error) int {
	if status, ok := errors.AsType[Status](err); ok {
		return int(status)
	}
	switch _, usage := errors.AsType[render.UsageError](err); {
	case err == nil, errors.Is(err, render.ErrDetached):
		return exitOK
	case errors.Is(err, render.ErrHangup):
		return exitHangup
	case errors.Is(err, render.ErrInterrupted):
		return exitInterrupted
	case usage:
		e.printError(err)
		return exitUsage
	case err != render.ErrReported && err != render.ErrOutputClosed:
		e.printError(err)
	}
	return exitError
}

// printError prints an error. With --json, if the turn has not begun, it also prints a
// header and an error event.
func (e *Env) printError(err error) {
	if e.Events && e.askedJSON() && !e.turns.Begun() {
		turns := render.NewJSONTurns(e.Out)
		if turns.Begin("") == nil {
			turns.End(render.Done{}, err) // an error of standard output cannot be reported
		}
	}
	e.PrintError(err)
}

// HasPerson reports whether a person at the terminal can be asked.
func (e *Env) HasPerson() bool {
	return !e.JSON() && term.IsTerminal(e.In) && term.IsTerminal(e.Err)
}

// PrintError prints an error on standard error.
func (e *Env) PrintError(err error) { fmt.Fprint(e.Err, render.Error(err)) }

// Turns returns the renderer of the turns of this run.
func (e *Env) Turns() render.Turns {
	if !e.JSON() {
		return render.NewTextTurns(e.Out, e.Err, e.Reasoning)
	}
	e.turns = render.NewJSONTurns(e.Out)
	return e.turns
}

// Print calls do with a buffered standard output.
func (e *Env) Print(do func(io.Writer) error) error {
	w := bufio.NewWriter(e.Out)
	if err := do(w); err != nil {
		return err
	}
	return w.Flush()
}

// PrintLine prints one line on standard output.
func (e *Env) PrintLine(line string) error {
	_, err := e.Out.WriteString(text.Visible(line) + "\n")
	return err
}

// PrintTable prints rows, cut to the width of a terminal.
func (e *Env) PrintTable(rows [][]string) error {
	_, err := io.WriteString(e.Out, render.Columns(rows, e.Width()))
	return err
}

// Width returns the width of standard output in cells, 0 if it is not a terminal.
func (e *Env) Width() int { return term.Width(e.Out) }

// Interrupted prints that the run was interrupted, over the ^C of the terminal.
func (e *Env) Interrupted() {
	if term.IsTerminal(e.Err) {
		fmt.Fprint(e.Err, "\r")
	}
	e.Say("^C Interrupted.")
}

// Guard runs do with a context that signals cancel, and explains its error.
func (e *Env) Guard(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := UntilSignal(ctx)
	defer stop()
	err := do(ctx)
	if err != nil && ctx.Err() != nil {
		e.Interrupted()
		return Interruption(ctx)
	}
	return connect.Explain(err)
}

// WithDaemon calls do with the user's running daemon, or with one started for this
// run. plain also allows the host's daemon.
func (e *Env) WithDaemon(cmd *cobra.Command, plain bool, need connect.Storage, do func(context.Context, *connect.Daemon) error) error {
	return e.Guard(cmd.Context(), func(ctx context.Context) error {
		d, err := e.Open(ctx, plain, need)
		if err != nil {
			return err
		}
		defer d.Close()
		return do(ctx, d)
	})
}

// Open connects with a daemon for a request that is not a turn. The caller closes
// it.
func (e *Env) Open(ctx context.Context, plain bool, need connect.Storage) (*connect.Daemon, error) {
	cfg, err := e.Config()
	if err != nil {
		return nil, err
	}
	d, err := e.Connect(ctx, cfg, plain, need)
	if err != nil {
		return nil, err
	}
	if !d.Named {
		e.CompareVersions(ctx, d)
	}
	return d, nil
}

// NoteShared prints, before something is stored, that other users can read it.
func (e *Env) NoteShared(d *connect.Daemon) {
	if d.Client.Path == connect.HostSocket {
		e.Say("Note: this is the host's memory, shared by all who may use it. For one of your own: zino up")
	}
}
